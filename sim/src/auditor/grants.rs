//! Who holds which device, share and counter: I1, from the claims' statuses alone.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::types::claim::{Allocation, DeviceId, DeviceResult};
use berth_core::types::device::Consumption;
use berth_core::types::{Device, ResourceClaim, ResourceSlice, Text};

use crate::workload::FOREIGN;

/// What one claim has of one device.
#[derive(Clone, Debug)]
struct Grant {
    /// None: the device is its own.
    share: Option<Text>,
    consumed: Vec<(Text, i128)>,
    /// Another scheduler's: nobody can help it.
    foreign: bool,
}

/// A device as the slices showed it last.
#[derive(Clone, Debug, Default)]
struct Shown {
    capacity: Vec<(Text, i128)>,
    consumes: Vec<Consumption>,
}

/// All grants, and what slices have ever said of the devices.
#[derive(Debug, Default)]
pub(super) struct Grants {
    by_device: BTreeMap<DeviceId, BTreeMap<Text, Vec<Grant>>>,
    shown: BTreeMap<DeviceId, Shown>,
    /// Counters by driver, pool, set and counter.
    counters: BTreeMap<(Text, Text, Text, Text), i128>,
    /// Pools of which a process did not know all that is held.
    obscure: BTreeSet<(Text, Text)>,
}

impl Grants {
    /// Learns of the devices and counters of a slice.
    pub(super) fn shows(&mut self, slice: &ResourceSlice) {
        for device in &slice.devices {
            let (driver, pool) = (slice.driver.clone(), slice.pool.clone());
            let id = DeviceId { driver, pool, device: device.name.clone() };
            self.shown.insert(id, shown(device));
        }
        for set in &slice.counter_sets {
            for (counter, amount) in set.counters.iter() {
                let (driver, pool) = (slice.driver.clone(), slice.pool.clone());
                let key = (driver, pool, set.name.clone(), counter.clone());
                self.counters.insert(key, amount.nanos);
            }
        }
    }

    /// The claim has these devices and no others. Says what is granted beyond what there is.
    pub(super) fn replace(
        &mut self,
        claim: &Text,
        foreign: bool,
        allocation: Option<&Allocation>,
    ) -> Option<String> {
        self.by_device.retain(|_, grants| {
            grants.remove(claim);
            !grants.is_empty()
        });
        let results = || allocation.into_iter().flat_map(|allocation| &allocation.results);
        for result in results().filter(|result| !result.admin) {
            let grants = self.by_device.entry(result.id.clone()).or_default();
            grants.entry(claim.clone()).or_default().push(grant(result, foreign));
        }
        results().find_map(|result| self.over(&result.id))
    }

    /// Says what is wrong with a device.
    fn over(&self, id: &DeviceId) -> Option<String> {
        let grants = self.by_device.get(id)?;
        if grants.values().flatten().any(|grant| grant.foreign) {
            return None;
        }
        let all: Vec<&Grant> = grants.values().flatten().collect();
        if all.iter().any(|grant| grant.share.is_none()) && all.len() > 1 {
            let claims: Vec<&str> = grants.keys().map(Text::as_str).collect();
            return Some(format!("{id} is granted {} times: {}", all.len(), claims.join(" ")));
        }
        self.over_capacity(id, &all).or_else(|| self.over_counters(id))
    }

    fn over_capacity(&self, id: &DeviceId, grants: &[&Grant]) -> Option<String> {
        self.shown.get(id)?.capacity.iter().find_map(|(name, value)| {
            let consumed = grants.iter().flat_map(|grant| &grant.consumed);
            let sum: i128 = consumed.filter(|(n, _)| n == name).map(|(_, nanos)| *nanos).sum();
            (sum > *value).then(|| format!("{id}: {sum} of {value} {name}"))
        })
    }

    /// A pool of which another scheduler has something is out of our hands.
    fn over_counters(&self, id: &DeviceId) -> Option<String> {
        let of_pool = || {
            let same = |other: &DeviceId| other.driver == id.driver && other.pool == id.pool;
            self.by_device.iter().filter(move |(other, _)| same(other))
        };
        let obscure = self.obscure.contains(&(id.driver.clone(), id.pool.clone()));
        if obscure
            || of_pool().any(|(_, grants)| grants.values().flatten().any(|grant| grant.foreign))
        {
            return None;
        }
        let consumes = of_pool().filter_map(|(other, _)| self.shown.get(other));
        let mut sums: BTreeMap<(&Text, &Text), i128> = BTreeMap::new();
        for consumption in consumes.flat_map(|shown| &shown.consumes) {
            for (counter, amount) in consumption.counters.iter() {
                *sums.entry((&consumption.set, counter)).or_default() += amount.nanos;
            }
        }
        sums.into_iter().find_map(|((set, counter), sum)| {
            let key = (id.driver.clone(), id.pool.clone(), set.clone(), counter.clone());
            let have = self.counters.get(&key)?;
            (sum > *have).then(|| format!("{id}: {sum} of {have} {set}/{counter} are granted"))
        })
    }

    /// A process is about to write. What a device that is held takes of counters it can't know if no
    /// slice has shown it the device: from then on the pool's counters prove nothing.
    pub(super) fn note_obscure(&mut self, process: &Grants) {
        let unknown = self.by_device.keys().filter(|id| !process.shown.contains_key(*id));
        self.obscure.extend(unknown.map(|id| (id.driver.clone(), id.pool.clone())));
    }

    /// Tells whether somebody has the device, alone or in part.
    pub(super) fn held(&self, id: &DeviceId) -> bool {
        self.by_device.contains_key(id)
    }

