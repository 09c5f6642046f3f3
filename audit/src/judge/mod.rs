//! Goes through the history once and asks each invariant about each step.

mod author;
mod bind_once;
mod capacity;
mod devices;
mod gang;
mod leak;
mod lease;
mod lost;
mod ready;
mod room;
mod stock;

use std::time::Duration;

use crate::history::{History, Lives};
use crate::report::{Invariant, Report};
use crate::world::{Step, World};

/// How much time things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// I1, I2, I14: how old a scheduler's knowledge of a node, of a pool of devices, of a resize and
    /// of what others have bound or allocated may be when it sends a bind or an allocation.
    pub node_grace: Duration,
    /// I4: how long a gang may be bound in part, once the faults have ended.
    pub partial_gang: Duration,
    /// I5: how long a pod may be neither bound nor told why, or wait while there is room for it,
    /// once the faults have ended.
    pub lost_pod: Duration,
    /// I12: how long something may be kept for what is gone.
    pub leak: Duration,
    /// I9: the `?timeout=` of writes: so long a write may still be under way after it was sent.
    pub write_timeout: Duration,
    /// How much a time on the wire or in the log may be off.
    pub clock_slack: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            node_grace: Duration::from_secs(2),
            partial_gang: Duration::from_secs(30),
            lost_pod: Duration::from_secs(30),
            leak: Duration::from_secs(60),
            write_timeout: Duration::from_secs(5),
            clock_slack: Duration::from_millis(250),
        }
    }
}

/// Judges a history.
pub(crate) fn judge(history: &History, limits: &Limits) -> Report {
    let lives = Lives::of(&history.changes.list);
    let mut report = Report {
        revisions: history.changes.revisions,
        problems: history.changes.problems.clone(),
        skipped: history.changes.skipped + history.skipped_log_lines,
        ..Report::default()
    };
    let binders = author::Binders::new(history, &lives, limits);
    let mut capacity = capacity::Capacity::new(&binders, limits);
    let mut devices = devices::Devices::new(history, limits);
    let mut ready = ready::Ready::new(&binders, limits);
    let mut gangs = gang::Gangs::new(history, limits);
    let mut lost = lost::Lost::new(history, limits);
    let mut leaks = leak::Leaks::new(limits);
    let mut world = World::default();
    for change in &history.changes.list {
        lost.before(&world, change.received);
        let old = world.apply(change);
        let step = Step { change, old, world: &world };
        capacity.step(&step, &mut report);
        bind_once::step(&step, &mut report);
        gangs.step(&step, &mut report);
        lost.step(&step, &mut report);
        devices.step(&step, &mut report);
        ready.step(&step, &mut report);
        leaks.step(&step, &devices, &mut report);
    }
    let end = history.changes.followed_to;
    gangs.end(end, &mut report);
    lost.end(&world, end, &mut report);
    leaks.end(&world, &devices, end, &mut report);
    bind_once::sent(history, &lives, limits, &mut report);
    lease::judge(history, limits, &mut report);
    if history.faults_ended.is_none() {
        report
            .notes
            .push("I4 and I5 were not judged: nobody said that faults have ended".to_owned());
    }
    report.violations.sort_by_key(|violation| (violation.invariant, violation.revision));
    report
}

/// Returns how much of the time from `since` to `until` lies after the faults.
fn quiet_time(
    history: &History,
    since: crate::moment::Moment,
    until: crate::moment::Moment,
) -> Duration {
    history.faults_ended.map_or(Duration::ZERO, |ended| until.since(since.max(ended)))
}
