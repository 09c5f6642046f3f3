//! Running many seeds with the real plugins: shared by the tests and the example `seeds`.

#[path = "engine.rs"]
mod engine;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use berth_sim::fault::{Effects, Fault};
use berth_sim::{Options, SeedReport, Violation, run_seed};

use engine::engine;

/// Which seeds to run, and how.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) start: u64,
    pub(crate) count: u64,
    pub(crate) threads: usize,
    /// Run each seed twice and compare the histories (I16).
    pub(crate) twice: bool,
    /// Go on after a failure.
    pub(crate) all: bool,
    pub(crate) options: Options,
}

impl Default for Batch {
    fn default() -> Batch {
        let options = Options::default();
        Batch { start: 0, count: 5000, threads: 2, twice: false, all: false, options }
    }
}

/// What came of a batch.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) seeds: u64,
    pub(crate) bound: usize,
    pub(crate) waiting: usize,
    pub(crate) effects: Effects,
    /// By seed.
    pub(crate) failed: Vec<SeedReport>,
}

impl Batch {
    pub(crate) fn run(&self) -> Sum {
        let sum = Mutex::new(Sum::default());
        let next = AtomicU64::new(self.start);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.start + self.count {
                            return;
                        }
                        let report = self.one(seed);
                        if report.violation.is_some() && !self.all {
                            stop.store(true, Ordering::Relaxed);
                        }
                        sum.lock().unwrap_or_else(PoisonError::into_inner).add(report);
                    }
                });
            }
        });
        let mut sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        sum.failed.sort_by_key(|report| report.seed);
        sum
    }

    fn one(&self, seed: u64) -> SeedReport {
        let mut report = run_seed(&engine, seed, &self.options);
        if self.twice && report.violation.is_none() {
            let again = run_seed(&engine, seed, &self.options);
            if again.hash != report.hash {
                let text = "two runs of it differ".to_owned();
                let at = berth_sim::seed::START;
                report.violation = Some(Violation { invariant: "I16", at, text });
            }
        }
        report
    }
}

impl Sum {
    fn add(&mut self, report: SeedReport) {
        self.seeds += 1;
        self.bound += report.bound;
        self.waiting += report.waiting;
        self.effects.add(&report.effects);
        if report.violation.is_some() {
            self.failed.push(report);
        }
    }

    /// Returns the faults that never took effect: the run proves nothing about them.
    pub(crate) fn silent(&self) -> Vec<Fault> {
        Fault::all().filter(|fault| self.effects.of(*fault) == 0).collect()
    }
}

/// Says what went wrong, and the command that repeats it.
pub(crate) fn verdict(report: &SeedReport, options: &Options) -> String {
    let Some(violation) = &report.violation else { return String::new() };
    let (features, bug) = match &options.bug {
        Some(bug) => (" --features planted-bugs", format!(" --bug {bug}")),
        None => ("", String::new()),
    };
    let seed = report.seed;
    let (invariant, at, text) = (violation.invariant, violation.at.0, &violation.text);
    let repeat = format!("cargo run -p berth-sim{features} --example seeds -- --seed {seed}{bug}");
    format!("seed {seed}: {invariant} at {at} ms: {text}\nrepeat it: {repeat} --trace")
}
