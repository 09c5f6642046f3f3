//! Searches that are longer than a poll.

use berth_core::engine::Outcome;

use crate::build::{With, labelled, node, pod};
use crate::harness::World;

fn many_nodes(w: &mut World, n: usize) {
    for at in 0..n {
        let rank = (at % 90).to_string();
        w.node(labelled(node(&format!("n{at}"), 4), &[("rank", &rank)]));
    }
}

#[test]
fn a_search_pauses_a_hundred_times_while_binds_go_on() {
    let mut w = World::with_steps(4);
    w.node(node("first", 1));
    w.pod(pod("quick", 1).label("create", "thing-"));
    w.think();
    many_nodes(&mut w, 300);
    w.pod(pod("slow", 2));
    w.poll();
    let mut polls = 0;
    // Each poll goes on; meanwhile the other plan gets its outcomes, stage by stage.
    while w.poll() {
        polls += 1;
        if let Some(write) = w.writes.pop_front() {
            w.carry_out(write);
        }
    }
    assert_eq!(w.bound("quick"), "first");
    w.run();
    assert!(polls >= 100, "{polls}");
    assert!(!w.bound("slow").is_empty());
    let report = w.reports.iter().find(|r| &*r.pod.name == "slow" && r.outcome == Outcome::Planned);
    let report = report.expect("a report for every decision");
    assert!(report.pauses >= 100, "{}", report.pauses);
}

#[test]
fn a_paused_search_looks_again_at_nodes_that_changed_meanwhile() {
    let mut w = World::with_steps(4);
    many_nodes(&mut w, 100);
    w.node(labelled(node("best", 4), &[("rank", "100")]));
    w.node(labelled(node("second", 4), &[("rank", "99")]));
    w.pod(pod("p", 3));
    for _ in 0..30 {
        assert!(w.poll());
    }
    w.pod(pod("rival", 3).on("best"));
    w.node_gone("n1");
    w.run();
    assert_eq!(w.bound("p"), "second");
}

#[test]
fn a_paused_search_sees_a_better_node_that_came_meanwhile() {
    let mut w = World::with_steps(4);
    many_nodes(&mut w, 100);
    w.pod(pod("p", 3));
    for _ in 0..30 {
        assert!(w.poll());
    }
    w.node(labelled(node("best", 4), &[("rank", "100")]));
    w.run();
    assert_eq!(w.bound("p"), "best");
}

#[test]
fn a_paused_search_ends_when_its_pod_goes() {
    let mut w = World::with_steps(4);
    many_nodes(&mut w, 100);
    w.pod(pod("p", 3));
    assert!(w.poll());
    w.pod_gone("p");
    w.run();
    assert!(w.engine.idle());
    assert_eq!(w.engine.queue().counts().in_flight, 0);
}

#[test]
fn a_changed_cluster_is_looked_at_in_portions_too() {
    let mut w = World::with_steps(50);
    many_nodes(&mut w, 100);
    w.pod(pod("a", 1));
    w.pod(pod("b", 1));
    w.run();
    for at in 0..100 {
        w.node(labelled(node(&format!("n{at}"), 8), &[("rank", "1")]));
    }
    w.polls = 0;
    w.pod(pod("c", 1));
    w.run();
    assert!(w.polls > 4, "{}", w.polls);
    assert!(!w.bound("c").is_empty());
}

#[test]
fn one_poll_makes_no_more_plugin_calls_than_its_budget_whatever_it_finds() {
    let mut w = World::with_steps(100);
    many_nodes(&mut w, 10);
    for at in 0..200 {
        w.pod(pod(&format!("p{at}"), 1).label("early", "broken"));
    }
    assert!(w.poll(), "attempts that ask no node have their price as well");
    assert!(w.reports.len() < 50, "{}", w.reports.len());
}
