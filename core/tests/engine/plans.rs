//! Plans: stages one after the other, each checked, taken back when one fails.

use berth_core::engine::{Input, Notice, WriteResult};
use berth_core::framework::Op;
use berth_core::queue::Station;

use crate::build::{With, node, pod};
use crate::harness::{World, refused, shown, unknown};

#[test]
fn a_plain_pod_is_bound_by_one_write() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1));
    assert_eq!(w.pending_writes(), ["bind p to n1"]);
    assert_eq!(w.held("p"), "n1");
    w.run();
    assert_eq!(w.bound("p"), "n1");
    assert!(matches!(&w.notices[..], [Notice::Scheduled { node, .. }] if node == "n1"));
    assert_eq!(w.engine.under_way(), (0, 0));
    assert_eq!(w.reports.len(), 1);
}

#[test]
fn a_write_uses_the_name_that_the_one_before_brought_back() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("create", "thing-"));
    let create = w.write(|op| matches!(op, Op::Create { .. }));
    assert!(w.pending_writes().is_empty(), "the next stage waits for the outcome");
    w.carry_out(create);
    assert_eq!(w.pending_writes(), [r#"patch Known("made-1") to 1"#]);
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_failed_plan_is_taken_back_newest_first_and_gives_back_the_place() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("create", "thing-"));
    let create = w.write(|op| matches!(op, Op::Create { .. }));
    w.carry_out(create);
    let patch = w.write(|op| matches!(op, Op::Patch { .. }));
    w.carry_out(patch);
    let bind = w.bind_of("p");
    w.answer(&bind, refused(403));
    let undone =
        [r#"patch Known("made-1") to 0"#, r#"delete Known("made-1")"#, "tell p SchedulerError"];
    assert_eq!(w.pending_writes(), undone);
    assert_eq!(w.held("p"), "");
    assert_eq!(w.station("p"), Some(Station::ErrorBackoff));
}

#[test]
fn a_write_without_an_answer_is_taken_back_too_and_undoing_is_tried_again() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("create", "thing-"));
    let create = w.write(|op| matches!(op, Op::Create { .. }));
    w.carry_out(create);
    let patch = w.write(|op| matches!(op, Op::Patch { .. }));
    w.answer(&patch, unknown());
    let undo = w.write(|op| shown(op).contains("to 0"));
    w.answer(&undo, unknown());
    let again = w.write(|op| shown(op).contains("to 0"));
    assert_ne!(undo.id, again.id);
    w.answer(&again, refused(422));
    w.think();
    assert!(w.notices.iter().any(|notice| matches!(notice, Notice::Odd { .. })));
}

#[test]
fn a_ten_minute_wait_ends_by_the_event_it_waits_for() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("permit", "go"));
    w.wait_secs(300);
    assert_eq!((w.bound("p"), w.held("p")), (String::new(), "n1".into()));
    w.pod(pod("go", 0));
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_ten_minute_wait_ends_by_its_deadline_and_the_pod_is_told_who_did_not_permit() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("permit", "go"));
    w.wait_secs(599);
    assert_eq!(w.held("p"), "n1");
    w.wait_secs(1);
    assert_eq!((w.bound("p"), w.held("p")), (String::new(), String::new()));
    let told = w.condition("p");
    assert_eq!((&*told.reason, &*told.message), ("Unschedulable", "go did not come in time"));
    // Its own release is no reason to try again; what the plugin waits for is.
    assert_eq!(w.station("p"), Some(Station::Unschedulable));
    w.pod(pod("go", 0));
    w.wait_secs(2);
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_ten_minute_wait_ends_when_its_node_is_deleted() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("permit", "go"));
    w.run();
    w.node_gone("n1");
    w.run();
    assert_eq!((w.held("p"), w.engine.under_way()), (String::new(), (0, 0)));
    w.node(node("n2", 4));
    w.pod(pod("go", 0));
    w.wait_secs(3);
    assert_eq!(w.bound("p"), "n2");
}

#[test]
fn a_wait_ends_with_a_rejection_and_with_the_pods_own_deletion() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("permit", "go"));
    w.pod(pod("q", 1).label("permit", "come"));
    w.run();
    w.pod(pod("not-go", 0));
    w.run();
    assert_eq!(&*w.condition("p").message, "permit withdrawn");
    w.change("q", |q| q.terminating = true);
    w.run();
    assert_eq!((w.held("p"), w.held("q")), (String::new(), String::new()));
    w.pod_gone("q");
    w.run();
    assert_eq!(w.station("q"), None);
}

