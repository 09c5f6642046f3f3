//! Bugs that were planted in Berth, and the rows that convict it of them.
//!
//! Each is played by a campaign of its own, in a process of its own, because the bug is named by
//! the environment.

use std::path::Path;
use std::process::Command;

use crate::campaign::Tally;
use crate::failed::{Failed, Outcome};

/// Names the bug to a Berth that was built with the feature `planted-bugs`.
const VARIABLE: &str = "BERTH_PLANTED_BUG";

/// A bug and the row in which it shows.
pub struct Planted {
    pub bug: &'static str,
    pub row: &'static str,
    /// A row whose repeats differ may need several.
    repeats: &'static str,
    /// Whether CI plays it: those that are found in seconds.
    pub share: bool,
}

const fn planted(bug: &'static str, row: &'static str) -> Planted {
    Planted { bug, row, repeats: "1", share: false }
}

const fn shared(bug: &'static str, row: &'static str) -> Planted {
    Planted { bug, row, repeats: "1", share: true }
}

/// All that can show on a real control plane; `no-fence` is the simulator's alone.
pub const PLANTED: &[Planted] = &[
    shared("forget-unknown-bind", "F14"),
    planted("stale-is-no", "F03b"),
    shared("terminating-frees", "F00"),
    planted("lost-wakeup", "F00"),
    planted("deaf-to-pod-deletions", "F00"),
    planted("deaf-to-new-nodes", "F00"),
    shared("deaf-to-node-deletions", "F00"),
    planted("deaf-to-node-updates", "F00"),
    planted("deaf-to-other-schedulers", "F00"),
    shared("ignores-taints", "F00"),
    planted("undercounts", "F00"),
    planted("silent", "F00"),
    planted("refused-is-done", "F13"),
    planted("stale-is-done", "F48"),
    planted("unknown-is-done", "F15"),
    Planted { repeats: "6", ..planted("binds-namesakes", "F45") },
    planted("writes-unled", "F36"),
    planted("leads-at-once", "F36"),
    Planted { repeats: "2", ..planted("never-relists", "F05") },
    planted("loses-the-first-event", "F06"),
    shared("forget-unknown-claim", "F14d"),
    planted("claim-without-version", "F18"),
    shared("bind-before-claim", "F18"),
    planted("trusts-pools", "F21"),
    planted("no-take-back", "F17"),
    Planted { repeats: "3", ..planted("takes-back-unowned", "F17") },
    planted("takes-back-started", "F29"),
    planted("releases-hold-early", "F29"),
    planted("counts-gated-members", "F27"),
    shared("told-unschedulable-unseen", "F27"),
    shared("forgets-note", "F25"),
    planted("half-gang-binds", "F25"),
    planted("late-member-starts-alone", "F25"),
];

/// Plays each bug in its row, and counts those that were convicted.
///
/// # Errors
/// [`Failed::Io`] if a campaign can't be started.
pub fn convict(berth: &Path, wanted: impl Fn(&Planted) -> bool) -> Outcome<Tally> {
    let own = std::env::current_exe().map_err(Failed::io("finding our own program"))?;
    let mut tally = Tally::default();
    for Planted { bug, row, repeats, .. } in PLANTED.iter().filter(|planted| wanted(planted)) {
        let mut campaign = Command::new(&own);
        campaign.args(["--rows", row, "--count", repeats]).env("BERTH", berth).env(VARIABLE, bug);
        let played = campaign.output().map_err(Failed::io("starting a campaign"))?;
        let said = String::from_utf8_lossy(&played.stdout);
        match conviction(&said) {
            Some(by) => {
                println!("{bug} is convicted in {row}: {by}");
                tally.passed += 1;
            }
            None => {
                println!("{bug} got away in {row}:\n{said}");
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

/// Returns what a campaign has against the scheduler. A scene that could not be set up, or a fault
/// that took no effect, is nothing against anybody.
fn conviction(said: &str) -> Option<&str> {
    let but = said.lines().find_map(|line| line.trim_start().strip_prefix("but:"))?.trim();
    (but.starts_with("repeat") && !but.contains("took no effect")).then_some(but)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rows::ROWS;

    #[test]
    fn thirty_three_bugs_are_planted_each_in_a_row_that_there_is() {
        let bugs: BTreeSet<&str> = PLANTED.iter().map(|planted| planted.bug).collect();
        assert_eq!(bugs.len(), 33);
        let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.id).collect();
        for Planted { bug, row, .. } in PLANTED {
            assert!(rows.contains(row), "{bug} is to show in {row}");
        }
    }

    #[test]
    fn only_what_the_scheduler_did_convicts_it() {
        let said = |but: &str| format!("F00 FAILED with berth: …\n  must: …\n  but:  {but}\n");
        assert_eq!(conviction(&said("repeat 0: 1 x I2: …")), Some("repeat 0: 1 x I2: …"));
        assert_eq!(conviction(&said("the scene: no etcd")), None);
        assert_eq!(conviction(&said("repeat 0: the injection took no effect")), None);
        assert_eq!(conviction("F00 holds with berth: …"), None);
    }
}
