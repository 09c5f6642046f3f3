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
    /// Whether the auditor must convict it, by etcd's history and the log alone. Of the others the row
    /// may say that what it expects did not happen.
    pub by_auditor: bool,
    /// A row whose repeats differ may need several.
    repeats: &'static str,
    /// Whether CI plays it: those that are found in seconds.
    pub share: bool,
}

/// Of a bug that nothing in etcd tells of.
const fn by_row(bug: &'static str, row: &'static str) -> Planted {
    Planted { bug, row, by_auditor: false, repeats: "1", share: false }
}

const fn by_auditor(bug: &'static str, row: &'static str) -> Planted {
    Planted { by_auditor: true, ..by_row(bug, row) }
}

impl Planted {
    const fn shared(self) -> Planted {
        Planted { share: true, ..self }
    }

    const fn repeats(self, repeats: &'static str) -> Planted {
        Planted { repeats, ..self }
    }
}

/// All that can show on a real control plane; `no-fence` is the simulator's alone.
pub const PLANTED: &[Planted] = &[
    by_auditor("forget-unknown-bind", "F14").shared(),
    by_auditor("stale-is-no", "F03b"),
    by_auditor("terminating-frees", "F00").shared(),
    by_auditor("lost-wakeup", "F00"),
    by_auditor("deaf-to-pod-deletions", "F00"),
    by_auditor("deaf-to-new-nodes", "F00"),
    by_auditor("deaf-to-node-deletions", "F00").shared(),
    by_auditor("deaf-to-node-updates", "F00"),
    by_auditor("deaf-to-other-schedulers", "F00"),
    by_auditor("ignores-taints", "F00").shared(),
    by_auditor("undercounts", "F00"),
    by_auditor("silent", "F00"),
    by_auditor("refused-is-done", "F13"),
    by_auditor("stale-is-done", "F48"),
    by_auditor("unknown-is-done", "F15"),
    by_row("binds-namesakes", "F45").repeats("6"),
    by_auditor("writes-unled", "F36"),
    by_auditor("leads-at-once", "F36"),
    by_row("never-relists", "F05").repeats("2"),
    by_row("loses-the-first-event", "F06"),
    by_auditor("forget-unknown-claim", "F14d").shared(),
    by_row("claim-without-version", "F18"),
    by_auditor("bind-before-claim", "F18").shared(),
    by_auditor("trusts-pools", "F21"),
    by_auditor("no-take-back", "F17"),
    by_row("takes-back-unowned", "F17").repeats("3"),
    by_row("takes-back-started", "F29"),
    by_row("releases-hold-early", "F29"),
    by_row("counts-gated-members", "F27"),
    by_row("told-unschedulable-unseen", "F27").shared(),
    by_row("forgets-note", "F25").shared(),
    by_auditor("half-gang-binds", "F25"),
    by_row("late-member-starts-alone", "F25"),
];

/// Who has convicted a bug, and of what.
#[derive(Debug, PartialEq, Eq)]
enum By<'a> {
    /// The invariants that are broken.
    Auditor(&'a str),
    /// What should have happened.
    Row(&'a str),
}

/// Plays each bug in its row, and counts those that were convicted by whom they must be.
///
/// # Errors
/// [`Failed::Io`] if a campaign can't be started.
pub fn convict(berth: &Path, wanted: impl Fn(&Planted) -> bool) -> Outcome<Tally> {
    let own = std::env::current_exe().map_err(Failed::io("finding our own program"))?;
    let (mut tally, mut by_auditor) = (Tally::default(), 0);
    for Planted { bug, row, repeats, by_auditor: must, .. } in
        PLANTED.iter().filter(|planted| wanted(planted))
    {
        let mut campaign = Command::new(&own);
        campaign.args(["--rows", row, "--count", repeats]).env("BERTH", berth).env(VARIABLE, bug);
        let played = campaign.output().map_err(Failed::io("starting a campaign"))?;
        let said = String::from_utf8_lossy(&played.stdout);
        let convicted = conviction(&said);
        match &convicted {
            Some(By::Auditor(what)) => {
                println!("{bug} is convicted by the auditor in {row}: {what}")
            }
            Some(By::Row(what)) if *must => {
                println!("{bug} is not convicted by the auditor, but in {row}: {what}\n{said}");
            }
            Some(By::Row(what)) => println!("{bug} is convicted by what {row} expects: {what}"),
            None => println!("{bug} got away in {row}:\n{said}"),
        }
        let alone = matches!(convicted, Some(By::Auditor(_)));
        by_auditor += u32::from(alone);
        match alone || (convicted.is_some() && !must) {
            true => tally.passed += 1,
            false => tally.failed += 1,
        }
    }
    println!("the auditor alone has convicted {by_auditor}");
    Ok(tally)
}

/// Returns what a campaign has against the scheduler. A scene that could not be set up, or a fault
/// that took no effect, is nothing against anybody.
fn conviction(said: &str) -> Option<By<'_>> {
    let but = said.lines().find_map(|line| line.trim_start().strip_prefix("but:"))?.trim();
    let (_, what) = but.strip_prefix("repeat ")?.split_once(": ")?;
    if what.contains("took no effect") {
        return None;
    }
    // What the auditor has found stands first: `2 x I2, 1 x I3: …`.
    let kinds = what.split_once(": ").map_or("", |(kinds, _)| kinds);
    let is_kind =
        |kind: &str| kind.split_once(" x I").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    match kinds.split(", ").all(is_kind) {
        true => Some(By::Auditor(kinds)),
        false => Some(By::Row(what)),
    }
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
        let by_auditor = PLANTED.iter().filter(|planted| planted.by_auditor).count();
        assert!(by_auditor >= 20, "the auditor must convict {by_auditor}");
        let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.id).collect();
        for Planted { bug, row, .. } in PLANTED {
            assert!(rows.contains(row), "{bug} is to show in {row}");
        }
    }

    #[test]
    fn only_what_the_scheduler_did_convicts_it() {
        let said = |but: &str| format!("F00 FAILED with berth: …\n  must: …\n  but:  {but}\n");
        let by_auditor = conviction(&said("repeat 0: 1 x I2, 3 x I12: …"))
            .is_some_and(|by| by == By::Auditor("1 x I2, 3 x I12"));
        assert!(by_auditor);
        let late = said("repeat 2: big is bound: it took more than 60 s");
        assert_eq!(conviction(&late), Some(By::Row("big is bound: it took more than 60 s")));
        assert_eq!(conviction(&said("the scene: no etcd")), None);
        assert_eq!(conviction(&said("repeat 0: the injection took no effect")), None);
        assert_eq!(conviction("F00 holds with berth: …"), None);
    }
}
