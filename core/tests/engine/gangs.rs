//! Groups with objects: how they are searched and committed, and what of them can't be placed.

use berth_core::engine::{Input, Setup};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKind, Quorum, SubGroup};
use berth_core::types::{GroupKey, Pod, PodGroup, Span, Timestamp};

use crate::build::{With, gang, labelled, node, pod};
use crate::harness::World;

pub(crate) fn group(w: &mut World, group: PodGroup) {
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(group))));
}

pub(crate) fn member(name: &str, cpu: i64) -> Pod {
    pod(name, cpu).grouped("g").owned()
}

pub(crate) fn binds(w: &mut World) -> Vec<String> {
    w.pending_writes().into_iter().filter(|write| write.starts_with("bind")).collect()
}

#[test]
fn unequal_members_find_the_one_assignment_that_works() {
    for order in [["small", "large"], ["large", "small"]] {
        let mut w = World::new();
        w.node(node("four", 4));
        w.node(node("eight", 8));
        group(&mut w, gang("g", 2));
        for name in order {
            w.pod(member(name, if name == "small" { 4 } else { 8 }));
        }
        w.run();
        assert_eq!([w.bound("small"), w.bound("large")], ["four", "eight"]);
    }
}

/// Both fit on two nodes, so the number of nodes says nothing about who should go first; only going
/// back finds the assignment.
#[test]
fn the_search_goes_back_over_an_earlier_member() {
    let mut w = World::new();
    w.node(labelled(node("a", 3), &[("rank", "100"), ("x", ""), ("y", "")]));
    w.node(labelled(node("b", 3), &[("rank", "1"), ("x", "")]));
    w.node(labelled(node("c", 1), &[("rank", "1"), ("y", "")]));
    group(&mut w, gang("g", 3));
    w.pod(member("p", 3).label("wants", "x"));
    w.pod(member("q", 2).label("wants", "y"));
    w.pod(member("r", 1).label("wants", "y"));
    w.run();
    assert_eq!([w.bound("p"), w.bound("q"), w.bound("r")], ["b", "a", "a"]);
}

#[test]
fn a_group_without_room_says_how_many_places_there_are_and_holds_nothing() {
    let mut w = World::new();
    for at in 0..6 {
        w.node(node(&format!("n{at}"), 8));
    }
    w.node(node("half", 4));
    w.node(node("other-half", 4));
    group(&mut w, gang("g", 8));
    for at in 0..8 {
        w.pod(member(&format!("p{at}"), 8));
    }
    w.run();
    let message = w.condition("p0").message;
    let numbers = "the group needs 8 nodes with 8 cpu free; 6 exist";
    assert!(message.contains(numbers), "{message}");
    assert!(message.contains("it can never fit: the nodes hold 6 such pods"), "{message}");
    assert!((0..8).all(|at| w.held(&format!("p{at}")).is_empty()));
    assert_eq!(&*w.condition("p7").reason, "Unschedulable");
}

#[test]
fn members_above_the_minimum_are_placed_after_and_never_fail_the_group() {
    let mut w = World::new();
    w.node(node("n1", 3));
    group(&mut w, gang("g", 2));
    for name in ["a", "b", "c", "d"] {
        w.pod(member(name, 1));
    }
    w.run();
    let bound = ["a", "b", "c", "d"].into_iter().filter(|name| w.bound(name) == "n1").count();
    assert_eq!(bound, 3);
    assert_eq!(&*w.condition("d").reason, "Unschedulable");
    w.node(node("n2", 1));
    w.wait_secs(3);
    assert_eq!(w.bound("d"), "n2");
}

