//! The queue as the engine uses it: backoff windows, hints, changes in flight, orders.

use berth_core::engine::Setup;
use berth_core::queue::Station;
use berth_core::types::{Span, Timestamp};

use crate::build::{With, node, pod};
use crate::harness::{World, refused};

#[test]
fn a_rejected_pod_waits_until_a_hint_finds_a_change_helpful() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w.run();
    assert_eq!(w.station("p"), Some(Station::Unschedulable));
    w.pod(pod("other", 9).label("early", "no"));
    w.wait_secs(30);
    assert_eq!(w.attempts("p"), 1);
    w.node(node("n2", 4));
    w.run();
    assert_eq!(w.bound("p"), "n2");
}

#[test]
fn a_change_while_the_pod_is_looked_at_counts_when_it_is_turned_away() {
    let mut w = World::with_steps(4);
    for n in 0..50 {
        w.node(node(&format!("n{n}"), 1));
    }
    w.pod(pod("p", 2));
    assert!(w.poll());
    // The search has paused; the freed pod would be forgotten otherwise.
    w.pod(pod("gone", 1).on("n1"));
    w.pod_gone("gone");
    w.think();
    assert_eq!(w.attempts("p"), 2, "looked at again, since something was freed meanwhile");
}

#[test]
fn changes_before_the_attempt_do_not_count_after_it() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("gone", 1).on("n1"));
    w.pod_gone("gone");
    w.pod(pod("p", 2));
    w.run();
    assert_eq!((w.attempts("p"), w.station("p")), (1, Some(Station::Unschedulable)));
}

#[test]
fn what_is_pending_goes_straight_to_the_active_queue() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("pending", "thing"));
    w.run();
    assert_eq!(w.station("p"), Some(Station::Unschedulable));
    w.pod(pod("thing", 0));
    assert_eq!(w.station("p"), Some(Station::Active));
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_woken_pod_sits_out_its_backoff_while_others_are_active() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w.run();
    w.node(node("n2", 1));
    assert_eq!(w.station("p"), Some(Station::Backoff));
    let (at, _) = w.engine.next_wakeup().expect("a backoff ends");
    assert!(at >= w.now + Span::from_secs(1), "it lasts at least a second");
    assert!(at <= w.now + Span::from_secs(2), "and at most a window more");
    // With nobody active it is taken early.
    w.run();
    assert_eq!((w.attempts("p"), w.station("p")), (2, Some(Station::Unschedulable)));
}

#[test]
fn an_error_backs_off_and_is_never_taken_early() {
    let mut w = World::new();
    w.now = Timestamp(1_000_999);
    w.pod(pod("p", 1).label("early", "broken"));
    w.run();
    assert_eq!(w.station("p"), Some(Station::ErrorBackoff));
    w.node(node("n1", 4));
    w.wait(Span(1000));
    assert_eq!(w.attempts("p"), 1, "a second has not passed in full");
    w.wait(Span(1));
    assert_eq!(w.attempts("p"), 2);
    let mut gaps = Vec::new();
    let mut last = w.now;
    for attempt in 3..8 {
        while w.attempts("p") < attempt {
            w.wait(Span(500));
        }
        gaps.push(w.now.since(last).as_millis() / 1000);
        last = w.now;
    }
    assert!(
        gaps.iter().zip([2, 4, 8, 10, 10]).all(|(gap, least)| (least..=least + 2).contains(gap)),
        "{gaps:?}"
    );
}

#[test]
fn a_refused_bind_backs_off_as_an_error() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1));
    let bind = w.bind_of("p");
    w.answer(&bind, refused(422));
    w.run();
    assert_eq!(w.station("p"), Some(Station::ErrorBackoff));
    w.wait_secs(2);
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn what_nobody_wakes_is_looked_at_again_after_five_minutes() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w.run();
    w.wait_secs(299);
    assert_eq!(w.attempts("p"), 1);
    w.wait_secs(32);
    assert_eq!(w.attempts("p"), 2);
}

#[test]
fn a_rejector_that_registered_for_nothing_is_retried_on_any_change() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("wants", "ssd"));
    w.run();
    let mut ssd = node("n1", 4);
    ssd.labels = crate::build::labels_of(&[("ssd", "")]);
    w.node(ssd);
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn higher_priority_goes_first_then_who_came_first() {
    let mut w = World::new();
    w.pod(pod("late-low", 1));
    w.pod(pod("low", 1).priority(-1));
    w.pod(pod("high", 1).priority(7));
    w.node(node("n1", 1));
    w.run();
    assert_eq!((w.bound("high"), w.bound("late-low")), ("n1".into(), String::new()));
    let order: Vec<_> = w.reports.iter().map(|report| report.pod.name.to_string()).collect();
    assert_eq!(order, ["high", "late-low", "low"]);
}

#[test]
fn an_ordering_may_ask_the_ledger_and_change_its_mind_after_each_placement() {
    let mut w = World::of(&["Shares", "Cpu", "Binder"], Setup::default());
    w.node(node("n1", 9));
    for n in 0..3 {
        w.pod(pod(&format!("a{n}"), 1).namespace("a"));
    }
    for n in 0..3 {
        w.pod(pod(&format!("b{n}"), 1).namespace("b"));
    }
    w.run();
    let order: Vec<_> = w.reports.iter().map(|report| report.pod.name.to_string()).collect();
    assert_eq!(order, ["a0", "b0", "a1", "b1", "a2", "b2"]);
}

#[test]
fn a_priority_that_changes_in_the_queue_counts() {
    let mut w = World::new();
    w.pod(pod("a", 1));
    w.pod(pod("b", 1));
    w.change("b", |b| b.priority = 5);
    w.node(node("n1", 1));
    w.run();
    assert_eq!(w.bound("b"), "n1");
}

#[test]
fn a_disabled_backoff_does_not_spin() {
    let mut policy = berth_core::queue::BackoffPolicy::UPSTREAM;
    policy.max = Span::ZERO;
    let mut w = World::with(Setup { backoff: policy, ..Setup::default() });
    w.pod(pod("p", 1).label("early", "broken"));
    w.run();
    w.wait_secs(10);
    assert!((5..=12).contains(&w.attempts("p")), "{}", w.attempts("p"));
}

#[test]
fn pods_of_others_and_pods_on_their_way_out_are_not_queued() {
    let mut w = World::new();
    w.node(node("n1", 4));
    let mut other = pod("other", 1);
    let mut spec = (*other.spec).clone();
    spec.scheduler_name = "someone-else".into();
    other.spec = spec.into();
    w.pod(other);
    let mut leaving = pod("leaving", 1);
    leaving.terminating = true;
    w.pod(leaving);
    w.run();
    assert_eq!(w.engine.queue().entries().count(), 0);
    w.pod(pod("p", 9));
    w.run();
    w.change("p", |p| p.terminating = true);
    assert_eq!(w.station("p"), None);
}
