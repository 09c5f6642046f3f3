//! Resource claims and what is allocated to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::device::{DeviceTaintEffect, OpaqueConfig, Quantity};
use super::{NodeSelector, PodUid, Text, Timestamp};

/// Keeps an allocated claim from vanishing. Source: `resource.k8s.io` API, `Finalizer`.
pub const CLAIM_FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    pub namespace: Text,
    pub name: Text,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Key and UID: enough to write to this claim and to no other of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    pub key: ClaimKey,
    pub uid: Text,
}

impl ClaimRef {
    /// Tells whether this claim is meant. An empty UID means whichever claim has the key: of one
    /// that a plan makes it isn't known before.
    pub fn means(&self, claim: &ResourceClaim) -> bool {
        self.uid.is_empty() || self.uid == claim.uid
    }
}

/// One device, cluster-wide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: Text,
    pub pool: Text,
    pub device: Text,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceToleration {
    /// Empty with `exists`: every key.
    pub key: Text,
    pub exists: bool,
    pub value: Text,
    /// None: every effect.
    pub effect: Option<DeviceTaintEffect>,
    pub seconds: Option<i64>,
}

/// How many devices a request wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationMode {
    ExactCount(i64),
    All,
    /// A mode that isn't known.
    Unknown(Text),
}

/// A request for devices of one class, or one of the alternatives of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceRequest {
    /// As results name it: `request`, or `request/alternative`.
    pub name: Text,
    pub class: Text,
    pub selectors: Vec<Text>,
    pub mode: AllocationMode,
    pub admin: bool,
    pub tolerations: Vec<DeviceToleration>,
    /// Sorted by name.
    pub capacity: Vec<(Text, Quantity)>,
    /// Parts of the API that aren't supported, by field; the pod waits with a condition.
    pub unsupported: Option<Text>,
}

impl DeviceRequest {
    /// So many devices of a class, with nothing else asked of them.
    pub fn exact(name: impl Into<Text>, class: impl Into<Text>, count: i64) -> DeviceRequest {
        DeviceRequest {
            name: name.into(),
            class: class.into(),
            selectors: Vec::new(),
            mode: AllocationMode::ExactCount(count),
            admin: false,
            tolerations: Vec::new(),
            capacity: Vec::new(),
            unsupported: None,
        }
    }
}

/// An entry of `spec.devices.requests`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRequest {
    pub name: Text,
    /// One for `exactly`, in order of preference for `firstAvailable`, none if neither is known.
    pub alternatives: Vec<DeviceRequest>,
    pub first_available: bool,
}

impl ClaimRequest {
    /// A request without alternatives.
    pub fn only(request: DeviceRequest) -> ClaimRequest {
        let name = request.name.clone();
        ClaimRequest { name, alternatives: vec![request], first_available: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConstraintKind {
    /// All devices have the same value.
    Match,
    /// All devices have different values.
    Distinct,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceConstraint {
    /// Names of requests or of alternatives; empty for all.
    pub requests: Vec<Text>,
    pub kind: ConstraintKind,
    /// Fully qualified.
    pub attribute: Text,
}

impl DeviceConstraint {
    /// Tells whether the constraint is about `request`; the name of a request covers its
    /// alternatives.
    pub fn covers(&self, request: &str) -> bool {
        let parent = request.split_once('/').map(|(parent, _)| parent);
        let meant = |name: &Text| *name == request || parent.is_some_and(|p| *name == p);
        self.requests.is_empty() || self.requests.iter().any(meant)
    }
}

/// Which devices a claim asks for: the part of its spec that decides where it fits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceDemand {
    pub requests: Vec<ClaimRequest>,
    pub constraints: Vec<DeviceConstraint>,
}

impl DeviceDemand {
    /// Returns the alternatives of every request, in order; one that is exact has one.
    pub fn alternatives(&self) -> impl Iterator<Item = &DeviceRequest> {
        self.requests.iter().flat_map(|request| &request.alternatives)
    }
}

/// What a claim asks for. Immutable on the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimSpec {
    pub demand: Arc<DeviceDemand>,
    pub config: Vec<OpaqueConfig>,
}

/// One device of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceResult {
    pub request: Text,
    pub id: DeviceId,
    pub admin: bool,
    pub tolerations: Vec<DeviceToleration>,
    pub binding_conditions: Vec<Text>,
    pub binding_failure_conditions: Vec<Text>,
    pub share_id: Option<Text>,
    /// Of a device that is shared, for every capacity; sorted by name.
    pub consumed: Vec<(Text, Quantity)>,
    pub skip_node_operations: Vec<Text>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedConfig {
    pub from_class: bool,
    pub config: OpaqueConfig,
}

/// `status.allocation`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub results: Vec<DeviceResult>,
    pub config: Vec<AllocatedConfig>,
    /// None: usable everywhere.
    pub node_selector: Option<NodeSelector>,
    pub timestamp: Option<Timestamp>,
}

impl Allocation {
    /// Tells whether both grant the same devices to the same requests.
    pub fn grants_as(&self, other: &Allocation) -> bool {
        let grant = |result: &DeviceResult| {
            (result.request.clone(), result.id.clone(), result.share_id.clone())
        };
        self.results.iter().map(grant).eq(other.results.iter().map(grant))
    }
}

/// Who a claim is reserved for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consumer {
    Pod(PodUid),
    PodGroup { uid: Text, name: Text },
    Other { uid: Text },
}

/// What a driver says about an allocated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStatus {
    pub id: DeviceId,
    pub share_id: Option<Text>,
    /// Type of each condition, and whether it is True.
    pub conditions: BTreeMap<Text, bool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceClaim {
    pub key: ClaimKey,
    pub uid: Text,
    pub resource_version: u64,
    pub spec: Arc<ClaimSpec>,
    pub allocation: Option<Arc<Allocation>>,
    pub reserved_for: Vec<Consumer>,
    pub finalizers: Vec<Text>,
    pub terminating: bool,
    /// The pod that owns it as its controller.
    pub owner_pod: Option<PodUid>,
    /// The pod group that owns it as its controller, by UID.
    pub owner_group: Option<Text>,
    /// It was made by a scheduler for extended resources.
    pub extended_resources: bool,
    pub devices: Vec<DeviceStatus>,
    pub problem: Option<Text>,
}

impl ResourceClaim {
    pub fn reference(&self) -> ClaimRef {
        ClaimRef { key: self.key.clone(), uid: self.uid.clone() }
    }

    /// Tells whether the driver says that a condition of an allocated device is True.
    pub fn device_is(&self, result: &DeviceResult, condition: &Text) -> bool {
        let of =
            |status: &&DeviceStatus| status.id == result.id && status.share_id == result.share_id;
        let status = self.devices.iter().find(of);
        status.is_some_and(|status| status.conditions.get(condition) == Some(&true))
    }

    /// Returns the condition by which the driver says that it won't prepare an allocated device.
    pub fn binding_failure<'a>(&self, result: &'a DeviceResult) -> Option<&'a Text> {
        result.binding_failure_conditions.iter().find(|failure| self.device_is(result, failure))
    }

    pub fn is_reserved_for(&self, consumer: &Consumer) -> bool {
        self.reserved_for.contains(consumer)
    }

    pub fn reserved_for_pod(&self, pod: &PodUid) -> bool {
        self.reserved_for
            .iter()
            .any(|consumer| matches!(consumer, Consumer::Pod(uid) if uid == pod))
    }
}
