//! Searches that are longer than a poll.

use berth_core::engine::{CycleReport, Limits, Outcome, ReportLevel, Setup};

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

const SLOW: &[&str] = &["Order", "Slow", "Rank", "Binder"];

fn slow_world(steps_a_poll: u64) -> World {
    let limits = Limits { steps_a_poll, ..Limits::default() };
    let mut w = World::of(SLOW, Setup { limits, report: ReportLevel::Scores, ..Setup::default() });
    for at in 0..10 {
        let rank = (at * 7 % 10).to_string();
        let hard = if at % 3 == 0 { "hard" } else { "easy" };
        w.node(labelled(node(&format!("n{at}"), 4), &[("rank", &rank), (hard, "")]));
    }
    w
}

fn report_of<'a>(w: &'a World, name: &str) -> &'a CycleReport {
    w.reports.iter().find(|r| &*r.pod.name == name).expect("a report for every decision")
}

#[test]
fn a_search_on_a_node_goes_on_where_it_paused_and_gives_the_same_answer() {
    let mut whole = slow_world(1_000_000);
    let mut parts = slow_world(100);
    for w in [&mut whole, &mut parts] {
        w.pod(pod("p", 1).label("slow", "1234"));
        w.run();
    }
    assert_eq!(whole.bound("p"), parts.bound("p"));
    let (whole, parts) = (report_of(&whole, "p"), report_of(&parts, "p"));
    assert_eq!((&whole.best, whole.feasible), (&parts.best, parts.feasible));
    assert_eq!(parts.feasible, 6);
    assert_eq!(whole.pauses, 0);
    assert!(parts.pauses >= 100, "{}", parts.pauses);
    // Nothing was looked for twice.
    let again = parts.steps - whole.steps;
    assert!(again <= 5 * u64::from(parts.pauses), "{again} steps more in {}", parts.pauses);
}

#[test]
fn a_paused_search_on_a_node_ends_when_the_node_goes() {
    let mut w = slow_world(100);
    w.pod(pod("p", 1).label("slow", "5000"));
    for _ in 0..10 {
        assert!(w.poll());
    }
    (0..10).filter(|at| *at != 4).for_each(|at| w.node_gone(&format!("n{at}")));
    w.run();
    assert_eq!(w.bound("p"), "n4");
}

#[test]
fn a_hard_pod_delays_others_by_no_more_than_its_share_of_polls() {
    let polls = |hard: bool| {
        let mut w = slow_world(1000);
        if hard {
            w.pod(pod("hard", 1).label("slow", "100000"));
            for _ in 0..100 {
                assert!(w.poll());
            }
        }
        let before = w.polls;
        (0..200).for_each(|at| w.pod(pod(&format!("p{at}"), 1).label("slow", "5")));
        while w.reports.iter().filter(|r| r.outcome == Outcome::Planned).count() < 200 {
            w.poll();
            assert!(w.polls < 10_000, "others never get their turn");
        }
        let polls = w.polls - before;
        if hard {
            assert!(!w.reports.iter().any(|r| &*r.pod.name == "hard"), "it is far from its end");
            w.run();
            assert!(!w.bound("hard").is_empty(), "and it comes to it");
        }
        polls
    };
    let (alone, beside) = (polls(false), polls(true));
    assert!(alone > 5, "{alone} polls show no share");
    assert!(beside <= alone + alone / 3 + 2, "{beside} polls beside a hard pod, {alone} without");
}

#[test]
fn what_reserve_takes_counts_for_the_poll() {
    let limits = Limits { steps_a_poll: 1_000, ..Limits::default() };
    let setup = Setup { limits, report: ReportLevel::Scores, ..Setup::default() };
    let mut w = World::of(&["Order", "Hold", "Binder"], setup);
    w.node(node("n", 100));
    (0..10).for_each(|at| w.pod(pod(&format!("p{at}"), 1).label("reserve-steps", "900")));
    assert!(w.poll());
    assert!(w.reports.len() <= 2, "{} in one poll", w.reports.len());
    w.run();
    (0..10).for_each(|at| assert_eq!(w.bound(&format!("p{at}")), "n"));
    assert!(report_of(&w, "p9").steps >= 900);
}
