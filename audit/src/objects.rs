//! What the auditor keeps of an object: only what a verdict needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::moment::Moment;
use crate::quantity::Nanos;

/// Amount of each resource, `pods` among them.
pub(crate) type Amounts = BTreeMap<String, Nanos>;

#[derive(Clone, Debug)]
pub(crate) enum Object {
    Pod(Arc<Pod>),
    Node(Arc<Node>),
    Group(Arc<Group>),
    Lease(Arc<Lease>),
    Claim(Arc<Claim>),
    Slice(Arc<Slice>),
    Class(Arc<Class>),
    TaintRule(Arc<TaintRule>),
}

/// Names an object within its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: Name,
    pub(crate) uid: String,
    pub(crate) scheduler: String,
    pub(crate) node: Option<String>,
    pub(crate) nominated: Option<String>,
    /// Succeeded or Failed: holds nothing.
    pub(crate) is_terminal: bool,
    pub(crate) has_failed: bool,
    /// Its deletion was asked for; it holds what it holds until it is gone.
    pub(crate) is_deleting: bool,
    pub(crate) is_gated: bool,
    pub(crate) requests: Amounts,
    pub(crate) ports: BTreeSet<HostPort>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) node_selector: BTreeMap<String, String>,
    /// The PodGroup of the same namespace.
    pub(crate) group: Option<String>,
    /// PodScheduled is False, with a reason and a message.
    pub(crate) has_reason: bool,
    /// Whether requests, node selector, taints and cordons alone decide where it may go.
    pub(crate) is_plain: bool,
    /// It forbids others beside it.
    pub(crate) has_anti_affinity: bool,
    /// Names of the claims that it uses, as far as they are made.
    pub(crate) claims: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) port: i64,
    pub(crate) protocol: String,
    /// Empty for all addresses.
    pub(crate) ip: String,
}

impl HostPort {
    pub(crate) fn collides(&self, other: &Self) -> bool {
        let same_port = self.port == other.port && self.protocol == other.protocol;
        same_port && (self.ip == other.ip || self.ip.is_empty() || other.ip.is_empty())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toleration {
    /// Empty for all keys.
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) value: String,
    /// Empty for all effects.
    pub(crate) effect: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

impl Toleration {
    /// Operators other than `Equal` and `Exists` are believed to match.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        let is_equality = self.operator.is_empty() || self.operator == "Equal";
        effect && key && (!is_equality || self.value == taint.value)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) allocatable: Amounts,
    pub(crate) is_ready: bool,
    /// NoSchedule and NoExecute; a cordon is one of them.
    pub(crate) taints: Vec<Taint>,
}

impl Node {
    /// Returns a taint that keeps the pod away.
    pub(crate) fn untolerated(&self, pod: &Pod) -> Option<&Taint> {
        let tolerated = |taint: &Taint| pod.tolerations.iter().any(|t| t.tolerates(taint));
        self.taints.iter().find(|taint| !tolerated(taint))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: Name,
    /// Nothing where members come one by one.
    pub(crate) min_count: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: Name,
    /// Empty after a release.
    pub(crate) holder: String,
    /// By the holder's own clock.
    pub(crate) renewed: Option<Moment>,
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: Name,
    pub(crate) uid: String,
    /// Name and UID of each pod that it is reserved for.
    pub(crate) reserved_for: Vec<(String, String)>,
    /// Whether it is reserved for anybody at all, groups of pods included.
    pub(crate) is_reserved: bool,
    /// None: nothing is allocated. A claim without requests is allocated no devices.
    pub(crate) allocation: Option<Vec<Grant>>,
    /// The class of each request, by the name that results have for it.
    pub(crate) classes: BTreeMap<String, String>,
    /// It was to be deleted, and something keeps it.
    pub(crate) is_deleting: bool,
    /// It has the finalizer that whoever allocates puts on.
    pub(crate) is_protected: bool,
}

/// One device, cluster-wide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceId {
    pub(crate) pool: PoolId,
    pub(crate) device: String,
}

/// Pools of different drivers may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId {
    pub(crate) driver: String,
    pub(crate) pool: String,
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}/{}", self.pool.driver, self.pool.pool, self.device)
    }
}

/// A device that is allocated to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: DeviceId,
    pub(crate) request: String,
    /// It takes the device from nobody.
    pub(crate) is_admin: bool,
    /// Names the share; nothing: the device is the claim's alone.
    pub(crate) share: Option<String>,
    /// What the share takes of each capacity.
    pub(crate) consumed: Amounts,
    pub(crate) tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) pool: PoolId,
    pub(crate) generation: i64,
    /// Its devices can be had on this node only; nothing: on several, or each says where.
    pub(crate) node: Option<String>,
    /// How many slices the pool has at this generation.
    pub(crate) count: u64,
    pub(crate) devices: Vec<Device>,
    /// Counters of each set.
    pub(crate) counters: BTreeMap<String, Amounts>,
    /// Something of it can't be read: nothing of its pool is known for sure.
    pub(crate) is_unreadable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// NoSchedule and NoExecute.
    pub(crate) taints: Vec<Taint>,
    pub(crate) capacity: Amounts,
    /// What it takes of the counters of each set, however many claims have a share of it.
    pub(crate) consumes: Vec<(String, Amounts)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) name: String,
    /// A selector that is none as we know them.
    pub(crate) is_unreadable: bool,
}

/// Taints devices from outside of their slices.
#[derive(Clone, Debug)]
pub(crate) struct TaintRule {
    /// Nothing: all of them.
    pub(crate) driver: Option<String>,
    pub(crate) pool: Option<String>,
    pub(crate) device: Option<String>,
    /// NoSchedule or NoExecute; nothing for an effect that does not count.
    pub(crate) taint: Option<Taint>,
}

impl TaintRule {
    pub(crate) fn is_about(&self, id: &DeviceId) -> bool {
        let same = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|w| w == has);
        same(&self.driver, &id.pool.driver)
            && same(&self.pool, &id.pool.pool)
            && same(&self.device, &id.device)
    }
}
