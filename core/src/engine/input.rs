//! Everything that can happen to the engine.

use crate::snapshot::ClusterEvent;
use crate::types::{Text, Timestamp};

use super::decision::{QuestionId, WriteId};

/// One input. Inputs are folded in the order in which they are handed in.
#[derive(Clone, Debug)]
pub enum Input {
    Cluster(ClusterEvent),
    /// A watch has its first full list (`synced`), or has lost its place. Nothing is decided while
    /// a watch that is needed is not synced.
    Watch {
        kind: Text,
        synced: bool,
    },
    /// What became of a write. Each write gets exactly one; repeated ones are ignored by id.
    Outcome {
        write: WriteId,
        result: WriteResult,
    },
    /// The answer to a question. Late ones are ignored by id.
    Answer {
        question: QuestionId,
        answer: Answer,
    },
    /// Stop taking work: plans under way go on, nothing new is begun.
    Drain,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteResult {
    /// The server did it.
    Done(Written),
    /// A precondition no longer holds (409): the object has moved on. For a bind this is not a
    /// no: only a read decides.
    Stale { message: Text },
    /// The server said no, and would again (403, 404, 422).
    Refused { code: u16, message: Text },
    /// It was never sent: nothing can have happened.
    NotSent { message: Text },
    /// No answer: it may have happened, or still happen until its timeout has passed.
    Unknown { message: Text },
}

/// What a write that was done brought back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The name that the server chose, for a create with generateName.
    pub name: Option<Text>,
    pub resource_version: u64,
    /// For [`Op::ReadPod`](crate::framework::Op::ReadPod) only.
    pub pod: Option<PodRead>,
    /// The object as the server answered it, told like any other event.
    pub event: Option<Box<ClusterEvent>>,
}

/// What a read without resourceVersion found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodRead {
    /// No pod of that name, or one with another UID.
    Gone,
    Unbound {
        resource_version: u64,
    },
    BoundTo {
        node: Text,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These of the nodes asked about are allowed.
    Allowed(Vec<Text>),
    Failed(Text),
}

/// Whom the engine asks about nodes while a pod is looked at (an extender).
///
/// Nothing blocks meanwhile: the entry waits, others go on.
pub trait Consultant: Send + Sync {
    fn name(&self) -> &'static str;
    fn interested(&self, pod: &crate::types::Pod) -> bool;
    /// How long an answer may take.
    fn deadline(&self, asked: Timestamp) -> Timestamp;
}
