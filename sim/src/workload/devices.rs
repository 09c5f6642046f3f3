//! Devices of a random cluster, the classes they are in, and what happens to them.

use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::claim::DeviceId;
use berth_core::types::device::{
    AttributeValue, Capacity, Consumption, CounterSet, DeviceModel, NANOS, Placement, Quantity,
};
use berth_core::types::{
    Device, DeviceClass, Node, ResourceClaim, ResourceSlice, Span, Text, Timestamp,
};

use crate::drivers::{FAILED, PoolKey, READY, Republish};

use super::shape::{one_in, pick};
use super::{Action, USERS};

/// How names of claims begin that are another scheduler's.
pub const FOREIGN: &str = "foreign-";

pub(super) const GPUS: &str = "gpu.example.com";
pub(super) const NETWORK: &str = "net.example.com";
/// The attribute by which devices are near each other.
pub(super) const ROOT: &str = "resource.kubernetes.io/pcieRoot";
/// The capacity of a device that is shared.
pub(super) const MEMORY: &str = "memory";

/// What happens to devices and claims that nobody schedules.
#[derive(Clone, Debug)]
pub enum DeviceAction {
    AddClass(Box<DeviceClass>),
    /// The driver publishes this slice of the pool as it is by then.
    Publish {
        pool: PoolKey,
        at: usize,
    },
    /// The pool gets another generation, its slices one after the other.
    Roll {
        pool: PoolKey,
        change: Republish,
        gap: Span,
    },
    /// A slice is gone for a while.
    Vanish {
        pool: PoolKey,
        at: usize,
        gap: Span,
    },
    /// An administrator taints a device by a rule, or takes the rule back.
    TaintRule {
        name: Text,
        device: DeviceId,
        on: bool,
    },
    CreateClaim(Box<ResourceClaim>),
    DeleteClaim(berth_core::types::ClaimKey),
}

/// Returns the classes by what their devices are, named like it.
pub(super) fn classes() -> Vec<DeviceClass> {
    let class = |kind: &str, driver: &str| DeviceClass {
        name: kind.into(),
        selectors: vec![selector(driver, "type", kind)],
        ..DeviceClass::default()
    };
    vec![
        class("gpu", GPUS),
        class("mig", GPUS),
        class("shared", GPUS),
        class("slow", GPUS),
        class("nic", NETWORK),
    ]
}

/// A selector for devices of one driver with one value of an attribute. The auditor reads this
/// form too.
pub(super) fn selector(driver: &str, attribute: &str, value: &str) -> Text {
    let attribute = format!("device.attributes[\"{driver}\"].{attribute}");
    format!("device.driver == \"{driver}\" && {attribute} == \"{value}\"").into()
}

/// Returns what the drivers of these nodes publish.
pub(super) fn slices(rng: &mut Rng, nodes: &[Node]) -> Vec<ResourceSlice> {
    let mut slices = Vec::new();
    for node in nodes {
        let parts = match rng.below(8) {
            0..3 => whole(rng),
            3..5 => partitioned(rng),
            5 => vec![(vec![shared()], Vec::new())],
            6 => vec![((0..1 + rng.below(2)).map(slow).collect(), Vec::new())],
            _ => continue,
        };
        let placement = Placement::Node(node.name.clone());
        slices.extend(published(GPUS, &node.name, &placement, parts));
    }
    if one_in(rng, 2) {
        let devices = (0..2 + rng.below(3)).map(nic).collect();
        let parts = vec![(devices, Vec::new())];
        slices.extend(published(NETWORK, "fabric", &Placement::AllNodes, parts));
    }
    slices
}

type Part = (Vec<Device>, Vec<CounterSet>);

fn published(
    driver: &str,
    pool: &str,
    placement: &Placement,
    parts: Vec<Part>,
) -> Vec<ResourceSlice> {
    let slice_count = parts.len() as i64;
    let slice = |(at, (devices, counter_sets))| ResourceSlice {
        name: format!("{pool}-{driver}-{at}").into(),
        uid: Text::default(),
        resource_version: 0,
        driver: driver.into(),
        pool: pool.into(),
        generation: 1,
        slice_count,
        placement: placement.clone(),
        devices,
        counter_sets,
        skip_node_operations: Vec::new(),
        problem: None,
    };
    parts.into_iter().enumerate().map(slice).collect()
}

fn model(kind: &str, product: &str, root: u64) -> DeviceModel {
    let text = |value: &str| AttributeValue::String(value.into());
    let attributes = [
        ("model".into(), text(product)),
        ("resource.kubernetes.io/numaNode".into(), AttributeValue::Int(root as i64)),
        (ROOT.into(), text(&format!("pci0000:{root}"))),
        ("type".into(), text(kind)),
    ];
    DeviceModel { attributes: Box::new(attributes), ..DeviceModel::default() }
}

fn device(name: String, model: DeviceModel) -> Device {
    Device { name: name.into(), model: Arc::new(model), ..Device::default() }
}

