//! Random instances for the allocator: it finds devices exactly when Kubernetes' own allocator
//! does, they are granted rightly, and with `firstFit` they are the very same ones.
//!
//! `make oracle N=50000 FROM=0` runs more of them.

// The crate's bans don't bind a test that talks to a process.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod checker;
mod features;
mod generate;
mod instance;
mod json;
mod oracle;
mod ours;
mod planted;
mod preferred;
mod rules;
mod smaller;

use std::collections::BTreeMap;
use std::fmt::Write;

use features::Covered;
use instance::Instance;
use oracle::{Answer, Oracle, Outcome};
use rules::{Hits, Verdict};

/// Instances asked at once, so that what is kept of them stays small.
const BATCH: u64 = 2_000;
/// Differences shown of each kind at most: each is made as small as it gets.
const SHOWN_MAX: usize = 2;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// What is compared.
type Judge = fn(&Instance, &Answer) -> Verdict;

/// What a run has seen.
#[derive(Default)]
struct Run {
    instances: usize,
    outcomes: BTreeMap<Outcome, usize>,
    covered: Covered,
    hits: Hits,
    /// Seeds of the instances with differences that no rule explains, by kind.
    differences: BTreeMap<String, Vec<u64>>,
}

impl Run {
    fn count(&mut self, seed: u64, instance: &Instance, theirs: &Asked, judge: Judge) {
        self.instances += 1;
        *self.outcomes.entry(theirs.first.outcome).or_default() += 1;
        self.covered.count(instance, &theirs.first.allocations);
        match judge_both(instance, theirs, judge) {
            Verdict::Same => {}
            Verdict::Explained(rule) => self.hits.count(rule),
            Verdict::Differs(kind, _) => self.differences.entry(kind).or_default().push(seed),
        }
    }
}

/// The reference's answers to an instance.
struct Asked {
    first: Answer,
    /// With selectors that always have a value, if it had stopped at one that had none.
    guarded: Option<Answer>,
}

/// Asks the reference, and again where it stopped at a selector.
fn ask(oracle: &Oracle, instances: &[Instance]) -> Vec<Asked> {
    let first = oracle.ask(instances);
    let stopped = |answer: &Answer| answer.outcome == Outcome::Selector;
    let again: Vec<Option<Instance>> = instances
        .iter()
        .zip(&first)
        .map(|(instance, answer)| stopped(answer).then(|| rules::guarded(instance)).flatten())
        .collect();
    let asked: Vec<Instance> = again.iter().flatten().cloned().collect();
    let mut answers = if asked.is_empty() { Vec::new() } else { oracle.ask(&asked) }.into_iter();
    let guarded = again.into_iter().map(|again| again.and_then(|_| answers.next()));
    first.into_iter().zip(guarded).map(|(first, guarded)| Asked { first, guarded }).collect()
}

/// Where the reference stopped at a selector, Berth must still do what it would have done without
/// the devices that the selector has no value for.
fn judge_both(instance: &Instance, theirs: &Asked, judge: Judge) -> Verdict {
    match &theirs.guarded {
        None => judge(instance, &theirs.first),
        Some(guarded) => match judge(instance, guarded) {
            Verdict::Same => judge(instance, &theirs.first),
            other => other,
        },
    }
}

/// Asks the reference about random instances, and judges each answer.
fn run(oracle: &Oracle, judge: Judge) -> Run {
    let (from, count) = (number("ORACLE_FROM", 0), number("ORACLE_N", 5_000));
    let mut run = Run::default();
    let mut next = from;
    while next < from + count {
        let seeds: Vec<u64> = (next..(next + BATCH).min(from + count)).collect();
        let instances: Vec<Instance> = seeds.iter().map(|seed| generate::instance(*seed)).collect();
        let answers = ask(oracle, &instances);
        for ((seed, instance), theirs) in seeds.iter().zip(&instances).zip(&answers) {
            run.count(*seed, instance, theirs, judge);
        }
        next += BATCH;
    }
    run
}

/// Says what was seen, and fails if anything is unexplained.
fn finish(oracle: &Oracle, run: &Run, judge: Judge) {
    let Run { instances, outcomes, covered, hits, differences } = run;
    println!("{instances} instances: {outcomes:?}; differences by rule: {:?}", hits.0);
    let mut text = String::new();
    for seed in differences.values().flat_map(|seeds| seeds.iter().take(SHOWN_MAX)) {
        show(&mut text, *seed, oracle, judge);
    }
    assert!(differences.is_empty(), "differences without explanation: {differences:?}\n{text}");
    hits.check(*instances);
    covered.check(*instances);
    let allocated = outcomes.get(&Outcome::Allocated).copied().unwrap_or_default();
    assert!(allocated * 3 > *instances, "too few instances have a solution: {outcomes:?}");
    assert!(allocated * 10 < *instances * 9, "too few have none: {outcomes:?}");
}

fn show(text: &mut String, seed: u64, oracle: &Oracle, judge: Judge) {
    let instance = generate::instance(seed);
    let theirs = ask(oracle, std::slice::from_ref(&instance)).remove(0);
    let Verdict::Differs(of_kind, _) = judge_both(&instance, &theirs, judge) else {
        unreachable!("it differs")
    };
    let mut differ = |tried: &[Instance]| -> Vec<bool> {
        let answers = ask(oracle, tried);
        let differs = |(instance, theirs)| match judge_both(instance, theirs, judge) {
            Verdict::Differs(kind, _) => kind == of_kind,
            Verdict::Same | Verdict::Explained(_) => false,
        };
        tried.iter().zip(&answers).map(differs).collect()
    };
    let small = smaller::smallest(&instance, &mut differ);
    let theirs = ask(oracle, std::slice::from_ref(&small)).remove(0);
    let Verdict::Differs(_, why) = judge_both(&small, &theirs, judge) else {
        unreachable!("it differs")
    };
    let question = json::question(&small);
    let question = serde_json::to_string(&oracle::without_empty(&question)).expect("JSON");
    writeln!(text, "seed {seed}: {of_kind}, smaller: {question}\n{why}\n").expect("a text");
}

/// The checker accepts what the reference grants, but for its known mistakes.
#[test]
fn the_checker_agrees_with_kubernetes() {
    let Some(oracle) = Oracle::build_or_skip() else { return };
    finish(&oracle, &run(&oracle, rules::judge_reference), rules::judge_reference);
}

#[test]
fn devices_are_found_exactly_when_kubernetes_finds_some() {
    let Some(oracle) = Oracle::build_or_skip() else { return };
    finish(&oracle, &run(&oracle, rules::judge), rules::judge);
}
