//! Whether devices are free, and whether what shares take of them is there.

use std::collections::BTreeMap;

use berth_core::types::claim::DeviceRequest;
use berth_core::types::device::{Capacity, PolicyValues};
use berth_core::types::{Device, DeviceId};

use super::super::instance::Instance;
use super::{Charging, Findings, Placed, Wrong};

pub(super) fn check(
    instance: &Instance,
    placed: &[Placed<'_>],
    charging: Charging,
    found: &mut Findings,
) {
    for (at, one) in placed.iter().enumerate() {
        if taken(instance, &placed[..at], one, charging) {
            found.add(Wrong::Taken, format!("{} for {}", one.grant.id, one.request.name));
        }
        check_amounts(one, found);
    }
    let mut shared: BTreeMap<&DeviceId, &Device> = BTreeMap::new();
    for one in placed.iter().filter(|one| one.offered.device.model.multi_allocatable) {
        shared.insert(&one.grant.id, one.offered.device);
    }
    for (id, device) in shared {
        for capacity in device.model.capacity.iter() {
            check_capacity(instance, placed, id, capacity, charging, found);
        }
    }
}

/// Whether the device is held, or given to one of those before. Administrators and others don't
/// take devices from each other, but a claim has a device once.
fn taken(instance: &Instance, before: &[Placed<'_>], one: &Placed<'_>, charging: Charging) -> bool {
    let id = &one.grant.id;
    let held = instance.held.iter().any(|h| h.id == *id && !h.admin && h.share_id.is_none());
    let multi = one.offered.device.model.multi_allocatable;
    let mut earlier = before.iter().filter(|other| !multi && other.grant.id == *id);
    let admin = one.request.admin;
    let excludes = |other: &Placed<'_>| {
        let both = !admin && (!other.request.admin || charging.admin);
        both || other.claim == one.claim
    };
    (held && !admin) || earlier.any(excludes)
}

/// Returns what a request takes of each capacity, in order of name; `None` if the device isn't
/// large enough for it, even when nobody else has any of it.
pub(super) fn amounts(device: &Device, request: &DeviceRequest) -> Option<Vec<(String, i128)>> {
    let names = &device.model.capacity;
    let defined = |name: &str| names.iter().any(|capacity| capacity.name == name);
    if !request.capacity.iter().all(|(name, _)| defined(name)) {
        return None;
    }
    let amount = |capacity: &Capacity| {
        let asked = request.capacity.iter().find(|(name, _)| *name == capacity.name);
        let taken = rounded(capacity, asked.map(|(_, amount)| amount.nanos))?;
        (taken <= capacity.value.nanos).then(|| (capacity.name.to_string(), taken))
    };
    names.iter().map(amount).collect()
}

/// Returns the least that the policy allows for what is asked.
fn rounded(capacity: &Capacity, asked: Option<i128>) -> Option<i128> {
    let Some(policy) = &capacity.policy else {
        return Some(asked.unwrap_or(capacity.value.nanos));
    };
    let Some(asked) = asked else {
        return Some(policy.default.as_ref().map_or(capacity.value.nanos, |d| d.nanos));
    };
    match &policy.values {
        PolicyValues::Any => Some(asked),
        PolicyValues::OneOf(values) => values.iter().map(|v| v.nanos).find(|v| *v >= asked),
        PolicyValues::Range { min, max, step } => {
            let above = (asked - min.nanos).max(0);
            let above = match step {
                Some(step) => (above + step.nanos - 1) / step.nanos * step.nanos,
                None => above,
            };
            let taken = min.nanos + above;
            max.as_ref().is_none_or(|max| taken <= max.nanos).then_some(taken)
        }
    }
}

fn check_amounts(one: &Placed<'_>, found: &mut Findings) {
    let multi = one.offered.device.model.multi_allocatable;
    let Some(amounts) = amounts(one.offered.device, one.request) else {
        found.add(Wrong::Capacity, format!("{} is too small", one.grant.id));
        return;
    };
    let expected = if multi { amounts } else { Vec::new() };
    if one.grant.shared != multi || one.grant.consumed != expected {
        let text = format!("{}: {:?} is recorded, not {expected:?}", one.grant.id, one.grant);
        found.add(Wrong::Capacity, text);
    }
}

fn check_capacity(
    instance: &Instance,
    placed: &[Placed<'_>],
    id: &DeviceId,
    capacity: &Capacity,
    charging: Charging,
    found: &mut Findings,
) {
    let shares = instance.held.iter().filter(|h| h.id == *id && h.share_id.is_some() && !h.admin);
    let held = shares.flat_map(|share| &share.consumed);
    let held: i128 =
        held.filter(|(name, _)| *name == capacity.name).map(|(_, amount)| amount.nanos).sum();
    let draws = |one: &&Placed<'_>| one.grant.id == *id && (!one.request.admin || charging.admin);
    let granted = placed.iter().filter(draws);
    let granted = granted.flat_map(|one| &one.grant.consumed);
    let granted: i128 =
        granted.filter(|(name, _)| *capacity.name == **name).map(|(_, amount)| *amount).sum();
    if held + granted > capacity.value.nanos {
        found.add(Wrong::Capacity, format!("{id}: {} is overdrawn", capacity.name));
    }
}
