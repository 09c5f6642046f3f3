//! Other solutions than the first: for a group, whose members may have to leave devices to each
//! other.

use std::collections::VecDeque;
use std::sync::Arc;

use berth_core::framework::Work;
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::Text;
use berth_core::types::claim::DeviceDemand;

use super::choice::{Preferred, Ranks};
use super::search::{Dive, End};
use super::state::Pick;
use super::{Found, Options, Preference, Refused, TIMED_OUT, outcome, reading};

/// Solutions that are put in order at a time, where devices are judged as sets.
const SORTED: usize = 32;

/// The solutions on one node besides a first one, one of each kind, as long as the ledger stands.
///
/// Two are of one kind if they take devices that are alike: for the claims, for what is left, and
/// for what others want of the node. So whatever these could have beside some solution, they can
/// have beside one of those that are told, or beside the first.
///
/// Where devices are judged as sets, those of the best set come first, among so many at a time.
#[derive(Debug)]
pub struct Solutions<'a> {
    cluster: &'a Cluster,
    claims: &'a [Arc<DeviceDemand>],
    steps_max: u64,
    dive: Dive,
    /// Those that were found and not told yet.
    sorted: VecDeque<Vec<Pick>>,
    /// Those are in order.
    in_order: bool,
    /// The search has ended.
    ended: Option<Result<(), Refused>>,
}

impl<'a> Solutions<'a> {
    /// `first` is what [`Search`](super::Search) has found for the claims, with that preference.
    ///
    /// # Errors
    /// As [`Refused::Broken`].
    pub fn besides(
        first: &Found,
        (cluster, node): (&'a Cluster, NodeIdx),
        claims: &'a [Arc<DeviceDemand>],
        others: &'a [Arc<DeviceDemand>],
        options: Options,
        preference: Option<&Preference>,
    ) -> Result<Solutions<'a>, Text> {
        let devices = cluster.devices();
        let object = cluster.nodes().node(node).ok_or_else(|| Text::from("node is gone"))?;
        let ranks = |found: &[NodeDevice<'_>]| match preference {
            Some(preference) => preference.ranks(cluster, node, found),
            None => Preferred::default(),
        };
        let ranks = (!options.first_fit).then_some(&ranks as &Ranks<'_>);
        let problem = reading::read(devices, object, claims, Some(others), ranks)?;
        let known = outcome::picks(devices, &problem, claims, first);
        let mut dive = Dive::new(problem, options.first_fit);
        dive.tell_apart(&known.ok_or_else(|| Text::from("the node's devices have changed"))?);
        let (steps_max, sorted, ended) = (options.steps_max, VecDeque::new(), None);
        Ok(Solutions { cluster, claims, steps_max, dive, sorted, in_order: false, ended })
    }

    /// Returns the next solution; `None` if there is none left. The order is that of the search:
    /// the alternatives of a request in their order, then devices in the order of choice, earlier
    /// requests first; of devices that are judged as sets the best set.
    ///
    /// Outer `None`: `work` has no steps left, and the next call goes on.
    ///
    /// # Errors
    /// [`Refused::NotProven`]: the steps are used up.
    pub fn find_next(&mut self, work: &mut Work) -> Option<Result<Option<Found>, Refused>> {
        if !self.in_order {
            self.find_some(work)?;
        }
        let Solutions { cluster, claims, dive, .. } = self;
        let found = self.sorted.pop_front();
        self.in_order = !self.sorted.is_empty();
        Some(match found {
            Some(picks) => {
                Ok(Some(outcome::found(cluster.devices(), &dive.problem, claims, &picks)))
            }
            None => self.ended.clone().unwrap_or(Ok(())).map(|()| None),
        })
    }

    fn find_some(&mut self, work: &mut Work) -> Option<()> {
        let judged = self.dive.problem.choice.judges_sets();
        let n_wanted = if judged { SORTED } else { 1 };
        while self.ended.is_none() && self.sorted.len() < n_wanted {
            match self.dive.run(work, self.steps_max, false) {
                Some(End::Found(picks)) => self.sorted.push_back(picks),
                None => return None,
                Some(End::Exhausted) => self.ended = Some(Ok(())),
                Some(End::OutOfSteps) => {
                    self.ended = Some(Err(Refused::NotProven(TIMED_OUT.into())));
                }
            }
        }
        if judged {
            let problem = &self.dive.problem;
            let rating = |picks: &Vec<Pick>| problem.choice.rate(problem, picks);
            self.sorted.make_contiguous().sort_by_cached_key(rating);
        }
        self.in_order = true;
        Some(())
    }
}
