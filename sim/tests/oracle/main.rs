//! A group is planned if and only if it has a placement: the engine's search against an exhaustive
//! one, over random groups that are small enough for that.
//!
//! `ORACLE_FROM` and `ORACLE_N` choose other seeds.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the runner uses both cores; the library does not"
)]

#[path = "../support/engine.rs"]
mod engine;
mod problem;
mod run;
mod search;
mod spread;
mod spread_cases;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use problem::Problem;
use run::{Verdict, verdict};
use search::feasible;

/// How the two agree on so many problems.
#[derive(Debug, Default)]
struct Sum {
    feasible: u64,
    infeasible: u64,
    budget_reached: Vec<u64>,
    /// Seeds, with what is wrong.
    wrong: Vec<String>,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn compare(claims: bool, count: u64, bug: Option<&str>) -> Sum {
    let (from, count) = (number("ORACLE_FROM", 0), number("ORACLE_N", count));
    let (next, sum) = (AtomicU64::new(from), Mutex::new(Sum::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    let problem = Problem::of(seed, claims);
                    let (truth, said) = (feasible(&problem), verdict(&problem, bug));
                    sum.lock().expect("nobody panics with it").add(seed, truth, said);
                }
            });
        }
    });
    sum.into_inner().expect("nobody panics with it")
}

impl Sum {
    fn add(&mut self, seed: u64, truth: bool, said: Result<Verdict, String>) {
        match truth {
            true => self.feasible += 1,
            false => self.infeasible += 1,
        }
        match (truth, said) {
            (true, Ok(Verdict::Planned)) | (false, Ok(Verdict::Infeasible)) => {}
            (_, Ok(Verdict::BudgetReached)) => self.budget_reached.push(seed),
            (_, said) => {
                self.wrong.push(format!("seed {seed}: {said:?}, it can be placed: {truth}"))
            }
        }
    }

    fn is_right(&mut self) {
        self.wrong.sort();
        let first = &self.wrong[..self.wrong.len().min(20)];
        assert!(self.wrong.is_empty(), "{} differ: {first:#?}", self.wrong.len());
        assert_eq!(self.budget_reached, [], "seeds whose search was not finished");
        // Neither answer is the answer to everything.
        let least = (self.feasible + self.infeasible) / 10;
        assert!(self.feasible >= least && self.infeasible >= least, "{self:?}");
    }
}

#[test]
fn groups_are_planned_if_and_only_if_they_have_a_placement() {
    compare(false, 12_000, None).is_right();
}

#[test]
fn groups_with_claims_are_planned_if_and_only_if_they_have_a_placement() {
    compare(true, 10_000, None).is_right();
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_search_that_never_goes_back_is_convicted() {
    let sum = compare(false, 2000, Some("no-way-back"));
    assert!(!sum.wrong.is_empty(), "no-way-back got away");
}
