//! What waiting pods are told (promise 5).

use berth_core::engine::{Notice, WriteResult};
use berth_core::framework::Op;
use berth_core::types::{Condition, Span};

use crate::build::{With, node, pod};
use crate::harness::{World, unknown};

fn tell(w: &mut World) -> berth_core::engine::Write {
    w.write(|op| matches!(op, Op::SetCondition { .. }))
}

fn no_room() -> World {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w
}

#[test]
fn a_pod_that_fits_nowhere_is_told_why_with_the_version_that_was_decided_on() {
    let mut w = no_room();
    let write = tell(&mut w);
    let Op::SetCondition { resource_version, condition, nominated_node, .. } = &write.op else {
        unreachable!("it was picked for that");
    };
    assert_eq!(&*condition.message, "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(&*condition.reason, "Unschedulable");
    assert_eq!(*resource_version, w.on_server("p").resource_version);
    assert_eq!(*nominated_node, None);
    assert!(matches!(&w.notices[..], [Notice::FailedScheduling { .. }]));
}

#[test]
fn without_any_node_that_is_what_is_said() {
    let mut w = World::new();
    w.pod(pod("p", 2));
    w.run();
    assert_eq!(&*w.condition("p").message, "no nodes available to schedule pods");
}

#[test]
fn a_condition_is_written_again_at_once_when_its_reasons_change() {
    let mut w = no_room();
    w.run();
    w.change("p", |p| *p = p.clone().label("early", "no"));
    w.node(node("n2", 1));
    w.run();
    assert_eq!(&*w.condition("p").message, "0/2 nodes are available: turned away early.");
}

#[test]
fn a_condition_with_the_same_reasons_is_written_once_a_minute() {
    let mut w = no_room();
    w.run();
    for n in 2..8 {
        w.node(node(&format!("n{n}"), 1));
        w.wait_secs(9);
        assert!(w.condition("p").message.starts_with("0/1 "), "{n}");
    }
    w.wait_secs(6);
    assert_eq!(&*w.condition("p").message, "0/7 nodes are available: 7 Insufficient cpu.");
}

#[test]
fn numbers_that_move_while_a_write_is_under_way_are_written_a_minute_later() {
    let mut w = no_room();
    let write = tell(&mut w);
    w.node(node("n2", 1));
    w.think();
    w.carry_out(write);
    w.run();
    assert!(w.condition("p").message.starts_with("0/1 "));
    w.wait_secs(60);
    assert!(w.condition("p").message.starts_with("0/2 "));
}

#[test]
fn a_stale_condition_is_written_again_when_a_newer_object_is_seen() {
    let mut w = no_room();
    let write = tell(&mut w);
    w.answer(&write, WriteResult::Stale { message: "modified".into() });
    assert!(w.pending_writes().is_empty(), "the same version would be as stale");
    w.change("p", |p| p.generation = 2);
    let write = tell(&mut w);
    w.carry_out(write);
    w.run();
    assert_eq!(&*w.condition("p").reason, "Unschedulable");
}

#[test]
fn a_newer_object_that_was_seen_before_the_stale_answer_counts_too() {
    let mut w = no_room();
    let write = tell(&mut w);
    w.change("p", |p| p.generation = 2);
    w.think();
    w.carry_out(write);
    assert_eq!(w.pending_writes(), ["tell p Unschedulable"]);
}

#[test]
fn a_lost_answer_is_tried_again_a_little_later() {
    let mut w = no_room();
    let write = tell(&mut w);
    w.answer(&write, unknown());
    assert!(w.pending_writes().is_empty());
    w.now = w.now + Span::from_secs(1);
    assert_eq!(w.pending_writes(), ["tell p Unschedulable"]);
}

#[test]
fn what_the_object_says_already_is_not_written() {
    let mut w = World::new();
    w.node(node("n1", 1));
    let mut p = pod("p", 2);
    let message = "0/1 nodes are available: 1 Insufficient cpu.".into();
    p.unscheduled = Some(Condition { reason: "Unschedulable".into(), message });
    w.pod(p);
    assert!(w.pending_writes().is_empty());
}

#[test]
fn a_condition_that_somebody_overwrote_is_written_again_in_its_time() {
    let mut w = no_room();
    w.run();
    let theirs = Condition { reason: "Unschedulable".into(), message: "because".into() };
    w.change("p", |p| p.unscheduled = Some(theirs));
    assert!(w.pending_writes().is_empty());
    w.wait_secs(60);
    assert!(w.condition("p").message.contains("Insufficient cpu"));
}

#[test]
fn a_pod_that_has_its_place_is_not_told_any_more() {
    let mut w = no_room();
    let write = tell(&mut w);
    w.answer(&write, unknown());
    w.node(node("n2", 4));
    w.wait_secs(3);
    assert_eq!(w.bound("p"), "n2");
    w.wait_secs(120);
    assert_eq!(w.condition("p"), Condition { reason: "".into(), message: "".into() });
}

#[test]
fn refusals_of_reserve_and_permit_tell_of_their_node_and_hold_nothing() {
    for key in ["reserve", "permit"] {
        let mut w = World::new();
        w.node(node("n1", 4));
        w.node(node("n2", 4));
        w.pod(pod("p", 1).label(key, "no"));
        w.run();
        let told = w.condition("p");
        assert_eq!(&*told.reason, "Unschedulable");
        assert!(told.message.starts_with("0/1 nodes are available: 1 no"), "{}", told.message);
        assert_eq!(w.held("p"), "");
    }
}