#[test]
fn a_part_with_a_minimum_must_have_it() {
    let with_roles = || {
        let role = |name: &str, min_member| SubGroup::of_role(name.into(), min_member);
        PodGroup { sub_groups: vec![role("master", 1), role("worker", 2)], ..gang("g", 3) }
    };
    let of = |name: &str, role: &str, cpu| {
        let mut pod = member(name, cpu);
        pod.gang.as_mut().expect("a member").hints[0].role = Some(role.into());
        pod
    };
    let mut w = World::new();
    w.node(node("n1", 3));
    group(&mut w, with_roles());
    for name in ["w1", "w2", "w3"] {
        w.pod(of(name, "worker", 1));
    }
    w.wait_secs(6);
    assert_eq!(&*w.condition("w1").message, "waiting for 0 of 1 members of master");
    w.pod(of("m", "master", 1));
    w.run();
    assert_eq!(w.bound("m"), "n1");
    assert_eq!(["w1", "w2", "w3"].into_iter().filter(|name| w.bound(name) == "n1").count(), 2);
}

/// Two stages of two, each of a leader and a worker, of which one stage is enough.
#[test]
fn parts_of_parts_have_minimums_of_their_own() {
    let stage = |name: &str| SubGroup { min_groups: Some(2), ..SubGroup::of_role(name.into(), 0) };
    let leaf = |name: &str, parent: &str| SubGroup {
        parent: Some(parent.into()),
        ..SubGroup::of_role(name.into(), 1)
    };
    // Whoever is part of another may come before it.
    let sub_groups =
        vec![leaf("l1", "s1"), leaf("l2", "s2"), leaf("w1", "s1"), leaf("w2", "s2"), stage("s1")];
    let mut sub_groups = sub_groups;
    let nobody_is_s2 = PodGroup { sub_groups: sub_groups.clone(), ..gang("g", 2) };
    sub_groups.push(stage("s2"));
    let quorum = Quorum::SubGroups(1);
    let whole = PodGroup { sub_groups, quorum, resource_version: 2, ..gang("g", 0) };
    let of = |role: &str| {
        let mut pod = member(role, 1);
        pod.gang.as_mut().expect("a member").hints[0].role = Some(role.into());
        pod
    };
    let mut w = World::new();
    w.node(node("n1", 3));
    group(&mut w, nobody_is_s2);
    w.pod(of("l1"));
    w.pod(of("l2"));
    w.wait_secs(6);
    let told = w.condition("l1").message.to_string();
    assert!(told.contains("sub-group l2 is part of s2, which is no sub-group"), "{told}");
    group(&mut w, whole);
    w.wait_secs(70);
    assert_eq!(&*w.condition("l1").message, "waiting for 0 of 1 groups of g");
    assert_eq!([w.bound("l1"), w.bound("l2")], ["", ""]);
    w.pod(of("w2"));
    w.wait_secs(2);
    assert_eq!([w.bound("l2"), w.bound("w2")], ["n1", "n1"]);
}

#[test]
fn mixed_priorities_and_schedulers_are_refused_with_a_text_that_says_so() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1).priority(1));
    w.pod(member("b", 1).priority(2));
    w.wait_secs(6);
    let text = "members of pod group default/g have different priorities: 1 and 2";
    assert_eq!(&*w.condition("a").message, text);
    group(&mut w, PodGroup { priority: Some(7), ..gang("h", 1) });
    w.pod(pod("c", 1).grouped("h"));
    w.wait_secs(6);
    assert!(w.condition("c").message.contains("has priority 7, its members have priority 0"));
}

#[test]
fn each_bind_carries_the_commit() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1));
    w.pod(member("b", 1));
    let bind = w.bind_of("a");
    let Op::Bind { plan: Some(note), .. } = &bind.op else { panic!("{:?}", bind.op) };
    assert_eq!(note.to_string(), "uid-of-g/1/2");
}

/// The older pod of what waited before the engine began goes first, whatever order they are listed in.
#[test]
fn what_waited_before_is_ranked_by_age() {
    let setup = Setup { watches: vec!["pods".into()], ..Setup::default() };
    let mut w = World::with(setup);
    w.node(node("n1", 1));
    for (name, created) in [("young", 200_000), ("old", 100_000)] {
        w.pod(Pod { created: Timestamp(created), ..pod(name, 1) });
    }
    w.input(Input::Watch { kind: "pods".into(), synced: true });
    w.run();
    assert_eq!([w.bound("young"), w.bound("old")], ["", "n1"]);
}

