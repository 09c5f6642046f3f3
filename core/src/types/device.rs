//! Devices as drivers publish them: slices, classes and taint rules of resource.k8s.io/v1.
//!
//! Devices of one model differ in a name and one or two attributes. What they share is one
//! allocation ([`DeviceModel`]), so that a device costs little.

use std::sync::Arc;

use super::{NodeSelector, Text, Timestamp, Value};

/// An amount of a capacity or counter, exact for all that the API can express.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    /// In billionths.
    pub nanos: i128,
    /// As it was written, for selectors and for writing it back.
    pub text: Text,
}

pub const NANOS: i128 = 1_000_000_000;

/// The value of an attribute. A version is kept as its text: constraints compare it so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeValue {
    Bool(bool),
    Int(i64),
    String(Text),
    Version(Text),
    Bools(Arc<[bool]>),
    Ints(Arc<[i64]>),
    Strings(Arc<[Text]>),
    Versions(Arc<[Text]>),
}

/// Attributes by qualified name as published (a bare name belongs to the driver), sorted.
pub type Attributes = [(Text, AttributeValue)];

/// Where a slice or device can be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    Node(Text),
    Selector(Arc<NodeSelector>),
    AllNodes,
    /// Each device says so itself; for slices only.
    PerDevice,
    /// None of the kinds that are known.
    Unknown,
}

/// Whether a taint keeps pods off. Effects that aren't known count as `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceTaintEffect {
    None,
    NoSchedule,
    NoExecute,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceTaint {
    pub key: Text,
    pub value: Text,
    pub effect: DeviceTaintEffect,
}

/// How much of a capacity a share may take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestPolicy {
    /// What a request that doesn't name the capacity takes.
    pub default: Option<Quantity>,
    pub values: PolicyValues,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyValues {
    Any,
    /// Ascending.
    OneOf(Vec<Quantity>),
    Range {
        min: Quantity,
        max: Option<Quantity>,
        step: Option<Quantity>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity {
    pub name: Text,
    pub value: Quantity,
    pub policy: Option<RequestPolicy>,
}

/// What a device takes of a counter set of its pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumption {
    pub set: Text,
    /// Sorted by counter; devices of one shape share it.
    pub counters: Arc<[(Text, Quantity)]>,
}

/// What devices of one model have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceModel {
    /// Sorted by name.
    pub attributes: Box<Attributes>,
    /// Sorted by name; models that differ in attributes only share it.
    pub capacity: Arc<[Capacity]>,
    pub taints: Box<[DeviceTaint]>,
    /// The allocation is usable on the chosen node only, wherever the device may be used.
    pub binds_to_node: bool,
    pub binding_conditions: Box<[Text]>,
    pub binding_failure_conditions: Box<[Text]>,
    pub multi_allocatable: bool,
    /// For slices that leave it to the device.
    pub placement: Option<Placement>,
    /// Parts of the API that aren't supported, by field; a pod that would get the device waits.
    pub unsupported: Option<Text>,
}

/// A device of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    pub name: Text,
    pub model: Arc<DeviceModel>,
    /// What tells it, and the few that are parts of the same thing, from others of its model: IDs.
    /// Sorted by name.
    pub own: Arc<Attributes>,
    pub consumes: Box<[Consumption]>,
}

impl Device {
    /// Returns the attribute published under this very name.
    pub fn published(&self, name: &str) -> Option<&AttributeValue> {
        found(&self.own, name).or_else(|| found(&self.model.attributes, name))
    }

    /// Returns the attribute of a fully qualified name: the name itself, or the bare identifier
    /// where its domain is the driver.
    pub fn attribute(&self, driver: &str, name: &str) -> Option<&AttributeValue> {
        self.published(name).or_else(|| match name.split_once('/') {
            Some((domain, bare)) if domain == driver => self.published(bare),
            Some(_) | None => None,
        })
    }

    /// Returns all attributes, in no particular order.
    pub fn attributes(&self) -> impl Iterator<Item = &(Text, AttributeValue)> {
        self.model.attributes.iter().chain(self.own.iter())
    }

    pub fn capacity(&self, name: &str) -> Option<&Capacity> {
        let at = self.model.capacity.binary_search_by(|c| c.name.as_str().cmp(name)).ok()?;
        Some(&self.model.capacity[at])
    }
}

fn found<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a AttributeValue> {
    let at = attributes.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
    Some(&attributes[at].1)
}

/// A set of counters that devices of the pool share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSet {
    pub name: Text,
    /// Sorted by counter.
    pub counters: Arc<[(Text, Quantity)]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSlice {
    pub name: Text,
    pub uid: Text,
    pub resource_version: u64,
    pub driver: Text,
    pub pool: Text,
    pub generation: i64,
    /// Number of slices that this generation of the pool has.
    pub slice_count: i64,
    pub placement: Placement,
    pub devices: Vec<Device>,
    pub counter_sets: Vec<CounterSet>,
    pub skip_node_operations: Vec<Text>,
    /// Why the object can't be understood; the pool counts as invalid then.
    pub problem: Option<Text>,
}

/// An entry of `config`: parameters for a driver, handed on as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueConfig {
    /// For claims: the requests that it is for; empty for all.
    pub requests: Vec<Text>,
    pub driver: Text,
    pub parameters: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceClass {
    pub name: Text,
    pub created: Timestamp,
    pub resource_version: u64,
    pub selectors: Vec<Text>,
    pub config: Vec<OpaqueConfig>,
    /// `spec.extendedResourceName`.
    pub extended_resource: Option<Text>,
    pub problem: Option<Text>,
}

/// Taints put on devices by an administrator. A selector that is absent selects nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTaintRule {
    pub name: Text,
    pub resource_version: u64,
    pub selector: Option<TaintedDevices>,
    pub taint: DeviceTaint,
}

/// Which devices; a part that is absent matches every one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintedDevices {
    pub driver: Option<Text>,
    pub pool: Option<Text>,
    pub device: Option<Text>,
}

impl TaintedDevices {
    pub fn select(&self, driver: &str, pool: &str, device: &str) -> bool {
        let meets = |wanted: &Option<Text>, name| wanted.as_ref().is_none_or(|w| w == name);
        meets(&self.driver, driver) && meets(&self.pool, pool) && meets(&self.device, device)
    }
}
