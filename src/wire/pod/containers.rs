//! What a pod's containers ask for.

use berth_core::types::requests::PodContainers;
use berth_core::types::resources::{CPU, MEMORY, PODS};
use berth_core::types::{ContainerRequests, Resources, Text};

use super::SPEC;
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

/// Amounts by resource; milli-CPU for cpu, else whole units.
pub(super) type Amounts = Vec<(Text, i64)>;

/// Returns the amounts that the spec asks for.
pub(super) fn read(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> PodContainers {
    let mut wanted = PodContainers::default();
    let at = SPEC.field("containers");
    reading.each(&at, &spec.containers, |reading, at, container| {
        wanted.main.push(container_requests(reading, at, container, false));
    });
    let at = SPEC.field("initContainers");
    reading.each(&at, &spec.init_containers, |reading, at, container| {
        let sidecar = is_sidecar(container);
        wanted.init.push(container_requests(reading, at, container, sidecar));
    });
    wanted.overhead = resources(&reading.amounts(&SPEC.field("overhead"), &spec.overhead));
    wanted.pod_level = pod_level(reading, spec, &wanted);
    wanted
}

pub(super) fn is_sidecar(container: &k8s::Container) -> bool {
    container.restart_policy.value().is_some_and(|policy| policy == "Always")
}

/// Limits stand in for requests that aren't given, as the API server has it.
fn container_requests(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    container: &k8s::Container,
    sidecar: bool,
) -> ContainerRequests {
    reading.opt(&at.field("restartPolicy"), &container.restart_policy);
    let at = at.field("resources");
    let Some(wire) = reading.opt(&at, &container.resources) else {
        return ContainerRequests { sidecar, ..ContainerRequests::default() };
    };
    let mut amounts = reading.amounts(&at.field("requests"), &wire.requests);
    let limits = reading.amounts(&at.field("limits"), &wire.limits);
    let set = |name: &str| wire.requests.value().is_some_and(|map| map.contains_key(name));
    amounts.extend(limits.into_iter().filter(|(name, _)| !set(name)));
    of_amounts(&amounts, sidecar)
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

/// Returns the pod-level requests; limits stand in where neither the pod nor a container requests.
///
/// Source: KEP-2837 "Proposed validation & defaulting rules". Where containers do request, their
/// sum would be filled in, which is what counts without an entry as well.
fn pod_level(
    reading: &mut Reading<'_>,
    spec: &k8s::PodSpec,
    containers: &PodContainers,
) -> Amounts {
    let at = SPEC.field("resources");
    let Some(wire) = reading.opt(&at, &spec.resources) else { return Vec::new() };
    let mut amounts = reading.amounts(&at.field("requests"), &wire.requests);
    let limits = reading.amounts(&at.field("limits"), &wire.limits);
    let all = || containers.main.iter().chain(&containers.init);
    let set = |name: &str| {
        wire.requests.value().is_some_and(|map| map.contains_key(name))
            || (name == CPU && all().any(|container| container.cpu_set))
            || (name == MEMORY && all().any(|container| container.memory_set))
    };
    amounts.extend(limits.into_iter().filter(|(name, _)| !set(name)));
    amounts.retain(|(name, _)| counts_at_pod_level(name));
    amounts
}

pub(super) fn counts_at_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}
