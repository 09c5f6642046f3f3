//! Groups that must stay together: which domain they go to, and who follows whom there.

use berth_core::engine::Setup;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{Quorum, SubGroup, TopologyConstraint};
use berth_core::types::{LabelSelector, Node, Pod, PodGroup};

use crate::build::{With, gang, labelled, node, pod};
use crate::harness::World;

const PLUGINS: &[&str] = &["Order", "Cpu", "Gangs", "Racks", "Binder"];

fn rack(name: &str, rack: &str, cpu: i64) -> Node {
    labelled(node(name, cpu), &[("rack", rack), ("block", &rack[..1])])
}

fn world(nodes: &[(&str, &str, i64)]) -> World {
    let mut w = World::of(PLUGINS, Setup::default());
    nodes.iter().for_each(|(name, of, cpu)| w.node(rack(name, of, *cpu)));
    w
}

fn group(w: &mut World, group: PodGroup) {
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(group))));
}

fn together(min: u32, constraints: &[TopologyConstraint]) -> PodGroup {
    PodGroup { topology: constraints.to_vec(), ..gang("g", min) }
}

fn member(name: &str, cpu: i64) -> Pod {
    pod(name, cpu).grouped("g").owned()
}

fn required() -> TopologyConstraint {
    TopologyConstraint::required("rack".into())
}

fn members(w: &mut World, n: usize, cpu: i64) {
    (0..n).for_each(|at| w.pod(member(&format!("p{at}"), cpu)));
    w.run();
}

fn nodes_of(w: &World, n: usize) -> Vec<String> {
    (0..n).map(|at| w.bound(&format!("p{at}"))).collect()
}

#[test]
fn a_group_goes_to_the_domain_that_holds_it_and_leaves_least() {
    let mut w = world(&[("a1", "a", 1), ("b1", "b", 4), ("b2", "b", 4), ("c1", "c", 2)]);
    group(&mut w, together(2, &[required()]));
    members(&mut w, 2, 1);
    assert_eq!(nodes_of(&w, 2), ["c1", "c1"]);
}

#[test]
fn nodes_without_the_label_are_in_no_domain() {
    let mut w = world(&[("a1", "a", 1)]);
    w.node(node("bare", 8));
    group(&mut w, together(2, &[required()]));
    members(&mut w, 2, 1);
    assert_eq!(nodes_of(&w, 2), ["", ""]);
    let message = w.condition("p0").message;
    let wanted = "0/1 placements are available, first placement status: 0/2 nodes are available:";
    assert!(message.starts_with(wanted), "{message}");
    let numbers =
        "the group needs room for 2 pods in one rack; a, the roomiest of 1, has room for 1";
    assert!(message.contains(numbers), "{message}");
    // The node that it waits for comes.
    w.node(rack("a2", "a", 1));
    w.wait_secs(3);
    assert_eq!(nodes_of(&w, 2), ["a1", "a2"]);
}

#[test]
fn a_level_that_no_node_has_holds_its_group_alone() {
    let mut w = world(&[("a1", "a", 4)]);
    let nowhere = TopologyConstraint::required("topology.example/cage".into());
    group(&mut w, together(2, &[nowhere]));
    w.pod(pod("other", 1).owned());
    members(&mut w, 2, 1);
    assert_eq!(nodes_of(&w, 2), ["", ""]);
    assert_eq!(w.bound("other"), "a1");
    let message = w.condition("p0").message;
    let told = "the group needs one topology.example/cage; no node that is left is in any";
    assert!(message.contains(told), "{message}");
}

/// Each node a domain of its own, of which the last alone has room.
#[test]
fn ten_thousand_domains_are_looked_at_within_bounds() {
    let mut w = World::of(PLUGINS, Setup::default());
    for at in 0..10_000 {
        let cpu = if at == 9_999 { 2 } else { 1 };
        w.node(rack(&format!("n{at:04}"), &format!("r{at:04}"), cpu));
    }
    group(&mut w, together(2, &[required()]));
    w.pod(pod("other", 1).owned());
    members(&mut w, 2, 1);
    assert_eq!(nodes_of(&w, 2), ["n9999", "n9999"]);
    assert!(!w.bound("other").is_empty());
    let counts = w.reports.iter().map(|report| report.placements.generated).max();
    assert_eq!(counts, Some(10_000));
}

/// Room is counted from above: that two of three find room in `a` for one is only seen by trying.
#[test]
fn the_next_domain_is_tried_when_the_best_turns_out_not_to_hold_the_group() {
    let mut w = world(&[("a1", "a", 3), ("a2", "a", 1), ("b1", "b", 9)]);
    group(&mut w, together(3, &[required()]));
    w.pod(member("p0", 3));
    w.pod(member("p1", 2));
    w.pod(member("p2", 1));
    w.run();
    assert_eq!(nodes_of(&w, 3), ["b1", "b1", "b1"]);
}

