//! Rails: which GPUs the members of a group have, by number, so that others can be given the same.
//!
//! Where every GPU of a node has a network card of its own, and those of one number are joined by
//! switches of their own, GPUs of one number reach each other without crossing between rails.
//!
//! Nothing is kept: it is read from the claims of members that have a place, on the API server or in a
//! plan, and on an overlay of those that a search has placed before.

use std::collections::BTreeSet;

use crate::types::claim::DeviceId;
use crate::types::group::GroupKey;
use crate::types::topology::{GPUS_MAX, GpuSet};
use crate::types::{Pod, PodUid};

use super::super::cluster::Cluster;
use super::super::devices::claims::ClaimRecord;
use super::super::devices::entries::PodClaimState;
use super::super::pods::PodRecord;
use super::Fabric;

/// Members with GPUs that are asked which, the first by group and UID.
const ASKED_MAX: usize = 32;

/// How many members of a group have the GPU of each number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rails([u8; GPUS_MAX]);

impl Rails {
    /// Nobody has any.
    pub const NONE: Rails = Rails([0; GPUS_MAX]);

    pub fn is_empty(&self) -> bool {
        self.0 == Rails::NONE.0
    }

    /// One member more has these.
    pub fn add(&mut self, gpus: GpuSet) {
        for gpu in gpus.iter().filter(|gpu| *gpu < GPUS_MAX) {
            self.0[gpu] = self.0[gpu].saturating_add(1);
        }
    }

    /// Returns how many members have this GPU.
    pub fn on(&self, gpu: usize) -> u8 {
        self.0.get(gpu).copied().unwrap_or(0)
    }

    /// Returns how many pairs of one number a set makes with what the members have.
    pub fn met(&self, set: GpuSet) -> u32 {
        set.iter().map(|gpu| u32::from(self.on(gpu))).sum()
    }

    /// Returns what a set must have, and may have, that makes the most pairs, of those that have all of
    /// `picked` and so many in all of `within`.
    pub fn bounds(&self, picked: GpuSet, within: GpuSet, size: usize) -> (GpuSet, GpuSet) {
        let rest = within.without(picked);
        let mut counts: Vec<u8> = rest.iter().map(|gpu| self.on(gpu)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let open = size.saturating_sub(picked.len());
        let Some(last) = open.checked_sub(1).and_then(|at| counts.get(at)) else {
            return (picked, picked);
        };
        let with = |least: u16| {
            let enough = rest.iter().filter(|gpu| u16::from(self.on(*gpu)) >= least);
            picked.or(enough.collect())
        };
        (with(u16::from(*last) + 1), with(u16::from(*last)))
    }
}

impl Fabric {
    /// Returns which GPUs the members of the pod's group have. Members whose GPUs a device plugin counts
    /// say nothing.
    ///
    /// Cost: O(members), and for up to 32 of them what is on their nodes.
    pub fn rails(&self, pod: &Pod, cluster: &Cluster) -> Rails {
        let mut rails = Rails::NONE;
        let groups = cluster.groups();
        let Some(group) = groups.membership(pod).key() else { return rails };
        let parts = parts(cluster, &group);
        let named = parts.iter().flat_map(|part| groups.members(part));
        let others = named.filter(|uid| **uid != pod.uid).filter_map(|uid| cluster.pod(uid));
        let mut asked: BTreeSet<&PodUid> = BTreeSet::new();
        for other in others.filter(|other| other.place.node().is_some()) {
            let Some(gpus) = self.had_by(other, cluster) else { continue };
            // It may name a group of another dialect, too, or be in another one first.
            let in_group = groups.membership(&other.pod).key().as_ref() == Some(&group);
            if in_group && asked.insert(&other.pod.uid) {
                rails.add(gpus);
            }
            if asked.len() >= ASKED_MAX {
                break;
            }
        }
        rails
    }

    /// Returns the GPUs that a pod has by its claims; `None` if it has no place, or none by claims.
    fn had_by(&self, record: &PodRecord, cluster: &Cluster) -> Option<GpuSet> {
        let (node, pod) = (record.place.node()?, &record.pod);
        let claims =
            pod.spec.claims.iter().filter_map(|entry| match cluster.claim_of(pod, entry) {
                PodClaimState::Claim(key) => cluster.devices().claim(&key),
                PodClaimState::NotNeeded | PodClaimState::NotGenerated => None,
            });
        let claims = claims.chain(cluster.devices().special_claim(&pod.uid));
        let results = claims.filter_map(ClaimRecord::allocation).flat_map(|it| &it.results);
        let results = results.filter(|result| !result.admin).map(|result| &result.id);
        let of_gpus = |id: &&DeviceId| self.rules.drivers.contains(&id.driver);
        let had: Vec<&DeviceId> = results.filter(of_gpus).collect();
        if had.is_empty() {
            return None;
        }
        let gpus = self.gpus(cluster, node)?;
        let had: GpuSet = had.iter().filter_map(|id| gpus.gpu_named(cluster, id)).collect();
        (!had.is_empty()).then_some(had)
    }
}

/// Returns a group and those in it, of which members have a place.
fn parts(cluster: &Cluster, group: &GroupKey) -> BTreeSet<GroupKey> {
    let groups = cluster.groups();
    let (mut seen, mut open) = (BTreeSet::from([group.clone()]), vec![group.clone()]);
    while let Some(key) = open.pop() {
        open.extend(groups.children(&key).filter(|child| seen.insert((*child).clone())).cloned());
    }
    seen.retain(|key| groups.n_placed(key) > 0);
    seen
}

#[cfg(test)]
mod tests;
