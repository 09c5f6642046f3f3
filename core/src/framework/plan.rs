//! What is to be written, as data: operations with their preconditions, grouped into stages.

use std::sync::Arc;

use crate::snapshot::Cluster;
use crate::types::claim::{Allocation, ClaimRef, Consumer};
use crate::types::group::{GroupKey, GroupTold, PlanNote};
use crate::types::{Condition, GpuNumbers, PodRef, PodUid, Span, Text, Timestamp, Value};

/// One operation on the API server. It leaves nothing open, so carrying it out twice is harmless.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// POST pods/binding with the pod's UID, and with the version that the decision stands on
    /// unless that is 0; refused if the pod is bound, another, or has changed since. So a request
    /// that reaches the server late, however late, finds the pod changed and does nothing.
    /// Plugins leave the version 0: the engine fills it in when it sends the write.
    Bind {
        pod: PodRef,
        node: Text,
        resource_version: u64,
        /// For a member of a group: the commit that it belongs to, stored with the node's name.
        /// Plugins leave it out: the engine fills it in.
        plan: Option<PlanNote>,
        /// Which GPUs of the node the pod's share is of, stored with the node's name too. Plugins leave
        /// it out: the engine fills it in.
        gpus: Option<GpuNumbers>,
    },
    /// As Bind, with `dryRun=All`: rights, policies and webhooks answer, nothing is stored.
    TryBind {
        pod: PodRef,
        node: Text,
    },
    /// GET the pod, without a resourceVersion: what the server really has.
    ReadPod {
        pod: PodRef,
    },
    /// PATCH pods/status carrying `resource_version`, with a condition that really changes, so
    /// that an older proposal still inside the store can no longer commit.
    Fence {
        pod: PodRef,
        resource_version: u64,
        node: Text,
    },
    /// PATCH the condition PodScheduled=False of pods/status; refused if the pod has moved on.
    SetCondition {
        pod: PodRef,
        resource_version: u64,
        condition: Condition,
        /// `status.nominatedNodeName`: None leaves it, empty clears it.
        nominated_node: Option<Text>,
    },
    /// PATCH `status.nominatedNodeName` alone, for a pod that has a node and has to wait before it is
    /// bound; empty clears it. Refused if the pod has moved on.
    Nominate {
        pod: PodRef,
        resource_version: u64,
        node: Text,
    },
    /// PATCH the condition DisruptionTarget=True of pods/status, before the pod is deleted.
    SetDisruption {
        pod: PodRef,
        reason: Text,
        message: Text,
    },
    /// PATCH what users read on a group's object, in its dialect's words.
    TellGroup {
        group: GroupKey,
        uid: Text,
        told: GroupTold,
    },
    DeletePod {
        pod: PodRef,
    },
    /// Writes to a resource claim, or reads it. It carries the version that the ledger has of the
    /// claim, so that a request which comes late finds the claim changed and does nothing. Plugins
    /// leave the version 0: the engine fills it in when it sends the write.
    Claim {
        claim: ClaimRef,
        resource_version: u64,
        write: ClaimWrite,
    },
    /// Creates an object of another kind. With `generate_name` the server chooses the name.
    Create {
        kind: Text,
        namespace: Text,
        name: NameOf,
        generate_name: bool,
        body: Value,
    },
    /// Merge-patches an object of another kind, guarded by `resource_version` unless it is 0.
    Patch {
        kind: Text,
        namespace: Text,
        name: NameOf,
        subresource: Option<Text>,
        resource_version: u64,
        body: Value,
    },
    Delete {
        kind: Text,
        namespace: Text,
        name: NameOf,
    },
}

/// What is done to a resource claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimWrite {
    /// GET, without a resourceVersion.
    Read,
    /// PATCH `metadata.finalizers` so that an allocated claim can't vanish: to this list, filled
    /// in by the engine.
    Protect { finalizers: Vec<Text> },
    /// PATCH the status: what is allocated, unless it is there already, and who has it: the pod
    /// that the write is for, or its group.
    Allocate { allocation: Option<Arc<Allocation>>, pod: PodRef, consumer: Consumer },
    /// PATCH the status: this one doesn't have it any more, and with `deallocate` nobody does.
    Release { consumer: Consumer, deallocate: bool },
}

/// A name, or that which an earlier write of the same plan brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOf {
    Known(Text),
    /// Chosen by the server for the write with this label.
    FromWrite(Text),
}

/// A write as a plugin asks for it.
#[derive(Clone, Debug)]
pub struct WriteDraft {
    /// Unique in the plan; later writes name it in [`NameOf::FromWrite`].
    pub label: Text,
    pub op: Op,
    /// What takes it back if a later write of the plan fails.
    pub undo: Option<Op>,
    /// How to find out whether it was done. Without, a write whose answer is lost has failed, and
    /// is taken back.
    pub read_back: Option<ReadBack>,
}

/// How a write whose answer was lost, or that found another version, is settled: the object is
/// read into the ledger, which then tells.
#[derive(Clone, Debug)]
pub struct ReadBack {
    pub read: Op,
    /// Reached: it was done. Waiting: it was not, and is sent again. Failed: it can't be any more.
    pub done: Arc<dyn LedgerCondition>,
}

impl WriteDraft {
    /// A write that is taken back by nothing, and has failed if its answer is lost.
    pub fn plain(label: impl Into<Text>, op: Op) -> WriteDraft {
        WriteDraft { label: label.into(), op, undo: None, read_back: None }
    }
}

/// A step of a plan: writes that may go out together, or a wait.
#[derive(Clone, Debug)]
pub enum StageDraft {
    Writes(Vec<WriteDraft>),
    Wait(Wait),
}

/// A wait for a condition on the ledger.
#[derive(Clone, Debug)]
pub struct Wait {
    pub condition: Arc<dyn LedgerCondition>,
    pub limit: Limit,
    /// What the pod's message says if the limit passes.
    pub on_expiry: Text,
    /// What is told of the pod when the wait begins, unless it is over at once.
    pub event: Option<WaitEvent>,
}

/// How long a wait may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Until(Timestamp),
    /// So long from when the condition is waited for: by [`LedgerCondition::since`], or else from the
    /// wait's beginning.
    For(Span),
}

/// An event on the pod that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitEvent {
    pub pod: PodRef,
    pub reason: &'static str,
    pub note: Text,
}

/// Where a wait stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Reached,
    Waiting,
    /// It can't be reached any more.
    Failed(Text),
}

/// A condition on the ledger that a plan waits for.
pub trait LedgerCondition: std::fmt::Debug + Send + Sync {
    fn progress(&self, cluster: &Cluster) -> Progress;

    /// Since when it is waited for, where objects say so: then a wait that is begun anew after a
    /// restart ends when the first one would have.
    fn since(&self, _cluster: &Cluster) -> Option<Timestamp> {
        None
    }
}

/// Reached when none of the pods takes anything any more.
#[derive(Clone, Debug)]
pub struct PodsGone(pub Vec<PodUid>);

impl LedgerCondition for PodsGone {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let placed = |uid: &PodUid| cluster.pod(uid).is_some_and(|r| r.place.node().is_some());
        if self.0.iter().any(placed) { Progress::Waiting } else { Progress::Reached }
    }
}