#[test]
fn a_replacement_stays_with_those_that_run_or_waits() {
    let mut w = world(&[("a1", "a", 1), ("b1", "b", 1), ("b2", "b", 1)]);
    group(&mut w, together(2, &[required()]));
    w.pod(member("p0", 1).on("b1"));
    w.pod(member("p1", 1));
    w.run();
    assert_eq!(w.bound("p1"), "b2");
    w.pod(member("p2", 1));
    w.run();
    assert_eq!(w.bound("p2"), "", "a1 is free, but elsewhere");
    let message = w.condition("p2").message;
    assert!(message.contains("1 node(s) left no place"), "{message}");
}

/// Whoever replaces a member may make room for itself, but where the others are.
#[test]
fn nobody_is_evicted_outside_of_the_groups_domain() {
    let mut w = World::of(&[PLUGINS, &["Evict"]].concat(), Setup::default());
    for (name, of) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        w.node(rack(name, of, 1));
    }
    group(&mut w, together(1, &[required()]));
    w.pod(pod("near", 1).on("a2"));
    w.pod(pod("far", 1).on("b1"));
    w.pod(member("p0", 1).priority(9).on("a1"));
    w.pod(member("p1", 1).priority(9).label("evict", "far"));
    w.run();
    assert!(!w.on_server("far").terminating);
    w.pod_gone("p1");
    w.pod(member("p2", 1).priority(9).label("evict", "near"));
    w.run();
    assert!(w.on_server("near").terminating);
    w.pod_gone("near");
    w.run();
    assert_eq!(w.bound("p2"), "a2");
}

#[test]
fn a_wish_is_followed_where_it_can_be() {
    let wish = TopologyConstraint::preferred("rack".into());
    let nodes = [("a1", "a", 1), ("a2", "a", 1), ("b1", "b", 1)];
    let mut w = world(&nodes);
    group(&mut w, together(2, std::slice::from_ref(&wish)));
    members(&mut w, 2, 1);
    assert_eq!(nodes_of(&w, 2), ["a1", "a2"]);
    let mut w = world(&nodes);
    group(&mut w, together(3, &[wish]));
    members(&mut w, 3, 1);
    assert!(nodes_of(&w, 3).iter().all(|node| !node.is_empty()));
}

#[test]
fn slices_stay_together_each_in_a_domain_of_its_own_choice() {
    let mut w = world(&[("a1", "a", 3), ("b1", "b", 3), ("c1", "c", 1)]);
    let slice = TopologyConstraint { slice: Some(2), ..required() };
    group(&mut w, together(4, &[slice]));
    members(&mut w, 4, 1);
    let nodes = nodes_of(&w, 4);
    assert_eq!([&nodes[0], &nodes[2]], [&nodes[1], &nodes[3]], "{nodes:?}");
    assert_ne!(nodes[0], nodes[2]);
}

/// Four in a block, of these each two in a rack.
#[test]
fn slices_are_cut_into_smaller_ones() {
    let nodes =
        [("w1", "1a", 1), ("x1", "1b", 4), ("y1", "2a", 2), ("z1", "2b", 2), ("v1", "3a", 3)];
    let mut w = world(&nodes);
    let of = |level: &str, size| TopologyConstraint {
        slice: Some(size),
        ..TopologyConstraint::required(level.into())
    };
    group(&mut w, together(8, &[of("rack", 2), of("block", 4)]));
    members(&mut w, 8, 1);
    let nodes = nodes_of(&w, 8);
    assert!(nodes.iter().all(|node| !node.is_empty()), "{nodes:?}");
    assert!(nodes.chunks(2).all(|pair| pair[0] == pair[1]), "{nodes:?}");
    let block = |node: &String| if ["w1", "x1"].contains(&node.as_str()) { 1 } else { 2 };
    assert!(nodes.chunks(4).all(|four| four.iter().all(|it| block(it) == block(&four[0]))));
}

#[test]
fn the_first_slice_gives_way_where_the_second_needs_its_place() {
    // Of two domains that hold a slice, the larger members' slice fits into one only.
    let mut w = world(&[("a1", "a", 4), ("b1", "b", 2)]);
    let slice = TopologyConstraint { slice: Some(2), ..required() };
    group(&mut w, together(4, &[slice]));
    for (name, cpu) in [("p0", 1), ("p1", 1), ("p2", 2), ("p3", 2)] {
        w.pod(member(name, cpu));
    }
    w.run();
    assert_eq!(nodes_of(&w, 4), ["b1", "b1", "a1", "a1"]);
}

#[test]
fn parts_are_together_inside_what_the_group_has() {
    // One block for all, one rack for each role: block 1 has room for both, in different racks.
    let mut w = world(&[("w1", "1a", 2), ("x1", "1b", 2), ("y1", "2a", 3), ("z1", "2b", 1)]);
    let part =
        |role: &str| SubGroup { topology: vec![required()], ..SubGroup::of_role(role.into(), 2) };
    let block = TopologyConstraint::required("block".into());
    let group_of_parts =
        PodGroup { sub_groups: vec![part("left"), part("right")], ..together(4, &[block]) };
    group(&mut w, group_of_parts);
    for (name, role) in [("p0", "left"), ("p1", "left"), ("p2", "right"), ("p3", "right")] {
        let mut pod = member(name, 1);
        pod.gang.as_mut().expect("a member").hints[0].role = Some(role.into());
        w.pod(pod);
    }
    w.run();
    assert_eq!(nodes_of(&w, 4), ["w1", "w1", "x1", "x1"]);
}

