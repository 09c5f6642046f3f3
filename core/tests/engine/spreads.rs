//! Groups of which only so many members may be in one domain.

use berth_core::engine::Setup;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{Spread, TopologyConstraint, TopologyLevel};
use berth_core::types::{Node, Pod, PodGroup};

use crate::build::{With, gang, labelled, node, pod};
use crate::harness::World;

const PLUGINS: &[&str] = &["Order", "Cpu", "Gangs", "Racks", "Binder"];

/// Racks by name: `1a` is in block `1`.
fn rack(name: &str, rack: &str, cpu: i64) -> Node {
    labelled(node(name, cpu), &[("rack", rack), ("block", &rack[..1])])
}

fn world(nodes: &[(&str, &str, i64)], group: PodGroup) -> World {
    let mut w = World::of(PLUGINS, Setup::default());
    nodes.iter().for_each(|(name, of, cpu)| w.node(rack(name, of, *cpu)));
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(group))));
    w
}

fn a_rack(at_most: u32) -> Spread {
    Spread { level: TopologyLevel::Named("rack".into()), at_most }
}

fn spread(min: u32, at_most: u32) -> PodGroup {
    PodGroup { spread: vec![a_rack(at_most)], ..gang("g", min) }
}

fn in_a_block(min: u32, at_most: u32) -> PodGroup {
    let topology = vec![TopologyConstraint::required("block".into())];
    PodGroup { topology, ..spread(min, at_most) }
}

fn member(name: &str) -> Pod {
    pod(name, 1).grouped("g").owned()
}

fn members(w: &mut World, n: usize) {
    (0..n).for_each(|at| w.pod(member(&format!("p{at}"))));
    w.run();
}

/// The first letters of the nodes that members have, sorted: racks, as nodes are called here.
fn racks_of(w: &World, n: usize) -> String {
    let first = |at| w.bound(&format!("p{at}")).chars().next().unwrap_or('-');
    let mut racks: Vec<char> = (0..n).map(first).collect();
    racks.sort_unstable();
    racks.into_iter().collect()
}

#[test]
fn no_rack_has_more_members_than_it_may() {
    let mut w = world(&[("a1", "1a", 9), ("a2", "1a", 9), ("b1", "1b", 9)], spread(4, 2));
    members(&mut w, 4);
    assert_eq!(racks_of(&w, 4), "aabb");
}

#[test]
fn a_block_that_has_room_but_too_few_racks_is_left_out() {
    let one = [("a1", "1a", 50), ("b1", "1b", 50)];
    let two = [("c1", "2c", 2), ("d1", "2d", 2), ("e1", "2e", 2)];
    let mut w = world(&[&one[..], &two].concat(), in_a_block(6, 2));
    members(&mut w, 6);
    assert_eq!(racks_of(&w, 6), "ccddee");
    let placements = w.reports[0].placements;
    assert_eq!((placements.generated, placements.feasible, placements.infeasible), (2, 1, 1));

    let mut w = world(&one, in_a_block(6, 2));
    members(&mut w, 6);
    assert_eq!(racks_of(&w, 6), "------");
    let message = w.condition("p0").message;
    let told = "the group may have 2 pods in one rack; the group needs room for 6 pods in one block; \
                1, the roomiest of 1, has room for 4";
    assert!(message.contains(told), "{message}");
    // A third rack is all that it waits for.
    w.node(rack("f1", "1f", 2));
    w.wait_secs(3);
    assert_eq!(racks_of(&w, 6), "aabbff");
}

