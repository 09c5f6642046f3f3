//! Binds whose answer was lost (promises 1 and 2).

use berth_core::engine::{Write, WriteResult};
use berth_core::framework::Op;

use crate::build::{With, node, pod};
use crate::harness::{World, refused, unknown};

/// A world with one place, and a bind for it that has gone out. `q` wants the same place.
fn one_place() -> (World, Write) {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 3));
    let bind = w.bind_of("p");
    w.pod(pod("q", 3));
    w.run();
    (w, bind)
}

#[test]
fn an_unknown_bind_keeps_its_place_until_three_steps_have_been_taken_in_order() {
    let (mut w, bind) = one_place();
    w.answer(&bind, unknown());
    assert_eq!(w.engine.next_wakeup().map(|(at, _)| at), Some(w.now + bind.timeout));
    w.now = w.now + bind.timeout - berth_core::types::Span(1);
    assert!(w.pending_writes().is_empty(), "the server may still carry it out");
    w.now = w.now + berth_core::types::Span(1);
    let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
    assert!(w.pending_writes().is_empty(), "one step after the other");
    assert_eq!(w.held("p"), "n1");
    w.carry_out(read);
    let fence = w.write(|op| matches!(op, Op::Fence { .. }));
    let current = w.on_server("p").resource_version;
    assert!(matches!(fence.op, Op::Fence { resource_version, .. } if resource_version == current));
    assert_eq!((w.held("p"), w.engine.under_way()), ("n1".into(), (1, 1)));
    w.carry_out(fence);
    assert_eq!((w.held("p"), w.engine.under_way()), (String::new(), (0, 0)));
    w.wait_secs(12);
    assert_eq!((w.bound("p"), w.bound("q")), (String::new(), "n1".into()));
}

#[test]
fn an_unknown_bind_that_was_carried_out_is_found_by_the_read() {
    let (mut w, bind) = one_place();
    w.server.carry_out(&bind.op);
    w.answer(&bind, unknown());
    w.wait_secs(5);
    assert_eq!((w.bound("p"), w.held("p"), w.bound("q")), ("n1".into(), "n1".into(), "".into()));
    assert_eq!(w.engine.under_way(), (0, 0));
}

#[test]
fn a_bind_that_commits_between_read_and_fence_is_found_by_another_read() {
    let (mut w, bind) = one_place();
    w.answer(&bind, unknown());
    w.now = w.now + bind.timeout;
    let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
    w.carry_out(read);
    let fence = w.write(|op| matches!(op, Op::Fence { .. }));
    // The proposal that was still inside the store commits.
    w.server.carry_out(&bind.op);
    w.carry_out(fence);
    assert_eq!(w.pending_writes(), ["read p"]);
    w.run();
    assert_eq!((w.held("p"), w.bound("q")), ("n1".into(), String::new()));
    assert_eq!(w.engine.under_way(), (0, 0));
}

#[test]
fn a_stale_bind_is_no_answer_either() {
    let (mut w, bind) = one_place();
    w.answer(&bind, WriteResult::Stale { message: "conflict".into() });
    let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
    w.carry_out(read);
    assert_eq!(w.held("p"), "n1");
    assert!(
        w.pending_writes().is_empty(),
        "unbound now says nothing before the timeout has passed"
    );
    w.wait_secs(4);
    assert_eq!(w.held("p"), "n1");
    w.now = w.now + berth_core::types::Span::from_secs(1);
    assert_eq!(w.pending_writes(), ["read p"]);
}

#[test]
fn a_bind_names_the_version_it_was_decided_on() {
    let (w, bind) = one_place();
    let version = w.on_server("p").resource_version;
    assert!(version > 0);
    assert!(matches!(bind.op, Op::Bind { resource_version, .. } if resource_version == version));
}

#[test]
fn a_bind_that_the_pod_has_overtaken_needs_neither_wait_nor_fence() {
    let (mut w, bind) = one_place();
    let pod = w.on_server("p").clone();
    w.server.put(pod);
    w.answer(&bind, WriteResult::Stale { message: "the object has been modified".into() });
    let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
    assert_eq!(w.held("p"), "n1", "until the read");
    w.carry_out(read);
    assert_eq!((w.held("p"), w.engine.under_way()), (String::new(), (0, 0)));
    // Wherever it still is: it can't be carried out any more.
    assert!(matches!(w.server.carry_out(&bind.op).0, WriteResult::Stale { .. }));
}

#[test]
fn a_bind_beside_a_condition_of_ours_names_no_version() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("p", 8));
    let condition = w.write(|op| matches!(op, Op::SetCondition { .. }));
    w.node(node("n2", 8));
    let bind = w.bind_of("p");
    assert!(matches!(bind.op, Op::Bind { resource_version: 0, .. }));
    w.carry_out(condition);
    w.carry_out(bind);
    assert_eq!(w.bound("p"), "n2");
}

