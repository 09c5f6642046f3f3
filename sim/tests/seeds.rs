//! What the simulation promises: the clean build is never convicted, planted bugs always are.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the runner uses both cores; the library does not"
)]

mod support;

use support::{Batch, verdict};

#[test]
fn five_thousand_seeds_break_no_invariant_and_every_fault_takes_effect() {
    let batch = Batch::default();
    let sum = batch.run();
    if let Some(report) = sum.failed.first() {
        panic!("{}", verdict(report, &batch.options));
    }
    assert_eq!(sum.silent(), [], "faults that never took effect");
}

#[test]
fn fifty_seeds_run_twice_have_the_same_history() {
    let batch = Batch { count: 50, twice: true, ..Batch::default() };
    let sum = batch.run();
    if let Some(report) = sum.failed.first() {
        panic!("{}", verdict(report, &batch.options));
    }
}

/// A planted bug, the seeds within which it is convicted, and the invariant that convicts it.
#[cfg(feature = "planted-bugs")]
const BUGS: [(&str, u64, &[&str]); 5] = [
    ("no-fence", 600, &["I2", "I3"]),
    ("forget-unknown-bind", 100, &["I2", "I3"]),
    ("stale-is-no", 200, &["I2", "I3"]),
    ("terminating-frees", 50, &["I2"]),
    ("lost-wakeup", 50, &["I5"]),
];

#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_convicted() {
    for (bug, count, invariants) in BUGS {
        let options = berth_sim::Options { bug: Some(bug.into()), trace: false };
        let sum = Batch { count, options, ..Batch::default() }.run();
        let convicted = sum.failed.first().and_then(|report| report.violation.as_ref());
        let Some(violation) = convicted else { panic!("{bug} got away with {count} seeds") };
        assert!(invariants.contains(&violation.invariant), "{bug}: {violation:?}");
    }
}
