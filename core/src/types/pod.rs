//! A pod as scheduling reads it: identity and state in [`Pod`], what is asked for in [`PodSpec`].
//!
//! Pods of one job share one [`PodSpec`] allocation, so that a pod costs little and its class is
//! found by content.

use std::fmt;
use std::sync::Arc;

use super::gpu_share::{GpuNumbers, GpuShare};
use super::group::{GroupHint, PlanNote};
use super::node::{Taint, TaintEffect};
use super::numa::Alignment;
use super::{
    ImageId, LabelSelector, Labels, NodeSelector, NodeTerm, PodRequests, Resources, Text, Timestamp,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(pub Text);

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A pod's name and UID: enough to write to it and to nobody else of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    pub namespace: Text,
    pub name: Text,
    pub uid: PodUid,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreemptionPolicy {
    #[default]
    PreemptLowerPriority,
    Never,
}

/// The condition PodScheduled=False as it stands on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub reason: Text,
    pub message: Text,
}

/// The controller that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub kind: Text,
    pub name: Text,
    pub uid: Text,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub uid: PodUid,
    pub namespace: Text,
    pub name: Text,
    pub resource_version: u64,
    pub generation: i64,
    pub labels: Labels,
    pub spec: Arc<PodSpec>,
    pub priority: i32,
    pub preemption_policy: PreemptionPolicy,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub gates: Vec<Text>,
    pub node_name: Option<Text>,
    pub nominated_node: Option<Text>,
    pub phase: Phase,
    /// Why its kubelet has refused it, of a pod that has failed by that.
    pub refused: Option<Text>,
    /// It has a deletionTimestamp. It holds its resources until it is gone.
    pub terminating: bool,
    /// What it takes on its node; differs from `spec.requests` while it is resized in place.
    pub usage: Arc<PodRequests>,
    /// The limits of its containers together; nothing is decided by them.
    pub limits: Arc<Resources>,
    pub unscheduled: Option<Condition>,
    pub owner: Option<Owner>,
    /// `status.resourceClaimStatuses`: entry and the claim made for it, none if it needs none.
    pub claim_statuses: Vec<(Text, Option<Text>)>,
    /// Which GPUs of its node its share is of, as was said when it was bound.
    pub gpu_numbers: Option<GpuNumbers>,
    /// None for a pod that is in no group and was never bound with one.
    pub gang: Option<Box<GangFacts>>,
    /// Why the object can't be understood; such a pod is accounted for as far as it was read, and
    /// never scheduled.
    pub problem: Option<Text>,
}

/// What a pod says about the group that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangFacts {
    /// At most one of a dialect.
    pub hints: Vec<GroupHint>,
    /// The commit that bound it.
    pub plan: Option<PlanNote>,
    /// When it was bound, as its condition PodScheduled says.
    pub scheduled: Option<Timestamp>,
    /// When its first container began to run.
    pub running: Option<Timestamp>,
}

impl Pod {
    /// Notes what the pod says in one dialect.
    pub fn add_group_hint(&mut self, hint: GroupHint) {
        self.gang.get_or_insert_default().hints.push(hint);
    }

    /// Returns what the pod says of groups, one hint a dialect.
    pub fn group_hints(&self) -> &[GroupHint] {
        self.gang.as_ref().map_or(&[], |gang| &gang.hints)
    }

    /// Returns the commit that bound the pod.
    pub fn plan_note(&self) -> Option<&PlanNote> {
        self.gang.as_ref()?.plan.as_ref()
    }

    /// Returns the part of GPUs that it asks for, if that can be understood.
    pub fn gpu_share(&self) -> Option<GpuShare> {
        self.spec.gpu_share.as_ref()?.as_ref().ok().copied()
    }

    pub fn reference(&self) -> PodRef {
        PodRef { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() }
    }

