//! What others hold of the devices: mostly what they could have been granted.

use std::collections::BTreeMap;

use berth_core::types::claim::DeviceResult;
use berth_core::types::{Device, DeviceId, ResourceSlice, Text};

use super::super::instance::{Instance, quantity};
use super::{Dice, dedicated};

pub(super) fn hold(dice: &mut Dice, made: &mut Instance) {
    let percent = *dice.pick(&[0, 12, 15, 35]);
    let mut left = counters(made);
    let mut held = Vec::new();
    for slice in &made.slices {
        for device in &slice.devices {
            if !dice.chance(percent) || !fits(&mut left, slice, device) {
                continue;
            }
            holders(dice, slice, device, &mut held);
        }
    }
    made.held = held;
    if dice.rarely(60) {
        republish(dice, made);
    }
}

/// What is left by pool, set and counter. Unit: billionths.
type Left = BTreeMap<(Text, Text, Text, Text), i128>;

fn counters(made: &Instance) -> Left {
    let mut left = Left::new();
    for slice in &made.slices {
        for set in &slice.counter_sets {
            for (counter, total) in set.counters.iter() {
                let key = (slice.driver.clone(), slice.pool.clone(), set.name.clone());
                left.insert((key.0, key.1, key.2, counter.clone()), total.nanos);
            }
        }
    }
    left
}

/// Takes what the device draws, if that is there.
fn fits(left: &mut Left, slice: &ResourceSlice, device: &Device) -> bool {
    let mut wanted = Vec::new();
    for consumption in &device.consumes {
        for (counter, amount) in consumption.counters.iter() {
            let key = (slice.driver.clone(), slice.pool.clone(), consumption.set.clone());
            wanted.push(((key.0, key.1, key.2, counter.clone()), amount.nanos));
        }
    }
    let there = wanted.iter().all(|(key, amount)| left.get(key).is_some_and(|l| l >= amount));
    if there {
        wanted.into_iter().for_each(|(key, amount)| *left.entry(key).or_default() -= amount);
    }
    there
}

fn holders(dice: &mut Dice, slice: &ResourceSlice, device: &Device, held: &mut Vec<DeviceResult>) {
    let id = DeviceId {
        driver: slice.driver.clone(),
        pool: slice.pool.clone(),
        device: device.name.clone(),
    };
    let result = |admin, share_id: Option<Text>, consumed| DeviceResult {
        admin,
        share_id,
        consumed,
        ..dedicated(&id)
    };
    let admin = dice.chance(10);
    if !device.model.multi_allocatable || dice.chance(5) {
        if held.iter().all(|known| known.id != id) {
            held.push(result(admin, None, Vec::new()));
        }
        return;
    }
    for share in 0..1 + dice.below(2) {
        let amount = |name: &Text| match &**name {
            "slots" => quantity("500m"),
            _ => quantity("4Gi"),
        };
        let names = device.model.capacity.iter().map(|capacity| &capacity.name);
        let consumed = names.map(|name| (name.clone(), amount(name))).collect();
        let share_id = format!("{}-share-{share}", id.device);
        held.push(result(admin, Some(share_id.into()), consumed));
    }
}

/// A driver has taken back a device that somebody holds.
fn republish(dice: &mut Dice, made: &mut Instance) {
    let draws = |id: &DeviceId| {
        let pool = made.slices.iter().filter(|s| s.driver == id.driver && s.pool == id.pool);
        let mut devices = pool.flat_map(|slice| &slice.devices);
        devices.any(|device| device.name == id.device && !device.consumes.is_empty())
    };
    let Some(id) = made.held.iter().map(|held| held.id.clone()).find(draws) else { return };
    let shows = |slice: &&mut ResourceSlice| {
        let is = slice.devices.iter().filter(|device| device.name == id.device).count() == 1;
        is && slice.devices.len() > 1 && slice.driver == id.driver && slice.pool == id.pool
    };
    let Some(slice) = made.slices.iter_mut().find(shows) else { return };
    if dice.chance(80) {
        made.before.push(slice.clone());
        slice.devices.retain(|device| device.name != id.device);
        slice.resource_version += 1;
    }
}
