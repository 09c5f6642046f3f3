//! The rows: which fault, what must happen, and one repeat of it.
//!
//! A repeat begins with no pods and ends in any state that is right; what holds after every repeat
//! (the ledger equals the server, no list without a 410, no violation in etcd's history) is asked by
//! the campaign. A row whose binds are slow, in a file of its own that is named in [`ROWS`]:
//!
//! ```
//! use std::time::Duration;
//! use berth_faults::proxy::{Requests, Rule};
//! use berth_faults::rows::Row;
//! use berth_faults::scene::{Scene, check};
//! use berth_faults::{Outcome, SOON};
//!
//! const SLOW_BINDS: Row = Row { id: "F99", title: "slow binds", must: "bind each once", repeat, ..Row::PLAIN };
//!
//! fn repeat(scene: &mut Scene) -> Outcome {
//!     // Row::PLAIN has made four nodes of 8 GPUs, and started one scheduler that watches them.
//!     let slow = scene.proxy.inject(Rule::on(Requests::binds()).delay(Duration::from_millis(50)));
//!     scene.create_burst(32)?;
//!     scene.all_bound(SOON)?;
//!     scene.took_effect(slow.effective());
//!     check(slow.chosen() == 32, format!("{} binds were sent", slow.chosen()))
//!     // Dropping `slow` ends it.
//! }
//! ```

mod binds;
mod calm;
mod claims;
mod commits;
mod credentials;
mod disorder;
mod election;
mod endings;
mod expired;
mod gathering;
mod leaders;
mod lists;
mod load;
mod nodes;
mod orphans;
mod pods;
mod pools;
mod refusal;
mod refused;
mod rival;
mod server;
mod silent;
mod started;
mod stopped;
mod takeover;
mod watches;

use crate::failed::Outcome;
use crate::scene::Scene;
use crate::stage::Setting;

/// Every row, in the order in which they are told of.
pub const ROWS: &[&Row] = &[
    &calm::CONTROL,
    &server::KILLED,
    &stopped::APISERVER_STOPPED,
    &leaders::CUT_OFF,
    &stopped::ETCD_KILLED,
    &binds::CALLED_STALE,
    &stopped::ETCD_STOPPED,
    &expired::COMPACTED,
    &watches::ENDED,
    &silent::HALF_OPEN,
    &load::FULL,
    &lists::SPOILED,
    &credentials::TOKEN,
    &credentials::FORBIDDEN,
    &binds::ANSWER_LOST,
    &claims::ANSWER_LOST,
    &binds::REQUEST_LOST,
    &binds::BOUND_ELSEWHERE,
    &refused::BY_THE_PROXY,
    &refused::BY_A_POLICY,
    &claims::CONFLICT,
    &orphans::KILLED,
    &claims::TAKEN_AWAY,
    &pools::CHANGED,
    &rival::SHARED_CLAIM,
    &commits::KILLED,
    &commits::UNLED,
    &gathering::FALLS_APART,
    &started::LOST,
    &nodes::GONE,
    &nodes::CHANGED,
    &nodes::RECREATED,
    &disorder::DISORDER,
    &disorder::UNTOLD,
    &pods::RECREATED,
    &pods::DELETED,
    &rival::BESIDE,
    &pods::CHANGED,
    &leaders::TWO_LEADERS,
    &leaders::MEDDLED,
    &endings::TERMINATED,
    &endings::KILLED,
    &takeover::TAKEOVER,
    &leaders::STARVED,
];

/// A fault, and what must come of it.
#[derive(Clone, Copy)]
pub struct Row {
    /// As in the table of faults, such as `F14`.
    pub id: &'static str,
    pub title: &'static str,
    /// What must happen; printed when it doesn't.
    pub must: &'static str,
    /// Whether a repeat takes more than 15 s: then ten are enough, and CI plays one.
    pub slow: bool,
    /// Whether CI plays one though a repeat is faster: it takes more than its part of CI's time.
    pub once: bool,
    /// Whether it does hardly anything but wait. In CI such rows are played beside the others.
    pub waits: bool,
    pub setting: Setting,
    /// Done once a batch: nodes, and the scheduler if it is not a repeat's to start.
    pub prepare: fn(&mut Scene) -> Outcome,
    /// Injects, waits, checks, and counts by [`Scene::took_effect`].
    pub repeat: fn(&mut Scene) -> Outcome,
}

impl Row {
    /// Four nodes of 8 GPUs and one scheduler. For `..Row::PLAIN`: id, title, must and repeat are
    /// the row's own.
    pub const PLAIN: Row = Row {
        id: "",
        title: "",
        must: "",
        slow: false,
        once: false,
        waits: false,
        setting: Setting::PLAIN,
        prepare: |scene| {
            scene.nodes(4, 8)?;
            scene.start_watching_scheduler()
        },
        repeat: |_| Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_says_what_it_is() {
        let ids: BTreeSet<&str> = ROWS.iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), ROWS.len(), "an id comes twice");
        for row in ROWS {
            let silent = [row.id, row.title, row.must].iter().any(|text| text.is_empty());
            assert!(!silent, "{} is not told", row.id);
        }
    }
}
