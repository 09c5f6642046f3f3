//! An entry is a group of one to n pods.

use berth_core::engine::Setup;
use berth_core::queue::Station;
use berth_core::types::Pod;

use crate::build::{With, labelled, node, pod};
use crate::harness::{World, refused};

fn world() -> World {
    World::new()
}

fn member(name: &str, cpu: i64) -> Pod {
    pod(name, cpu).counted("g", 3)
}

#[test]
fn a_group_waits_for_its_members_and_then_goes_as_one() {
    let mut w = world();
    w.node(node("n1", 4));
    w.pod(member("a", 1));
    w.pod(member("b", 1));
    w.run();
    assert_eq!(w.station("a"), Some(Station::Gated { plugin: "Gangs" }));
    w.wait_secs(5);
    assert!(w.condition("b").message.contains("2 of 3"), "{}", w.condition("b").message);
    w.pod(member("c", 1));
    assert_eq!(w.pending_writes(), ["bind a to n1", "bind b to n1", "bind c to n1"]);
    w.run();
    assert_eq!(w.engine.queue().entries().count(), 0);
}

#[test]
fn a_group_whose_last_member_finds_no_place_holds_nothing() {
    let mut w = world();
    w.node(node("n1", 2));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    w.pod(pod("single", 2));
    w.run();
    for name in ["a", "b", "c"] {
        assert_eq!(w.held(name), "");
        assert_eq!(&*w.condition(name).reason, "Unschedulable");
    }
    assert_eq!(w.bound("single"), "n1");
    w.node(node("n2", 3));
    w.wait_secs(3);
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("c")], ["n2", "n2", "n2"]);
}

#[test]
fn a_group_whose_second_write_is_refused_is_completed_after_its_backoff() {
    let mut w = world();
    w.node(node("n1", 4));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    let (a, b, c) = (w.bind_of("a"), w.bind_of("b"), w.bind_of("c"));
    w.carry_out(a);
    w.answer(&b, refused(403));
    assert_eq!(w.held("b"), "n1", "nothing is taken back before every write has its outcome");
    w.carry_out(c);
    w.run();
    assert_eq!((w.held("a"), w.held("b"), w.held("c")), ("n1".into(), "".into(), "n1".into()));
    assert_eq!(w.station("b"), Some(Station::ErrorBackoff));
    w.wait_secs(2);
    assert_eq!(w.bound("b"), "n1");
    assert_eq!(w.engine.queue().entries().count(), 0);
}

#[test]
fn a_member_that_comes_while_the_plan_is_under_way_is_placed_when_it_ends() {
    let mut w = world();
    w.node(node("n1", 9));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    w.think();
    w.pod(member("late", 1));
    w.think();
    assert_eq!(w.engine.under_way().0, 1, "one plan at a time");
    assert_eq!(w.held("late"), "");
    w.run();
    assert_eq!(w.bound("late"), "n1");
    assert_eq!(w.engine.queue().entries().count(), 0);
}

#[test]
fn a_member_that_comes_does_not_cut_an_error_backoff_short() {
    let mut w = world();
    w.node(node("n1", 9));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1).label("early", "broken"));
    }
    w.run();
    assert_eq!(w.station("a"), Some(Station::ErrorBackoff));
    w.pod(member("late", 1));
    assert_eq!(w.station("late"), Some(Station::ErrorBackoff));
}

#[test]
fn a_group_that_loses_a_member_waits_for_another() {
    let mut w = world();
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    w.run();
    w.pod_gone("a");
    w.node(node("n1", 4));
    w.wait_secs(3);
    assert_eq!(w.station("b"), Some(Station::Gated { plugin: "Gangs" }));
    w.pod(member("d", 1));
    w.run();
    assert_eq!([w.bound("b"), w.bound("c"), w.bound("d")], ["n1", "n1", "n1"]);
}

#[test]
fn members_of_different_needs_are_placed_together() {
    let mut w = world();
    w.node(labelled(node("fast", 2), &[("ssd", "")]));
    w.node(node("slow", 2));
    w.pod(member("a", 2).label("wants", "ssd"));
    w.pod(member("b", 1));
    w.pod(member("c", 1));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("c")], ["fast", "slow", "slow"]);
}

#[test]
fn a_large_group_ends_though_a_poll_is_too_short_for_it() {
    let limits = berth_core::engine::Limits { steps_a_poll: 10, ..Default::default() };
    let setup = Setup { limits, ..Setup::default() };
    let mut w = World::with(setup);
    for n in 0..10 {
        w.node(node(&format!("n{n}"), 4));
    }
    for n in 0..30 {
        w.pod(pod(&format!("p{n}"), 1).counted("g", 30));
    }
    w.run();
    assert!((0..30).all(|n| !w.bound(&format!("p{n}")).is_empty()));
    assert!(w.reports[0].pauses > 1);
}

#[test]
fn one_unknown_bind_of_a_group_keeps_the_plan_open_until_it_is_settled() {
    let mut w = world();
    w.node(node("n1", 4));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    let (a, b, c) = (w.bind_of("a"), w.bind_of("b"), w.bind_of("c"));
    w.carry_out(a);
    w.answer(&b, crate::harness::unknown());
    w.carry_out(c);
    w.think();
    assert_eq!((w.engine.under_way(), w.held("b")), ((1, 1), "n1".into()));
    w.wait_secs(10);
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("c")], ["n1", "n1", "n1"]);
    assert_eq!(w.engine.under_way(), (0, 0));
}
