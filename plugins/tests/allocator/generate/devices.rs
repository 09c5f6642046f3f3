//! What drivers publish: pools of all shapes and placements, now and then broken ones.

use std::sync::Arc;

use berth_core::types::device::{AttributeValue, Consumption, CounterSet, DeviceModel, Placement};
use berth_core::types::{
    Device, NodeSelector, Operator, Requirement, ResourceSlice, Text, selector::NodeTerm,
};

use super::super::instance::quantity;
use super::models::{attributes, capacities};
use super::{Dice, GPU, NIC, NODE, OTHER_NODE, taint};

/// Devices of an instance at most.
const DEVICES_MAX: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Plain,
    /// Its devices draw on counters, as MIG placements do.
    Partitioned,
    /// Its devices can be shared.
    Shared,
    /// Its devices need to be made ready.
    Binding,
}

pub(super) fn slices(dice: &mut Dice, lists: bool) -> Vec<ResourceSlice> {
    let mut all = Vec::new();
    let mut left = 2 + dice.below(DEVICES_MAX - 1);
    for pool in 0..1 + dice.below(4) {
        // Two drivers often use the node's name.
        let name = if dice.chance(40) { NODE.to_owned() } else { format!("pool-{pool}") };
        let driver = if dice.chance(75) { GPU } else { NIC };
        let used = |s: &ResourceSlice| s.driver == driver && s.pool == *name;
        if all.iter().any(used) || left == 0 {
            continue;
        }
        let count = (1 + dice.below(left)).min(8);
        left -= count;
        all.extend(self::pool(dice, driver, &name, count, lists));
    }
    all
}

fn pool(
    dice: &mut Dice,
    driver: &str,
    name: &str,
    count: usize,
    lists: bool,
) -> Vec<ResourceSlice> {
    use Shape::{Binding, Partitioned, Plain, Shared};
    let shape = [Plain, Partitioned, Shared, Binding][dice.weighted(&[45, 27, 18, 10])];
    let placements = Placements::draw(dice);
    let sets = if shape == Partitioned { counter_sets(dice) } else { Vec::new() };
    let mut devices: Vec<Device> =
        (0..count).map(|at| device(dice, driver, shape, &sets, at, lists)).collect();
    if dice.chance(15) {
        devices.reverse();
    }
    let parts = 1 + dice.weighted(&[65, 25, 10]).min(count - 1);
    let mut slices = Vec::new();
    let per = count.div_ceil(parts);
    for part in devices.chunks(per) {
        slices.push(slice(dice, driver, name, &placements, part.to_vec()));
    }
    if !sets.is_empty() {
        let mut of_counters = slice(dice, driver, name, &placements, Vec::new());
        if of_counters.placement == Placement::PerDevice {
            of_counters.placement = Placement::AllNodes;
        }
        of_counters.counter_sets = sets;
        slices.push(of_counters);
    }
    for (at, slice) in slices.iter_mut().enumerate() {
        // Names in another order than that of the list.
        let letter = if dice.chance(50) { "a" } else { "b" };
        slice.name = format!("{driver}-{name}-{letter}{at}").into();
        slice.uid = slice.name.clone();
    }
    let total = slices.len();
    slices.iter_mut().for_each(|slice| slice.slice_count = i64::try_from(total).expect("few"));
    spoil(dice, &mut slices);
    slices
}

fn slice(
    dice: &mut Dice,
    driver: &str,
    pool: &str,
    placements: &Placements,
    mut devices: Vec<Device>,
) -> ResourceSlice {
    let placement = placements.next(dice);
    if placement == Placement::PerDevice {
        for device in &mut devices {
            Arc::make_mut(&mut device.model).placement = Placements::of_device(dice);
        }
    }
    ResourceSlice {
        name: Text::default(),
        uid: Text::default(),
        resource_version: 1,
        driver: driver.into(),
        pool: pool.into(),
        generation: 2,
        slice_count: 1,
        placement,
        devices,
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    }
}

/// How the slices of a pool are placed.
enum Placements {
    Same(Placement),
    /// Each for one node or another.
    Nodes,
}

impl Placements {
    fn draw(dice: &mut Dice) -> Placements {
        match dice.weighted(&[54, 2, 11, 16, 9, 7, 1]) {
            0 => Placements::Same(Placement::Node(NODE.into())),
            1 => Placements::Same(Placement::Node(OTHER_NODE.into())),
            2 => Placements::Same(Placement::Selector(selector(dice))),
            3 => Placements::Same(Placement::AllNodes),
            4 => Placements::Same(Placement::PerDevice),
            5 => Placements::Nodes,
            _ => Placements::Same(Placement::Unknown),
        }
    }

    fn next(&self, dice: &mut Dice) -> Placement {
        match self {
            Placements::Same(placement) => placement.clone(),
            Placements::Nodes => {
                let name = if dice.chance(60) { NODE } else { OTHER_NODE };
                Placement::Node(name.into())
            }
        }
    }

    fn of_device(dice: &mut Dice) -> Option<Placement> {
        Some(match dice.weighted(&[50, 20, 15, 15]) {
            0 => Placement::Node(NODE.into()),
            1 => Placement::Node(OTHER_NODE.into()),
            2 => Placement::Selector(selector(dice)),
            _ => Placement::AllNodes,
        })
    }
}

