//! Consultants: nothing blocks while they think.

use std::sync::Arc;

use berth_core::engine::{Answer, Consultant, Input, Setup};
use berth_core::queue::Station;
use berth_core::types::{Pod, Span, Timestamp};

use crate::build::{With, node, pod};
use crate::harness::World;

struct Oracle(&'static str);

impl Consultant for Oracle {
    fn name(&self) -> &'static str {
        self.0
    }

    fn interested(&self, pod: &Pod) -> bool {
        pod.labels.value("ask").is_some_and(|who| who.split('+').any(|who| who == self.0))
    }

    fn deadline(&self, asked: Timestamp) -> Timestamp {
        asked + Span::from_secs(30)
    }
}

fn world() -> World {
    let setup = Setup {
        consultants: vec![Arc::new(Oracle("pythia")), Arc::new(Oracle("sibyl"))],
        ..Setup::default()
    };
    let mut w = World::with(setup);
    w.node(node("n1", 4));
    w.node(node("n2", 4));
    w
}

fn allowed(names: &[&str]) -> Answer {
    Answer::Allowed(names.iter().map(|name| (*name).into()).collect())
}

#[test]
fn others_go_on_while_a_question_is_open_and_the_answer_is_honoured() {
    let mut w = world();
    w.pod(pod("p", 1).label("ask", "pythia"));
    w.pod(pod("q", 1));
    w.run();
    assert_eq!((w.bound("p"), w.bound("q").is_empty()), (String::new(), false));
    assert_eq!(w.questions[0].nodes, ["n1", "n2"]);
    let question = w.questions[0].clone();
    w.reply(&question, allowed(&["n2"]));
    w.run();
    assert_eq!(w.bound("p"), "n2");
}

#[test]
fn a_question_that_is_answered_late_changes_nothing() {
    let mut w = world();
    w.pod(pod("p", 1).label("ask", "pythia"));
    w.run();
    let question = w.questions[0].clone();
    w.wait_secs(30);
    assert_eq!(w.station("p"), Some(Station::ErrorBackoff));
    assert_eq!(&*w.condition("p").message, "pythia did not answer in time");
    w.reply(&question, allowed(&["n1"]));
    w.run();
    assert_eq!((w.bound("p"), w.questions.len()), (String::new(), 1));
    w.wait_secs(2);
    assert_eq!(w.questions.len(), 2, "it is asked anew after its backoff");
}

#[test]
fn every_interested_consultant_is_asked_about_what_the_one_before_left() {
    let mut w = world();
    w.pod(pod("p", 1).label("ask", "pythia+sibyl"));
    w.run();
    let first = w.questions[0].clone();
    w.reply(&first, allowed(&["n1"]));
    w.run();
    let second = w.questions[1].clone();
    assert_eq!((second.consultant, second.nodes.len()), ("sibyl", 1));
    w.reply(&second, allowed(&[]));
    w.run();
    assert_eq!(w.station("p"), Some(Station::Unschedulable));
    assert!(w.condition("p").message.contains("2 node(s) refused by extender"));
}

#[test]
fn a_failed_answer_is_an_error_and_an_answer_while_draining_begins_nothing() {
    let mut w = world();
    w.pod(pod("p", 1).label("ask", "pythia"));
    w.pod(pod("q", 1).label("ask", "pythia"));
    w.run();
    let (p, q) = (w.questions[0].clone(), w.questions[1].clone());
    w.reply(&p, Answer::Failed("no smoke today".into()));
    w.run();
    assert_eq!(&*w.condition("p").reason, "SchedulerError");
    w.input(Input::Drain);
    w.reply(&q, allowed(&["n1"]));
    w.run();
    assert_eq!(w.held("q"), "");
}

#[test]
fn an_answer_names_nodes_so_a_newcomer_in_a_freed_slot_is_not_allowed() {
    let mut w = world();
    w.pod(pod("p", 1).label("ask", "pythia"));
    w.run();
    let question = w.questions[0].clone();
    w.reply(&question, allowed(&["n2"]));
    w.node_gone("n2");
    w.node(node("n3", 4));
    w.run();
    assert_eq!((w.bound("p"), w.held("p")), (String::new(), String::new()));
}

#[test]
fn the_question_of_a_deleted_pod_is_forgotten() {
    let mut w = world();
    w.pod(pod("p", 1).label("ask", "pythia"));
    w.run();
    let question = w.questions[0].clone();
    w.pod_gone("p");
    w.reply(&question, allowed(&["n1"]));
    w.wait_secs(60);
    assert_eq!((w.engine.under_way(), w.engine.queue().entries().count()), ((0, 0), 0));
}
