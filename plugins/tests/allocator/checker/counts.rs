//! Whether the counters that devices share suffice for all of them.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::types::device::Consumption;
use berth_core::types::{Device, DeviceId, ResourceSlice, Text};

use super::super::instance::Instance;
use super::pools::{Offers, SoundPool};
use super::{Charging, Findings, Placed, Wrong};

/// Amounts by set and counter. Unit: billionths.
type Amounts<'a> = BTreeMap<(&'a Text, &'a Text), i128>;

pub(super) fn check(
    instance: &Instance,
    offers: &Offers<'_>,
    placed: &[Placed<'_>],
    charging: Charging,
    found: &mut Findings,
) {
    for (key, pool) in &offers.sound {
        let mine = |id: &DeviceId| (&*id.driver, &*id.pool) == *key;
        let left = left(instance, pool, key, charging);
        let mut fresh = Amounts::new();
        let mut charged: BTreeSet<&DeviceId> = BTreeSet::new();
        let held = |id: &DeviceId| instance.held.iter().any(|h| h.id == *id && !h.admin);
        for one in placed.iter().filter(|one| mine(&one.grant.id)) {
            let multi = one.offered.device.model.multi_allocatable;
            let again = multi && (charged.contains(&one.grant.id) || held(&one.grant.id));
            if (one.request.admin && !charging.admin) || again {
                continue;
            }
            charged.insert(&one.grant.id);
            add(&mut fresh, &one.offered.device.consumes);
        }
        let overdrawn = left
            .iter()
            .filter(|(counter, left)| fresh.get(*counter).is_some_and(|wanted| *left < wanted));
        for ((set, counter), left) in overdrawn {
            found.add(Wrong::Counters, format!("{key:?}: {set}/{counter} of which {left} is left"));
        }
    }
}

/// Returns what is left of each counter of the pool beside the devices that are held.
fn left<'a>(
    instance: &'a Instance,
    pool: &SoundPool<'a>,
    key: &(&str, &str),
    charging: Charging,
) -> Amounts<'a> {
    let mut taken = Amounts::new();
    let held: BTreeSet<&DeviceId> = instance
        .held
        .iter()
        .filter(|held| !held.admin && (&*held.id.driver, &*held.id.pool) == *key)
        .map(|held| &held.id)
        .collect();
    for id in held {
        if let Some(device) = shown(instance, pool, id, charging) {
            add(&mut taken, &device.consumes);
        }
    }
    let mut left = Amounts::new();
    for set in pool.slices.iter().flat_map(|slice| &slice.counter_sets) {
        for (counter, total) in set.counters.iter() {
            let key = (&set.name, counter);
            left.insert(key, total.nanos - taken.get(&key).copied().unwrap_or(0));
        }
    }
    left
}

/// Returns a device as the pool's slices show it, or as slices did that are gone.
fn shown<'a>(
    instance: &'a Instance,
    pool: &SoundPool<'a>,
    id: &DeviceId,
    charging: Charging,
) -> Option<&'a Device> {
    let named = |slice: &'a ResourceSlice| slice.devices.iter().find(|d| d.name == id.device);
    let current = pool.slices.iter().copied().find_map(named);
    if current.is_some() || charging.forget_gone {
        return current;
    }
    let of_pool = |slice: &&'a ResourceSlice| slice.driver == id.driver && slice.pool == id.pool;
    let known = instance.slices.iter().filter(of_pool);
    let newest = known.filter_map(|slice| Some((slice.generation, named(slice)?)));
    let newest = newest.max_by_key(|(generation, _)| *generation).map(|(_, device)| device);
    newest.or_else(|| instance.before.iter().filter(of_pool).find_map(named))
}

fn add<'a>(amounts: &mut Amounts<'a>, consumes: &'a [Consumption]) {
    for consumption in consumes {
        for (counter, amount) in consumption.counters.iter() {
            *amounts.entry((&consumption.set, counter)).or_default() += amount.nanos;
        }
    }
}
