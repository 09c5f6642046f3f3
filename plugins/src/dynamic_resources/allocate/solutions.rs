//! Other solutions than the first: for a group, whose members may have to leave devices to each
//! other.

use std::sync::Arc;

use berth_core::framework::Work;
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::Text;
use berth_core::types::claim::DeviceDemand;

use super::choice::{Preferred, Ranks};
use super::search::{Dive, End};
use super::{Found, Options, Refused, outcome, reading};

/// The solutions on one node besides a first one, one of each kind, as long as the ledger stands.
///
/// Two are of one kind if they take devices that are alike: for the claims, for what is left, and
/// for what others want of the node. So whatever these could have beside some solution, they can
/// have beside one of those that are told, or beside the first.
#[derive(Debug)]
pub struct Solutions<'a> {
    cluster: &'a Cluster,
    claims: &'a [Arc<DeviceDemand>],
    steps_max: u64,
    dive: Dive,
}

impl<'a> Solutions<'a> {
    /// `first` is what [`Search`](super::Search) has found for the claims.
    ///
    /// # Errors
    /// As [`Refused::Broken`].
    pub fn besides(
        first: &Found,
        (cluster, node): (&'a Cluster, NodeIdx),
        claims: &'a [Arc<DeviceDemand>],
        others: &'a [Arc<DeviceDemand>],
        options: Options,
    ) -> Result<Solutions<'a>, Text> {
        let devices = cluster.devices();
        let object = cluster.nodes().node(node).ok_or_else(|| Text::from("node is gone"))?;
        let ranks: Option<&Ranks<'_>> =
            if options.first_fit { None } else { Some(&|_| Preferred::default()) };
        let problem = reading::read(devices, object, claims, Some(others), ranks)?;
        let known = outcome::picks(devices, &problem, claims, first);
        let mut dive = Dive::new(problem, options.first_fit);
        dive.tell_apart(&known.ok_or_else(|| Text::from("the node's devices have changed"))?);
        Ok(Solutions { cluster, claims, steps_max: options.steps_max, dive })
    }

    /// Returns the next solution; `None` if there is none left. The order is that of the search:
    /// the alternatives of a request in their order, then devices in the order of choice, earlier
    /// requests first.
    ///
    /// # Errors
    /// [`Refused::NotProven`]: the steps are used up.
    pub fn find_next(&mut self) -> Result<Option<Found>, Refused> {
        let Solutions { cluster, claims, dive, .. } = self;
        match dive.run(&mut Work::unlimited(), self.steps_max, false) {
            Some(End::Found(picks)) => {
                Ok(Some(outcome::found(cluster.devices(), &dive.problem, claims, &picks)))
            }
            Some(End::Exhausted) | None => Ok(None),
            Some(End::OutOfSteps) => Err(Refused::NotProven),
        }
    }
}