#[test]
fn later_members_and_replacements_keep_to_it() {
    let mut w = world(&[("a1", "1a", 9), ("b1", "1b", 9)], spread(3, 2));
    members(&mut w, 5);
    assert_eq!(racks_of(&w, 5), "-aabb", "members above the minimum too");
    let waits = (0..5).map(|at| format!("p{at}")).find(|name| w.bound(name).is_empty());
    let waits = waits.expect("one waits");
    let message = w.condition(&waits).message;
    let told = "2 node(s) are in domains that have as many pods of the group as they may";
    assert!(message.contains(told), "{message}");
    // Who comes next goes where one has gone.
    let gone = (0..5).map(|at| format!("p{at}")).find(|name| w.bound(name) == "a1");
    w.pod_gone(&gone.expect("one is there"));
    w.wait_secs(3);
    assert_eq!(w.bound(&waits), "a1");
    w.pod(member("p9"));
    w.wait_secs(3);
    assert_eq!(w.bound("p9"), "");
}

#[test]
fn members_that_run_count_whoever_bound_them() {
    let mut w = world(&[("a1", "1a", 9), ("b1", "1b", 1)], spread(2, 1));
    w.pod(member("p0").on("a1"));
    w.pod(member("p1"));
    w.run();
    assert_eq!(w.bound("p1"), "b1");
}

#[test]
fn nobody_is_evicted_in_a_full_domain() {
    let mut w = World::of(&[PLUGINS, &["Evict"]].concat(), Setup::default());
    [("a1", "1a"), ("a2", "1a"), ("b1", "1b")]
        .iter()
        .for_each(|(name, of)| w.node(rack(name, of, 1)));
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(spread(1, 1)))));
    w.pod(pod("near", 1).on("a2"));
    w.pod(pod("far", 1).on("b1"));
    w.pod(member("p0").priority(9).on("a1"));
    w.pod(member("p1").priority(9).label("evict", "near"));
    w.run();
    assert!(!w.on_server("near").terminating);
    w.pod_gone("p1");
    w.pod(member("p2").priority(9).label("evict", "far"));
    w.run();
    assert!(w.on_server("far").terminating);
}

#[test]
fn a_node_that_is_in_no_domain_takes_none() {
    let mut w = world(&[("a1", "1a", 9)], spread(2, 1));
    w.node(node("bare", 9));
    members(&mut w, 2);
    assert_eq!(racks_of(&w, 2), "--");
    let message = w.condition("p0").message;
    assert!(message.contains("the group may have 1 pod in one rack; "), "{message}");
}

#[test]
fn members_that_say_so_are_counted_together() {
    let mut w = world(&[("a1", "1a", 9)], gang("g", 2));
    for name in ["p0", "p1", "p2"] {
        let mut pod = member(name);
        if name != "p2" {
            pod.gang.as_mut().expect("a member").hints[0].spread = vec![a_rack(1)];
        }
        w.pod(pod);
    }
    w.run();
    let bound = |w: &World, name: &str| !w.bound(name).is_empty();
    assert!(bound(&w, "p2"), "it has no limit");
    assert!(bound(&w, "p0") != bound(&w, "p1"), "one of them is enough for the rack");
}

/// Of two levels that cross, a place that one leaves the other may not.
#[test]
fn several_limits_hold_at_once() {
    let block = Spread { level: TopologyLevel::Named("block".into()), at_most: 3 };
    let group = PodGroup { spread: vec![a_rack(2), block], ..gang("g", 5) };
    let nodes = [("a1", "1a", 9), ("b1", "1b", 9), ("c1", "2c", 9), ("d1", "2d", 1)];
    let mut w = world(&nodes, group);
    members(&mut w, 5);
    let racks = racks_of(&w, 5);
    let n = |of: &str| racks.chars().filter(|rack| of.contains(*rack)).count();
    assert_eq!(racks.replace('-', "").len(), 5, "{racks}");
    assert!(n("a") <= 2 && n("b") <= 2 && n("c") <= 2 && n("ab") <= 3, "{racks}");
}

#[test]
fn a_profile_without_topologies_holds_it() {
    let mut w = World::of(&["Order", "Cpu", "Gangs", "Binder"], Setup::default());
    w.node(rack("a1", "1a", 9));
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(spread(1, 1)))));
    w.pod(member("p0"));
    w.wait_secs(6);
    let message = w.condition("p0").message;
    assert!(message.contains("pod group g is to be spread over \"rack\""), "{message}");
}
