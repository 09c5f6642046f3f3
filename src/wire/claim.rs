//! Resource claims. The conversion is total: what can't be understood becomes
//! [`ResourceClaim::problem`], and pods wait for such a claim; what it holds counts all the same.

mod status;

use std::sync::Arc;

use berth_core::types::claim::{
    AllocationMode, ClaimKey, ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint,
    DeviceDemand, DeviceRequest, DeviceToleration, ResourceClaim,
};
use berth_core::types::{PodUid, Text};

use super::device::{self, at_most, is_set};
use super::field::{Field, List};
use super::k8s::claim as k8s;
use super::meta::{EXTENDED_RESOURCE_CLAIM, Meta};
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::tables::Tables;

/// Sources: `DeviceRequestsMaxSize`, `DeviceConstraintsMaxSize`, `FirstAvailableDeviceRequestMaxSize`
/// and `DeviceConfigMaxSize` of the API.
const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const CONFIG_MAX: usize = 32;

const SPEC: Path<'static> = Path::Root("spec");

/// Returns the claim.
pub fn claim(claim: k8s::ResourceClaim, tables: &mut Tables) -> (ResourceClaim, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let meta = &claim.metadata;
    reading.metadata_problems(meta);
    let (owner_pod, owner_group) = owners(meta);
    let mut result = ResourceClaim {
        key: ClaimKey {
            namespace: reading.namespace(meta),
            name: Text::from(meta.object.name.as_deref().unwrap_or("")),
        },
        uid: Text::from(meta.object.uid.as_deref().unwrap_or("")),
        resource_version: meta.resource_version(),
        spec: Arc::new(spec(&mut reading, &claim.spec)),
        finalizers: finalizers(&mut reading, meta),
        terminating: meta.terminating(),
        owner_pod,
        owner_group,
        extended_resources: meta.annotation(EXTENDED_RESOURCE_CLAIM) == Some("true"),
        ..ResourceClaim::default()
    };
    status::read(&mut reading, &claim.status, &mut result);
    result.problem = reading.problems.summary().map(Text::from);
    (result, reading.finish())
}

/// Returns the pod, or the pod group, that controls the claim.
fn owners(meta: &Meta) -> (Option<PodUid>, Option<Text>) {
    let Some(owner) = meta.controller() else { return (None, None) };
    let (group, uid) = (owner.api_version.split_once('/'), Text::from(owner.uid.as_str()));
    match (group, owner.kind.as_str()) {
        (None, "Pod") => (Some(PodUid(uid)), None),
        (Some(("scheduling.k8s.io", _)), "PodGroup") => (None, Some(uid)),
        _ => (None, None),
    }
}

fn finalizers(reading: &mut Reading<'_>, meta: &Meta) -> Vec<Text> {
    let names = meta.object.finalizers.iter().flatten();
    names.map(|name| reading.tables.intern(name)).collect()
}

fn spec(reading: &mut Reading<'_>, spec: &Field<k8s::ClaimSpec>) -> ClaimSpec {
    let absent = k8s::DeviceClaim::default();
    let at = SPEC.field("devices");
    let spec = reading.required(&SPEC, spec);
    let devices = spec.and_then(|spec| reading.opt(&at, &spec.devices)).unwrap_or(&absent);
    let mut demand = DeviceDemand::default();
    let requests_at = at.field("requests");
    reading.each(&requests_at, &devices.requests, |reading, at, request| {
        demand.requests.push(claim_request(reading, at, request));
    });
    at_most(reading, &requests_at, demand.requests.len(), REQUESTS_MAX);
    let constraints_at = at.field("constraints");
    reading.each(&constraints_at, &devices.constraints, |reading, at, wire| {
        demand.constraints.push(constraint(reading, at, wire));
    });
    at_most(reading, &constraints_at, demand.constraints.len(), CONSTRAINTS_MAX);
    let mut config = Vec::new();
    let config_at = at.field("config");
    reading.each(&config_at, &devices.config, |reading, at, entry| {
        config.extend(device::config(reading, at, entry));
    });
    at_most(reading, &config_at, config.len(), CONFIG_MAX);
    ClaimSpec { demand: reading.tables.demand(demand), config }
}

