//! Groups that gather: what holds them, and what members and objects are told meanwhile.

use berth_core::queue::Station;
use berth_core::types::PodGroup;
use berth_core::types::group::{GroupPhase, GroupTold};

use crate::build::{With, gang, node, pod};
use crate::gangs::{group, member};
use crate::harness::World;

#[test]
fn members_wait_for_their_object_and_come_in_any_order() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(member("a", 1));
    w.pod(member("b", 1));
    w.run();
    assert_eq!(w.station("a"), Some(Station::Gated { plugin: "Gangs" }));
    w.wait_secs(5);
    assert_eq!(&*w.condition("a").message, "waiting for pod group g");
    assert_eq!(&*w.condition("b").reason, "NotReadyForScheduling");
    group(&mut w, gang("g", 2));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b")], ["n1", "n1"]);
}

#[test]
fn a_group_that_gathers_quickly_tells_nothing() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1));
    w.wait_secs(4);
    w.pod(member("b", 1));
    w.run();
    assert!(w.server.pods.values().all(|pod| pod.unscheduled.is_none()));
    assert_eq!(w.bound("b"), "n1");
}

/// The members come one after the other, and all are told the number that there are in the end.
#[test]
fn members_are_told_how_many_there_are_when_they_are_told() {
    let mut w = World::new();
    group(&mut w, gang("g", 4));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
        w.run();
    }
    w.wait_secs(5);
    for name in ["a", "b", "c"] {
        assert_eq!(&*w.condition(name).message, "waiting for 3 of 4 members of g");
    }
}

#[test]
fn at_most_sixteen_members_a_second_are_told() {
    let mut w = World::new();
    group(&mut w, gang("g", 100));
    for at in 0..40 {
        w.pod(member(&format!("p{at}"), 1));
    }
    let told = |w: &World| w.server.pods.values().filter(|pod| pod.unscheduled.is_some()).count();
    w.wait_secs(4);
    assert_eq!(told(&w), 0);
    w.wait_secs(1);
    assert_eq!(told(&w), 16);
    w.wait_secs(1);
    assert_eq!(told(&w), 32);
    w.wait_secs(1);
    assert_eq!(told(&w), 40);
}

#[test]
fn a_minimum_that_is_lowered_lets_the_group_in_at_once() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 4));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    w.run();
    assert_eq!(w.bound("a"), "");
    group(&mut w, gang("g", 3));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("c")], ["n1", "n1", "n1"]);
}

#[test]
fn the_object_is_told_how_the_group_is() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1));
    w.wait_secs(6);
    assert_eq!(w.told_groups(), [(GroupPhase::Waiting, 0)]);
    w.pod(member("b", 1));
    w.run();
    w.wait_secs(1);
    assert_eq!(w.told_groups(), [(GroupPhase::Waiting, 0), (GroupPhase::Scheduled, 2)]);
}

/// A successor finds what was told, and some objects say nothing more once they are scheduled.
#[test]
fn an_object_that_says_it_already_is_not_told() {
    let waiting = GroupTold {
        phase: GroupPhase::Waiting,
        message: "waiting for 1 of 2 members of g".into(),
        scheduled: 0,
    };
    for said in [
        PodGroup { settled: true, ..gang("g", 2) },
        PodGroup { told: Some(waiting), ..gang("g", 2) },
    ] {
        let mut w = World::new();
        w.node(node("n1", 4));
        group(&mut w, said);
        w.pod(member("a", 1));
        w.wait_secs(20);
        assert_eq!(w.told_groups(), []);
    }
}

#[test]
fn who_waits_for_a_member_that_is_held_waits_for_another_when_it_is_deleted() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 3));
    for pod in [member("a", 1), member("b", 1), member("c", 1).label("gate", "key")] {
        w.pod(pod);
    }
    w.wait_secs(20);
    assert_eq!(&*w.condition("a").message, "waits for key");
    w.pod_gone("c");
    w.wait_secs(90);
    assert_eq!(&*w.condition("a").message, "waiting for 2 of 3 members of g");
}

#[test]
fn whichever_member_is_let_in_first_completes_the_group() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 3));
    for pod in [member("a", 1), member("b", 1)] {
        w.pod(pod);
    }
    for (name, key) in [("c", "never"), ("d", "soon")] {
        w.pod(member(name, 1).label("gate", key));
    }
    w.wait_secs(20);
    assert_eq!(w.bound("a"), "");
    w.pod(pod("soon", 0));
    w.wait_secs(2);
    assert_eq!(["a", "b", "c", "d"].map(|name| w.bound(name)), ["n1", "n1", "", "n1"]);
}
