//! The end of a repeat: nothing is under way, the ledger is right, and nobody listed in vain.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_stand::try_wait_for;
use serde_json::Value;

use super::Scene;
use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::proxy::Exchange;
use crate::scheduler::{Comparison, Program, Scheduler};

/// What decisions rest on: path of the group, and resource.
const TOLD: [(&str, &str); 4] = [
    ("/api/v1", "pods"),
    ("/api/v1", "nodes"),
    ("/apis/resource.k8s.io/v1", "resourceclaims"),
    ("/apis/resource.k8s.io/v1", "resourceslices"),
];
/// The ledger must be equal to the server within this, at rest.
const CONVERGES: Duration = Duration::from_secs(30);

impl Scene {
    /// Waits until no request of a scheduler is under way, and each has been told of all pods, nodes,
    /// claims and slices as they are.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn quiet(&self) -> Outcome {
        let users: Vec<&str> = self.schedulers.iter().map(|s| s.user.as_str()).collect();
        let mut busy = None;
        let quiet = try_wait_for(SOON, "the schedulers are quiet", || {
            busy = users.iter().find_map(|user| self.untold(user)).or_else(|| {
                let under_way = self.proxy.count(0, |exchange| {
                    exchange.is_open() && users.contains(&exchange.asked.user.as_str())
                });
                (under_way > 0).then(|| format!("{under_way} requests are under way"))
            });
            busy.is_none().then_some(())
        });
        quiet.map_err(|late| Failed::Wrong(format!("{late}; {}", busy.unwrap_or_default())))
    }

    /// Waits until the user's watches have brought all pods, nodes, claims and slices as they are.
    ///
    /// # Errors
    /// [`Failed::Wrong`] with what is missing.
    pub fn is_told(&self, user: &str) -> Outcome {
        let mut missing = None;
        let told = try_wait_for(SOON, "all is told", || {
            missing = self.untold(user);
            missing.is_none().then_some(())
        });
        told.map_err(|late| Failed::Wrong(format!("{late}; {}", missing.unwrap_or_default())))
    }

    /// Returns what the user's watches have not brought yet.
    fn untold(&self, user: &str) -> Option<String> {
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
        TOLD.into_iter().find_map(|(group, resource)| {
            let Ok(objects) = self.api.list(&format!("{group}/{resource}")) else {
                return Some(format!("{resource} can't be listed"));
            };
            let newest: u64 = objects.iter().filter_map(version).max().unwrap_or_default();
            let told = self.proxy.watches(resource).user(user).delivered();
            let missing = || format!("{user} knows {resource} to {told}, they are at {newest}");
            (told < newest).then(missing)
        })
    }

    /// What holds at the end of every repeat: schedulers that should run do, Berth's ledger equals
    /// the API server, and no list was made without a 410.
    ///
    /// # Errors
    /// [`Failed::Wrong`], [`Failed::TimedOut`].
    pub(crate) fn is_right_at_rest(&mut self) -> Outcome {
        for scheduler in &mut self.schedulers {
            if let Some(status) = scheduler.ended() {
                let name = scheduler.program.name();
                return Err(Failed::Wrong(format!("{name} has ended: {status}")));
            }
        }
        self.quiet()?;
        if self.program == Program::Berth {
            self.lists_only_what_expired()?;
            // A standby has not listed what it will decide on, and says so instead of comparing.
            let leader = self.setting.election.map(|_| self.leader()).transpose()?;
            let decides =
                |s: &&mut Scheduler| leader.as_ref().is_none_or(|leader| *leader == s.user);
            self.schedulers.iter_mut().filter(decides).try_for_each(converges)?;
        }
        Ok(())
    }

    /// A process lists each resource once, an electing one its pods once more when it leads, and
    /// each further list needs a 410.
    fn lists_only_what_expired(&self) -> Outcome {
        let mut lists = BTreeMap::<(String, String), u64>::new();
        for Exchange { asked, server, .. } in self.proxy.exchanges(0) {
            if asked.begins_watch() && server == Some(200) {
                *lists.entry((asked.user, asked.resource)).or_default() += 1;
            }
        }
        for (listed, lists) in &lists {
            let (user, resource) = listed;
            let spoiled = self.spoiled.get(listed).copied().unwrap_or_default();
            let starts = self.starts.get(user).copied().unwrap_or_default();
            let each = if self.setting.election.is_some() && resource == "pods" { 2 } else { 1 };
            let expired = self.proxy.watches(resource).user(user).expired();
            if *lists > starts * each + expired + spoiled {
                return Err(Failed::Wrong(format!(
                    "{user} listed {resource} {lists} times in {starts} starts with {expired} 410s"
                )));
            }
        }
        Ok(())
    }
}

/// I11.
fn converges(scheduler: &mut Scheduler) -> Outcome {
    let begun = Instant::now();
    loop {
        let found = scheduler.compare()?;
        match found {
            Comparison { differences: 0, objects } if objects > 0 => return Ok(()),
            Comparison { .. } if begun.elapsed() < CONVERGES => {}
            Comparison { .. } => {
                return Err(Failed::Wrong(format!("I11: ledger and server differ: {found:?}")));
            }
        }
    }
}
