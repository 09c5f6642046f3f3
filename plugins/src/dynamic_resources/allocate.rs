//! Which devices of one node satisfy some claims: an exact search over classes of devices.
//!
//! [`Search::run`] reads the ledger when it begins ([`reading`]) and keeps nothing of it but
//! indices, so that a search can pause between polls ([`search`]); it goes on as far as there are
//! steps. If the node's devices have changed meanwhile it begins again, with the steps that it has
//! taken still counted.
//!
//! Which of several solutions it finds is said in [`choice`]; before that, the alternatives of
//! `firstAvailable` are the best that can be had, those of an earlier request first (bounded: once
//! there is a solution, a better one is looked for with 20,000 steps at most).
//!
//! Source of the rules: `structured/internal` of k8s.io/dynamic-resource-allocation 1.37. Where
//! that is wrong by its own documents, this is not: administrators draw no counters, and neither
//! block others nor are blocked by them; `distinctAttribute` holds between all devices of a
//! request; counters belong to a driver's pool. A selector without value makes its device
//! unusable, and the search fails for it only if there is no solution without the device: one
//! odd device must not keep pods from all others.

mod amounts;
mod bound;
#[cfg(test)]
mod builders;
mod choice;
mod counters;
mod left_over;
mod limits;
mod outcome;
mod problem;
mod reading;
mod search;
mod solutions;
mod state;
mod symmetry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod values;
mod written;

use std::sync::Arc;

use berth_core::framework::{DeviceOrder, Work};
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::{Cluster, NodeIdx, Version};
use berth_core::types::claim::{Allocation, ClaimSpec, DeviceDemand, DeviceResult};
use berth_core::types::{Node, Pod, Text};

use choice::{Preferred, Ranks};
use search::{Dive, End};

pub use solutions::Solutions;

/// What the search is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Take the first devices that do, in upstream's order, instead of the best ones.
    pub first_fit: bool,
    /// Steps after which it is given up as not proven. Unit: engine steps.
    pub steps_max: u64,
}

/// Devices for every claim, in the order of the claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Shape: one list a claim, results in the order of its requests. Share IDs are empty;
    /// [`allocation`] fills them in.
    pub claims: Vec<Vec<DeviceResult>>,
    /// Sum over `firstAvailable` requests of 8 less the index of the alternative that was taken:
    /// upstream's score.
    pub preference: i64,
    /// How often the first request could be met once more by itself, counted over the devices: of one
    /// that is had whole or as a partition once or not at all, of a shared one as often as there is
    /// room for what the request takes. 0 unless [`Search::counting`] was asked for.
    pub left_over: u64,
}

/// Why there are no devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Proven: the node's devices don't do. The text is for the pod's message, in upstream's words.
    NoFit(Text),
    /// The question can't be answered: a selector without value, an unknown class or mode.
    Broken(Text),
    /// The steps were used up: those of the search, or those for selectors. The text is for the pod's
    /// message.
    NotProven(Text),
}

/// Source: `Filter` of kube-scheduler's plugin.
pub(in super::super) const TIMED_OUT: &str = "timed out trying to allocate devices";

/// A search on one node.
#[derive(Debug)]
pub struct Search {
    node: NodeIdx,
    claims: Vec<Arc<DeviceDemand>>,
    options: Options,
    /// The state of the ledger that it is about, and how far it is. `None`: it has not begun.
    begun: Option<([Version; 3], Box<Dive>)>,
    /// What beginnings that came to nothing have taken.
    steps_before: u64,
    preference: Option<Preference>,
    counts: bool,
}

/// Who says which devices the pod had better take.
#[derive(Clone, Debug)]
pub struct Preference {
    pub pod: Pod,
    pub orders: Vec<Arc<dyn DeviceOrder>>,
}

impl Search {
    pub fn new(node: NodeIdx, claims: Vec<Arc<DeviceDemand>>, options: Options) -> Search {
        let (begun, steps_before, preference) = (None, 0, None);
        Search { node, claims, options, begun, steps_before, preference, counts: false }
    }

    /// Has [`Found::left_over`] worked out.
    pub fn counting(self, counts: bool) -> Search {
        Search { counts, ..self }
    }

    /// Has devices tried in the order of `preference` first.
    pub fn preferring(self, preference: Preference) -> Search {
        Search { preference: Some(preference), ..self }
    }

