//! Random selectors on random devices: the same value as Kubernetes' code, or an error in the same
//! phase, at the same cost.
//!
//! `make oracle N=20000 FROM=0` runs more of them.

// The pure crate's bans don't bind a test that talks to a process.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod generate;
mod oracle;
mod support;

use std::collections::BTreeMap;
use std::fmt::Write;

use generate::Random;
use oracle::{Oracle, Question};
use support::{Answer, Outcome};

/// How many instances a rule may explain, in percent.
const MOST_PERCENT: usize = 1;

/// Differences that are allowed, each for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// Kubernetes' compiler panics, so there is nothing to compare with.
    KubernetesPanics,
    /// One side ends at the cost limit, within a tenth of which the other stays.
    NearCostLimit,
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn ask(asked: &Question) -> Answer {
    support::ask(&asked.expression, &support::device(&asked.device))
}

fn question(seed: u64) -> Question {
    let mut random = Random::new(seed);
    let expression = generate::selector(&mut random);
    Question { expression, device: generate::device(&mut random) }
}

#[test]
fn selectors_mean_what_they_mean_to_kubernetes() {
    let Some(oracle) = Oracle::build_or_skip() else { return };
    let count = number("ORACLE_N", 5_000);
    let from = number("ORACLE_FROM", 0);
    let questions: Vec<Question> = (from..from + count).map(question).collect();
    let mut hits: BTreeMap<Rule, usize> = BTreeMap::new();
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = String::new();
    for (asked, theirs) in questions.iter().zip(oracle.ask(&questions)) {
        *outcomes.entry(named(&theirs.outcome)).or_default() += 1;
        let ours = ask(asked);
        if ours.same(&theirs) {
            continue;
        }
        match rule(&theirs, &ours) {
            Some(rule) => *hits.entry(rule).or_default() += 1,
            None => show(&mut wrong, &smaller(&oracle, asked), &oracle),
        }
    }
    println!("{count} instances from seed {from}: {outcomes:?}; differences by rule: {hits:?}");
    assert!(wrong.is_empty(), "{wrong}");
    let most = questions.len() * MOST_PERCENT / 100;
    for (rule, count) in hits {
        assert!(count <= most.max(3), "{rule:?} explains {count} instances, {most} are allowed");
    }
    let answered = outcomes.get("answers").copied().unwrap_or_default();
    assert!(answered * 5 > questions.len(), "too few selectors have a value: {outcomes:?}");
}

fn named(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answer(_) => "answers",
        Outcome::Refused => "refused",
        Outcome::Fails => "errors",
        Outcome::Breaks => "panics",
    }
}

/// Returns what explains a difference.
fn rule(theirs: &Answer, ours: &Answer) -> Option<Rule> {
    if theirs.outcome == Outcome::Breaks {
        return Some(Rule::KubernetesPanics);
    }
    let near = |answer: &Answer| answer.cost.is_some_and(|cost| cost > 900_000);
    (near(theirs) && near(ours)).then_some(Rule::NearCostLimit)
}

/// Drops tokens for as long as the sides differ without an explanation.
fn smaller(oracle: &Oracle, asked: &Question) -> Question {
    let mut best = asked.clone();
    for length in [8, 4, 2, 1] {
        let mut at = 0;
        loop {
            let mut tokens = generate::tokens(&best.expression);
            if at + length > tokens.len() {
                break;
            }
            tokens.drain(at..at + length);
            let tried = Question { expression: tokens.join(" "), device: best.device.clone() };
            let theirs = oracle.ask(std::slice::from_ref(&tried)).remove(0);
            let ours = ask(&tried);
            match ours.same(&theirs) || rule(&theirs, &ours).is_some() {
                true => at += 1,
                false => best = tried,
            }
        }
    }
    best
}

fn show(text: &mut String, asked: &Question, oracle: &Oracle) {
    let theirs = oracle.ask(std::slice::from_ref(asked)).remove(0);
    let ours = ask(asked);
    writeln!(text, "{}\n  device: {}", asked.expression, asked.device).expect("a text");
    writeln!(text, "  Kubernetes: {theirs:?}\n  Berth: {ours:?}").expect("a text");
}

/// The golden answers are Kubernetes' own.
#[test]
fn golden_answers_are_those_of_kubernetes() {
    let Some(oracle) = Oracle::build_or_skip() else { return };
    let device = support::h100();
    let lines = support::vectors();
    let questions: Vec<Question> = lines
        .iter()
        .map(|line| Question { expression: line.expression.to_owned(), device: device.clone() })
        .collect();
    for (line, theirs) in lines.iter().zip(oracle.ask(&questions)) {
        assert_eq!(line.answer, theirs.outcome.name(), "{}: {}", line.expression, theirs.error);
        if let Some(cost) = line.cost {
            assert_eq!(Some(cost), theirs.cost, "{}", line.expression);
        }
    }
}
