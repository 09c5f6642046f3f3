//! Groups with objects: what they lack, how they are searched, committed, completed, taken back.

use berth_core::engine::{Input, Notice, Setup, Write, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::queue::Station;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKind, GroupPhase, GroupTold, SubGroup, SubGroupMembers};
use berth_core::types::pod::Phase;
use berth_core::types::{GroupKey, Pod, PodGroup, Span, Timestamp};

use crate::build::{USUAL, With, gang, labelled, node, pod};
use crate::harness::{World, refused};

fn group(w: &mut World, group: PodGroup) {
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(group))));
}

fn member(name: &str, cpu: i64) -> Pod {
    pod(name, cpu).grouped("g").owned()
}

fn binds(w: &mut World) -> Vec<String> {
    w.pending_writes().into_iter().filter(|write| write.starts_with("bind")).collect()
}

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
fn unequal_members_find_the_one_assignment_that_works() {
    for order in [["small", "large"], ["large", "small"]] {
        let mut w = World::new();
        w.node(node("four", 4));
        w.node(node("eight", 8));
        group(&mut w, gang("g", 2));
        for name in order {
            w.pod(member(name, if name == "small" { 4 } else { 8 }));
        }
        w.run();
        assert_eq!([w.bound("small"), w.bound("large")], ["four", "eight"]);
    }
}

/// Both fit on two nodes, so the number of nodes says nothing about who should go first; only going
/// back finds the assignment.
#[test]
fn the_search_goes_back_over_an_earlier_member() {
    let mut w = World::new();
    w.node(labelled(node("a", 3), &[("rank", "100"), ("x", ""), ("y", "")]));
    w.node(labelled(node("b", 3), &[("rank", "1"), ("x", "")]));
    w.node(labelled(node("c", 1), &[("rank", "1"), ("y", "")]));
    group(&mut w, gang("g", 3));
    w.pod(member("p", 3).label("wants", "x"));
    w.pod(member("q", 2).label("wants", "y"));
    w.pod(member("r", 1).label("wants", "y"));
    w.run();
    assert_eq!([w.bound("p"), w.bound("q"), w.bound("r")], ["b", "a", "a"]);
}

#[test]
fn a_group_without_room_says_how_many_places_there_are_and_holds_nothing() {
    let mut w = World::new();
    for at in 0..6 {
        w.node(node(&format!("n{at}"), 8));
    }
    w.node(node("half", 4));
    w.node(node("other-half", 4));
    group(&mut w, gang("g", 8));
    for at in 0..8 {
        w.pod(member(&format!("p{at}"), 8));
    }
    w.run();
    let message = w.condition("p0").message;
    let numbers = "the group needs 8 nodes with 8 cpu free; 6 exist";
    assert!(message.contains(numbers), "{message}");
    assert!(message.contains("it can never fit: the nodes hold 6 such pods"), "{message}");
    assert!((0..8).all(|at| w.held(&format!("p{at}")).is_empty()));
    assert_eq!(&*w.condition("p7").reason, "Unschedulable");
}

#[test]
fn members_above_the_minimum_are_placed_after_and_never_fail_the_group() {
    let mut w = World::new();
    w.node(node("n1", 3));
    group(&mut w, gang("g", 2));
    for name in ["a", "b", "c", "d"] {
        w.pod(member(name, 1));
    }
    w.run();
    let bound = ["a", "b", "c", "d"].into_iter().filter(|name| w.bound(name) == "n1").count();
    assert_eq!(bound, 3);
    assert_eq!(&*w.condition("d").reason, "Unschedulable");
    w.node(node("n2", 1));
    w.wait_secs(3);
    assert_eq!(w.bound("d"), "n2");
}

#[test]
fn a_part_with_a_minimum_must_have_it() {
    let with_roles = || {
        let role = |name: &str, min_member| SubGroup {
            name: name.into(),
            members: SubGroupMembers::Role(name.into()),
            min_member,
            min_groups: None,
            topology: Vec::new(),
        };
        PodGroup { sub_groups: vec![role("master", 1), role("worker", 2)], ..gang("g", 3) }
    };
    let of = |name: &str, role: &str, cpu| {
        let mut pod = member(name, cpu);
        pod.gang.as_mut().expect("a member").hints[0].role = Some(role.into());
        pod
    };
    let mut w = World::new();
    w.node(node("n1", 3));
    group(&mut w, with_roles());
    for name in ["w1", "w2", "w3"] {
        w.pod(of(name, "worker", 1));
    }
    w.wait_secs(6);
    assert_eq!(&*w.condition("w1").message, "waiting for 0 of 1 members of master");
    w.pod(of("m", "master", 1));
    w.run();
    assert_eq!(w.bound("m"), "n1");
    assert_eq!(["w1", "w2", "w3"].into_iter().filter(|name| w.bound(name) == "n1").count(), 2);
}

