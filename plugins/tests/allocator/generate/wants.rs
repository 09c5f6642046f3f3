//! What claims want: requests, alternatives, constraints, configuration.

use std::sync::Arc;

use berth_core::types::Text;
use berth_core::types::claim::{
    AllocationMode, ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint, DeviceDemand,
    DeviceRequest, DeviceToleration,
};
use berth_core::types::device::{DeviceTaintEffect, Quantity};

use super::super::instance::{Instance, quantity};
use super::{Dice, GPU, NIC, config};

/// Devices asked for by an instance at most, so that the reference's search ends soon.
const WANTED_MAX: usize = 7;

pub(super) fn claims(dice: &mut Dice, made: &Instance) -> Vec<ClaimSpec> {
    let mut left = WANTED_MAX;
    let count = 1 + dice.weighted(&[64, 26, 10]);
    (0..count).map(|_| claim(dice, made, &mut left)).collect()
}

fn claim(dice: &mut Dice, made: &Instance, left: &mut usize) -> ClaimSpec {
    if dice.rarely(8) {
        return ClaimSpec::default();
    }
    let count = 1 + dice.weighted(&[60, 24, 11, 5]);
    let mut requests = Vec::new();
    for at in 0..count {
        if *left > 0 {
            requests.push(request(dice, made, at, left));
        }
    }
    let names = names(&requests);
    let mut constraints = Vec::new();
    if !names.is_empty() && dice.chance(34) {
        constraints.extend((0..1 + dice.weighted(&[80, 20])).map(|_| constraint(dice, &names)));
    }
    constraints.retain_mut(|one| leave_all_alone(dice, one, &requests, &names));
    let with_config = !names.is_empty() && dice.chance(15);
    let config = match with_config {
        true => vec![config(GPU, "of-claim", &subset(dice, &names))],
        false => Vec::new(),
    };
    ClaimSpec { demand: Arc::new(DeviceDemand { requests, constraints }), config }
}

/// Names that constraints and configuration may use.
fn names(requests: &[ClaimRequest]) -> Vec<Text> {
    let mut names = Vec::new();
    for request in requests {
        names.push(request.name.clone());
        if request.first_available {
            names.extend(request.alternatives.iter().map(|one| one.name.clone()));
        }
    }
    names
}

/// A constraint on a request for all devices is on nothing else, and on none that has alternatives to
/// that: where it refuses one of them, the reference gives up on the spot, so that what came before
/// decides, which another choice might mend. Returns false if nothing is left for it.
fn leave_all_alone(
    dice: &mut Dice,
    constraint: &mut DeviceConstraint,
    requests: &[ClaimRequest],
    names: &[Text],
) -> bool {
    let wants_all = |request: &&ClaimRequest| {
        request.alternatives.iter().any(|one| one.mode == AllocationMode::All)
    };
    let all: Vec<&ClaimRequest> = requests.iter().filter(wants_all).collect();
    let is_of = |name: &Text, request: &ClaimRequest| {
        *name == request.name || request.alternatives.iter().any(|one| one.name == *name)
    };
    let covers = |name: &Text| {
        constraint.requests.is_empty() || constraint.requests.iter().any(|known| known == name)
    };
    let covered: Vec<&Text> = names.iter().filter(|name| covers(name)).collect();
    let (of_all, others): (Vec<&Text>, Vec<&Text>) =
        covered.into_iter().partition(|name| all.iter().any(|request| is_of(name, request)));
    if of_all.is_empty() {
        return true;
    }
    let sole = all.iter().filter(|request| request.alternatives.len() == 1);
    let alone = sole.into_iter().find(|request| of_all.iter().any(|name| is_of(name, request)));
    constraint.requests = match alone {
        Some(request) if others.is_empty() || dice.chance(40) => vec![request.name.clone()],
        None if others.is_empty() => return false,
        _ => others.into_iter().cloned().collect(),
    };
    true
}

fn subset(dice: &mut Dice, names: &[Text]) -> Vec<Text> {
    if dice.chance(55) {
        return Vec::new();
    }
    let mut chosen: Vec<Text> = names.iter().filter(|_| dice.chance(60)).cloned().collect();
    if chosen.is_empty() {
        chosen.push(names[0].clone());
    }
    chosen
}

fn constraint(dice: &mut Dice, names: &[Text]) -> DeviceConstraint {
    let own = |name: &str| format!("{GPU}/{name}");
    let attributes = [
        "std.example.com/root".to_owned(),
        "std.example.com/root".to_owned(),
        own("model"),
        own("numa"),
        own("firmware"),
        own("ready"),
        own("index"),
        format!("{NIC}/numa"),
    ];
    let kind = match dice.weighted(&[700, 298, 2]) {
        0 => ConstraintKind::Match,
        1 => ConstraintKind::Distinct,
        _ => ConstraintKind::Unknown,
    };
    let attribute = match kind {
        // An index is rarely the same.
        ConstraintKind::Match => dice.pick(&attributes[..6]),
        ConstraintKind::Distinct | ConstraintKind::Unknown => dice.pick(&attributes),
    };
    DeviceConstraint {
        requests: subset(dice, names),
        kind,
        attribute: Text::from(attribute.as_str()),
    }
}

