//! Groups that can't be placed as they were told: each member learns why, no attempt is made, and
//! nobody else waits for them.

use std::sync::Arc;

use berth_core::queue::Station;
use berth_core::types::group::{Dialect, GroupKind, Rank};
use berth_core::types::{GroupHint, GroupKey, Pod, PodGroup, PodSpec};

use crate::build::{COUNTED, With, gang, node, pod};
use crate::gangs::{group, member};
use crate::harness::World;

/// An hour in which the pods `held` wait with this text: nothing is placed of them, nor written or
/// thought of again and again, and a pod that comes meanwhile is bound.
fn waits_and_holds_nobody_up(w: &mut World, held: &[&str], text: &str) {
    w.wait_secs(10);
    let (polls, versions) = (w.polls, versions(w, held));
    w.pod(pod("alone", 1));
    w.run();
    assert_eq!(w.bound("alone"), "n1");
    w.wait_secs(3600);
    for name in held {
        assert_eq!(&*w.condition(name).reason, "NotReadyForScheduling", "{name}");
        assert_eq!(&*w.condition(name).message, text, "{name}");
        assert_eq!((w.bound(name), w.attempts(name)), (String::new(), 0), "{name}");
    }
    assert_eq!(self::versions(w, held), versions, "told once");
    assert!(w.polls - polls < 50, "{} polls in an hour", w.polls - polls);
}

fn versions(w: &World, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| w.on_server(name).resource_version).collect()
}

fn world() -> World {
    let mut w = World::new();
    w.node(node("n1", 9));
    w
}

#[test]
fn a_minimum_above_the_number_of_members_is_told_and_once_it_is_lowered_they_are_placed() {
    let mut w = world();
    group(&mut w, gang("g", 9));
    ["a", "b"].iter().for_each(|name| w.pod(member(name, 1)));
    waits_and_holds_nobody_up(&mut w, &["a", "b"], "waiting for 2 of 9 members of g");
    group(&mut w, gang("g", 2));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b")], ["n1", "n1"]);
}

#[test]
fn mixed_priorities_are_told_and_once_they_agree_the_group_is_placed() {
    let mut w = world();
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1).priority(1));
    w.pod(member("b", 1).priority(2));
    let text = "members of pod group default/g have different priorities: 1 and 2";
    waits_and_holds_nobody_up(&mut w, &["a", "b"], text);
    w.pod_gone("b");
    w.pod(member("c", 1).priority(1));
    w.run();
    assert_eq!([w.bound("a"), w.bound("c")], ["n1", "n1"]);
}

/// A member that another scheduler is to place.
fn of_another_scheduler(pod: Pod) -> Pod {
    let spec = PodSpec { scheduler_name: "someone-else".into(), ..PodSpec::clone(&pod.spec) };
    Pod { spec: Arc::new(spec), ..pod }
}

#[test]
fn mixed_schedulers_are_told_and_once_they_agree_the_group_is_placed() {
    let mut w = world();
    group(&mut w, gang("g", 2));
    w.pod(member("a", 1));
    w.pod(of_another_scheduler(member("b", 1)));
    let text = "members of pod group default/g have different schedulers: berth and someone-else";
    waits_and_holds_nobody_up(&mut w, &["a"], text);
    assert!(w.on_server("b").unscheduled.is_none(), "it is not ours to tell");
    w.pod_gone("b");
    w.wait_secs(60);
    assert_eq!(&*w.condition("a").message, "waiting for 1 of 2 members of g");
    w.pod(member("c", 1));
    w.run();
    assert_eq!([w.bound("a"), w.bound("c")], ["n1", "n1"]);
}

#[test]
fn groups_in_a_circle_are_told_and_once_it_is_broken_they_are_placed() {
    let composite = |name: &str, parent: Option<&str>| {
        let group = PodGroup { parent: parent.map(Into::into), ..gang(name, 1) };
        let kind = GroupKind::Groups;
        PodGroup { key: GroupKey { kind, ..group.key.clone() }, ..group }
    };
    let mut w = world();
    group(&mut w, composite("one", Some("two")));
    group(&mut w, composite("two", Some("one")));
    group(&mut w, PodGroup { parent: Some("one".into()), ..gang("g", 2) });
    ["a", "b"].iter().for_each(|name| w.pod(member(name, 1)));
    w.wait_secs(10);
    let text = w.condition("a").message;
    assert!(text.starts_with("pod groups are in a circle: "), "{text}");
    waits_and_holds_nobody_up(&mut w, &["a", "b"], &text);
    group(&mut w, composite("two", None));
    w.run();
    assert_eq!([w.bound("a"), w.bound("b")], ["n1", "n1"]);
}

#[test]
fn a_group_of_groups_that_is_its_own_parent_is_told() {
    let all = PodGroup { parent: Some("all".into()), ..gang("all", 1) };
    let key = GroupKey { kind: GroupKind::Groups, ..all.key.clone() };
    let mut w = world();
    group(&mut w, PodGroup { key, ..all });
    group(&mut w, PodGroup { parent: Some("all".into()), ..gang("g", 1) });
    w.pod(member("a", 1));
    w.wait_secs(10);
    let text = w.condition("a").message;
    assert!(text.starts_with("pod groups are in a circle: "), "{text}");
    waits_and_holds_nobody_up(&mut w, &["a"], &text);
}

/// Two dialects that count alike name different groups.
fn in_two_groups(name: &str) -> Pod {
    let other = Dialect { rank: Rank::Counted, name: "other" };
    let hint = |dialect, group: &str| GroupHint {
        min_member: Some(1),
        needs_object: false,
        ..GroupHint::of_object(dialect, group.into())
    };
    let mut pod = pod(name, 1);
    pod.add_group_hint(hint(COUNTED, "x"));
    pod.add_group_hint(hint(other, "y"));
    pod
}

#[test]
fn a_pod_in_two_groups_is_told_both_and_one_of_a_higher_rank_decides() {
    let mut w = world();
    w.pod(in_two_groups("a"));
    w.run();
    assert_eq!(w.station("a"), Some(Station::Gated { plugin: "Gangs" }));
    let text =
        "the pod is in two groups: counted says \"x\", other says \"y\"; remove one of the two";
    waits_and_holds_nobody_up(&mut w, &["a"], text);
    group(&mut w, gang("g", 1));
    w.pod(in_two_groups("b").grouped("g"));
    w.run();
    assert_eq!(w.bound("b"), "n1");
}

#[test]
fn a_group_larger_than_any_is_told_and_costs_no_search() {
    let mut w = world();
    let names: Vec<String> = (0..16_385).map(|at| format!("m{at}")).collect();
    group(&mut w, gang("g", 2));
    names.iter().for_each(|name| w.pod(member(name, 1)));
    let text = "pod group default/g has 16385 members; at most 16384 are supported";
    w.pod(pod("alone", 1));
    w.wait_secs(15);
    assert_eq!(w.bound("alone"), "n1");
    let told = names.iter().map(|name| w.condition(name).message).filter(|said| !said.is_empty());
    let told: Vec<_> = told.collect();
    // Sixteen a second, from the fifth on.
    assert!((100..=200).contains(&told.len()), "{}", told.len());
    assert!(told.iter().all(|said| **said == *text), "{told:?}");
    assert!(w.reports.iter().all(|report| &*report.pod.name == "alone"), "nothing was looked for");
}
