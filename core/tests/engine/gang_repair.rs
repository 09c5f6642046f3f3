//! Groups that are bound in part, or have lost a member: completed, taken back, kept a place for.

use berth_core::engine::{Notice, Setup, Write, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::types::group::GroupKind;
use berth_core::types::pod::Phase;
use berth_core::types::{GroupKey, PodGroup, Span};

use crate::build::{USUAL, With, gang, labelled, node, pod};
use crate::gangs::{binds, group, member};
use crate::harness::{World, refused};

/// A group of three with room for all, of which the server refuses to bind c.
fn third_refused() -> World {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 3));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    w.refuse("c", None);
    w
}

#[test]
fn a_group_that_can_not_be_completed_is_taken_back_after_its_time() {
    let mut w = third_refused();
    // It is tried again and again meanwhile.
    w.wait_secs(28);
    assert_eq!([w.bound("a"), w.bound("b")], ["n1", "n1"]);
    assert!(!w.on_server("a").terminating);
    w.wait_secs(4);
    assert!(w.on_server("a").terminating && w.on_server("b").terminating);
    assert!(!w.on_server("c").terminating, "it was never bound");
}

/// What the first member is told comes back as an event of its own, while the others are still told.
#[test]
fn members_that_are_taken_back_are_told_once() {
    let mut w = third_refused();
    w.wait_secs(28);
    w.now = w.now + Span::from_secs(4);
    let first = w.write(|op| matches!(op, Op::SetDisruption { pod, .. } if pod.name == "a"));
    w.carry_out(first);
    let again = w.bind_of("c");
    w.carry_out(again);
    w.now = w.now + Span::from_secs(1);
    let mut told = w.pending_writes();
    told.retain(|write| write.starts_with("disrupt"));
    assert_eq!(told, ["disrupt b GangIncomplete"]);
}

/// Whoever has been told to go completes no group, though the news of it is late.
#[test]
fn members_that_are_being_taken_back_count_no_more() {
    let mut w = third_refused();
    let deletes = |w: &World| w.writes.iter().any(|w| matches!(w.op, Op::DeletePod { .. }));
    while !deletes(&w) {
        w.now = w.now + Span::from_secs(1);
        w.think();
        let (deleted, others) =
            w.writes.drain(..).partition(|w| matches!(w.op, Op::DeletePod { .. }));
        w.writes = deleted;
        others.into_iter().for_each(|write: Write| w.carry_out(write));
    }
    for _ in 0..2 {
        let delete = w.write(|op| matches!(op, Op::DeletePod { .. }));
        w.answer(&delete, WriteResult::Done(Written::default()));
    }
    w.allow("c");
    w.wait_secs(20);
    assert_eq!(w.bound("c"), "");
    w.pod_gone("a");
    w.pod_gone("b");
    w.pod(member("a2", 1));
    w.pod(member("b2", 1));
    w.wait_secs(20);
    assert_eq!(["a2", "b2", "c"].map(|name| w.bound(name)), ["n1", "n1", "n1"]);
}

#[test]
fn nobody_without_a_controller_is_taken_back() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(pod("a", 1).grouped("g"));
    w.pod(pod("b", 1).grouped("g"));
    w.refuse("b", None);
    w.wait_secs(50);
    assert_eq!(w.bound("a"), "n1");
    assert!(!w.on_server("a").terminating);
    let told = w.notices.iter().any(|notice| matches!(notice, Notice::BelowMinimum { .. }));
    assert!(told, "{:?}", w.notices);
}

/// What is bound can't be taken back, so what is missing comes before others.
#[test]
fn who_stays_in_part_has_first_claim_to_the_places_that_are_missing() {
    let mut w = World::new();
    w.node(node("n1", 2));
    group(&mut w, gang("g", 2));
    w.pod(pod("a", 1).grouped("g"));
    w.pod(pod("b", 1).grouped("g"));
    w.refuse("b", None);
    w.wait_secs(50);
    assert_eq!([w.bound("a"), w.bound("b")], ["n1", ""]);
    w.pod(pod("stranger", 1));
    w.wait_secs(30);
    assert_eq!(w.bound("stranger"), "");
    w.allow("b");
    w.wait_secs(30);
    assert_eq!([w.bound("b"), w.bound("stranger")], ["n1", ""]);
    w.pod_gone("a");
    w.pod_gone("b");
    w.wait_secs(2);
    assert_eq!(w.bound("stranger"), "n1", "nothing is kept for a group that is gone");
}