fn request(dice: &mut Dice, made: &Instance, at: usize, left: &mut usize) -> ClaimRequest {
    let name = Text::from(format!("r{at}"));
    if !dice.chance(17) {
        let mut one = wanted(dice, made, &name, left);
        one.admin = dice.chance(5);
        return ClaimRequest { name, alternatives: vec![one], first_available: false };
    }
    let count = 2 + dice.below(2);
    let mut least = usize::MAX;
    let mut alternatives = Vec::new();
    for at in 0..count {
        let mut own = *left;
        alternatives.push(wanted(dice, made, &format!("{name}/s{at}").into(), &mut own));
        least = least.min(own);
    }
    *left = least;
    ClaimRequest { name, alternatives, first_available: true }
}

fn wanted(dice: &mut Dice, made: &Instance, name: &Text, left: &mut usize) -> DeviceRequest {
    let nics = made.slices.iter().any(|slice| slice.driver == NIC);
    let class = match dice.weighted(&[440, 420, if nics { 100 } else { 10 }, 80, 4]) {
        0 => "any",
        1 => "gpu",
        2 => "nic",
        3 => "gpu-a",
        _ => "missing",
    };
    let mode = mode(dice, left);
    DeviceRequest {
        name: name.clone(),
        class: class.into(),
        selectors: selectors(dice, made.lists),
        mode,
        admin: false,
        tolerations: tolerations(dice),
        capacity: amounts(dice, made),
        unsupported: None,
    }
}

fn mode(dice: &mut Dice, left: &mut usize) -> AllocationMode {
    let drawn = dice.weighted(&[720, 130, 40, 100, 6, 4]);
    let count = match drawn {
        0 => 1,
        1 => 2,
        2 => 3,
        3 => {
            *left = left.saturating_sub(2);
            return AllocationMode::All;
        }
        // Beyond what a claim may have, and what there is.
        4 => return AllocationMode::ExactCount(if dice.chance(50) { 33 } else { 20 }),
        _ => return AllocationMode::Unknown("Some".into()),
    };
    let count = count.min((*left).max(1));
    *left = left.saturating_sub(count);
    AllocationMode::ExactCount(i64::try_from(count).expect("few"))
}

/// Selectors without a value for a device that lacks the attribute, and what says no instead.
pub(crate) const UNGUARDED: [(&str, &str); 2] = [
    (
        "device.attributes['gpu.example.com'].model == 'a'",
        "device.attributes['gpu.example.com'].?model.orValue('') == 'a'",
    ),
    (
        "device.attributes['std.example.com'].root == 'r0'",
        "device.attributes['std.example.com'].?root.orValue('') == 'r0'",
    ),
];

fn selectors(dice: &mut Dice, lists: bool) -> Vec<Text> {
    if dice.chance(68) {
        return Vec::new();
    }
    let of = |name: &str| format!("device.attributes['{GPU}'].?{name}");
    let root = "device.attributes['std.example.com'].?root";
    let mut safe = vec![
        "true".to_owned(),
        format!("{}.orValue('') == 'a'", of("model")),
        format!("{}.orValue(9) < 3", of("index")),
        format!("{}.orValue(0) > 0", of("index")),
        format!("{}.orValue(false)", of("ready")),
        format!("device.driver == '{NIC}' || {}.orValue('a') == 'a'", of("model")),
        format!(
            "device.capacity['{GPU}'].?memory.orValue(quantity('0')).compareTo(quantity('40Gi')) >= 0"
        ),
        "device.allowMultipleAllocations == false".to_owned(),
        format!(
            "device.capacity.exists(d, 'memory' in device.capacity[d]) && device.driver == '{GPU}'"
        ),
    ];
    if lists {
        safe.push(format!("{root}.orValue('').includes('r1')"));
    } else {
        safe.push(format!("{root}.orValue('') == 'r0'"));
    }
    let count = 1 + dice.weighted(&[80, 20]);
    let draw = |_| match dice.rarely(40) {
        true => Text::from(dice.pick(&UNGUARDED).0),
        false => Text::from(dice.pick(&safe).as_str()),
    };
    (0..count).map(draw).collect()
}

fn tolerations(dice: &mut Dice) -> Vec<DeviceToleration> {
    if !dice.chance(22) {
        return Vec::new();
    }
    let exists = dice.chance(50);
    let everything = exists && dice.chance(30);
    let value = if exists { "" } else { dice.word(&["", "yes"]) };
    let effect = match dice.below(4) {
        0 => Some(DeviceTaintEffect::NoSchedule),
        1 => Some(DeviceTaintEffect::NoExecute),
        _ => None,
    };
    vec![DeviceToleration {
        key: if everything { Text::default() } else { dice.word(&["broken", "old"]).into() },
        exists,
        value: value.into(),
        effect,
        seconds: None,
    }]
}

/// Sorted by name.
fn amounts(dice: &mut Dice, made: &Instance) -> Vec<(Text, Quantity)> {
    let mut devices = made.slices.iter().flat_map(|slice| &slice.devices);
    let shared = devices.any(|device| device.model.multi_allocatable);
    if !dice.chance(if shared { 45 } else { 8 }) {
        return Vec::new();
    }
    let mut amounts = Vec::new();
    if dice.rarely(30) {
        amounts.push((Text::from(format!("{GPU}/memory")), quantity("1Gi")));
    }
    if dice.chance(80) {
        let texts = ["1Gi", "1500Mi", "4Gi", "6Gi", "10Gi", "17Gi", "40Gi", "100Gi"];
        amounts.push(("memory".into(), quantity(dice.word(&texts))));
    }
    if dice.chance(20) {
        amounts.push(("slots".into(), quantity(dice.word(&["100m", "250m", "1", "1300m", "3"]))));
    }
    amounts
}
