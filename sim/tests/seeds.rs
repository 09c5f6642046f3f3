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
const BUGS: [(&str, u64, &[&str]); 20] = [
    ("no-fence", 600, &["I2", "I3", "I12"]),
    ("forget-unknown-bind", 100, &["I2", "I3", "I12"]),
    ("stale-is-no", 200, &["I2", "I3", "I12"]),
    ("terminating-frees", 50, &["I2"]),
    ("lost-wakeup", 50, &["I5"]),
    ("forget-unknown-claim", 400, &["I1", "I12"]),
    ("claim-without-version", 400, &["I1", "I10", "I12"]),
    ("bind-before-claim", 50, &["I12"]),
    ("release-not-awaited", 1000, &["I12"]),
    ("conflict-untold", 200, &["F24"]),
    // Half of a group that Permit holds at its barrier is a plan that never ends.
    ("half-gang-binds", 200, &["I4", "I11"]),
    ("no-way-back", 600, &["I5"]),
    ("no-take-back", 100, &["I4"]),
    ("takes-back-unowned", 100, &["I4"]),
    ("takes-back-started", 400, &["I4"]),
    ("forgets-note", 50, &["I4"]),
    ("counts-gated-members", 500, &["I2", "I4"]),
    ("releases-hold-early", 500, &["I4"]),
    ("late-member-starts-alone", 50, &["I4"]),
    ("told-unschedulable-unseen", 50, &["I15"]),
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