fn claim_request(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    request: &k8s::DeviceRequest,
) -> ClaimRequest {
    let name = reading.required_text(&at.field("name"), &request.name);
    let exactly_at = at.field("exactly");
    let exactly = reading.opt(&exactly_at, &request.exactly);
    let list_at = at.field("firstAvailable");
    let mut alternatives = Vec::new();
    reading.each(&list_at, &request.first_available, |reading, at, wanted| {
        let own = reading.required_text(&at.field("name"), &wanted.name);
        let name = reading.tables.intern(&format!("{name}/{own}"));
        alternatives.push(device_request(reading, at, name, wanted));
    });
    at_most(reading, &list_at, alternatives.len(), ALTERNATIVES_MAX);
    let first_available = !alternatives.is_empty();
    match exactly {
        Some(_) if first_available => {
            reading.problem(at, "must say only one of exactly and firstAvailable");
        }
        Some(wanted) => {
            alternatives.push(device_request(reading, &exactly_at, name.clone(), wanted));
        }
        None if first_available => {}
        None => reading.problem(at, "must say one of exactly and firstAvailable"),
    }
    ClaimRequest { name, alternatives, first_available }
}

fn device_request(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    name: Text,
    wanted: &k8s::WantedDevices,
) -> DeviceRequest {
    let capacity_at = at.field("capacity");
    let capacity = match reading.opt(&capacity_at, &wanted.capacity) {
        Some(wire) => device::amounts(reading, &capacity_at.field("requests"), &wire.requests),
        None => Vec::new(),
    };
    let unsupported = is_set(&wanted.derived_attributes).then(|| "derivedAttributes".into());
    DeviceRequest {
        name,
        class: reading.required_text(&at.field("deviceClassName"), &wanted.device_class_name),
        selectors: device::selectors(reading, &at.field("selectors"), &wanted.selectors),
        mode: mode(reading, at, wanted),
        admin: reading.flag(&at.field("adminAccess"), &wanted.admin_access),
        tolerations: tolerations(reading, &at.field("tolerations"), &wanted.tolerations),
        capacity,
        unsupported,
    }
}

/// A mode that isn't known is no problem of the claim: the plugin tells it to the pod.
fn mode(reading: &mut Reading<'_>, at: &Path<'_>, wanted: &k8s::WantedDevices) -> AllocationMode {
    let mode_at = at.field("allocationMode");
    let count_at = at.field("count");
    let count = reading.opt(&count_at, &wanted.count).copied();
    match reading.opt(&mode_at, &wanted.allocation_mode).map_or("", String::as_str) {
        "" | "ExactCount" => {
            let count = count.unwrap_or(1);
            if count < 1 {
                reading.problem(&count_at, "must be greater than 0");
            }
            AllocationMode::ExactCount(count.max(1))
        }
        "All" => AllocationMode::All,
        other => AllocationMode::Unknown(reading.tables.intern(other)),
    }
}

/// Returns tolerations; of those with an operator or effect that isn't known, which tolerate
/// nothing, only the problem.
fn tolerations(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    list: &Field<List<k8s::DeviceToleration>>,
) -> Vec<DeviceToleration> {
    let mut tolerations = Vec::new();
    reading.each(at, list, |reading, at, wire| {
        tolerations.extend(toleration(reading, at, wire));
    });
    tolerations
}

fn toleration(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::DeviceToleration,
) -> Option<DeviceToleration> {
    let operator_at = at.field("operator");
    let exists = match reading.opt(&operator_at, &wire.operator).map_or("", String::as_str) {
        "" | "Equal" => false,
        "Exists" => true,
        other => {
            reading.unknown(&operator_at, other);
            return None;
        }
    };
    let effect_at = at.field("effect");
    let effect = match reading.opt(&effect_at, &wire.effect).map_or("", String::as_str) {
        "" => None,
        effect => {
            let known = device::taint_effect(effect);
            if known.is_none() {
                reading.unknown(&effect_at, effect);
            }
            Some(known?)
        }
    };
    let seconds = reading.opt(&at.field("tolerationSeconds"), &wire.toleration_seconds).copied();
    Some(DeviceToleration {
        key: reading.text(&at.field("key"), &wire.key),
        exists,
        value: reading.text(&at.field("value"), &wire.value),
        effect,
        seconds,
    })
}

fn constraint(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::DeviceConstraint,
) -> DeviceConstraint {
    let requests = reading.texts(&at.field("requests"), &wire.requests);
    let same = reading.opt_text(&at.field("matchAttribute"), &wire.match_attribute);
    let distinct = reading.opt_text(&at.field("distinctAttribute"), &wire.distinct_attribute);
    let (kind, attribute) = match (same, distinct) {
        (Some(attribute), None) => (ConstraintKind::Match, attribute),
        (None, Some(attribute)) => (ConstraintKind::Distinct, attribute),
        (None, None) => (ConstraintKind::Unknown, Text::default()),
        (Some(attribute), Some(_)) => {
            reading.problem(at, "must say only one of matchAttribute and distinctAttribute");
            (ConstraintKind::Unknown, attribute)
        }
    };
    DeviceConstraint { requests, kind, attribute }
}

#[cfg(test)]
mod tests;
