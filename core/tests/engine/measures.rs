//! What metrics ask of the engine and its queue.

use berth_core::engine::measures::Measures;
use berth_core::engine::{PermitWait, Setup, WriteResult};
use berth_core::types::Span;

use crate::build::{SCHEDULER, USUAL, With, node, pod};
use crate::harness::World;

fn all(w: &World) -> Measures {
    let mut all = Measures::default();
    for measures in &w.measures {
        all.bound.extend(measures.bound.iter().cloned());
        all.failed_plans.extend(measures.failed_plans.iter().cloned());
        all.permit_waits.extend(&measures.permit_waits);
        all.preemption_attempts += measures.preemption_attempts;
        all.victims.extend(&measures.victims);
    }
    all
}

fn arrivals(w: &World) -> Vec<String> {
    let arrivals = w.engine.queue().arrivals();
    arrivals.map(|a| format!("{} {} {}", a.queue, a.event, a.pods)).collect()
}

#[test]
fn a_bind_tells_attempts_and_since_when_the_pod_was_there() {
    let mut w = World::new();
    let begun = w.now;
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w.wait_secs(5);
    w.node(node("n2", 4));
    w.wait_secs(5);
    let bound = all(&w).bound;
    assert_eq!(bound.len(), 1);
    let (pod, attempts) = (&*bound[0].pod.name, bound[0].attempts);
    assert_eq!((pod, attempts, bound[0].first_active), ("p", 2, begun));
    assert_eq!((&*bound[0].scheduler_name, bound[0].flushed), (SCHEDULER, false));
    assert!(w.engine.poll(w.now).measures == Measures::default(), "each is handed out once");
}

#[test]
fn a_pod_that_is_bound_after_waiting_long_says_so() {
    let mut w = World::new();
    w.node(node("n1", 4));
    // The gate's plugin takes it for pending, and nobody tells it when that has changed.
    w.pod(pod("p", 9));
    w.run();
    assert!(w.engine.queue().entries().all(|entry| !entry.flushed));
    w.wait_secs(400);
    assert!(w.engine.queue().entries().all(|entry| !entry.flushed), "it was turned away again");
    assert!(arrivals(&w).iter().any(|line| line.contains("UnschedulableTimeout 1")));
}

#[test]
fn a_failed_bind_and_a_refused_permit_end_their_plans() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1));
    let bind = w.bind_of("p");
    w.answer(&bind, WriteResult::Refused { code: 422, message: "no".into() });
    w.pod(pod("q", 1).label("permit", "go"));
    w.wait_secs(600);
    let failed = all(&w).failed_plans;
    let failed: Vec<_> = failed.iter().map(|f| (&*f.pod.name, f.rejected)).collect();
    assert_eq!(failed, [("p", false), ("q", true)]);
    let waits = all(&w).permit_waits;
    assert_eq!(waits, [PermitWait { waited: Span::from_secs(600), allowed: false }]);
}

#[test]
fn victims_are_counted_once_the_preemption_is_begun() {
    let plugins: Vec<&str> = USUAL.iter().copied().chain(["Evict"]).collect();
    let mut w = World::of(&plugins, Setup::default());
    w.node(node("n1", 4));
    w.pod(pod("b", 4).on("n1"));
    w.pod(pod("p", 3).priority(9).label("evict", "b"));
    w.run();
    assert_eq!((all(&w).preemption_attempts, all(&w).victims), (1, vec![1]));
}

#[test]
fn arrivals_are_counted_by_queue_and_event() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w.run();
    w.node(node("n2", 1));
    w.wait_secs(3);
    w.node(node("n3", 4));
    w.wait_secs(3);
    let seen = arrivals(&w);
    let has = |line: &str| assert!(seen.iter().any(|seen| seen == line), "{line} in {seen:?}");
    has("active UnschedulablePodAdd 1");
    has("unschedulable ScheduleAttemptFailure 2");
    has("active PopFromBackoffQ 1");
    has("active NodeAdd 1");
    assert_eq!(w.engine.queue().pod_counts(), w.engine.queue().counts());
}

#[test]
fn waiting_pods_are_counted_by_who_holds_them() {
    let mut w = World::new();
    w.node(node("n1", 1));
    w.pod(pod("p", 2));
    w.pod(pod("q", 2));
    w.run();
    let held: Vec<_> = w.engine.queue().held_by().into_iter().collect();
    assert_eq!(held, [((0, "Cpu"), 2)]);
    let events = w.engine.queue().in_flight_events();
    assert_eq!(events.into_iter().collect::<Vec<_>>(), [("PodPopped", 0)]);
}

#[test]
fn calls_of_plugins_are_counted() {
    let mut w = World::new();
    for n in 0..3 {
        w.node(node(&format!("n{n}"), 4));
    }
    w.pod(pod("p", 1));
    w.run();
    let calls: Vec<_> = w.engine.profiles()[0].calls().collect();
    let of = |point, plugin| calls.iter().find(|c| c.0 == point && c.1 == plugin).map(|c| c.2);
    assert_eq!(of("Filter", "Cpu"), Some(3), "{calls:?}");
    assert!(of("Score", "Rank") >= Some(3), "{calls:?}");
}