#[test]
fn reads_and_fences_that_fail_are_tried_again_and_the_place_stays_held() {
    let (mut w, bind) = one_place();
    w.answer(&bind, unknown());
    w.now = w.now + bind.timeout;
    for result in [unknown(), refused(500), WriteResult::NotSent { message: "busy".into() }] {
        let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
        w.answer(&read, result);
        assert!(w.pending_writes().is_empty());
        assert_eq!(w.held("p"), "n1");
        w.now = w.now + berth_core::types::Span::from_secs(1);
    }
    let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
    w.carry_out(read);
    let fence = w.write(|op| matches!(op, Op::Fence { .. }));
    w.answer(&fence, unknown());
    assert_eq!(w.held("p"), "n1");
    w.now = w.now + berth_core::types::Span::from_secs(1);
    assert_eq!(w.pending_writes(), ["read p"], "a fence without an answer proves nothing");
}

#[test]
fn the_watch_settles_an_unknown_bind() {
    let (mut w, bind) = one_place();
    w.answer(&bind, unknown());
    let (_, bound) = w.server.carry_out(&bind.op);
    w.pod(bound.expect("it was bound"));
    w.run();
    assert_eq!((w.engine.under_way(), w.held("p")), ((0, 0), "n1".into()));
}

#[test]
fn a_deleted_pod_settles_its_bind_and_frees_the_place() {
    let (mut w, bind) = one_place();
    w.answer(&bind, unknown());
    w.pod_gone("p");
    w.wait_secs(3);
    assert_eq!((w.engine.under_way(), w.bound("q")), ((0, 0), "n1".into()));
}

#[test]
fn a_terminating_pod_holds_its_place_while_its_bind_is_unknown() {
    let (mut w, bind) = one_place();
    w.answer(&bind, unknown());
    w.change("p", |p| p.terminating = true);
    w.think();
    assert_eq!(w.held("p"), "n1");
    // Its node's end doesn't make the bind known either.
    w.node_gone("n1");
    w.think();
    assert_eq!(w.engine.under_way(), (1, 1));
}

#[test]
fn a_pod_that_another_has_bound_elsewhere_gives_back_our_place() {
    let (mut w, bind) = one_place();
    w.node(node("n2", 1));
    w.change("p", |p| p.node_name = Some("n2".into()));
    w.think();
    w.answer(&bind, WriteResult::Stale { message: "bound".into() });
    w.wait_secs(3);
    assert_eq!((w.held("p"), w.bound("q")), ("n2".into(), "n1".into()));
}

#[test]
fn a_placed_pod_that_is_terminating_still_holds_its_place() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(pod("old", 3).on("n1"));
    w.pod(pod("p", 3));
    w.change("old", |old| old.terminating = true);
    w.run();
    assert_eq!(w.bound("p"), "");
    w.pod_gone("old");
    w.wait_secs(3);
    assert_eq!(w.bound("p"), "n1");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use super::*;
    use berth_core::engine::Setup;

    fn with_bug(bug: &str) -> World {
        World::with(Setup { bug: Some(bug.into()), ..Setup::default() })
    }

    fn sent(bug: &str) -> (World, Write) {
        let mut w = with_bug(bug);
        w.node(node("n1", 4));
        w.pod(pod("p", 3));
        let bind = w.bind_of("p");
        (w, bind)
    }

    #[test]
    fn each_planted_bug_of_binding_frees_the_place_too_early() {
        let (mut w, bind) = sent("forget-unknown-bind");
        w.answer(&bind, unknown());
        assert_eq!(w.held("p"), "");
        let (mut w, bind) = sent("stale-is-no");
        w.answer(&bind, WriteResult::Stale { message: "conflict".into() });
        assert_eq!(w.held("p"), "");
        let (mut w, bind) = sent("no-fence");
        w.answer(&bind, unknown());
        w.now = w.now + bind.timeout;
        let read = w.write(|op| matches!(op, Op::ReadPod { .. }));
        w.carry_out(read);
        assert_eq!(w.held("p"), "");
    }

    #[test]
    fn planted_bugs_of_folding_free_a_terminating_pod_and_lose_a_wakeup() {
        let mut w = with_bug("terminating-frees");
        w.node(node("n1", 4));
        w.pod(pod("old", 3).on("n1"));
        w.change("old", |old| old.terminating = true);
        assert_eq!(w.held("old"), "");
        let mut w = with_bug("lost-wakeup");
        w.node(node("n1", 4));
        w.pod(pod("old", 3).on("n1"));
        w.pod(pod("p", 3));
        w.run();
        w.pod_gone("old");
        w.wait_secs(60);
        assert_eq!(w.bound("p"), "");
    }
}
