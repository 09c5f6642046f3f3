//! What can happen to the ledger ([`ClusterEvent`]) and what an event changed ([`Change`]).

use std::sync::Arc;

use crate::types::claim::{ClaimKey, ResourceClaim};
use crate::types::group::{GroupKey, PodGroup};
use crate::types::volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use crate::types::workload::{Namespace, PodSelectorOwner, SelectorKind};
use crate::types::{
    DeviceClass, DeviceTaintRule, Node, NumaReport, Pod, PodUid, ResourceSlice, Text, TopologyKey,
    TopologyObject,
};

use super::devices::claims::Conflict;
use super::nodes::NodeIdx;

/// A fact about the cluster. Applying one twice, or one older than what is known, changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterEvent {
    NodeApplied(Node),
    /// With a UID, a node of that name with another one stays: the event is late or repeated.
    /// Without, whichever node has the name is gone.
    NodeDeleted {
        name: Text,
        uid: Text,
    },
    PodApplied(Box<Pod>),
    PodDeleted {
        uid: PodUid,
    },
    NamespaceApplied(Namespace),
    NamespaceDeleted {
        name: Text,
    },
    SelectorOwnerApplied(PodSelectorOwner),
    SelectorOwnerDeleted {
        kind: SelectorKind,
        namespace: Text,
        name: Text,
    },
    ClaimApplied(PersistentVolumeClaim),
    ClaimDeleted {
        namespace: Text,
        name: Text,
    },
    VolumeApplied(PersistentVolume),
    VolumeDeleted {
        name: Text,
    },
    StorageClassApplied(StorageClass),
    StorageClassDeleted {
        name: Text,
    },
    CsiNodeApplied(CsiNode),
    CsiNodeDeleted {
        name: Text,
    },
    AttachmentApplied(VolumeAttachment),
    AttachmentDeleted {
        name: Text,
    },
    Devices(DeviceEvent),
    Groups(GroupEvent),
    /// What a node has in each NUMA cell.
    NumaReportApplied(Box<NumaReport>),
    NumaReportDeleted {
        node: Text,
        uid: Text,
    },
}

/// A fact about groups of pods, or about topologies that they name.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupEvent {
    Applied(Box<PodGroup>),
    /// With a UID, a group of that name with another one stays.
    Deleted {
        key: GroupKey,
        uid: Text,
    },
    /// Whether the server has the objects of the dialect; without, what pods say in it is no group.
    /// Dialects count as served until told otherwise.
    Served {
        dialect: &'static str,
        served: bool,
    },
    TopologyApplied(Box<TopologyObject>),
    /// As for groups.
    TopologyDeleted {
        key: TopologyKey,
        uid: Text,
    },
}

/// A fact about devices (resource.k8s.io).
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceEvent {
    SliceApplied(Box<ResourceSlice>),
    /// As for nodes, with a UID only that very slice is meant.
    SliceDeleted {
        name: Text,
        uid: Text,
    },
    ClassApplied(Box<DeviceClass>),
    ClassDeleted {
        name: Text,
    },
    TaintRuleApplied(Box<DeviceTaintRule>),
    TaintRuleDeleted {
        name: Text,
    },
    ClaimApplied(Box<ResourceClaim>),
    ClaimDeleted {
        key: ClaimKey,
        uid: Text,
    },
}

/// Which parts of a node an update changed, as far as scheduling reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAspects {
    pub allocatable: bool,
    pub labels: bool,
    /// Taints or `spec.unschedulable`.
    pub taints: bool,
    pub images: bool,
    pub declared_features: bool,
    /// How its GPUs are linked.
    pub topology: bool,
    /// What its kubelet takes, as far as that is known: by what it has refused, and by what is told of
    /// NUMA cells.
    pub admission: bool,
}

impl NodeAspects {
    pub const ALL: NodeAspects = NodeAspects {
        allocatable: true,
        labels: true,
        taints: true,
        images: true,
        declared_features: true,
        topology: true,
        admission: true,
    };

    pub fn between(old: &Node, new: &Node) -> NodeAspects {
        NodeAspects {
            allocatable: old.allocatable != new.allocatable || old.pods_max != new.pods_max,
            labels: old.labels != new.labels,
            taints: old.taints != new.taints || old.unschedulable != new.unschedulable,
            images: old.images != new.images,
            declared_features: old.declared_features != new.declared_features,
            topology: old.topology != new.topology,
            admission: false,
        }
    }

