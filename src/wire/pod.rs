//! Pods. The conversion is total: what can't be understood becomes [`Pod::problem`], and such a
//! pod is accounted for as far as it was read, but never scheduled.

mod affinity;
mod containers;
mod features;
mod gang;
mod ports;
mod resize;
mod shares;
mod spread;
mod status;
mod volumes;

use berth_core::types::pod::TolerationOperator;
use berth_core::types::{
    Owner, Pod, PodRequests, PodSpec, PodUid, PreemptionPolicy, Text, Toleration,
};

use super::field::{Field, List};
use super::k8s::pod as k8s;
use super::meta::Meta;
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::tables::Tables;

pub(super) use shares::ANNOTATIONS as SHARE_ANNOTATIONS;

const DEFAULT_SCHEDULER: &str = "default-scheduler";
const SPEC: Path<'static> = Path::Root("spec");

/// Returns the pod, with the defaults that the API server would have filled in.
///
/// One without UID (a file that no server has seen) gets `<namespace>/<name>` as its UID.
pub fn pod(pod: k8s::Pod, tables: &mut Tables) -> Pod {
    pod_and_problems(pod, tables).0
}

/// As [`pod`], with all problems of which [`Pod::problem`] tells the first.
pub fn pod_and_problems(pod: k8s::Pod, tables: &mut Tables) -> (Pod, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let absent_spec = k8s::PodSpec::default();
    let absent_status = k8s::PodStatus::default();
    let mut result = identity(&mut reading, &pod.metadata);
    let spec = reading.required(&SPEC, &pod.spec).unwrap_or(&absent_spec);
    let status = reading.opt(&status::STATUS, &pod.status).unwrap_or(&absent_status);
    let (wanted, limits) = containers::read(&mut reading, spec);
    let pod_limits = containers::limit(&limits, &wanted.overhead);
    let mut pod_spec = pod_spec(&mut reading, &pod.metadata, spec, wanted.requests());
    pod_spec.alignment = containers::alignment(&wanted, &limits);
    own_fields(&mut reading, spec, &mut result);
    shares::read(&pod.metadata, &mut pod_spec, &mut result);
    gang::read(&mut reading, &pod.metadata, spec, status, &mut result);
    status::read(&mut reading, status, &mut result);
    let usage = if result.node_name.is_some() {
        resize::usage(&mut reading, spec, status, &wanted)
    } else {
        pod_spec.requests.clone()
    };
    result.usage = reading.tables.usage(usage);
    result.limits = reading.tables.limits(pod_limits);
    result.spec = reading.tables.spec(pod_spec);
    result.problem = reading.problems.summary().map(Text::from);
    (result, reading.finish())
}

/// Names and UIDs are not interned: hardly two objects share one.
fn identity(reading: &mut Reading<'_>, meta: &Meta) -> Pod {
    let namespace = reading.namespace(meta);
    let name = meta.object.name.as_deref().unwrap_or("");
    reading.metadata_problems(meta);
    let uid = match meta.object.uid.as_deref() {
        Some(uid) if !uid.is_empty() => Text::from(uid),
        _ => Text::from(format!("{namespace}/{name}")),
    };
    Pod {
        uid: PodUid(uid),
        namespace,
        name: Text::from(name),
        resource_version: meta.resource_version(),
        generation: meta.object.generation.unwrap_or(0),
        labels: reading.labels(meta),
        created: meta.created(),
        terminating: meta.terminating(),
        owner: owner(reading, meta),
        ..Pod::default()
    }
}

fn owner(reading: &mut Reading<'_>, meta: &Meta) -> Option<Owner> {
    let owner = meta.controller()?;
    Some(Owner {
        kind: reading.tables.intern(&owner.kind),
        name: reading.tables.intern(&owner.name),
        uid: reading.tables.intern(&owner.uid),
    })
}

/// Fills in what stands in the spec but is no matter of the pod's class.
fn own_fields(reading: &mut Reading<'_>, spec: &k8s::PodSpec, pod: &mut Pod) {
    pod.priority = reading.int32(&SPEC.field("priority"), &spec.priority).unwrap_or(0);
    pod.preemption_policy = preemption_policy(reading, &spec.preemption_policy);
    pod.node_name = reading.opt_text(&SPEC.field("nodeName"), &spec.node_name);
    reading.each(&SPEC.field("schedulingGates"), &spec.scheduling_gates, |reading, at, gate| {
        pod.gates.push(reading.required_text(&at.field("name"), &gate.name));
    });
}

fn preemption_policy(reading: &mut Reading<'_>, policy: &Field<String>) -> PreemptionPolicy {
    let at = SPEC.field("preemptionPolicy");
    match reading.opt(&at, policy).map_or("", String::as_str) {
        "" | "PreemptLowerPriority" => PreemptionPolicy::PreemptLowerPriority,
        "Never" => PreemptionPolicy::Never,
        other => {
            reading.unknown(&at, other);
            PreemptionPolicy::Never
        }
    }
}

fn pod_spec(
    reading: &mut Reading<'_>,
    meta: &Meta,
    spec: &k8s::PodSpec,
    requests: PodRequests,
) -> PodSpec {
    let scheduler = reading.opt_text(&SPEC.field("schedulerName"), &spec.scheduler_name);
    let mut pod_spec = PodSpec {
        scheduler_name: scheduler.unwrap_or_else(|| reading.tables.intern(DEFAULT_SCHEDULER)),
        requests,
        node_selector: reading.pairs(&SPEC.field("nodeSelector"), &spec.node_selector),
        tolerations: tolerations(reading, &spec.tolerations),
        spread: spread::read(reading, &spec.topology_spread_constraints),
        host_ports: ports::host_ports(reading, spec),
        images: ports::images(reading, spec),
        required_features: features::required(reading, spec),
        extended: containers::extended(reading, spec),
        ..PodSpec::default()
    };
    affinity::read(reading, meta, spec, &mut pod_spec);
    volumes::read(reading, spec, &mut pod_spec);
    pod_spec
}

fn tolerations(reading: &mut Reading<'_>, list: &Field<List<k8s::Toleration>>) -> Vec<Toleration> {
    let mut tolerations = Vec::new();
    reading.each(&SPEC.field("tolerations"), list, |reading, at, toleration| {
        let before = reading.problems.count();
        let read = Toleration {
            key: reading.text(&at.field("key"), &toleration.key),
            operator: operator(reading, &at.field("operator"), &toleration.operator),
            value: reading.text(&at.field("value"), &toleration.value),
            effect: reading.taint_effect(&at.field("effect"), &toleration.effect),
        };
        let compares = matches!(read.operator, TolerationOperator::Lt | TolerationOperator::Gt);
        let gated = compares && !reading.tables.comparison_tolerations;
        // A half understood toleration could tolerate more than its author meant.
        if reading.problems.count() == before && !gated {
            tolerations.push(read);
        }
    });
    tolerations
}

fn operator(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    operator: &Field<String>,
) -> TolerationOperator {
    match reading.opt(at, operator).map_or("", String::as_str) {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Lt" => TolerationOperator::Lt,
        "Gt" => TolerationOperator::Gt,
        other => {
            reading.unknown(at, other);
            TolerationOperator::Equal
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
