//! What is allocated to a claim, and to whom it is reserved.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::types::claim::{
    AllocatedConfig, Allocation, Consumer, DeviceId, DeviceResult, DeviceStatus, ResourceClaim,
};
use berth_core::types::{PodUid, Text, Timestamp};

use super::tolerations;
use crate::wire::device;
use crate::wire::field::Field;
use crate::wire::k8s::claim as k8s;
use crate::wire::meta::{parse_time, timestamp};
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

const STATUS: Path<'static> = Path::Root("status");

pub(super) fn read(
    reading: &mut Reading<'_>,
    status: &Field<k8s::ClaimStatus>,
    claim: &mut ResourceClaim,
) {
    let Some(status) = reading.opt(&STATUS, status) else { return };
    let at = STATUS.field("allocation");
    claim.allocation = match &status.allocation {
        Field::Absent => None,
        // Nobody else may think that the claim is free.
        Field::Odd(_) => {
            reading.opt(&at, &status.allocation);
            Some(Arc::default())
        }
        Field::Is(wire) => Some(Arc::new(allocation(reading, &at, wire))),
    };
    reading.each(&STATUS.field("reservedFor"), &status.reserved_for, |reading, at, wire| {
        claim.reserved_for.push(consumer(reading, at, wire));
    });
    reading.each(&STATUS.field("devices"), &status.devices, |reading, at, wire| {
        claim.devices.push(device_status(reading, at, wire));
    });
}

fn allocation(reading: &mut Reading<'_>, at: &Path<'_>, wire: &k8s::Allocation) -> Allocation {
    let mut allocation = Allocation::default();
    let devices_at = at.field("devices");
    if let Some(devices) = reading.opt(&devices_at, &wire.devices) {
        reading.each(&devices_at.field("results"), &devices.results, |reading, at, wire| {
            allocation.results.push(result(reading, at, wire));
        });
        reading.each(&devices_at.field("config"), &devices.config, |reading, at, wire| {
            let from_class = reading.text(&at.field("source"), &wire.source) == "FromClass";
            let config = device::config(reading, at, wire);
            allocation.config.extend(config.map(|config| AllocatedConfig { from_class, config }));
        });
    }
    let selector_at = at.field("nodeSelector");
    allocation.node_selector = match &wire.node_selector {
        Field::Absent => None,
        Field::Is(selector) => Some(reading.node_selector(&selector_at, selector)),
        Field::Odd(_) => {
            reading.opt(&selector_at, &wire.node_selector);
            Some(Default::default())
        }
    };
    allocation.timestamp = time(reading, &at.field("allocationTimestamp"), wire);
    allocation
}

fn time(reading: &mut Reading<'_>, at: &Path<'_>, wire: &k8s::Allocation) -> Option<Timestamp> {
    let text = reading.opt(at, &wire.allocation_timestamp)?;
    let time = parse_time(text);
    if time.is_none() {
        reading.problem(at, "is not a time");
    }
    time.as_ref().map(timestamp)
}

fn result(reading: &mut Reading<'_>, at: &Path<'_>, wire: &k8s::DeviceResult) -> DeviceResult {
    let id = (&wire.driver, &wire.pool, &wire.device);
    let (conditions_at, failures_at) =
        (at.field("bindingConditions"), at.field("bindingFailureConditions"));
    let skip_at = at.field("skipNodeOperations");
    DeviceResult {
        request: reading.text(&at.field("request"), &wire.request),
        id: device_id(reading, at, id),
        admin: reading.flag(&at.field("adminAccess"), &wire.admin_access),
        tolerations: tolerations(reading, &at.field("tolerations"), &wire.tolerations),
        binding_conditions: reading.texts(&conditions_at, &wire.binding_conditions),
        binding_failure_conditions: reading.texts(&failures_at, &wire.binding_failure_conditions),
        share_id: share_id(reading, at, &wire.share_id),
        consumed: device::amounts(reading, &at.field("consumedCapacity"), &wire.consumed_capacity),
        skip_node_operations: reading.texts(&skip_at, &wire.skip_node_operations),
    }
}

fn device_id(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    (driver, pool, device): (&Field<String>, &Field<String>, &Field<String>),
) -> DeviceId {
    DeviceId {
        driver: reading.required_text(&at.field("driver"), driver),
        pool: reading.required_text(&at.field("pool"), pool),
        device: reading.required_text(&at.field("device"), device),
    }
}

/// Each is unique, so none is interned.
fn share_id(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<String>) -> Option<Text> {
    reading.opt(&at.field("shareID"), field).map(|id| Text::from(id.as_str()))
}

fn consumer(reading: &mut Reading<'_>, at: &Path<'_>, wire: &k8s::Consumer) -> Consumer {
    let group = reading.text(&at.field("apiGroup"), &wire.api_group);
    let resource = reading.text(&at.field("resource"), &wire.resource);
    let name = reading.opt(&at.field("name"), &wire.name).map_or("", String::as_str);
    let uid = reading.opt(&at.field("uid"), &wire.uid).map_or("", String::as_str);
    let uid = Text::from(uid);
    match (group.as_str(), resource.as_str()) {
        ("", "pods") => Consumer::Pod(PodUid(uid)),
        ("scheduling.k8s.io", "podgroups") => Consumer::PodGroup { uid, name: name.into() },
        _ => Consumer::Other { uid },
    }
}

fn device_status(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::DeviceStatus,
) -> DeviceStatus {
    let mut conditions = BTreeMap::new();
    reading.each(&at.field("conditions"), &wire.conditions, |reading, at, condition| {
        let name = reading.text(&at.field("type"), &condition.r#type);
        let status = reading.text(&at.field("status"), &condition.status);
        conditions.insert(name, status == "True");
    });
    DeviceStatus {
        id: device_id(reading, at, (&wire.driver, &wire.pool, &wire.device)),
        share_id: share_id(reading, at, &wire.share_id),
        conditions,
    }
}