    /// Returns another claim than `claim` that holds the device so that `result` can't be granted.
    pub(super) fn holder<'a>(&'a self, result: &DeviceResult, claim: &Text) -> Option<&'a Text> {
        let grants = self.by_device.get(&result.id)?;
        let blocks = |grant: &Grant| grant.share.is_none() || result.share_id.is_none();
        let others = grants.iter().filter(|(holder, _)| *holder != claim);
        others.filter(|(_, grants)| grants.iter().any(blocks)).map(|(holder, _)| holder).next()
    }

    /// Returns the devices that more than one claim has, one of them for itself.
    pub(super) fn conflicts(&self, claim: &ResourceClaim) -> Vec<DeviceId> {
        let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
        let alone = results.filter(|result| result.share_id.is_none());
        let doubled = |id: &&DeviceId| {
            let grants = self.by_device.get(*id).into_iter().flatten();
            grants.filter(|(_, g)| g.iter().any(|grant| grant.share.is_none())).count() > 1
        };
        alone.map(|result| &result.id).filter(doubled).cloned().collect()
    }

    /// Returns what is left of a device's capacity.
    pub(super) fn left(&self, id: &DeviceId, capacity: &str, of: i128) -> i128 {
        let grants = self.by_device.get(id).into_iter().flat_map(|grants| grants.values());
        let consumed = grants.flatten().flat_map(|grant| &grant.consumed);
        of - consumed.filter(|(name, _)| *name == capacity).map(|(_, nanos)| *nanos).sum::<i128>()
    }
}

/// Tells whether a claim is another scheduler's.
pub(super) fn foreign(claim: &ResourceClaim) -> bool {
    claim.key.name.starts_with(FOREIGN)
}

fn grant(result: &DeviceResult, foreign: bool) -> Grant {
    let consumed = result.consumed.iter();
    Grant {
        share: result.share_id.clone(),
        consumed: consumed.map(|(name, amount)| (name.clone(), amount.nanos)).collect(),
        foreign,
    }
}

fn shown(device: &Device) -> Shown {
    let capacity = device.model.capacity.iter();
    Shown {
        capacity: capacity.map(|c| (c.name.clone(), c.value.nanos)).collect(),
        consumes: device.consumes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_core::types::device::{Capacity, CounterSet, DeviceModel, Placement, Quantity};

    use super::*;

    fn quantity(nanos: i128) -> Quantity {
        Quantity { nanos, text: Text::default() }
    }

    /// Two halves of a card, each of three of its five counters, and a device with a capacity of 4.
    fn grants() -> Grants {
        let counters = |nanos| Arc::new([("c".into(), quantity(nanos))]);
        let half = |name: &str| Device {
            name: name.into(),
            consumes: Box::new([Consumption { set: "card".into(), counters: counters(3) }]),
            ..Device::default()
        };
        let capacity = Capacity { name: "memory".into(), value: quantity(4), policy: None };
        let model = DeviceModel { capacity: Arc::new([capacity]), ..DeviceModel::default() };
        let shared = Device { name: "shared".into(), model: Arc::new(model), ..Device::default() };
        let mut grants = Grants::default();
        grants.shows(&ResourceSlice {
            name: "s".into(),
            uid: "s".into(),
            resource_version: 1,
            driver: "d".into(),
            pool: "p".into(),
            generation: 1,
            slice_count: 1,
            placement: Placement::AllNodes,
            devices: vec![half("a"), half("b"), shared],
            counter_sets: vec![CounterSet { name: "card".into(), counters: counters(5) }],
            skip_node_operations: Vec::new(),
            problem: None,
        });
        grants
    }

    fn of(device: &str, share: Option<i128>) -> Allocation {
        let id = DeviceId { driver: "d".into(), pool: "p".into(), device: device.into() };
        let result = DeviceResult {
            request: "r".into(),
            id,
            admin: false,
            tolerations: Vec::new(),
            binding_conditions: Vec::new(),
            binding_failure_conditions: Vec::new(),
            share_id: share.map(|_| "share".into()),
            consumed: share.map(|nanos| ("memory".into(), quantity(nanos))).into_iter().collect(),
            skip_node_operations: Vec::new(),
        };
        Allocation { results: vec![result], ..Allocation::default() }
    }

    #[test]
    fn a_device_twice_and_counters_and_capacity_beyond_what_there_is_are_convicted() {
        let (one, two) = (Text::from("one"), Text::from("two"));
        let mut all = grants();
        assert_eq!(all.replace(&one, false, Some(&of("a", None))), None);
        assert!(all.replace(&two, false, Some(&of("a", None))).is_some());
        assert!(all.replace(&two, false, Some(&of("b", None))).is_some());
        assert_eq!(all.replace(&one, false, None), None);
        assert_eq!(all.replace(&two, false, Some(&of("b", None))), None);

        assert_eq!(all.replace(&one, false, Some(&of("shared", Some(2)))), None);
        assert_eq!(all.replace(&two, false, Some(&of("shared", Some(2)))), None);
        assert!(all.replace(&two, false, Some(&of("shared", Some(3)))).is_some());
    }

    #[test]
    fn what_another_scheduler_grants_is_not_held_against_us() {
        let (one, two) = (Text::from("one"), Text::from("two"));
        let mut all = grants();
        assert_eq!(all.replace(&one, true, Some(&of("a", None))), None);
        assert_eq!(all.replace(&two, false, Some(&of("a", None))), None);
        assert_eq!(all.holder(&of("a", None).results[0], &two), Some(&one));
    }
}