#[test]
fn mixed_priorities_and_schedulers_are_refused_with_a_text_that_says_so() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1).priority(1));
    w.pod(member("b", 1).priority(2));
    w.wait_secs(6);
    let text = "members of pod group default/g have different priorities: 1 and 2";
    assert_eq!(&*w.condition("a").message, text);
    group(&mut w, PodGroup { priority: Some(7), ..gang("h", 1) });
    w.pod(pod("c", 1).grouped("h"));
    w.wait_secs(6);
    assert!(w.condition("c").message.contains("has priority 7, its members have priority 0"));
}

#[test]
fn each_bind_carries_the_commit() {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1));
    w.pod(member("b", 1));
    let bind = w.bind_of("a");
    let Op::Bind { plan: Some(note), .. } = &bind.op else { panic!("{:?}", bind.op) };
    assert_eq!(note.to_string(), "uid-of-g/1/2");
}

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

/// Two of three run; the third is lost, and its place is kept for the one that comes for it.
#[test]
fn the_place_of_a_lost_member_is_kept_for_its_replacement() {
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

/// The older pod of what waited before the engine began goes first, whatever order they are listed in.
#[test]
fn what_waited_before_is_ranked_by_age() {
    let setup = Setup { watches: vec!["pods".into()], ..Setup::default() };
    let mut w = World::with(setup);
    w.node(node("n1", 1));
    for (name, created) in [("young", 200_000), ("old", 100_000)] {
        w.pod(Pod { created: Timestamp(created), ..pod(name, 1) });
    }
    w.input(Input::Watch { kind: "pods".into(), synced: true });
    w.run();
    assert_eq!([w.bound("young"), w.bound("old")], ["", "n1"]);
}

#[test]
fn a_group_is_ranked_by_its_object() {
    let mut w = World::new();
    group(&mut w, PodGroup { priority: Some(5), uneven_priorities: true, ..gang("g", 2) });
    w.pod(member("a", 1));
    w.pod(pod("single", 1).priority(1));
    w.pod(member("b", 1));
    w.node(node("n1", 2));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b"), w.bound("single")], ["n1", "n1", ""]);
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

#[test]
fn groups_of_groups_start_with_as_many_as_they_need() {
    let composite = |name: &str, min: u32| {
        let mut group = gang(name, min);
        group.key = GroupKey { kind: GroupKind::Groups, ..group.key };
        group
    };
    let child = |name: &str| PodGroup { parent: Some("all".into()), ..gang(name, 2) };
    let mut w = World::new();
    w.node(node("n1", 5));
    for name in ["x", "y", "z"] {
        group(&mut w, child(name));
        for at in 0..2 {
            w.pod(pod(&format!("{name}{at}"), 1).grouped(name).owned());
        }
    }
    w.wait_secs(6);
    assert_eq!(&*w.condition("x0").message, "waiting for pod group all");
    group(&mut w, composite("all", 2));
    w.run();
    let bound = |w: &World, group: &str| {
        (0..2).filter(|at| w.bound(&format!("{group}{at}")) == "n1").count()
    };
    let mut counts = ["x", "y", "z"].map(|group| bound(&w, group));
    counts.sort_unstable();
    assert_eq!(counts, [0, 2, 2], "no group of the three is bound in part");
}

#[test]
fn a_circle_of_groups_is_told() {
    let composite = |name: &str, parent: &str| {
        let group = PodGroup { parent: Some(parent.into()), ..gang(name, 1) };
        let kind = GroupKind::Groups;
        PodGroup { key: GroupKey { kind, ..group.key.clone() }, ..group }
    };
    let mut w = World::new();
    group(&mut w, composite("one", "two"));
    group(&mut w, composite("two", "one"));
    group(&mut w, PodGroup { parent: Some("one".into()), ..gang("g", 1) });
    w.pod(member("a", 1));
    w.wait_secs(6);
    assert!(w.condition("a").message.contains("are in a circle"), "{}", w.condition("a").message);
}

#[test]
fn a_bound_group_of_ten_thousand_waits_at_no_great_cost() {
    let mut w = World::new();
    group(&mut w, gang("g", 20_000));
    for at in 0..2_000 {
        w.pod(member(&format!("p{at}"), 1));
    }
    w.think();
    assert_eq!(w.engine.queue().entries().count(), 1);
}

/// A Job whose members end one after the other is neither below its minimum nor short of places.
#[test]
fn members_whose_work_is_done_are_not_missed() {
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
    w.change("c", |pod| pod.phase = Phase::Succeeded);
    w.pod_gone("c");
    w.pod(pod("stranger", 1));
    w.wait_secs(70);
    assert_eq!(w.bound("stranger"), "n1");
    let below = w.notices.iter().any(|notice| matches!(notice, Notice::BelowMinimum { .. }));
    assert!(!below, "{:?}", w.notices);
    assert!(!w.on_server("a").terminating);
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
