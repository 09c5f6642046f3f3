//! What metrics want to know and no decision tells. Handed out with each poll, so it never piles up.

use crate::types::{PodRef, Span, Text, Timestamp};

/// What happened since the last poll, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    pub bound: Vec<Bound>,
    pub failed_plans: Vec<FailedPlan>,
    pub permit_waits: Vec<PermitWait>,
    /// How often PostFilter was asked for room.
    pub preemption_attempts: u64,
    /// Number of victims of each preemption that was begun.
    pub victims: Vec<usize>,
    pub evictions: Vec<Eviction>,
    /// Groups that were bound in part and taken back.
    pub groups_taken_back: u64,
}

/// A pod whose bind is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub pod: PodRef,
    pub scheduler_name: Text,
    pub attempts: u32,
    /// When it was first in the active queue.
    pub first_active: Timestamp,
    /// It was bound by an attempt that was due only because it had waited long.
    pub flushed: bool,
}

/// A pod whose plan was made and then taken back: the attempt's real end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedPlan {
    pub pod: PodRef,
    pub scheduler_name: Text,
    /// A Permit plugin said no, or did not say yes in time; otherwise it is an error.
    pub rejected: bool,
}

/// A plan's wait for a Permit plugin that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitWait {
    pub waited: Span,
    pub allowed: bool,
}

/// A plan's victims have been asked to leave, each with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    pub took: Span,
    /// The server has agreed to all.
    pub agreed: bool,
}
