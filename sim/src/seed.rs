//! A seed: one run under faults, then without, judged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use berth_core::types::{Span, Text, Timestamp};

use crate::auditor::Violation;
use crate::fault::{Effects, FaultPlan};
use crate::trial::{MakeEngine, Trial};

/// What to run besides the seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The planted bug that is switched on.
    pub bug: Option<Text>,
    /// Keep every line of the history.
    pub trace: bool,
}

/// What came of a seed.
#[derive(Debug)]
pub struct SeedReport {
    pub seed: u64,
    pub violation: Option<Violation>,
    pub effects: Effects,
    /// Equal for equal runs (I16).
    pub hash: u64,
    /// Pods bound at the end, and pods that wait for a reason.
    pub bound: usize,
    pub waiting: usize,
    /// The history, with [`Options::trace`] only.
    pub lines: Vec<String>,
}

/// Faults strike for so long. Users act a little less.
const SAFETY: Span = Span::from_secs(180);
/// After faults end: the last late commit, restart and node are through by then.
const AFTERMATH: Span = Span::from_secs(60);
/// It is quiet when no object has changed for so long; longer than any backoff and than a
/// condition's rewriting takes.
const STILL: Span = Span::from_secs(75);
/// It must be quiet by then. Pods that end let others run, one after the other.
const QUIET_BY: Span = Span::from_secs(40 * 60);
/// Every pod that waits has been looked at again by then (leftovers, 330 s) and its condition
/// rewritten (60 s).
const LEFTOVERS: Span = Span::from_secs(450);
/// Five rounds of this change nothing: longer than a condition's rewriting takes.
const ROUND: Span = Span::from_secs(70);
/// One more try of who is refused everywhere is over within this.
const TRIED: Span = Span::from_secs(20);
/// Shorter than the backoff after a try.
const TOLD: Span = Span(200);

/// Runs one seed.
pub fn run_seed(make: MakeEngine<'_>, seed: u64, options: &Options) -> SeedReport {
    let mut trial = Trial::new(make, seed, options.bug.clone(), options.trace);
    let ended = catch_unwind(AssertUnwindSafe(|| phases(&mut trial)));
    if let Err(payload) = ended {
        let text = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        trial.auditor.violate("panic", trial.now, text);
    }
    report(trial, seed)
}

fn phases(trial: &mut Trial<'_>) {
    trial.run_until(trial.now + SAFETY);
    trial.stop_faults();
    trial.run_until(trial.now + AFTERMATH);
    if !trial.run_until_still(STILL, QUIET_BY) && !trial.world.denies_some() {
        trial.auditor.violate("I5", trial.now, "it does not come to rest".to_owned());
    }
    settle(trial);
    judge(trial, |trial| {
        trial.auditor.judge_places(&trial.world, trial.now);
        trial.judge_ledger();
    });
    trial.run_until(trial.now + LEFTOVERS);
    judge(trial, |trial| {
        trial.auditor.judge_places(&trial.world, trial.now);
        trial.auditor.judge_reasons(&trial.world, trial.now);
    });
    let version = trial.world.version();
    for round in 1..=5 {
        trial.run_until(trial.now + ROUND);
        // Who is refused is tried again and again.
        settle(trial);
        judge(trial, |trial| trial.judge_ledger());
        // And told where.
        if trial.world.version() != version && !trial.world.denies_some() {
            let text = format!("quiet round {round} changed something");
            trial.auditor.violate("I11", trial.now, text);
        }
    }
}

/// Lets a try that is under way end, and what is told of it arrive.
fn settle(trial: &mut Trial<'_>) {
    // The next may begin just then; the one after it comes much later.
    for _ in 0..3 {
        trial.run_until_idle(TRIED);
        trial.run_until(trial.now + TOLD);
        if trial.is_idle() {
            return;
        }
    }
}

/// Judges unless something is broken already: what follows from that is of no interest.
fn judge(trial: &mut Trial<'_>, by: impl FnOnce(&mut Trial<'_>)) {
    if trial.auditor.violation().is_none() {
        by(trial);
    }
}

fn report(trial: Trial<'_>, seed: u64) -> SeedReport {
    let pods = || trial.world.pods();
    SeedReport {
        seed,
        violation: trial.auditor.violation().cloned(),
        effects: FaultPlan::effects(&trial.plan),
        hash: trial.history.hash(),
        bound: pods().filter(|pod| pod.node_name.is_some()).count(),
        waiting: pods().filter(|pod| pod.node_name.is_none()).count(),
        lines: trial.history.into_lines(),
    }
}

/// The time at which every run starts.
pub const START: Timestamp = Timestamp(1_000_000);
