//! A plugin that fails costs a pod an attempt, nothing else (promise 8).

use berth_core::queue::Station;

use crate::build::{USUAL, With, labelled, node, pod};
use crate::harness::World;

#[test]
fn a_plugin_that_panics_costs_that_pod_an_attempt_and_the_ledger_goes_on() {
    for point in ["classify", "filter", "reads", "pre-bind", "bind"] {
        let mut w = World::new();
        w.node(node("n1", 4));
        w.pod(pod("bad", 1).label("panic", point).label("alone", "9").label("wants", "x"));
        if point != "filter" {
            w.node(labelled(node("n1", 4), &[("x", "")]));
        }
        w.pod(pod("good", 1));
        w.run();
        assert_eq!(w.bound("good"), "n1", "{point}");
        assert_eq!((w.bound("bad"), w.held("bad")), (String::new(), String::new()), "{point}");
        assert_eq!(w.station("bad"), Some(Station::ErrorBackoff), "{point}");
        let told = w.condition("bad");
        assert_eq!(&*told.reason, "SchedulerError", "{point}");
        assert!(told.message.contains("asked to fail"), "{point}: {}", told.message);
        // It goes on being tried, and works once the fault is gone.
        w.change("bad", |bad| bad.labels = Default::default());
        w.wait_secs(15);
        assert_eq!(w.bound("bad"), "n1", "{point}");
    }
}

#[test]
fn a_hint_that_panics_wakes_the_pod() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2).label("panic", "hint"));
    w.run();
    w.node(node("n2", 4));
    w.wait_secs(3);
    assert_eq!(w.bound("p"), "n2");
}

#[test]
fn a_pod_that_no_plugin_binds_is_an_error_and_holds_nothing() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("bind", "nobody"));
    w.run();
    assert_eq!(w.held("p"), "");
    assert_eq!(w.station("p"), Some(Station::ErrorBackoff));
    assert_eq!(&*w.condition("p").message, "no plugin binds the pod");
}

#[test]
fn a_broken_node_counts_against_itself_only() {
    let mut w = World::new();
    w.node(labelled(node("bad", 4), &[("x", ""), ("broken", "")]));
    w.node(labelled(node("good", 4), &[("x", "")]));
    w.pod(pod("p", 1).label("wants", "x"));
    w.pod(pod("q", 9).label("wants", "x"));
    w.run();
    assert_eq!(w.bound("p"), "good");
    assert_eq!(&*w.condition("q").reason, "Unschedulable");
    let mut w = World::new();
    w.node(labelled(node("bad", 4), &[("x", ""), ("broken", "")]));
    w.pod(pod("p", 1).label("wants", "x"));
    w.run();
    let told = w.condition("p");
    assert_eq!(&*told.reason, "SchedulerError");
    assert!(told.message.contains("the node's data is bad"), "{}", told.message);
}

#[test]
fn a_pod_that_cannot_be_understood_waits_with_the_reason_until_it_can() {
    let mut w = World::of(USUAL, Default::default());
    w.node(node("n1", 4));
    let mut bad = pod("p", 1);
    bad.problem = Some("spec.x is absurd".into());
    w.pod(bad);
    w.pod(pod("q", 1));
    w.run();
    assert_eq!((w.bound("p"), w.bound("q")), (String::new(), "n1".into()));
    assert!(w.condition("p").message.contains("spec.x is absurd"));
    w.change("p", |p| p.problem = None);
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_scorer_that_failed_is_asked_anew() {
    let mut w = World::new();
    w.node(labelled(node("n1", 4), &[("rank", "panic")]));
    w.node(node("n2", 4));
    for name in ["a", "b", "c"] {
        w.pod(pod(name, 1));
    }
    w.run();
    assert_eq!(w.station("c"), Some(Station::ErrorBackoff));
    w.node(labelled(node("n1", 4), &[("rank", "5")]));
    w.wait_secs(2);
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("c")], ["n1", "n1", "n1"]);
}
