//! What is taken of a pool's devices, and what that takes of the pool's counters.

use std::collections::BTreeMap;

use crate::types::Text;
use crate::types::claim::DeviceResult;
use crate::types::device::Consumption;

/// What claims hold of one device.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// UIDs of the claims that hold it for themselves, sorted. More than one is a conflict.
    pub holders: Vec<Text>,
    /// What each share takes of each capacity, by claim and share. Unit: billionths.
    shares: BTreeMap<(Text, Text), Vec<(Text, i128)>>,
    /// What it takes of the pool's counters as long as anybody holds it.
    charged: Box<[Consumption]>,
}

impl Taken {
    /// Tells whether somebody has the device for himself.
    pub fn dedicated(&self) -> bool {
        !self.holders.is_empty()
    }

    pub fn shared(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Returns what shares take of a capacity. Unit: billionths.
    pub fn consumed(&self, capacity: &str) -> i128 {
        let of = |taken: &Vec<(Text, i128)>| {
            taken.iter().find(|(name, _)| *name == capacity).map_or(0, |(_, nanos)| *nanos)
        };
        self.shares.values().map(of).fold(0, i128::saturating_add)
    }

    fn unused(&self) -> bool {
        self.holders.is_empty() && self.shares.is_empty()
    }
}

/// The devices of one pool that somebody holds, whether or not a slice shows them.
#[derive(Debug, Default)]
pub(super) struct TakenDevices {
    by_name: BTreeMap<Text, Taken>,
    /// Sum of what they take, by set and counter. Unit: billionths.
    counters: BTreeMap<(Text, Text), i128>,
}

impl TakenDevices {
    pub(super) fn device(&self, name: &str) -> Option<&Taken> {
        self.by_name.get(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Text> {
        self.by_name.keys()
    }

    pub(super) fn of_counter(&self, set: &Text, counter: &Text) -> i128 {
        if self.counters.is_empty() {
            return 0;
        }
        self.counters.get(&(set.clone(), counter.clone())).copied().unwrap_or(0)
    }

    /// Returns what is held of the counters of a set, in order of counter.
    pub(super) fn of_set<'a>(&'a self, set: &Text) -> impl Iterator<Item = (&'a Text, i128)> {
        let set = set.clone();
        let from = (!self.counters.is_empty()).then(|| (set.clone(), Text::default()));
        let held = from.into_iter().flat_map(|from| self.counters.range(from..));
        let held = held.take_while(move |((of, _), _)| *of == set);
        held.map(|((_, counter), nanos)| (counter, *nanos))
    }

    /// Notes that `claim` holds what `result` grants. `consumes` is what slices say of the device.
    /// Returns the claim that held it for itself before.
    pub(super) fn take(
        &mut self,
        claim: &Text,
        result: &DeviceResult,
        consumes: &[Consumption],
    ) -> Option<Text> {
        let fresh = !self.by_name.contains_key(&result.id.device);
        let taken = self.by_name.entry(result.id.device.clone()).or_default();
        let mut before = None;
        match &result.share_id {
            Some(share) => {
                let consumed = result.consumed.iter();
                let consumed = consumed.map(|(name, amount)| (name.clone(), amount.nanos));
                taken.shares.insert((claim.clone(), share.clone()), consumed.collect());
            }
            None => {
                before = taken.holders.iter().find(|holder| *holder != claim).cloned();
                let at = taken.holders.partition_point(|holder| holder < claim);
                taken.holders.insert(at, claim.clone());
            }
        }
        if fresh {
            self.charge(&result.id.device, consumes);
        }
        before
    }

    /// Takes back [`TakenDevices::take`].
    pub(super) fn release(&mut self, claim: &Text, result: &DeviceResult) {
        let Some(taken) = self.by_name.get_mut(&result.id.device) else { return };
        match &result.share_id {
            Some(share) => {
                taken.shares.remove(&(claim.clone(), share.clone()));
            }
            None => {
                if let Ok(at) = taken.holders.binary_search(claim) {
                    taken.holders.remove(at);
                }
            }
        }
        if taken.unused() {
            self.charge(&result.id.device, &[]);
            self.by_name.remove(&result.id.device);
        }
    }

    /// Charges a device that is held with `consumes` instead of what it was charged with.
    pub(super) fn charge(&mut self, device: &Text, consumes: &[Consumption]) {
        let Some(taken) = self.by_name.get_mut(device) else { return };
        if *taken.charged == *consumes {
            return;
        }
        let was = std::mem::replace(&mut taken.charged, consumes.into());
        self.count(&was, -1);
        self.count(consumes, 1);
    }

    fn count(&mut self, consumes: &[Consumption], sign: i128) {
        for consumption in consumes {
            for (counter, amount) in consumption.counters.iter() {
                let key = (consumption.set.clone(), counter.clone());
                let sum = self.counters.entry(key.clone()).or_default();
                *sum = sum.saturating_add(sign * amount.nanos);
                if *sum == 0 {
                    self.counters.remove(&key);
                }
            }
        }
    }
}
