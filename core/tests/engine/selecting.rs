//! Selectors that cost a lot: what a decision may take for them, and whom it delays.

use berth_core::engine::{Limits, Outcome, ReportLevel, Setup};
use berth_core::snapshot::ClusterEvent;
use berth_core::testkit::{expressions, parse};

use crate::build::{With, labelled, node, pod};
use crate::device_plugins::SELECTING_STEPS;
use crate::harness::World;

const PLUGINS: &[&str] = &["Order", "Slow", "Selects", "Binder"];
const STEPS_A_POLL: u64 = 1_000;

/// Ten nodes with four devices each, which differ in `id`; the last node also has a good one.
fn world() -> World {
    let limits = Limits { steps_a_poll: STEPS_A_POLL, ..Limits::default() };
    let selectors = Some(expressions::tiny());
    let setup = Setup { limits, selectors, report: ReportLevel::Scores, ..Setup::default() };
    let mut w = World::of(PLUGINS, setup);
    for at in 0..10 {
        w.node(labelled(node(&format!("n{at}"), 400), &[]));
        let good = if at == 9 { "; good kind=good id=good" } else { "" };
        let devices = format!("d-0..3 kind=common id={at}#{good}");
        w.events(&format!("slice s{at} node=n{at} devices=\"{devices}\""));
    }
    w
}

impl World {
    fn events(&mut self, text: &str) {
        let events: Vec<ClusterEvent> = parse(text).expect("the statements are well formed");
        events.into_iter().for_each(|event| self.event(event));
    }

    fn steps_of(&self, name: &str) -> u64 {
        let of = |r: &&berth_core::engine::CycleReport| &*r.pod.name == name;
        self.reports.iter().rev().find(of).expect("a report for every decision").steps
    }
}

/// Looks at each device by itself, for so many steps.
fn costly(steps: u64) -> String {
    format!("cost.{steps} && attr.id != none && attr.kind == good")
}

#[test]
fn what_selectors_take_ends_a_decision_and_the_next_goes_on_where_it_ended() {
    let mut w = world();
    // Of 41 devices ten can be looked at in one decision; the only one that does comes last.
    w.pod(pod("p", 1).label("select", &costly(SELECTING_STEPS / 10)));
    w.run();
    let told = w.condition("p").message.to_string();
    assert!(told.contains("not every device was looked at"), "{told}");
    let steps = w.steps_of("p");
    assert!(steps <= SELECTING_STEPS + SELECTING_STEPS / 10 + 10_000, "{steps} steps");
    for _ in 0..4 {
        w.wait_secs(20);
    }
    w.run();
    assert_eq!(w.bound("p"), "n9");
    let ended = w.reports.iter().filter(|report| report.outcome == Outcome::Error).count();
    assert_eq!(ended, 4);
}

#[test]
fn nodes_whose_devices_were_looked_at_are_taken_though_others_were_not() {
    let mut w = world();
    w.pod(
        pod("p", 1).label("select", &format!("cost.{} && attr.id != none", SELECTING_STEPS / 10)),
    );
    w.run();
    assert!(["n0", "n1"].contains(&w.bound("p").as_str()), "{}", w.bound("p"));
    // What the first has left open is known to the others in the end, and they see it.
    for at in 0..6 {
        w.pod(
            pod(&format!("q{at}"), 300)
                .label("select", &format!("cost.{} && attr.id != none", SELECTING_STEPS / 10)),
        );
        w.run();
    }
    (0..6).for_each(|at| assert!(!w.bound(&format!("q{at}")).is_empty(), "q{at}"));
}

#[test]
fn devices_of_a_model_are_looked_at_once() {
    let mut w = world();
    w.pod(pod("each", 1).label("select", "cost.1000 && attr.id != none"));
    w.run();
    assert!(w.steps_of("each") > 40_000, "{}", w.steps_of("each"));
    let mut w = world();
    (0..10).for_each(|at| {
        let devices = "devices=\"d-0..3 kind=common id=x\"";
        w.events(&format!("slice s{at} node=n{at} {devices}"));
    });
    w.pod(pod("kinds", 1).label("select", "cost.1000 && attr.kind == common"));
    w.run();
    assert!(w.steps_of("kinds") < 3_000, "{}", w.steps_of("kinds"));
}

/// Returns how many polls it takes to place 2,000 pods beside so many hostile ones, and what share of
/// the steps these had.
fn polls_beside(hostile: usize, label: (&str, &str)) -> usize {
    let mut w = world();
    for at in 0..hostile {
        let value = label.1.replace('@', &at.to_string());
        w.pod(pod(&format!("hostile-{at}"), 1).label(label.0, &value));
    }
    if hostile > 0 {
        (0..20).for_each(|_| assert!(w.poll()));
    }
    let before = w.polls;
    (0..2_000)
        .for_each(|at| w.pod(pod(&format!("p{at}"), 1).label("slow", &(at % 100).to_string())));
    while w.reports.iter().filter(|r| r.outcome == Outcome::Planned).count() < 2_000 {
        w.poll();
        assert!(w.polls < 50_000, "others never get their turn");
    }
    w.polls - before
}

/// Polls that a pod may have before it counts as hard.
const PATIENCE: usize = 2;

#[test]
fn however_many_pods_are_hard_others_have_their_share_of_polls() {
    let alone = polls_beside(0, ("slow", "0"));
    assert!(alone > 100, "{alone} polls show no share");
    for hostile in [1, 8, 40] {
        let beside = polls_beside(hostile, ("slow", "10000@"));
        let most = alone + alone / 3 + PATIENCE * hostile + 20;
        assert!(beside <= most, "{beside} polls beside {hostile}, {alone} without");
    }
}

#[test]
fn what_one_evaluation_takes_beyond_a_poll_others_have_next() {
    let alone = polls_beside(0, ("slow", "0"));
    for hostile in [1, 8, 40] {
        // Each evaluation takes ten polls' steps: after it others have ten polls.
        let select = format!("cost.{} && attr.id != @", 10 * STEPS_A_POLL);
        let beside = polls_beside(hostile, ("select", &select));
        let most = alone + alone / 5 + PATIENCE * hostile;
        assert!(beside <= most, "{beside} polls beside {hostile}, {alone} without");
    }
}
