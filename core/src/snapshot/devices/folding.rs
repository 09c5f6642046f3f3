//! How each event about devices and claims changes the ledger, and how plans hold devices.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::types::claim::{Allocation, ClaimKey, ResourceClaim};
use crate::types::{PodUid, Text};

use super::super::changes::Version;
use super::super::cluster::Cluster;
use super::super::event::{Change, DeviceChange, DeviceEvent, older};
use super::super::nodes::NodeIdx;
use super::claims::{ClaimRecord, Planned};
use super::pools::Seers;
use super::selections::SelectorCompiler;

/// The versions that a change of pools moved, to be put back when it is undone.
#[derive(Debug, Default)]
pub(in super::super) struct MovedVersions {
    nodes: Vec<(NodeIdx, Version)>,
    wide: Version,
}

impl Cluster {
    /// Hands in what understands selectors; what was worked out with another is forgotten.
    pub fn set_selector_compiler(&mut self, compiler: Arc<dyn SelectorCompiler>) {
        self.devices.selections.set_compiler(compiler);
    }

    /// Has every known device looked at by `expression`, as far as `spend` allows: it is told the
    /// steps that something takes, and says whether there were any left before. Returns whether that
    /// is done.
    pub fn declare_selector(
        &mut self,
        expression: &Text,
        spend: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        let devices = &mut self.devices;
        devices.selections.declare(expression, &devices.slices, spend)
    }

    /// A decision goes on though `expression` has not looked at every device.
    pub fn give_up_selecting(&mut self, expression: &str) {
        self.devices.selections.give_up(expression);
    }

    pub(in super::super) fn fold_devices(&mut self, event: DeviceEvent) -> Vec<Change> {
        let change = match event {
            DeviceEvent::SliceApplied(slice) => {
                if self.gone.contains(&slice.uid) || self.knows_newer_slice(&slice) {
                    return Vec::new();
                }
                let known = self.devices.slice_named(&slice.name);
                if let Some(known) = known.filter(|known| known.uid != slice.uid) {
                    self.gone.insert(&known.uid);
                }
                let seers = self.devices.put_slice(*slice);
                self.devices_moved(&seers);
                DeviceChange::Slice
            }
            DeviceEvent::SliceDeleted { name, uid } => {
                self.gone.insert(&uid);
                let known = self.devices.slice_named(&name);
                if known.is_none_or(|slice| !uid.is_empty() && slice.uid != uid) {
                    return Vec::new();
                }
                let seers = self.devices.take_slice(&name);
                self.devices_moved(&seers);
                DeviceChange::SliceGone
            }
            DeviceEvent::ClassApplied(class) => {
                let classes = &mut self.devices.classes;
                let known = classes.get(&class.name);
                if known.is_some_and(|k| {
                    *k == *class || older(class.resource_version, k.resource_version)
                }) {
                    return Vec::new();
                }
                classes.insert(class.name.clone(), *class);
                self.classes_moved(DeviceChange::Class)
            }
            DeviceEvent::ClassDeleted { name } => match self.devices.classes.remove(&name) {
                Some(_) => self.classes_moved(DeviceChange::ClassGone),
                None => return Vec::new(),
            },
            DeviceEvent::TaintRuleApplied(rule) => {
                let rules = &mut self.devices.rules;
                let known = rules.get(&rule.name);
                if known.is_some_and(|k| {
                    *k == *rule || older(rule.resource_version, k.resource_version)
                }) {
                    return Vec::new();
                }
                rules.insert(rule.name.clone(), *rule);
                self.classes_moved(DeviceChange::TaintRule)
            }
            DeviceEvent::TaintRuleDeleted { name } => match self.devices.rules.remove(&name) {
                Some(_) => self.classes_moved(DeviceChange::TaintRule),
                None => return Vec::new(),
            },
            DeviceEvent::ClaimApplied(claim) => return self.apply_resource_claim(*claim),
            DeviceEvent::ClaimDeleted { key, uid } => {
                return self.delete_resource_claim(&key, &uid);
            }
        };
        vec![Change::Devices(change)]
    }

