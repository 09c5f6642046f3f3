//! What slices and taint rules say of devices: which there are, whether they may be granted.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::snapshot::DeviceEvent;
use berth_core::types::claim::DeviceId;
use berth_core::types::device::{DeviceTaintEffect, Placement};
use berth_core::types::{Device, DeviceClass, DeviceTaintRule, Node, ResourceSlice, Text};

/// The newest version of each object that somebody was told of.
#[derive(Debug, Default)]
pub(super) struct Stock {
    slices: BTreeMap<Text, ResourceSlice>,
    rules: BTreeMap<Text, DeviceTaintRule>,
    classes: BTreeMap<Text, DeviceClass>,
    /// UIDs of slices that are gone.
    gone: BTreeSet<Text>,
}

impl Stock {
    /// Follows an event; one that is older than what is known says nothing.
    pub(super) fn fold(&mut self, event: &DeviceEvent) {
        match event {
            DeviceEvent::SliceApplied(slice) => {
                let known = self.slices.get(&slice.name).map_or(0, |known| known.resource_version);
                if slice.resource_version > known && !self.gone.contains(&slice.uid) {
                    self.slices.insert(slice.name.clone(), (**slice).clone());
                }
            }
            DeviceEvent::SliceDeleted { name, uid } => {
                self.gone.insert(uid.clone());
                if self.slices.get(name).is_some_and(|slice| slice.uid == *uid) {
                    self.slices.remove(name);
                }
            }
            DeviceEvent::ClassApplied(class) => {
                self.classes.insert(class.name.clone(), (**class).clone());
            }
            DeviceEvent::ClassDeleted { name } => {
                self.classes.remove(name);
            }
            DeviceEvent::TaintRuleApplied(rule) => {
                self.rules.insert(rule.name.clone(), (**rule).clone());
            }
            DeviceEvent::TaintRuleDeleted { name } => {
                self.rules.remove(name);
            }
            DeviceEvent::ClaimApplied(_) | DeviceEvent::ClaimDeleted { .. } => {}
        }
    }

    pub(super) fn class(&self, name: &Text) -> Option<&DeviceClass> {
        self.classes.get(name)
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = &ResourceSlice> {
        self.slices.values()
    }

    /// Returns the slices of a pool's newest generation, if all of them are there.
    fn complete(&self, driver: &Text, pool: &Text) -> Option<Vec<&ResourceSlice>> {
        let all = || self.slices.values().filter(|s| s.driver == *driver && s.pool == *pool);
        let newest = all().map(|slice| slice.generation).max()?;
        let current: Vec<&ResourceSlice> = all().filter(|s| s.generation == newest).collect();
        let wanted = current.first()?.slice_count;
        (current.len() as i64 == wanted).then_some(current)
    }

    /// # Errors
    /// Why the device must not be granted.
    pub(super) fn grantable(&self, id: &DeviceId) -> Result<&Device, &'static str> {
        let slices = self.complete(&id.driver, &id.pool).ok_or("its pool is incomplete")?;
        let mut devices = slices.iter().flat_map(|slice| &slice.devices);
        let found = devices.find(|device| device.name == id.device).ok_or("it is not published")?;
        if self.tainted(id, found) { Err("it is tainted") } else { Ok(found) }
    }

    /// No claim of the simulation tolerates a device's taint.
    fn tainted(&self, id: &DeviceId, device: &Device) -> bool {
        let by_rule = self.rules.values().filter(|rule| {
            let selector = rule.selector.as_ref();
            selector.is_some_and(|s| s.select(&id.driver, &id.pool, &id.device))
        });
        let mut taints = device.model.taints.iter().chain(by_rule.map(|rule| &rule.taint));
        taints.any(|taint| taint.effect != DeviceTaintEffect::None)
    }

    /// Returns the devices that can be granted to a pod on `node`.
    pub(super) fn on_node(&self, node: &Node) -> Vec<(DeviceId, &Device)> {
        let here = |slice: &&ResourceSlice| match &slice.placement {
            Placement::Node(name) => *name == node.name,
            Placement::AllNodes => true,
            Placement::Selector(_) | Placement::PerDevice | Placement::Unknown => false,
        };
        let slices = self.slices.values().filter(here);
        let ids = slices.flat_map(|slice| {
            slice.devices.iter().map(|device| DeviceId {
                driver: slice.driver.clone(),
                pool: slice.pool.clone(),
                device: device.name.clone(),
            })
        });
        let ids: BTreeSet<DeviceId> = ids.collect();
        let known = ids.into_iter().filter_map(|id| {
            let device = self.published(&id)?;
            Some((id, device))
        });
        known.collect()
    }

    /// Returns a device of a complete pool, tainted or not.
    fn published(&self, id: &DeviceId) -> Option<&Device> {
        let slices = self.complete(&id.driver, &id.pool)?;
        slices.into_iter().flat_map(|slice| &slice.devices).find(|device| device.name == id.device)
    }
}
