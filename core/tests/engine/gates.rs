//! PreEnqueue: gates hold pods outside the queue.

use berth_core::queue::Station;

use crate::build::{With, node, pod};
use crate::harness::World;

#[test]
fn a_gate_holds_a_pod_until_a_change_that_it_registered_for() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("gate", "key"));
    w.run();
    assert_eq!(w.station("p"), Some(Station::Gated { plugin: "Gate" }));
    let told = w.condition("p");
    assert_eq!((&*told.reason, &*told.message), ("NotReadyForScheduling", "waits for key"));
    w.pod(pod("other", 0));
    w.node(node("n2", 4));
    w.wait_secs(600);
    assert_eq!(w.attempts("p"), 0);
    w.pod(pod("key", 0));
    w.run();
    assert!(!w.bound("p").is_empty());
}

#[test]
fn a_gate_opens_when_its_pod_changes_and_is_not_told_where_the_api_server_tells() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("gate", "key").label("gate-told", "no"));
    w.run();
    assert_eq!(&*w.condition("p").reason, "");
    w.change("p", |p| p.labels = Default::default());
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_gate_that_closes_while_the_pod_is_queued_holds_it_all_the_same() {
    let mut w = World::new();
    w.pod(pod("key", 0));
    w.pod(pod("p", 1).label("gate", "key"));
    w.pod_gone("key");
    w.node(node("n1", 4));
    w.run();
    assert_eq!(w.station("p"), Some(Station::Gated { plugin: "Gate" }));
    assert_eq!(w.held("p"), "");
}

#[test]
fn a_gated_pod_that_goes_leaves_nothing_behind() {
    let mut w = World::new();
    w.pod(pod("p", 1).label("gate", "key"));
    w.run();
    w.pod_gone("p");
    w.pod(pod("key", 0).on("nowhere"));
    w.run();
    assert_eq!(w.engine.queue().entries().count(), 0);
}