/// Though the place where a member was refused is kept, it is tried elsewhere.
#[test]
fn a_kept_place_holds_nobody_to_where_he_was_refused() {
    let mut w = World::new();
    for name in ["n1", "n2", "n3", "n4"] {
        w.node(node(name, 1));
    }
    group(&mut w, gang("g", 2));
    w.pod(pod("a", 1).grouped("g"));
    w.pod(pod("b", 1).grouped("g"));
    // Refused on three, it is taken to be refused on all.
    w.refuse("b", None);
    w.wait_secs(90);
    let kept: Vec<_> = w.engine.cluster().holds().nodes().collect();
    let [kept] = kept[..] else { panic!("one place is kept: {kept:?}") };
    let kept = w.engine.cluster().nodes().node(kept).expect("it is there").name.to_string();
    w.refuse("b", Some(&kept));
    w.wait_secs(60);
    assert!(!w.bound("b").is_empty() && w.bound("b") != kept, "{kept}");
}

/// Who was not told why it goes doesn't go: it is told again.
#[test]
fn nobody_is_deleted_who_could_not_be_told_why() {
    let mut w = third_refused();
    w.wait_secs(28);
    w.now = w.now + Span::from_secs(4);
    for _ in 0..2 {
        let told = w.write(|op| matches!(op, Op::SetDisruption { .. }));
        w.answer(&told, refused(403));
    }
    w.wait_secs(5);
    assert!(!w.on_server("a").terminating && !w.on_server("b").terminating);
    w.wait_secs(10);
    assert!(w.on_server("a").terminating && w.on_server("b").terminating);
}

#[test]
fn a_refused_member_goes_to_another_node_first() {
    let mut w = World::new();
    w.node(labelled(node("best", 4), &[("rank", "9")]));
    w.node(node("other", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1));
    w.pod(member("b", 1));
    w.refuse("b", Some("best"));
    w.wait_secs(3);
    assert_eq!([w.bound("a"), w.bound("b")], ["best", "other"]);
}

#[test]
fn who_is_refused_everywhere_is_done_without_where_that_is_possible() {
    let mut w = trying();
    w.node(node("n1", 8));
    w.node(node("n2", 4));
    group(&mut w, gang("g", 2));
    w.refuse("a", None);
    w.refuse("d", None);
    // The largest is placed first.
    for (name, cpu) in [("a", 2), ("b", 1), ("c", 1)] {
        w.pod(pod(name, cpu).grouped("g"));
    }
    w.wait_secs(60);
    assert!(!w.bound("b").is_empty() && !w.bound("c").is_empty());
    // Above the minimum it is no other.
    w.pod(pod("d", 1).grouped("g"));
    w.pod(pod("e", 1).grouped("g"));
    w.wait_secs(60);
    assert!(!w.bound("e").is_empty());
    assert_eq!([w.bound("a"), w.bound("d")], ["", ""]);
    // One that was refused is found to be no longer, though the other still is.
    w.allow("d");
    w.wait_secs(60);
    assert!(!w.bound("d").is_empty());
}

/// A world in which every bind of a group is tried first.
fn trying() -> World {
    let mut plugins = USUAL.to_vec();
    let at = plugins.iter().position(|name| *name == "Gangs").expect("a usual plugin");
    plugins[at] = "Trying";
    World::of(&plugins, Setup::default())
}

#[test]
fn binds_without_a_controller_are_tried_before_any_is_sent() {
    let mut w = trying();
    w.node(node("n1", 4));
    w.node(node("n2", 4));
    group(&mut w, gang("g", 2));
    w.pod(pod("a", 3).grouped("g"));
    w.pod(pod("b", 3).grouped("g"));
    let first = w.write(|op| matches!(op, Op::TryBind { pod, .. } if pod.name == "a"));
    let second = w.write(|op| matches!(op, Op::TryBind { pod, .. } if pod.name == "b"));
    w.answer(&first, refused(422));
    w.think();
    assert!(binds(&mut w).is_empty(), "{:?}", binds(&mut w));
    w.carry_out(second);
    w.run();
    assert_eq!((w.held("a"), w.held("b")), (String::new(), String::new()));
    w.wait_secs(3);
    assert!(!w.bound("a").is_empty() && !w.bound("b").is_empty());
}

#[test]
fn a_successor_completes_what_its_predecessor_began() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 3));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    let bind = w.bind_of("a");
    w.carry_out(bind);
    w.restart();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 3));
    w.run();
    assert_eq!([w.bound("b"), w.bound("c")], ["n1", "n1"]);
}

/// A group of three that has started, and fills its node.
fn three_that_run() -> World {
    let mut w = World::new();
    w.node(node("n1", 3));
    group(&mut w, gang("g", 3));
    for name in ["a", "b", "c"] {
        w.pod(member(name, 1));
    }
    w.run();
    for name in ["a", "b", "c"] {
        w.change(name, |pod| pod.phase = Phase::Running);
    }
    w.wait_secs(61);
    w
}