fn selector(dice: &mut Dice) -> Arc<NodeSelector> {
    let (key, operator, values) = *dice.pick(&[
        ("zone", Operator::In, "a"),
        ("zone", Operator::In, "a"),
        ("zone", Operator::In, "b"),
        ("zone", Operator::Exists, ""),
        ("zone", Operator::NotIn, "b"),
        ("gpus", Operator::Gt, "4"),
        ("rack", Operator::DoesNotExist, ""),
    ]);
    let values = if values.is_empty() { Vec::new() } else { vec![Text::from(values)] };
    let labels = vec![Requirement { key: key.into(), operator, values }];
    Arc::new(NodeSelector { terms: vec![NodeTerm { labels, names: Vec::new() }] })
}

/// Now and then a pool is outdated, being replaced, incomplete, or contradicts itself.
fn spoil(dice: &mut Dice, slices: &mut Vec<ResourceSlice>) {
    let first = slices[0].clone();
    if dice.chance(5) {
        // What is left of the generation before.
        let name = format!("{}-old", first.name).into();
        slices.push(ResourceSlice {
            generation: 1,
            uid: Text::clone(&name),
            name,
            ..first.clone()
        });
    }
    if dice.chance(3) {
        // A newer generation, for another node so far.
        let placement = Placement::Node(OTHER_NODE.into());
        let name = format!("{}-new", first.name).into();
        let uid = Text::clone(&name);
        slices.push(ResourceSlice { generation: 3, uid, name, placement, ..first.clone() });
    }
    match dice.weighted(&[906, 40, 16, 16, 8, 8, 6]) {
        1 => slices.iter_mut().for_each(|slice| slice.slice_count += 1),
        2 => {
            let twin = first.devices[0].clone();
            slices[0].devices.push(twin);
        }
        3 => {
            let counters = Arc::from([("memory".into(), quantity("1Gi"))]);
            let consumption = Consumption { set: "nowhere".into(), counters };
            slices[0].devices[0].consumes = Box::new([consumption]);
        }
        4 => {
            let sets = slices.iter_mut().find(|slice| !slice.counter_sets.is_empty());
            if let Some(slice) = sets {
                let twin = slice.counter_sets[0].clone();
                slice.counter_sets.push(twin);
            }
        }
        5 => slices[0].slice_count += 1,
        6 => slices.iter_mut().for_each(|slice| slice.slice_count = (slice.slice_count - 1).max(1)),
        _ => {}
    }
}

fn counter_sets(dice: &mut Dice) -> Vec<CounterSet> {
    let names = ["gpu-0", "gpu-1"];
    let set = |name: &&str| {
        let mut counters = vec![("memory".into(), quantity("80Gi"))];
        counters.extend((0..4).map(|at| (Text::from(format!("slice-{at}")), quantity("1"))));
        counters.push(("sm".into(), quantity("7")));
        CounterSet { name: (*name).into(), counters: counters.into() }
    };
    names[..1 + dice.below(2)].iter().map(set).collect()
}

/// Takes a half, a quarter, or all of a set.
fn consumption(dice: &mut Dice, set: &CounterSet) -> Consumption {
    let (memory, sm, first, slices) = *dice.pick(&[
        ("80Gi", "7", 0, 4),
        ("40Gi", "3", 0, 2),
        ("40Gi", "3", 2, 2),
        ("20Gi", "2", 0, 1),
        ("20Gi", "2", 1, 1),
        ("20Gi", "1", 2, 1),
        ("10Gi", "1", 3, 1),
    ]);
    let mut counters = vec![("memory".into(), quantity(memory))];
    if dice.chance(60) {
        let taken = first..first + slices;
        counters.extend(taken.map(|at| (Text::from(format!("slice-{at}")), quantity("1"))));
    }
    counters.push(("sm".into(), quantity(sm)));
    Consumption { set: set.name.clone(), counters: counters.into() }
}

fn device(
    dice: &mut Dice,
    driver: &str,
    shape: Shape,
    sets: &[CounterSet],
    at: usize,
    lists: bool,
) -> Device {
    let mut model = DeviceModel {
        attributes: attributes(dice, driver, lists).into(),
        multi_allocatable: shape == Shape::Shared
            || (shape == Shape::Partitioned && dice.chance(8)),
        ..DeviceModel::default()
    };
    model.capacity = capacities(dice, driver, model.multi_allocatable).into();
    if dice.chance(12) {
        model.taints = (0..1 + dice.below(2)).map(|_| taint(dice)).collect();
    }
    model.binds_to_node = dice.chance(4);
    if shape == Shape::Binding && dice.chance(70) {
        model.binding_conditions = Box::new(["attached".into()]);
        model.binding_failure_conditions = Box::new(["broken".into()]);
        model.binds_to_node |= dice.chance(40);
    }
    let mut consumes: Vec<Consumption> = Vec::new();
    if !sets.is_empty() && dice.chance(92) {
        let both = dice.chance(6);
        let sets = if both { sets } else { std::slice::from_ref(dice.pick(sets)) };
        consumes.extend(sets.iter().map(|set| consumption(dice, set)));
    }
    let index = AttributeValue::Int(i64::try_from(at).expect("few"));
    let own: Vec<(Text, AttributeValue)> =
        if dice.chance(85) { vec![("index".into(), index)] } else { Vec::new() };
    Device {
        name: format!("d{at}").into(),
        model: Arc::new(model),
        own: own.into(),
        consumes: consumes.into(),
    }
}