#[test]
fn a_group_is_ranked_by_its_object() {
    let mut w = World::new();
    group(&mut w, PodGroup { priority: Some(5), uneven_priorities: true, ..gang("g", 2) });
    w.pod(member("a", 1));
    w.pod(pod("single", 1).priority(1));
    w.pod(member("b", 1));
    w.node(node("n1", 2));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("single")], ["n1", "n1", ""]);
}

#[test]
fn groups_of_groups_start_with_as_many_as_they_need() {
    let composite = |name: &str, min: u32| {
        let mut group = gang(name, min);
        group.key = GroupKey { kind: GroupKind::Groups, ..group.key };
        group
    };
    let child = |name: &str| PodGroup { parent: Some("all".into()), ..gang(name, 2) };
    let mut w = World::new();
    w.node(node("n1", 5));
    for name in ["x", "y", "z"] {
        group(&mut w, child(name));
        for at in 0..2 {
            w.pod(pod(&format!("{name}{at}"), 1).grouped(name).owned());
        }
    }
    w.wait_secs(6);
    assert_eq!(&*w.condition("x0").message, "waiting for pod group all");
    group(&mut w, composite("all", 2));
    w.run();
    let bound = |w: &World, group: &str| {
        (0..2).filter(|at| w.bound(&format!("{group}{at}")) == "n1").count()
    };
    let mut counts = ["x", "y", "z"].map(|group| bound(&w, group));
    counts.sort_unstable();
    assert_eq!(counts, [0, 2, 2], "no group of the three is bound in part");
}

#[test]
fn a_circle_of_groups_is_told() {
    let composite = |name: &str, parent: &str| {
        let group = PodGroup { parent: Some(parent.into()), ..gang(name, 1) };
        let kind = GroupKind::Groups;
        PodGroup { key: GroupKey { kind, ..group.key.clone() }, ..group }
    };
    let mut w = World::new();
    group(&mut w, composite("one", "two"));
    group(&mut w, composite("two", "one"));
    group(&mut w, PodGroup { parent: Some("one".into()), ..gang("g", 1) });
    w.pod(member("a", 1));
    w.wait_secs(6);
    assert!(w.condition("a").message.contains("are in a circle"), "{}", w.condition("a").message);
}

#[test]
fn a_bound_group_of_ten_thousand_waits_at_no_great_cost() {
    let mut w = World::new();
    group(&mut w, gang("g", 20_000));
    for at in 0..2_000 {
        w.pod(member(&format!("p{at}"), 1));
    }
    w.think();
    assert_eq!(w.engine.queue().entries().count(), 1);
}

/// One of them waits at Permit for a pod that doesn't come.
#[test]
fn members_wait_for_each_other_until_the_deadline_and_let_everything_go_then() {
    let mut w = World::new();
    w.node(node("n1", 2));
    group(&mut w, PodGroup { deadline: Some(Span::from_secs(60)), ..gang("g", 2) });
    w.pod(member("a", 1).label("permit", "key"));
    w.pod(member("b", 1));
    w.wait_secs(59);
    assert_eq!((w.held("a"), w.held("b")), ("n1".into(), "n1".into()));
    assert_eq!([w.bound("a"), w.bound("b")], ["", ""]);
    w.wait_secs(2);
    assert_eq!((w.held("a"), w.held("b")), (String::new(), String::new()));
    let told = w.condition("b");
    assert_eq!(&*told.reason, "Unschedulable");
    assert!(told.message.contains("was not there within 60 s"), "{}", told.message);
    // What comes after all finds them waiting.
    w.pod(pod("key", 0));
    w.wait_secs(301);
    assert_eq!([w.bound("a"), w.bound("b")], ["n1", "n1"]);
}
