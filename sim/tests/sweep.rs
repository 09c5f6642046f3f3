//! A crash at every write of a group of eight with claims leaves no half of it, whoever goes on.

#[path = "support/engine.rs"]
mod engine;

use berth_sim::{Crash, Phase, Story, Successor, run_sweep};
use engine::engine;

/// Members that are bound in the end.
fn expected(story: Story) -> usize {
    match story {
        Story::Owned | Story::Bare => 8,
        Story::Refused => 0,
    }
}

/// Protecting a claim, writing what is allocated, the bind: these of eight members at least, in each
/// phase, with each successor.
const POINTS: u64 = 3 * 8 * 4 * 2;

/// Returns the number of points.
fn swept(story: Story) -> u64 {
    let clean = run_sweep(&engine, story, None, false);
    assert_eq!(clean.violation, None, "{story:?} without a crash");
    assert_eq!(clean.bound, expected(story), "{story:?} without a crash");
    let mut points = 0;
    for write in 1..=clean.writes {
        for phase in Phase::ALL {
            for successor in [Successor::Restarted, Successor::Standby] {
                let crash = Crash { write, phase, successor };
                let report = run_sweep(&engine, story, Some(crash), false);
                assert_eq!(report.violation, None, "{story:?} {crash:?}");
                assert!(report.crashed, "{story:?} {crash:?} did not take place");
                assert_eq!(report.bound, expected(story), "{story:?} {crash:?}");
                points += 1;
            }
        }
    }
    points
}

#[test]
fn a_job_s_group_survives_a_crash_at_every_write() {
    assert!(swept(Story::Owned) >= POINTS);
}

#[test]
fn a_bare_group_survives_a_crash_at_every_write() {
    // Trying the binds comes on top.
    assert!(swept(Story::Bare) >= POINTS + 8 * 4 * 2);
}

#[test]
fn a_group_with_a_refused_member_is_taken_back_whatever_dies() {
    // Telling seven why they go, and deleting them, comes on top.
    assert!(swept(Story::Refused) >= POINTS + 2 * 7 * 4 * 2);
}
