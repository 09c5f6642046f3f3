//! Placements: parts of the cluster in which a group, or a part of one, is to stay, and which of them
//! is best.
//!
//! As upstream's placements of KEP-5732, but rated before the search instead of after it: what fits in
//! a placement is counted, all are rated by that, and the search begins in the best.

use crate::snapshot::{Cluster, NodeIdx, NodeSet};
use crate::types::group::TopologyConstraint;
use crate::types::{Pod, Text};

use super::cycle::{Cycle, CycleState};
use super::verdict::Reason;

/// A set of nodes in which a group may be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// As users know it, such as the value of a node label.
    pub name: Text,
    pub nodes: NodeSet,
    /// How far it is from what the group would like best, 0 for that.
    pub tier: u32,
}

/// What a placement is wanted for.
#[derive(Clone, Copy)]
pub struct PlacementAsk<'a> {
    pub constraints: &'a [TopologyConstraint],
    /// The placement of the group that this one is part of.
    pub within: Option<&'a NodeSet>,
    /// Nodes of members that have a place already.
    pub running: &'a [NodeIdx],
    /// Nodes of pods that a constraint with a span is about too.
    pub peers: &'a [NodeIdx],
    /// Those that are meant, whether they have a place or not.
    pub members: &'a [&'a Pod],
}

/// Members of a group that belong into one placement for something that they have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// What they share, as users know it.
    pub name: Text,
    /// Indices into the members that were asked about.
    pub members: Vec<usize>,
    pub constraint: TopologyConstraint,
}

/// Proposes placements.
pub trait PlacementGenerate: Send + Sync {
    /// Returns the node labels that the answer will read: they are declared before.
    fn labels(&self, constraints: &[TopologyConstraint], cluster: &Cluster) -> Vec<Text>;

    /// Says which of a group's members belong together beside what the group itself asks for.
    fn shared(&self, _members: &[&Pod], _cluster: &Cluster) -> Vec<Shared> {
        Vec::new()
    }

    /// # Errors
    /// Why there can be none, whatever is free.
    fn placements(
        &self,
        ask: PlacementAsk<'_>,
        cluster: &Cluster,
    ) -> Result<Vec<Placement>, Reason>;
}

/// A placement with what would be put there.
#[derive(Clone, Copy)]
pub struct Proposal<'a> {
    pub placement: &'a Placement,
    /// Members that are to be placed: one of each kind, and how many there are of it.
    pub members: &'a [(&'a Pod, u32)],
    /// How many have a place already.
    pub running: u32,
    /// How many of `members` find room at most.
    pub fit: u32,
}

/// Rates a placement.
pub trait PlacementScore: Send + Sync {
    fn score(&self, proposal: Proposal<'_>, cluster: &Cluster) -> i64;

    /// Turns the scores of all placements into 0 to 100. Those that are so already are left alone.
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// Counts how many pods of one kind a node takes.
pub trait Room: Send + Sync {
    /// At most so many pods like this one find room on a node that takes one. More than there really
    /// is does no harm; less would keep a group from where it fits.
    fn room(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> u32;
}