/// Two of three run; the third is lost, and its place is kept for the one that comes for it.
#[test]
fn the_place_of_a_lost_member_is_kept_for_its_replacement() {
    let mut w = three_that_run();
    w.pod_gone("c");
    w.pod(pod("stranger", 1));
    w.run();
    assert_eq!(w.bound("stranger"), "");
    let told = w.notices.iter().any(|notice| matches!(notice, Notice::BelowMinimum { .. }));
    assert!(told);
    w.pod(member("d", 1));
    w.run();
    assert_eq!(w.bound("d"), "n1");
    w.pod_gone("d");
    w.wait_secs(400);
    assert_eq!(w.bound("stranger"), "n1", "a place is kept for some time only");
}

/// A Job whose members end one after the other is neither below its minimum nor short of places.
#[test]
fn members_whose_work_is_done_are_not_missed() {
    let mut w = three_that_run();
    w.change("c", |pod| pod.phase = Phase::Succeeded);
    w.pod_gone("c");
    w.pod(pod("stranger", 1));
    w.wait_secs(70);
    assert_eq!(w.bound("stranger"), "n1");
    let below = w.notices.iter().any(|notice| matches!(notice, Notice::BelowMinimum { .. }));
    assert!(!below, "{:?}", w.notices);
    assert!(!w.on_server("a").terminating);
}

/// A part whose members have all done their work and are gone is no part that is missing.
#[test]
fn a_part_that_is_done_counts_while_another_runs() {
    let mut w = World::new();
    w.node(node("n1", 8));
    let key = |name: &str| GroupKey { kind: GroupKind::Groups, ..gang(name, 1).key };
    group(&mut w, PodGroup::gang(key("all"), "uid-of-all", 2));
    for name in ["x", "y"] {
        group(&mut w, PodGroup { parent: Some("all".into()), ..gang(name, 1) });
        w.pod(pod(&format!("{name}-0"), 1).grouped(name).owned());
    }
    w.wait_secs(2);
    assert_eq!([w.bound("x-0"), w.bound("y-0")], ["n1", "n1"]);
    w.change("x-0", |pod| pod.phase = Phase::Succeeded);
    w.pod_gone("x-0");
    w.wait_secs(60);
    assert!(!w.on_server("y-0").terminating);
}

/// A delete without an answer is sent again only while it is right.
#[test]
fn a_delete_that_was_lost_is_looked_at_again() {
    let mut w = third_refused();
    w.wait_secs(28);
    w.now = w.now + Span::from_secs(4);
    for _ in 0..2 {
        let told = w.write(|op| matches!(op, Op::SetDisruption { .. }));
        w.carry_out(told);
    }
    for _ in 0..2 {
        let delete = w.write(|op| matches!(op, Op::DeletePod { .. }));
        w.answer(&delete, WriteResult::Unknown { message: "EOF".into() });
    }
    let deletes = |w: &mut World| w.pending_writes().iter().any(|w| w.starts_with("delete"));
    assert!(!deletes(&mut w));
    // Two are enough from now on.
    group(&mut w, PodGroup { resource_version: 9, ..gang("g", 2) });
    w.wait_secs(30);
    assert!(!w.on_server("a").terminating && !w.on_server("b").terminating);
}

/// As many as before are left, but not the same.
#[test]
fn a_loss_is_told_though_another_came_at_the_same_time() {
    let mut w = three_that_run();
    let told = |w: &World| {
        w.notices.iter().filter(|notice| matches!(notice, Notice::BelowMinimum { .. })).count()
    };
    w.pod_gone("c");
    w.run();
    assert_eq!(told(&w), 1);
    w.pod(member("d", 1));
    let bind = w.bind_of("d");
    w.carry_out(bind);
    w.change("a", |pod| pod.terminating = true);
    w.wait_secs(5);
    assert_eq!(told(&w), 2);
}

/// A part is enough for the whole until its work is done; then the other is waited for again.
#[test]
fn who_waits_is_told_what_is_missing_once_others_are_done() {
    let mut w = World::new();
    w.node(node("n1", 8));
    let key = |name: &str| GroupKey { kind: GroupKind::Groups, ..gang(name, 1).key };
    group(&mut w, PodGroup::gang(key("all"), "uid-of-all", 1));
    group(&mut w, PodGroup { parent: Some("all".into()), ..gang("x", 1) });
    group(&mut w, PodGroup { parent: Some("all".into()), ..gang("y", 2) });
    w.pod(pod("x-0", 1).grouped("x").owned());
    w.wait_secs(2);
    w.pod(pod("y-0", 1).grouped("y").owned());
    w.wait_secs(70);
    assert_eq!(&*w.condition("y-0").message, "waiting for 1 of 2 members of y");
    w.change("x-0", |pod| pod.phase = Phase::Succeeded);
    w.wait_secs(70);
    assert_eq!(&*w.condition("y-0").message, "waiting for 0 of 1 groups of all");
}