    fn knows_newer_slice(&self, slice: &crate::types::ResourceSlice) -> bool {
        self.devices.slice_named(&slice.name).is_some_and(|known| {
            known == slice
                || (known.uid == slice.uid && older(slice.resource_version, known.resource_version))
        })
    }

    fn classes_moved(&mut self, change: DeviceChange) -> DeviceChange {
        self.devices.classes_version = self.nodes.fresh_version();
        change
    }

    fn apply_resource_claim(&mut self, claim: ResourceClaim) -> Vec<Change> {
        if self.gone.contains(&claim.uid) {
            return Vec::new();
        }
        let key = claim.key.clone();
        let known = self.devices.claims.get(&key);
        if let Some(other) = known.filter(|known| known.claim.uid != claim.uid) {
            self.gone.insert(&other.claim.uid);
        }
        // A claim that a plan was to make is there now.
        let born = known.filter(|known| known.unborn && known.claim.owner_pod == claim.owner_pod);
        let known = known.filter(|known| known.claim.uid == claim.uid);
        if let Some(known) = known {
            let late = older(claim.resource_version, known.claim.resource_version);
            if late || *known.claim == claim {
                return Vec::new();
            }
        }
        let planned = known.or(born).and_then(|known| known.planned.clone());
        let change = DeviceChange::Claim {
            key: key.clone(),
            added: known.is_none(),
            deallocated: known.is_some_and(|k| k.claim.allocation.is_some())
                && claim.allocation.is_none(),
            status: known.is_none_or(|k| {
                k.claim.allocation != claim.allocation
                    || k.claim.reserved_for != claim.reserved_for
                    || k.claim.devices != claim.devices
            }),
        };
        // What the server has is no longer planned.
        let written = claim.allocation.as_ref();
        let planned =
            planned.filter(|p| written.is_none_or(|written| !written.grants_as(&p.allocation)));
        let version = self.nodes.fresh_version();
        let record = ClaimRecord { claim: Arc::new(claim), planned, version, unborn: false };
        self.replace_claim(&key, Some(record), change)
    }

    fn delete_resource_claim(&mut self, key: &ClaimKey, uid: &Text) -> Vec<Change> {
        self.gone.insert(uid);
        let known = self.devices.claims.get(key);
        if known.is_none_or(|known| !uid.is_empty() && known.claim.uid != *uid) {
            return Vec::new();
        }
        self.replace_claim(key, None, DeviceChange::ClaimGone { key: key.clone() })
    }

    fn replace_claim(
        &mut self,
        key: &ClaimKey,
        record: Option<ClaimRecord>,
        change: DeviceChange,
    ) -> Vec<Change> {
        let pods = |record: Option<&ClaimRecord>| -> BTreeSet<PodUid> {
            let planned = record.and_then(|record| record.planned.as_ref());
            planned.map(|planned| planned.pods.clone()).unwrap_or_default()
        };
        let (was, is) = (pods(self.devices.claims.get(key)), pods(record.as_ref()));
        for pod in was.difference(&is) {
            self.devices.note_unplanned(pod, key);
        }
        let moved = self.devices.put_claim(key, record);
        self.devices_moved(&moved.seers);
        let mut changes = vec![Change::Devices(change)];
        changes.extend(
            moved
                .conflicts
                .into_iter()
                .map(|conflict| Change::Devices(DeviceChange::Conflict(Box::new(conflict)))),
        );
        changes
    }