    pub fn any(self) -> bool {
        self != NodeAspects::default()
    }
}

/// Which parts of a pod an update changed, as far as scheduling reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodAspects {
    pub labels: bool,
    pub tolerations: bool,
    pub gates_gone: bool,
    /// Some amount that it takes became smaller (in-place resize).
    pub scaled_down: bool,
    /// Anything else of its spec, or whether it can be understood.
    pub spec: bool,
    pub terminating: bool,
    /// Claims were made from its templates.
    pub claims: bool,
    /// What it says of groups.
    pub groups: bool,
    /// Which GPUs its share is of.
    pub gpus: bool,
}

impl PodAspects {
    pub fn between(old: &Pod, new: &Pod) -> PodAspects {
        let smaller = |a: i64, b: i64| b < a;
        let (was, is) = (&old.usage.real, &new.usage.real);
        PodAspects {
            labels: old.labels != new.labels,
            tolerations: old.spec.tolerations != new.spec.tolerations,
            gates_gone: !old.gates.is_empty() && new.gates.is_empty(),
            scaled_down: was.iter().any(|(name, amount)| smaller(amount, is.amount(name))),
            spec: old.spec != new.spec
                || old.priority != new.priority
                || old.problem != new.problem,
            terminating: old.terminating != new.terminating,
            claims: old.claim_statuses != new.claim_statuses,
            groups: old.group_hints() != new.group_hints(),
            gpus: old.gpu_numbers != new.gpu_numbers,
        }
    }

    pub fn any(self) -> bool {
        self != PodAspects::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageKind {
    Claim,
    Volume,
    StorageClass,
    CsiNode,
    Attachment,
}

/// What an event changed: queueing hints decide by it who is worth another attempt.
#[derive(Clone, Debug)]
pub enum Change {
    NodeAdded {
        node: NodeIdx,
    },
    NodeUpdated {
        node: NodeIdx,
        old: Arc<Node>,
        aspects: NodeAspects,
    },
    NodeDeleted {
        old: Arc<Node>,
    },
    /// A pod without a node appeared.
    PodAdded {
        uid: PodUid,
    },
    /// A pod took its place on a node, seen by watch; or a placed pod appeared.
    PodBound {
        uid: PodUid,
        node: NodeIdx,
    },
    PodUpdated {
        uid: PodUid,
        old: Box<Pod>,
        aspects: PodAspects,
    },
    /// A pod without a node is gone.
    PodDeleted {
        old: Box<Pod>,
    },
    /// A placed, assumed or nominated pod ended, is gone, or lost its place.
    PodFreed {
        old: Box<Pod>,
        node: NodeIdx,
    },
    Storage {
        kind: StorageKind,
        added: bool,
    },
    StorageDeleted {
        kind: StorageKind,
    },
    NamespaceChanged {
        name: Text,
    },
    SelectorOwnerChanged,
    Devices(DeviceChange),
    Groups(GroupChange),
}

/// What an event about groups changed.
#[derive(Clone, Debug)]
pub enum GroupChange {
    /// The object appeared, changed in what scheduling reads, or is gone.
    Group { key: GroupKey },
    /// What pods say in this dialect makes a group now, or no longer does.
    Dialect { name: &'static str },
    /// An object that describes a topology appeared, changed, or is gone.
    Topology { key: TopologyKey },
}

/// What an event about devices changed.
#[derive(Clone, Debug)]
pub enum DeviceChange {
    Slice,
    SliceGone,
    Class,
    ClassGone,
    TaintRule,
    Claim {
        key: ClaimKey,
        added: bool,
        /// Its devices are free again.
        deallocated: bool,
        /// Its allocation, reservations or device conditions differ.
        status: bool,
    },
    ClaimGone {
        key: ClaimKey,
    },
    /// Somebody has granted a device twice.
    Conflict(Box<Conflict>),
}

/// Tells whether an event is old news: the version that it brings is before the one that is known. 0
/// is no version.
pub(super) fn older(new: u64, known: u64) -> bool {
    new != 0 && new < known
}
