//! What is written to a claim.

use std::sync::Arc;

use berth_core::snapshot::DeviceEvent;
use berth_core::types::claim::{Allocation, ClaimSpec, DeviceDemand, DeviceRequest};
use berth_core::types::device::{OpaqueConfig, Placement};
use berth_core::types::{
    DeviceClass, NodeSelector, NodeTerm, Operator, Requirement, ResourceSlice, Text, Value,
};

use super::super::allocation;
use super::super::testing::*;

fn write(world: &mut World, demand: Arc<DeviceDemand>, config: Vec<OpaqueConfig>) -> Allocation {
    let (found, _) = world.answer(std::slice::from_ref(&demand), true);
    let results = found.unwrap().claims.remove(0);
    let node = world.cluster.nodes().node(world.node).unwrap();
    allocation(&world.cluster, node, &ClaimSpec { demand, config }, results, "uid")
}

fn in_zone(values: &[&str]) -> NodeSelector {
    let values = values.iter().map(|value| Text::from(*value)).collect();
    let zone = Requirement { key: "zone".into(), operator: Operator::In, values };
    NodeSelector { terms: vec![NodeTerm { labels: vec![zone], names: Vec::new() }] }
}

fn placed(name: &str, placement: Placement) -> ResourceSlice {
    ResourceSlice { pool: name.into(), placement, ..slice(name, devices(&[name])) }
}

fn only_n1() -> NodeSelector {
    let values = vec![NODE.into()];
    let name = Requirement { key: "metadata.name".into(), operator: Operator::In, values };
    NodeSelector { terms: vec![NodeTerm { labels: Vec::new(), names: vec![name] }] }
}

#[test]
fn devices_for_all_nodes_are_usable_everywhere() {
    let mut world = World::new();
    world.slice(placed("a", Placement::AllNodes));
    assert_eq!(write(&mut world, one(request("r")), Vec::new()).node_selector, None);
}

#[test]
fn one_device_of_the_node_keeps_the_claim_there() {
    let mut world = World::new();
    world.slice(placed("a", Placement::AllNodes));
    world.slice(placed("b", Placement::Node(NODE.into())));
    let written = write(&mut world, one(count("r", 2)), Vec::new());
    assert_eq!(written.node_selector, Some(only_n1()));
    let mut bound = World::new();
    let mut slice = placed("a", Placement::AllNodes);
    slice.devices = vec![device("a").model(|model| model.binds_to_node = true)];
    bound.slice(slice);
    let written = write(&mut bound, one(request("r")), Vec::new());
    assert_eq!(written.node_selector, Some(only_n1()));
}

#[test]
fn selectors_of_devices_are_merged() {
    let mut world = World::new();
    world.slice(placed("a", Placement::Selector(Arc::new(in_zone(&["z1", "z2"])))));
    world.slice(placed("b", Placement::Selector(Arc::new(in_zone(&["z2", "z1"])))));
    let written = write(&mut world, one(count("r", 2)), Vec::new());
    assert_eq!(written.node_selector, Some(in_zone(&["z1", "z2"])));
}

#[test]
fn a_device_that_says_itself_where_it_is_counts_by_that() {
    let mut world = World::new();
    let mut slice = placed("s", Placement::PerDevice);
    let at = |name: &str, placement| device(name).model(|model| model.placement = Some(placement));
    slice.devices = vec![
        at("elsewhere", Placement::Node("n2".into())),
        at("everywhere", Placement::AllNodes),
        at("here", Placement::Node(NODE.into())),
    ];
    world.slice(slice);
    let written = write(&mut world, one(request("r")), Vec::new());
    assert_eq!((&*written.results[0].id.device, written.node_selector), ("everywhere", None));
    let written = write(&mut world, one(count("r", 2)), Vec::new());
    assert_eq!(written.node_selector, Some(only_n1()));
}

fn opaque(driver: &str, requests: &[&str]) -> OpaqueConfig {
    let requests = requests.iter().map(|name| Text::from(*name)).collect();
    OpaqueConfig { requests, driver: driver.into(), parameters: Value::Null }
}

#[test]
fn configuration_comes_from_each_class_once_and_then_from_the_claim() {
    let mut world = World::of(devices(&["a", "b", "c"]));
    let class = DeviceClass {
        name: "c".into(),
        config: vec![opaque("of-class", &[])],
        ..DeviceClass::default()
    };
    world.event(DeviceEvent::ClassApplied(Box::new(class)));
    let of_class = |name| DeviceRequest { class: "c".into(), ..request(name) };
    let demand = claim(vec![
        exactly(of_class("r")),
        first_of("s", vec![of_class("x"), request("y")]),
        exactly(request("t")),
    ]);
    let config = vec![
        opaque("all", &[]),
        opaque("every", &["r", "s/x", "t"]),
        opaque("other", &["s/y"]),
        opaque("one", &["s"]),
    ];
    let written = write(&mut world, demand, config);
    let shown = written.config.iter().map(|of| {
        let requests = of.config.requests.iter().map(Text::as_str).collect::<Vec<_>>();
        format!("{} {} {}", of.from_class, of.config.driver, requests.join(","))
    });
    let expected = ["true of-class r,s/x", "false all ", "false every ", "false one s"];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn share_ids_are_uuids_that_follow_from_claim_and_device() {
    let mut world = World::of(vec![
        device("a").capacity("memory", 8, None).shared(),
        device("b").capacity("memory", 8, None).shared(),
    ]);
    let written = write(&mut world, one(count("r", 2)), Vec::new());
    let ids: Vec<Text> = written.results.iter().filter_map(|r| r.share_id.clone()).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
    let groups: Vec<usize> = ids[0].split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert!(ids[0].bytes().all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
    assert_eq!(write(&mut world, one(count("r", 2)), Vec::new()).results, written.results);
    let results = written.results.clone();
    let node = world.cluster.nodes().node(world.node).unwrap();
    let other = allocation(&world.cluster, node, &ClaimSpec::default(), results, "other");
    assert_ne!(other.results[0].share_id, written.results[0].share_id);
}