    /// Notes that a plan of `pod` will write this allocation, or joins one that is on its way.
    /// Returns what must be put back to undo it, nothing if the pod has noted it before; `None`,
    /// changing nothing, if there is no such claim, or if it has another allocation.
    pub(in super::super) fn plan_claim(
        &mut self,
        key: &ClaimKey,
        allocation: &Arc<Allocation>,
        pod: &PodUid,
    ) -> Option<Option<(Version, MovedVersions)>> {
        let mut record = self.devices.claims.get(key)?.clone();
        if record.claim.allocation.is_some() {
            return None;
        }
        let was = record.version;
        match &mut record.planned {
            Some(planned) if !planned.allocation.grants_as(allocation) => return None,
            Some(planned) if planned.pods.contains(pod) => return Some(None),
            Some(planned) => {
                planned.pods.insert(pod.clone());
            }
            None => {
                let pods = BTreeSet::from([pod.clone()]);
                record.planned = Some(Planned { allocation: allocation.clone(), pods });
                record.version = self.nodes.fresh_version();
            }
        }
        self.devices.note_planned(pod, key);
        let moved = self.devices.put_claim(key, Some(record));
        Some(Some((was, self.devices_moved(&moved.seers))))
    }

    /// As [`Cluster::plan_claim`], for a claim that the plan will make. `None`, changing nothing, if
    /// there is a claim of that name.
    pub(in super::super) fn plan_new_claim(
        &mut self,
        claim: &Arc<ResourceClaim>,
        allocation: &Arc<Allocation>,
        pod: &PodUid,
    ) -> Option<(Version, MovedVersions)> {
        if self.devices.claims.contains_key(&claim.key) {
            return None;
        }
        let version = self.nodes.fresh_version();
        let pods = BTreeSet::from([pod.clone()]);
        let planned = Some(Planned { allocation: allocation.clone(), pods });
        let record = ClaimRecord { claim: claim.clone(), planned, version, unborn: true };
        self.devices.note_planned(pod, &claim.key);
        let moved = self.devices.put_claim(&claim.key, Some(record));
        Some((version, self.devices_moved(&moved.seers)))
    }

    /// Takes back what a plan of `pod` would write to the claim. Returns whether nobody will write
    /// it any more.
    fn unplan_claim(&mut self, key: &ClaimKey, pod: &PodUid) -> bool {
        self.devices.note_unplanned(pod, key);
        let Some(mut record) = self.devices.claims.get(key).cloned() else { return false };
        let Some(planned) = &mut record.planned else { return false };
        if !planned.pods.remove(pod) {
            return false;
        }
        let last = planned.pods.is_empty();
        if last {
            record.planned = None;
            record.version = self.nodes.fresh_version();
        }
        let stays = !(last && record.unborn);
        let moved = self.devices.put_claim(key, stays.then_some(record));
        self.devices_moved(&moved.seers);
        last
    }

    /// Undoes [`Cluster::plan_claim`] to the letter.
    pub(in super::super) fn undo_plan_claim(
        &mut self,
        key: &ClaimKey,
        pod: &PodUid,
        version: Version,
        moved: &MovedVersions,
    ) {
        self.unplan_claim(key, pod);
        if let Some(record) = self.devices.claims.get_mut(key) {
            record.version = version;
        }
        for (node, version) in &moved.nodes {
            self.nodes.restore_version(*node, *version);
        }
        self.devices.set_wide_version(moved.wide);
    }

    /// Takes back everything that plans of `pod` would write to claims. Returns what it changed.
    pub fn forget_claims(&mut self, pod: &PodUid) -> Vec<Change> {
        let keys = self.devices.planned.get(pod).cloned().unwrap_or_default();
        let mut changes = Vec::new();
        for key in keys {
            if self.unplan_claim(&key, pod) {
                changes.push(Change::Devices(DeviceChange::Claim {
                    key,
                    added: false,
                    deallocated: true,
                    status: true,
                }));
            }
        }
        changes
    }

    /// Gives new versions to the nodes whose view of devices has changed. Returns the old ones.
    fn devices_moved(&mut self, seers: &Seers) -> MovedVersions {
        let mut moved = MovedVersions { nodes: Vec::new(), wide: self.devices.wide_version };
        if seers.wide {
            self.devices.wide_version = self.nodes.fresh_version();
        }
        for name in &seers.nodes {
            let Some(node) = self.nodes.index(name) else { continue };
            moved.nodes.push((node, self.nodes.slot(node).version));
            self.nodes.touch(node);
        }
        moved
    }
}
