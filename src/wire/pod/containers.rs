//! What a pod's containers ask for.

use berth_core::types::numa::{AlignedContainer, Alignment, Stage, aligned_amounts};
use berth_core::types::requests::PodContainers;
use berth_core::types::resources::{CPU, MEMORY, PODS, may_be_devices};
use berth_core::types::{ContainerExtended, ContainerRequests, ExtendedAmount, Resources, Text};

use super::SPEC;
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

/// Amounts by resource; milli-CPU for cpu, else whole units.
pub(super) type Amounts = Vec<(Text, i64)>;

/// Returns the amounts that the spec asks for, and the limits.
pub(super) fn read(
    reading: &mut Reading<'_>,
    spec: &k8s::PodSpec,
) -> (PodContainers, PodContainers) {
    let (mut wanted, mut limits) = (PodContainers::default(), PodContainers::default());
    let at = SPEC.field("containers");
    reading.each(&at, &spec.containers, |reading, at, container| {
        let (requests, limit) = container_amounts(reading, at, container, false);
        wanted.main.push(requests);
        limits.main.push(limit);
    });
    let at = SPEC.field("initContainers");
    reading.each(&at, &spec.init_containers, |reading, at, container| {
        let sidecar = is_sidecar(container);
        let (requests, limit) = container_amounts(reading, at, container, sidecar);
        wanted.init.push(requests);
        limits.init.push(limit);
    });
    wanted.overhead = resources(&reading.amounts(&SPEC.field("overhead"), &spec.overhead));
    (wanted.pod_level, limits.pod_level) = pod_level(reading, spec, &wanted);
    (wanted, limits)
}

/// Returns what a kubelet may have to align to NUMA cells.
///
/// Where the pod as a whole has requests or limits its containers' CPUs and memory aren't aligned,
/// unless the gate PodLevelResourceManagers is on there.
pub(super) fn alignment(wanted: &PodContainers, limits: &PodContainers) -> Option<Box<Alignment>> {
    let as_a_whole = !wanted.pod_level.is_empty() || !limits.pod_level.is_empty();
    let guaranteed = !as_a_whole && is_guaranteed(wanted, limits);
    let init = wanted.init.iter().map(|own| match own.sidecar {
        true => (own, Stage::Sidecar),
        false => (own, Stage::Init),
    });
    let all = init.chain(wanted.main.iter().map(|own| (own, Stage::Main)));
    let aligned = all.map(|(own, stage)| AlignedContainer {
        amounts: aligned_amounts(&own.requests, guaranteed),
        stage,
    });
    Alignment::of(aligned.filter(|own| !own.amounts.is_zero()).collect())
}

/// Source: `ComputePodQOS` of k8s.io/kubernetes: each container has limits of CPU and memory, and
/// requests as much.
fn is_guaranteed(wanted: &PodContainers, limits: &PodContainers) -> bool {
    let containers = |of: &PodContainers| -> Vec<(i64, i64)> {
        let all = of.init.iter().chain(&of.main);
        all.map(|own| (own.requests.cpu_milli, own.requests.memory_bytes)).collect()
    };
    let limits = containers(limits);
    limits.iter().all(|(cpu, memory)| *cpu > 0 && *memory > 0) && containers(wanted) == limits
}

