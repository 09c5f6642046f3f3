//! Nominations that stand on objects.

use crate::build::{With, labelled, node, pod};
use crate::harness::World;

fn nominated(name: &str, cpu: i64, node: &str) -> berth_core::types::Pod {
    let mut pod = pod(name, cpu).label("early", "no");
    pod.nominated_node = Some(node.into());
    pod
}

#[test]
fn a_nominated_pod_tries_its_node_first() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.node(labelled(node("best", 4), &[("rank", "9")]));
    let mut p = pod("p", 1);
    p.nominated_node = Some("n1".into());
    w.pod(p);
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn room_that_is_spoken_for_comes_back_when_the_nominated_pod_goes() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.now = w.now + berth_core::types::Span::ZERO;
    let holder = nominated("holder", 3, "n1").priority(5).label("gate", "never");
    w.pod(holder);
    w.pod(pod("p", 2));
    w.run();
    assert_eq!(w.bound("p"), "");
    assert_eq!(&*w.condition("p").message, "0/1 nodes are available: 1 Insufficient cpu.");
    let report = w.reports.last().expect("it was looked at");
    assert_eq!(report.rejected[0].plugin, "Cpu");
    w.pod_gone("holder");
    w.wait_secs(2);
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn room_comes_back_when_the_nomination_is_taken_off_the_object() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(nominated("holder", 3, "n1").priority(5).label("gate", "never"));
    w.pod(pod("p", 2));
    w.run();
    w.change("holder", |holder| holder.nominated_node = None);
    w.wait_secs(2);
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_pod_of_higher_priority_does_not_mind_a_nomination() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(nominated("holder", 3, "n1").priority(5).label("gate", "never"));
    w.pod(pod("p", 2).priority(6));
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_nomination_that_came_to_nothing_is_given_up_and_cleared_on_the_object() {
    let mut w = World::new();
    w.node(node("n1", 4));
    w.pod(nominated("holder", 3, "n1").priority(5));
    w.pod(pod("p", 2));
    w.run();
    assert_eq!(w.on_server("holder").nominated_node, None);
    w.wait_secs(2);
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn a_nomination_may_be_seen_before_its_node() {
    let mut w = World::new();
    w.pod(nominated("holder", 3, "n1").priority(5).label("gate", "never"));
    w.node(node("n1", 4));
    w.pod(pod("p", 2));
    w.run();
    assert_eq!(w.bound("p"), "");
}