    /// Returns `None` if `work` has no steps left.
    pub fn run(&mut self, cluster: &Cluster, work: &mut Work) -> Option<Result<Found, Refused>> {
        if work.left() == 0 {
            return None;
        }
        let Some(node) = cluster.nodes().node(self.node) else {
            return Some(Err(Refused::NoFit("node is gone".into())));
        };
        let versions = versions(cluster, cluster.nodes().slot(self.node).version);
        if self.begun.as_ref().is_none_or(|(of, _)| *of != versions)
            && let Err(text) = self.begin(cluster, node, versions, work)
        {
            return Some(Err(Refused::Broken(text)));
        }
        let (_, dive) = self.begun.as_mut()?;
        let steps_max = self.options.steps_max.saturating_sub(self.steps_before);
        let end = dive.run(work, steps_max, !self.options.first_fit)?;
        let devices = cluster.devices();
        Some(match end {
            End::Found(picks) => {
                let found = outcome::found(devices, &dive.problem, &self.claims, &picks);
                let left_over = if self.counts { dive.problem.left_over(&picks) } else { 0 };
                Ok(Found { left_over, ..found })
            }
            End::Exhausted => Err(outcome::refusal(devices, &dive.problem, &self.claims)),
            End::OutOfSteps => Err(Refused::NotProven(TIMED_OUT.into())),
        })
    }

    /// Returns the steps that it has taken, over all polls.
    pub fn steps(&self) -> u64 {
        let dive = self.begun.as_ref().map_or(0, |(_, dive)| dive.steps());
        self.steps_before.saturating_add(dive)
    }

    fn begin(
        &mut self,
        cluster: &Cluster,
        node: &Node,
        versions: [Version; 3],
        work: &mut Work,
    ) -> Result<(), Text> {
        if let Some((_, dive)) = self.begun.take() {
            self.steps_before = self.steps_before.saturating_add(dive.steps());
        }
        let best = !self.options.first_fit;
        let ranks = |devices: &[NodeDevice<'_>]| match &self.preference {
            Some(preference) => preference.ranks(cluster, self.node, devices),
            None => Preferred::default(),
        };
        let wanted = best.then_some(&ranks as &Ranks<'_>);
        let problem = reading::read(cluster.devices(), node, &self.claims, None, wanted)?;
        let steps = 1 + (problem.devices.len() * problem.profiles.len()) as u64;
        work.spend(steps);
        self.steps_before = self.steps_before.saturating_add(steps);
        self.begun = Some((versions, Box::new(Dive::new(problem, self.options.first_fit))));
        Ok(())
    }
}

impl Preference {
    /// What an earlier order says counts first.
    fn ranks(&self, cluster: &Cluster, node: NodeIdx, devices: &[NodeDevice<'_>]) -> Preferred {
        let judges = self.orders.iter().map(|order| order.sets(&self.pod, cluster, node, devices));
        let mut judges: Vec<_> = judges.collect();
        let judge = judges.iter().position(Option::is_some);
        let (before, after) = self.orders.split_at(judge.unwrap_or(0));
        let ranks = |orders: &[Arc<dyn DeviceOrder>]| {
            let all = orders.iter().map(|order| order.ranks(&self.pod, cluster, node, devices));
            combined(&all.collect::<Vec<_>>(), devices.len())
        };
        let sets = judge.and_then(|at| judges[at].take());
        Preferred { before: ranks(before), sets, after: ranks(after) }
    }
}

/// Returns one rank a device, by the first of `all` in which two differ; none if they don't.
fn combined(all: &[Vec<i64>], n_devices: usize) -> Vec<u32> {
    let of =
        |at: usize| all.iter().map(|ranks| ranks.get(at).copied().unwrap_or(0)).collect::<Vec<_>>();
    let mut different: Vec<Vec<i64>> = (0..n_devices).map(of).collect();
    different.sort();
    different.dedup();
    if different.len() < 2 {
        return Vec::new();
    }
    (0..n_devices).map(|at| different.partition_point(|rank| *rank < of(at)) as u32).collect()
}

/// Returns all that the answer about a node of this version depends on.
pub fn versions(cluster: &Cluster, node: Version) -> [Version; 3] {
    let devices = cluster.devices();
    [node, devices.wide_version(), devices.classes_version()]
}

/// Returns what is written for a claim: its results, where they can be used, and the configuration
/// of their classes and of the claim.
///
/// Results of shared devices get a share ID made of `salt`, which must be the claim's own.
pub fn allocation(
    cluster: &Cluster,
    node: &Node,
    claim: &ClaimSpec,
    mut results: Vec<DeviceResult>,
    salt: &str,
) -> Allocation {
    let devices = cluster.devices();
    written::name_shares(&mut results, salt);
    let node_selector = written::node_selector(&devices.pools_on(node), node, &results);
    let config = written::config(devices, claim, &results);
    Allocation { results, config, node_selector, timestamp: None }
}
