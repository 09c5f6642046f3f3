//! Index of devices: pools with their slices, what is taken of them, claims, classes, taint rules.
//!
//! What is taken follows from the claims alone: from what the API server says is allocated, and
//! from what plans under way will write ([`claims`]). A device that a claim holds counts as taken
//! whether or not a slice shows it, so that slices and claims may come in any order.
//!
//! Source of the rules: `structured/internal` of k8s.io/dynamic-resource-allocation 1.37.

pub mod claims;
pub mod entries;
pub(super) mod folding;
pub mod gather;
pub mod pools;
pub mod selections;
pub mod taken;

use std::collections::{BTreeMap, BTreeSet};

use crate::types::device::{DeviceTaint, DeviceTaintEffect};
use crate::types::resources::CLASS_RESOURCE_PREFIX;
use crate::types::{ClaimKey, DeviceClass, DeviceTaintRule, PodUid, ResourceSlice, Text};

use super::changes::Version;
use claims::ClaimRecord;
use pools::{Pool, PoolIdx, SliceIdx};
use selections::Selections;

/// Driver and name of a pool.
pub type PoolKey = (Text, Text);

#[derive(Debug, Default)]
pub struct Devices {
    pub(super) slices: Vec<Option<ResourceSlice>>,
    slice_names: BTreeMap<Text, SliceIdx>,
    free_slices: Vec<SliceIdx>,
    pub(super) pools: Vec<Option<Pool>>,
    pool_keys: BTreeMap<PoolKey, PoolIdx>,
    free_pools: Vec<PoolIdx>,
    /// Pools with a slice for one node, by the node's name.
    local: BTreeMap<Text, BTreeSet<PoolIdx>>,
    /// Pools with a slice that isn't for one node.
    wide: BTreeSet<PoolIdx>,
    pub(super) classes: BTreeMap<Text, DeviceClass>,
    pub(super) rules: BTreeMap<Text, DeviceTaintRule>,
    pub(super) claims: BTreeMap<ClaimKey, ClaimRecord>,
    /// Claims that were made for a pod's extended resources, by the pod.
    special: BTreeMap<PodUid, BTreeSet<ClaimKey>>,
    /// Claims whose allocation a plan of the pod will write.
    planned: BTreeMap<PodUid, BTreeSet<ClaimKey>>,
    pub(super) selections: Selections,
    wide_version: Version,
    classes_version: Version,
}

impl Devices {
    pub fn slice(&self, at: SliceIdx) -> Option<&ResourceSlice> {
        self.slices.get(at.at())?.as_ref()
    }

    /// Returns the drivers of pools with a slice for this one node. When they change, the node's
    /// version does.
    pub fn drivers_on(&self, node: &str) -> impl Iterator<Item = &Text> {
        let pools = self.local.get(node).into_iter().flatten();
        pools.filter_map(|at| self.pool(*at).map(|pool| &pool.driver))
    }

    /// Returns every slice, in the order of their indices.
    pub fn slices(&self) -> impl Iterator<Item = &ResourceSlice> {
        self.slices.iter().flatten()
    }

    pub(super) fn slice_named(&self, name: &str) -> Option<&ResourceSlice> {
        self.slice(*self.slice_names.get(name)?)
    }

    pub fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes.get(name)
    }

    /// Returns the classes in order of name.
    pub fn classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.classes.values()
    }

    pub fn rules(&self) -> impl Iterator<Item = &DeviceTaintRule> {
        self.rules.values()
    }

    pub fn claim(&self, key: &ClaimKey) -> Option<&ClaimRecord> {
        self.claims.get(key)
    }

    /// Returns the claims that the API server has, in order of key.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimRecord> {
        self.claims.values().filter(|record| !record.unborn)
    }

    /// Returns the claim that was made for the extended resources of a pod, or that its plan will
    /// make.
    pub fn special_claim(&self, pod: &PodUid) -> Option<&ClaimRecord> {
        self.claims.get(self.special.get(pod)?.first()?)
    }

    /// Returns the class that backs an extended resource: the one of that name, else the newest
    /// that names the resource, of equally old ones the first by name. Cost: O(classes).
    ///
    /// Source: `DeviceClassResolver` of kube-scheduler 1.37.
    pub fn class_for(&self, resource: &str) -> Option<&DeviceClass> {
        if let Some(class) = resource.strip_prefix(CLASS_RESOURCE_PREFIX) {
            return self.class(class);
        }
        let names = |class: &&DeviceClass| {
            class.extended_resource.as_ref().is_some_and(|name| name == resource)
        };
        let backing = self.classes.values().filter(names);
        backing.min_by_key(|class| (std::cmp::Reverse(class.created), &class.name))
    }

    /// Returns the claims whose allocation a plan of `pod` will write, in order of key.
    pub fn planned_by(&self, pod: &PodUid) -> impl Iterator<Item = &ClaimRecord> {
        let keys = self.planned.get(pod).into_iter().flatten();
        keys.filter_map(|key| self.claims.get(key))
    }

    pub fn selections(&self) -> &Selections {
        &self.selections
    }

    /// Returns the taints that count for a device: its own and those of rules, without those that
    /// keep nobody off.
    pub fn taints<'a>(
        &'a self,
        slice: &'a ResourceSlice,
        device: &'a crate::types::Device,
    ) -> impl Iterator<Item = &'a DeviceTaint> {
        let selects = move |rule: &&DeviceTaintRule| {
            let selector = rule.selector.as_ref();
            selector.is_some_and(|s| s.select(&slice.driver, &slice.pool, &device.name))
        };
        let by_rule = self.rules.values().filter(selects).map(|rule| &rule.taint);
        let all = device.model.taints.iter().chain(by_rule);
        all.filter(|taint| taint.effect != DeviceTaintEffect::None)
    }

    /// Moves when a pool changes that isn't bound to single nodes. A change of a pool of one node
    /// moves that node's version.
    pub fn wide_version(&self) -> Version {
        self.wide_version
    }

    /// Moves when a device class or a taint rule changes.
    pub fn classes_version(&self) -> Version {
        self.classes_version
    }

    pub(super) fn pool(&self, at: PoolIdx) -> Option<&Pool> {
        self.pools.get(at.at())?.as_ref()
    }

    pub(super) fn set_wide_version(&mut self, version: Version) {
        self.wide_version = version;
    }

    /// Returns how many slices, devices, claims and classes there are.
    pub fn sizes(&self) -> (usize, usize, usize, usize) {
        let devices = self.slices().map(|slice| slice.devices.len()).sum();
        (self.slice_names.len(), devices, self.claims.len(), self.classes.len())
    }
}
