//! How an attempt went: per plugin and reason counts, scores of the best nodes, the choice.

use crate::types::{PodRef, Text, Timestamp};

/// How much of a report is worked out; nobody pays for what nobody reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportLevel {
    /// Outcome and counts.
    #[default]
    Counts,
    /// And the scores of the best nodes, plugin by plugin.
    Scores,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A plan was made.
    Planned,
    Unschedulable,
    /// Bad data or a fault, not a lack of room.
    Error,
}

#[derive(Clone, Debug)]
pub struct CycleReport {
    pub pod: PodRef,
    pub scheduler_name: Text,
    pub attempt: u32,
    pub at: Timestamp,
    pub outcome: Outcome,
    /// The full message of the pod's condition; empty when planned.
    pub message: Text,
    pub chosen: Option<Text>,
    pub nodes: usize,
    pub feasible: usize,
    /// Nodes turned away, by plugin and reason text; a node with two reasons counts for both.
    pub rejected: Vec<Rejected>,
    /// Best nodes first, with [`ReportLevel::Scores`] only.
    pub best: Vec<NodeScores>,
    /// Namespace and name of the group that was looked at as one.
    pub group: Option<Text>,
    /// Plugin calls that this attempt cost. Of a group's reports the first one has them.
    pub steps: u64,
    /// What became of the placements that a group was tried in. As for `steps`.
    pub placements: PlacementCounts,
    /// How often the attempt was put off because its poll's budget was used up.
    pub pauses: u32,
}

/// Placements of a group, such as racks, as far as a search has looked at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementCounts {
    pub generated: u32,
    /// They hold what the group needs: one for each part that has one of its own.
    pub feasible: u32,
    /// There is too little room in them, as was counted or found by trying.
    pub infeasible: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub plugin: &'static str,
    pub reason: Text,
    pub nodes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeScores {
    pub node: Text,
    pub total: i64,
    /// Plugin and weight × normalised score.
    pub by_plugin: Vec<(&'static str, i64)>,
}