#[test]
fn a_plan_is_checked_again_before_its_next_stage() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 3).label("permit", "go"));
    w.run();
    // Somebody else binds a pod past us.
    w.pod(pod("rival", 3).on("n1"));
    w.pod(pod("go", 0));
    w.run();
    assert_eq!((w.bound("p"), w.held("p")), (String::new(), String::new()));
    w.pod_gone("rival");
    w.wait_secs(3);
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_plan_whose_pod_another_has_bound_stops() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.node(node("n2", 4));
    w.pod(pod("p", 1).label("permit", "go"));
    w.run();
    let other = if w.held("p") == "n1" { "n2" } else { "n1" };
    w.change("p", |p| p.node_name = Some(other.into()));
    w.run();
    assert_eq!(w.held("p"), other);
    assert_eq!((w.engine.under_way(), w.station("p")), ((0, 0), None));
}

#[test]
fn an_outcome_is_counted_once() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1));
    let bind = w.bind_of("p");
    w.answer(&bind, WriteResult::Done(Default::default()));
    w.answer(&bind, refused(403));
    w.answer(&bind, unknown());
    w.think();
    assert_eq!((w.held("p"), w.notices.len()), ("n1".into(), 1));
}

#[test]
fn the_watch_may_show_a_bind_before_its_answer_comes() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1));
    let bind = w.bind_of("p");
    w.change("p", |p| p.node_name = Some("n1".into()));
    w.think();
    w.answer(&bind, unknown());
    w.think();
    assert_eq!((w.held("p"), w.engine.under_way()), ("n1".into(), (0, 0)));
    assert!(w.writes.is_empty());
}

#[test]
fn draining_ends_what_is_under_way_and_begins_nothing() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 1).label("create", "thing-"));
    w.think();
    w.input(Input::Drain);
    w.pod(pod("late", 1));
    w.run();
    assert_eq!((w.bound("p"), w.bound("late")), ("n1".into(), String::new()));
}

#[test]
fn a_watch_that_lost_its_place_holds_only_those_who_need_it() {
    struct ByLabel;
    impl berth_core::engine::Dependence for ByLabel {
        fn needs(&self, kind: &str, pod: &berth_core::types::Pod) -> Option<bool> {
            (kind == "claims").then(|| pod.labels.value("claim").is_some())
        }
    }
    let setup = berth_core::engine::Setup {
        watches: vec!["pods".into(), "claims".into()],
        dependence: std::sync::Arc::new(ByLabel),
        ..Default::default()
    };
    let mut w = World::with(setup);
    w.node(node("n1", 8));
    let watch =
        |w: &mut World, kind: &str, synced| w.input(Input::Watch { kind: kind.into(), synced });
    watch(&mut w, "pods", true);
    w.pod(pod("early", 1));
    assert!(w.pending_writes().is_empty(), "the first lists are waited for by everybody");
    watch(&mut w, "claims", true);
    watch(&mut w, "claims", false);
    w.pod(pod("plain", 1));
    w.pod(pod("claims", 1).label("claim", "c"));
    w.run();
    assert_eq!([w.bound("early"), w.bound("plain"), w.bound("claims")], ["n1", "n1", ""]);
    watch(&mut w, "claims", true);
    w.run();
    assert_eq!(w.bound("claims"), "n1");
    watch(&mut w, "pods", false);
    w.pod(pod("late", 1));
    assert!(w.pending_writes().is_empty(), "everybody depends on pods");
    watch(&mut w, "pods", true);
    w.run();
    assert_eq!(w.bound("late"), "n1");
}

#[test]
fn nothing_is_decided_before_the_watches_have_synced() {
    let setup = berth_core::engine::Setup { watches: vec!["pods".into()], ..Default::default() };
    let mut w = World::with(setup);
    w.node(node("n1", 4));
    w.pod(pod("p", 1));
    assert!(w.pending_writes().is_empty());
    w.input(Input::Watch { kind: "pods".into(), synced: true });
    w.run();
    assert_eq!(w.bound("p"), "n1");
}