#[test]
fn members_above_the_minimum_stay_in_the_domain_too() {
    let mut w = world(&[("a1", "a", 3), ("b1", "b", 8)]);
    group(&mut w, together(2, &[required()]));
    (0..3).for_each(|at| w.pod(member(&format!("p{at}"), 1)));
    w.pod(member("p3", 3));
    w.run();
    let nodes = nodes_of(&w, 4);
    assert!(nodes.iter().all(|node| node == "b1"), "where all four fit: {nodes:?}");
    w.pod(member("p4", 3));
    w.run();
    assert_eq!(w.bound("p4"), "", "a1 has room, b1 has not");
}

#[test]
fn a_group_without_a_minimum_stays_together_as_far_as_it_fits() {
    let mut w = world(&[("a1", "a", 1), ("b1", "b", 2)]);
    group(&mut w, PodGroup { quorum: Quorum::None, ..together(0, &[required()]) });
    members(&mut w, 3, 1);
    assert_eq!(nodes_of(&w, 3), ["b1", "b1", ""]);
}

#[test]
fn a_profile_without_topologies_holds_what_requires_one() {
    let mut w = World::of(&["Order", "Cpu", "Gangs", "Binder"], Setup::default());
    w.node(rack("a1", "a", 8));
    group(&mut w, together(1, &[required()]));
    w.pod(member("p0", 1));
    w.wait_secs(6);
    let message = w.condition("p0").message;
    assert!(message.contains("pod group g requires one \"rack\""), "{message}");
    group(&mut w, together(1, &[TopologyConstraint::preferred("rack".into())]));
    w.wait_secs(6);
    assert_eq!(w.bound("p0"), "a1");
}

#[test]
fn reports_count_the_placements_that_were_looked_at() {
    let mut w = world(&[("a1", "a", 1), ("b1", "b", 4), ("c1", "c", 9)]);
    group(&mut w, together(3, &[required()]));
    members(&mut w, 3, 1);
    let counts = |w: &World| -> Vec<(u32, u32, u32)> {
        let counts = w.reports.iter().map(|report| report.placements);
        counts.map(|it| (it.generated, it.feasible, it.infeasible)).collect()
    };
    // The first member's report has them; a has too little room, and c was not needed.
    assert_eq!(counts(&w), [(3, 1, 1), (0, 0, 0), (0, 0, 0)]);
}

/// A member of a group that is in one domain with all pods of run 7.
fn member_of_run(name: &str, of: &str, cpu: i64) -> Pod {
    let mut pod = pod(name, cpu).grouped(of).owned();
    pod.labels = [("run".into(), "7".into())].into_iter().collect();
    pod
}

fn of_run(name: &str, min: u32) -> PodGroup {
    let span = Some(LabelSelector::equals("run", "7"));
    PodGroup { topology: vec![TopologyConstraint { span, ..required() }], ..gang(name, min) }
}

#[test]
fn groups_of_one_span_go_where_the_first_of_them_went() {
    let mut w = world(&[("a1", "a", 1), ("a2", "a", 2), ("b1", "b", 4)]);
    group(&mut w, of_run("g", 2));
    group(&mut w, of_run("h", 2));
    w.pod(member_of_run("g0", "g", 1));
    w.pod(member_of_run("g1", "g", 1));
    w.run();
    assert_eq!([w.bound("g0"), w.bound("g1")].map(|node| node.starts_with('a')), [true; 2]);
    // Rack b would hold the second group, and is another one.
    w.pod(member_of_run("h0", "h", 1));
    w.pod(member_of_run("h1", "h", 1));
    w.run();
    assert_eq!([w.bound("h0"), w.bound("h1")], ["", ""]);
    // With room for both it follows, and so does who replaces a member.
    w.node(rack("a3", "a", 2));
    w.wait_secs(3);
    let nodes = [w.bound("h0"), w.bound("h1")];
    assert!(nodes.iter().all(|node| node.starts_with('a')), "{nodes:?}");
    w.pod_gone("g0");
    w.pod(member_of_run("g2", "g", 1));
    w.wait_secs(3);
    assert!(w.bound("g2").starts_with('a'));
}

#[test]
fn nobody_is_followed_whose_pods_are_all_gone() {
    let mut w = world(&[("a1", "a", 1), ("b1", "b", 4)]);
    group(&mut w, of_run("g", 1));
    group(&mut w, of_run("h", 2));
    w.pod(member_of_run("g0", "g", 1));
    w.run();
    assert_eq!(w.bound("g0"), "a1");
    w.pod(member_of_run("h0", "h", 1));
    w.pod(member_of_run("h1", "h", 1));
    w.run();
    assert_eq!(w.bound("h0"), "");
    w.pod_gone("g0");
    w.wait_secs(3);
    assert_eq!([w.bound("h0"), w.bound("h1")], ["b1", "b1"]);
}