/// Whole devices on two roots, in one or two slices.
fn whole(rng: &mut Rng) -> Vec<Part> {
    let product = pick(rng, &["a100", "h100"]);
    let count = pick(rng, &[1, 2, 4, 4]);
    let mut devices: Vec<Device> =
        (0..count).map(|at| device(format!("gpu-{at}"), model("gpu", product, at / 2))).collect();
    match one_in(rng, 2) {
        true => {
            let rest = devices.split_off(devices.len() / 2);
            vec![(devices, Vec::new()), (rest, Vec::new())]
        }
        false => vec![(devices, Vec::new())],
    }
}

/// Cards that can be had whole, in halves or in quarters; their counters are a slice of their own.
fn partitioned(rng: &mut Rng) -> Vec<Part> {
    let (mut sets, mut devices) = (Vec::new(), Vec::new());
    for card in 0..1 + rng.below(2) {
        let set = Text::from(format!("card-{card}"));
        let counters: Arc<[_]> = Arc::new([("slices".into(), quantity(8))]);
        sets.push(CounterSet { name: set.clone(), counters });
        for (kind, product, parts) in
            [("gpu", "h100", 1), ("mig", "half", 2), ("mig", "quarter", 4)]
        {
            for part in 0..parts {
                let name = format!("gpu-{card}-{product}-{part}");
                let counters: Arc<[_]> = Arc::new([("slices".into(), quantity(8 / parts))]);
                let consumes = Box::new([Consumption { set: set.clone(), counters }]);
                devices.push(Device { consumes, ..device(name, model(kind, product, card)) });
            }
        }
    }
    vec![(Vec::new(), sets), (devices, Vec::new())]
}

/// A device that many can have a part of.
fn shared() -> Device {
    let capacity = Capacity { name: MEMORY.into(), value: quantity(40), policy: None };
    let shape = model("shared", "a100", 0);
    let model = DeviceModel { capacity: Arc::new([capacity]), multi_allocatable: true, ..shape };
    device("shared-0".into(), model)
}

/// A device that its driver prepares before a pod may be bound.
fn slow(at: u64) -> Device {
    let model = DeviceModel {
        binding_conditions: Box::new([READY.into()]),
        binding_failure_conditions: Box::new([FAILED.into()]),
        ..model("slow", "fpga", at)
    };
    device(format!("slow-{at}"), model)
}

fn nic(at: u64) -> Device {
    device(format!("nic-{at}"), model("nic", "cx7", at))
}

pub(super) fn quantity(whole: i64) -> Quantity {
    Quantity { nanos: i128::from(whole) * NANOS, text: whole.to_string().into() }
}

/// Lets pools change while users are at work.
pub(super) fn changes(
    rng: &mut Rng,
    start: Timestamp,
    slices: &[ResourceSlice],
    actions: &mut Vec<(Timestamp, Action)>,
) {
    for number in 0..rng.below(6) {
        let slice = &slices[rng.below(slices.len() as u64) as usize];
        let pool = (slice.driver.clone(), slice.pool.clone());
        let at = start + Span(rng.below(USERS.0));
        let until = at + Span(1000 + rng.below(40_000));
        let gap = Span(50 + rng.below(8000));
        let named = slice.devices.first().map(|device| device.name.clone());
        let (first, then) = match (rng.below(5), named) {
            (0, _) => (DeviceAction::Vanish { pool, at: 0, gap }, None),
            (1, Some(device)) => {
                back_and_forth(pool, gap, |on| Republish::Tainted(device.clone(), on))
            }
            (2, Some(device)) => {
                back_and_forth(pool, gap, |on| Republish::Dropped(device.clone(), on))
            }
            (3, Some(device)) => {
                let device = DeviceId { driver: pool.0, pool: pool.1, device };
                let name = Text::from(format!("rule-{number}"));
                let rule = |on| {
                    let (name, device) = (name.clone(), device.clone());
                    DeviceAction::TaintRule { name, device, on }
                };
                (rule(true), Some(rule(false)))
            }
            _ => (DeviceAction::Roll { pool, change: Republish::Same, gap }, None),
        };
        actions.push((at, Action::Devices(first)));
        actions.extend(then.map(|then| (until, Action::Devices(then))));
    }
}

fn back_and_forth(
    pool: PoolKey,
    gap: Span,
    change: impl Fn(bool) -> Republish,
) -> (DeviceAction, Option<DeviceAction>) {
    let roll = |on| DeviceAction::Roll { pool: pool.clone(), change: change(on), gap };
    (roll(true), Some(roll(false)))
}

/// Returns a pool of so many whole devices for each node, and the classes of devices.
pub(crate) fn devices_of_sweep(
    nodes: &[Node],
    each: u64,
) -> (Vec<ResourceSlice>, Vec<DeviceClass>) {
    let slices = nodes.iter().flat_map(|node| {
        let devices = (0..each).map(|at| device(format!("gpu-{at}"), model("gpu", "h100", 0)));
        let parts = vec![(devices.collect(), Vec::new())];
        published(GPUS, &node.name, &Placement::Node(node.name.clone()), parts)
    });
    (slices.collect(), classes())
}
