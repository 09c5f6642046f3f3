//! Everything the engine can ask for.

use crate::framework::Op;
use crate::snapshot::Contradiction;
use crate::types::{GroupKey, PodRef, Span, Text, Timestamp};

use super::report::CycleReport;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanId(pub u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// One thing to do, in the order in which they are handed out.
#[derive(Clone, Debug)]
pub enum Decision {
    /// To be carried out once; its result comes back as [`Input::Outcome`](super::Input::Outcome).
    Write(Write),
    Ask(Question),
    /// Something to tell the user; no answer is expected, losing it is harmless.
    Notice(Notice),
    /// How an attempt went, for metrics, logs and explanations.
    Report(Box<CycleReport>),
}

/// An operation to be sent, with all it needs to be judged afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub id: WriteId,
    pub op: Op,
    /// The server gives the request up by then; it is sent as `?timeout`.
    pub timeout: Span,
    /// Binds go first.
    pub urgency: Urgency,
    /// Of one urgency, those with less go first: the later writes of a plan before the first ones of
    /// plans that were made after it.
    pub order: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Part of a plan, or the settlement of one.
    Plan,
    /// Tells why a pod waits.
    Status,
}

/// A question to a consultant about a pod and nodes that fit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub id: QuestionId,
    pub consultant: &'static str,
    pub pod: PodRef,
    pub nodes: Vec<Text>,
    pub deadline: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The bind is confirmed.
    Scheduled {
        pod: PodRef,
        scheduler_name: Text,
        node: Text,
    },
    FailedScheduling {
        pod: PodRef,
        scheduler_name: Text,
        message: Text,
    },
    /// The pod has a node, and waits for this before it is bound.
    Waits {
        pod: PodRef,
        scheduler_name: Text,
        reason: &'static str,
        message: Text,
    },
    /// A group that has started has fewer members than it needs.
    BelowMinimum {
        group: GroupKey,
        /// One of the members that are left.
        pod: PodRef,
        scheduler_name: Text,
        message: Text,
    },
    /// An object that describes a topology contradicts others.
    InvalidTopology(Contradiction),
    /// An input could not be used; the engine went on without it.
    Odd {
        subject: Text,
        message: Text,
    },
}
