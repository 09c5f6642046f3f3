//! Devices, slices, requests and claims for tests of the allocator.

use std::sync::Arc;

use berth_core::types::claim::{
    AllocationMode, ClaimRequest, ConstraintKind, DeviceConstraint, DeviceDemand, DeviceRequest,
};
use berth_core::types::device::{
    AttributeValue, Capacity, Consumption, CounterSet, DeviceModel, DeviceTaint, DeviceTaintEffect,
    NANOS, Placement, PolicyValues, Quantity, RequestPolicy,
};
use berth_core::types::{Device, ResourceSlice, Text};

use super::testing::{DRIVER, NODE};

pub(super) fn slice(name: &str, devices: Vec<Device>) -> ResourceSlice {
    ResourceSlice {
        name: name.into(),
        uid: name.into(),
        resource_version: 1,
        driver: DRIVER.into(),
        pool: "pool".into(),
        generation: 1,
        slice_count: 1,
        placement: Placement::Node(NODE.into()),
        devices,
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    }
}

pub(super) fn gi(n: i64) -> Quantity {
    Quantity { nanos: (i128::from(n) * NANOS) << 30, text: format!("{n}Gi").into() }
}

pub(super) fn counter_set(name: &str, counters: &[(&str, i64)]) -> CounterSet {
    let counters = counters.iter().map(|(name, n)| (Text::from(*name), gi(*n)));
    CounterSet { name: name.into(), counters: counters.collect() }
}

pub(super) fn device(name: &str) -> Device {
    Device { name: name.into(), ..Device::default() }
}

pub(super) fn devices(names: &[&str]) -> Vec<Device> {
    names.iter().map(|name| device(name)).collect()
}

/// Says more about a device.
pub(super) trait With: Sized {
    fn model(self, change: impl FnOnce(&mut DeviceModel)) -> Self;
    fn draws(self, set: &str, counters: &[(&str, i64)]) -> Self;

    fn with(self, attribute: &str, value: AttributeValue) -> Self {
        self.model(|model| {
            let mut attributes = std::mem::take(&mut model.attributes).into_vec();
            attributes.push((attribute.into(), value));
            attributes.sort();
            model.attributes = attributes.into();
        })
    }

    fn text(self, attribute: &str, value: &str) -> Self {
        self.with(attribute, AttributeValue::String(value.into()))
    }

    fn list(self, attribute: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| Text::from(*value)).collect();
        self.with(attribute, AttributeValue::Strings(values))
    }

    fn capacity(self, name: &str, n: i64, policy: Option<PolicyValues>) -> Self {
        let policy = policy.map(|values| RequestPolicy { default: None, values });
        let capacity = Capacity { name: name.into(), value: gi(n), policy };
        self.model(|model| {
            let mut all = model.capacity.to_vec();
            all.push(capacity);
            all.sort();
            model.capacity = all.into();
        })
    }

    fn shared(self) -> Self {
        self.model(|model| model.multi_allocatable = true)
    }

    fn tainted(self, key: &str) -> Self {
        let effect = DeviceTaintEffect::NoSchedule;
        let taint = DeviceTaint { key: key.into(), value: "".into(), effect };
        self.model(|model| model.taints = Box::new([taint]))
    }
}

impl With for Device {
    fn model(mut self, change: impl FnOnce(&mut DeviceModel)) -> Device {
        change(Arc::make_mut(&mut self.model));
        self
    }

    fn draws(mut self, set: &str, counters: &[(&str, i64)]) -> Device {
        let counter_set = counter_set(set, counters);
        let consumption = Consumption { set: counter_set.name, counters: counter_set.counters };
        let mut all = std::mem::take(&mut self.consumes).into_vec();
        all.push(consumption);
        self.consumes = all.into();
        self
    }
}

pub(super) fn request(name: &str) -> DeviceRequest {
    DeviceRequest::exact(name, "any", 1)
}

pub(super) fn count(name: &str, n: i64) -> DeviceRequest {
    DeviceRequest { mode: AllocationMode::ExactCount(n), ..request(name) }
}

pub(super) fn all(name: &str) -> DeviceRequest {
    DeviceRequest { mode: AllocationMode::All, ..request(name) }
}

pub(super) fn admin(name: &str) -> DeviceRequest {
    DeviceRequest { admin: true, ..request(name) }
}

pub(super) fn selecting(request: DeviceRequest, selector: &str) -> DeviceRequest {
    DeviceRequest { selectors: vec![selector.into()], ..request }
}

/// Devices whose attribute `kind` is `value`.
pub(super) fn of_kind(request: DeviceRequest, value: &str) -> DeviceRequest {
    selecting(request, &format!("device.attributes[\"{DRIVER}\"].kind == \"{value}\""))
}

pub(super) fn exactly(request: DeviceRequest) -> ClaimRequest {
    ClaimRequest { name: request.name.clone(), alternatives: vec![request], first_available: false }
}

pub(super) fn first_of(name: &str, alternatives: Vec<DeviceRequest>) -> ClaimRequest {
    let named = alternatives.into_iter().map(|alternative| {
        let name = format!("{name}/{}", alternative.name).into();
        DeviceRequest { name, ..alternative }
    });
    let alternatives = named.collect();
    ClaimRequest { name: name.into(), alternatives, first_available: true }
}

pub(super) fn claim(requests: Vec<ClaimRequest>) -> Arc<DeviceDemand> {
    Arc::new(DeviceDemand { requests, constraints: Vec::new() })
}

/// A claim of one request.
pub(super) fn one(request: DeviceRequest) -> Arc<DeviceDemand> {
    claim(vec![exactly(request)])
}

/// The claim with a constraint over all of its requests.
pub(super) fn under(
    claim: Arc<DeviceDemand>,
    kind: ConstraintKind,
    attribute: &str,
) -> Arc<DeviceDemand> {
    let mut demand = (*claim).clone();
    let attribute = format!("{DRIVER}/{attribute}").into();
    demand.constraints.push(DeviceConstraint { requests: Vec::new(), kind, attribute });
    Arc::new(demand)
}