/// Returns the containers that ask for resources which a device class may back.
pub(super) fn extended(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> Vec<ContainerExtended> {
    let mut found = Vec::new();
    let mut index = 0;
    for (field, list) in
        [("initContainers", &spec.init_containers), ("containers", &spec.containers)]
    {
        let init = field == "initContainers";
        reading.each(&SPEC.field(field), list, |reading, at, container| {
            let resources = extended_amounts(reading, at, container);
            if !resources.is_empty() {
                let name = reading.text(&at.field("name"), &container.name);
                let ends = init && !is_sidecar(container);
                found.push(ContainerExtended { container: name, index, ends, resources });
            }
            index += 1;
        });
    }
    found
}

fn extended_amounts(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    container: &k8s::Container,
) -> Vec<ExtendedAmount> {
    let requests = container.resources.value().and_then(|wire| wire.requests.value());
    if !requests.is_some_and(|map| map.keys().any(|name| may_be_devices(name))) {
        return Vec::new();
    }
    let Some(wire) = container.resources.value() else { return Vec::new() };
    let at = at.field("resources");
    let mut amounts = reading.amounts(&at.field("requests"), &wire.requests);
    amounts.sort();
    let counted = amounts.into_iter().zip(0u32..);
    let devices = counted.filter(|((name, amount), _)| may_be_devices(name) && *amount > 0);
    devices.map(|((resource, amount), index)| ExtendedAmount { resource, amount, index }).collect()
}

/// Returns the limits of a whole pod: overhead comes on top of what is limited at all.
///
/// Source: component-helpers v0.37.2 `resource.PodLimits`.
pub(super) fn limit(limits: &PodContainers, overhead: &Resources) -> Resources {
    let mut sum = limits.requests().real;
    for (name, amount) in overhead.iter() {
        let limit = sum.amount(name);
        if limit > 0 {
            sum.set(&Text::from(name), limit.saturating_add(amount));
        }
    }
    sum
}

pub(super) fn is_sidecar(container: &k8s::Container) -> bool {
    container.restart_policy.value().is_some_and(|policy| policy == "Always")
}

/// Returns requests and limits. Limits stand in for requests that aren't given, as the API server
/// has it.
fn container_amounts(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    container: &k8s::Container,
    sidecar: bool,
) -> (ContainerRequests, ContainerRequests) {
    reading.opt(&at.field("restartPolicy"), &container.restart_policy);
    let at = at.field("resources");
    let Some(wire) = reading.opt(&at, &container.resources) else {
        let nothing = ContainerRequests { sidecar, ..ContainerRequests::default() };
        return (nothing.clone(), nothing);
    };
    let mut amounts = reading.amounts(&at.field("requests"), &wire.requests);
    let limits = reading.amounts(&at.field("limits"), &wire.limits);
    let limit = of_amounts(&limits, sidecar);
    let set = |name: &str| wire.requests.value().is_some_and(|map| map.contains_key(name));
    amounts.extend(limits.into_iter().filter(|(name, _)| !set(name)));
    (of_amounts(&amounts, sidecar), limit)
}

pub(super) fn of_amounts(amounts: &Amounts, sidecar: bool) -> ContainerRequests {
    let set = |name: &str| amounts.iter().any(|(n, _)| n == name);
    ContainerRequests {
        requests: resources(amounts),
        cpu_set: set(CPU),
        memory_set: set(MEMORY),
        sidecar,
    }
}

/// `pods` is counted by the node itself, not requested.
pub(super) fn resources(amounts: &Amounts) -> Resources {
    let mut resources = Resources::default();
    for (name, amount) in amounts.iter().filter(|(name, _)| name != PODS) {
        resources.set(name, *amount);
    }
    resources
}

/// Returns the pod-level requests and limits; limits stand in where neither the pod nor a container requests.
///
/// Source: KEP-2837 "Proposed validation & defaulting rules". Where containers do request, their
/// sum would be filled in, which is what counts without an entry as well.
fn pod_level(
    reading: &mut Reading<'_>,
    spec: &k8s::PodSpec,
    containers: &PodContainers,
) -> (Amounts, Amounts) {
    let at = SPEC.field("resources");
    let Some(wire) = reading.opt(&at, &spec.resources) else { return (Vec::new(), Vec::new()) };
    let mut amounts = reading.amounts(&at.field("requests"), &wire.requests);
    let mut limits = reading.amounts(&at.field("limits"), &wire.limits);
    let all = || containers.main.iter().chain(&containers.init);
    let set = |name: &str| {
        wire.requests.value().is_some_and(|map| map.contains_key(name))
            || (name == CPU && all().any(|container| container.cpu_set))
            || (name == MEMORY && all().any(|container| container.memory_set))
    };
    amounts.extend(limits.iter().filter(|(name, _)| !set(name)).cloned());
    amounts.retain(|(name, _)| counts_at_pod_level(name));
    limits.retain(|(name, _)| counts_at_pod_level(name));
    (amounts, limits)
}

pub(super) fn counts_at_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}