    /// Tells whether the pod has ended: it holds nothing any more.
    pub fn finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

/// What a pod asks for: the part that Filter and Score read, without its name and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSpec {
    pub scheduler_name: Text,
    pub requests: PodRequests,
    /// Sorted by key.
    pub node_selector: Vec<(Text, Text)>,
    pub node_affinity: NodeAffinity,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<SpreadConstraint>,
    pub required_affinity: Vec<PodAffinityTerm>,
    pub required_anti_affinity: Vec<PodAffinityTerm>,
    /// Number of preferred inter-pod terms, of both kinds.
    pub preferred_pod_terms: u32,
    pub host_ports: Vec<HostPort>,
    /// Images of containers and init containers, in order, repeated as in the spec.
    pub images: Vec<ImageId>,
    /// References of image volumes.
    pub image_volumes: Vec<ImageId>,
    pub volumes: Vec<VolumeSource>,
    pub claims: Vec<PodClaim>,
    /// Containers that ask for resources which a device class may back.
    pub extended: Vec<ContainerExtended>,
    /// What its kubelet may have to align to NUMA cells; `None`: nothing.
    pub alignment: Option<Box<Alignment>>,
    /// Node features that the spec needs (KEP-5328), sorted.
    pub required_features: Vec<Text>,
    /// The part of GPUs that annotations ask for, or what is wrong with them.
    pub gpu_share: Option<Result<GpuShare, Text>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAffinity {
    pub required: Option<NodeSelector>,
    pub preferred: Vec<PreferredTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreferredTerm {
    /// 1 to 100.
    pub weight: i32,
    pub term: NodeTerm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
    /// The taint's value is an integer below the toleration's (gate TaintTolerationComparisonOperators).
    Lt,
    /// The taint's value is an integer above the toleration's.
    Gt,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Empty with `Exists`: every key.
    pub key: Text,
    pub operator: TolerationOperator,
    pub value: Text,
    /// None: every effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Tells whether it covers a taint.
    ///
    /// `Lt` and `Gt` are evaluated without asking for their feature gate: where it is off, the border
    /// leaves such tolerations out, since then they tolerate nothing.
    ///
    /// Source: `Toleration.ToleratesTaint` of k8s.io/api/core/v1.
    pub fn covers(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect)
            || !self.key.is_empty() && self.key != taint.key
        {
            return false;
        }
        match self.operator {
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Exists => true,
            TolerationOperator::Lt => self.compares(taint, |taint, bound| taint < bound),
            TolerationOperator::Gt => self.compares(taint, |taint, bound| taint > bound),
        }
    }

    /// Values that are no integers are not comparable, so nothing is tolerated.
    fn compares(&self, taint: &Taint, ordered: fn(i64, i64) -> bool) -> bool {
        match (plain_integer(&taint.value), plain_integer(&self.value)) {
            (Some(taint), Some(bound)) => ordered(taint, bound),
            _ => false,
        }
    }
}

/// Reads a decimal without plus sign and leading zeros, as the API server admits it.
fn plain_integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpreadConstraint {
    pub max_skew: i32,
    pub topology_key: Text,
    pub hard: bool,
    /// None selects nothing.
    pub selector: Option<LabelSelector>,
    pub min_domains: Option<i32>,
    /// Nodes that the pod's node affinity excludes aren't counted (default).
    pub honor_node_affinity: bool,
    /// Nodes with untolerated taints aren't counted (default: they are).
    pub honor_node_taints: bool,
    pub match_label_keys: Vec<Text>,
}

/// A required inter-pod term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAffinityTerm {
    pub topology_key: Text,
    /// None selects nothing.
    pub selector: Option<LabelSelector>,
    pub namespaces: Vec<Text>,
    /// None: no further namespace; empty: all. With neither this nor `namespaces`, the pod's own.
    pub namespace_selector: Option<LabelSelector>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// "0.0.0.0" where the spec names none.
    pub ip: Text,
    pub protocol: Protocol,
    pub port: u16,
}

/// A volume that scheduling cares about; config maps, secrets and the like are left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeSource {
    Claim {
        name: Text,
    },
    /// A generic ephemeral volume; its claim is called `<pod>-<volume>`.
    Ephemeral {
        volume: Text,
    },
    GcePersistentDisk {
        name: Text,
        read_only: bool,
    },
    AwsElasticBlockStore {
        volume_id: Text,
    },
    Iscsi {
        iqn: Text,
        read_only: bool,
    },
    Rbd {
        monitors: Vec<Text>,
        pool: Text,
        image: Text,
        read_only: bool,
    },
    /// An inline CSI volume of this driver; counts towards the driver's limit.
    InlineCsi {
        driver: Text,
        volume: Text,
    },
}

/// What one container asks for of resources that a device class may back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerExtended {
    pub container: Text,
    /// Its place among init containers and containers, in this order.
    pub index: u32,
    /// It is an init container that has ended before the others start.
    pub ends: bool,
    /// Sorted by resource.
    pub resources: Vec<ExtendedAmount>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtendedAmount {
    pub resource: Text,
    /// Above 0.
    pub amount: i64,
    /// Its place among all requests of the container, by name.
    pub index: u32,
}

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodClaim {
    pub name: Text,
    /// The claim's own name, or that of the template it is made from.
    pub source: Text,
    pub from_template: bool,
}
