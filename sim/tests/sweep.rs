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
    assert_eq!(swept(Story::Owned), 328);
}

#[test]
fn a_bare_group_survives_a_crash_at_every_write() {
    assert_eq!(swept(Story::Bare), 392);
}

#[test]
fn a_group_with_a_refused_member_is_taken_back_whatever_dies() {
    assert_eq!(swept(Story::Refused), 0);
}
