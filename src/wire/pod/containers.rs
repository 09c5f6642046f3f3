//! What a pod's containers ask for: amounts, ports, images.

use std::collections::BTreeMap;

use berth_core::types::requests::{PodContainers, resized};
use berth_core::types::resources::{CPU, MEMORY, PODS};
use berth_core::types::{
    ContainerRequests, HostPort, ImageId, PodRequests, Protocol, Resize, Resources, Text,
};

use super::SPEC;
use super::status::{STATUS, resize_is_infeasible};
use crate::wire::field::{Field, List, Map};
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::quantity::Quantity;
use crate::wire::reading::Reading;

type Amounts = Vec<(Text, i64)>;

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

fn is_sidecar(container: &k8s::Container) -> bool {
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

fn of_amounts(amounts: &Amounts, sidecar: bool) -> ContainerRequests {
    let set = |name: &str| amounts.iter().any(|(n, _)| n == name);
    ContainerRequests {
        requests: resources(amounts),
        cpu_set: set(CPU),
        memory_set: set(MEMORY),
        sidecar,
    }
}

/// `pods` is counted by the node itself, not requested.
fn resources(amounts: &Amounts) -> Resources {
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

fn counts_at_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with("hugepages-")
}

/// Returns what a placed pod takes, also while it is resized in place.
///
/// Source: component-helpers v0.37.2 `resource.PodRequests` with status resources, KEP-1287; at
/// pod level KEP-5419.
pub(super) fn usage(
    reading: &mut Reading<'_>,
    spec: &k8s::PodSpec,
    status: &k8s::PodStatus,
    spec_amounts: &PodContainers,
) -> PodRequests {
    let infeasible = resize_is_infeasible(status);
    let statuses = Statuses::read(reading, status);
    let pod = PodStatusAmounts::read(reading, status);
    let mut wanted = spec_amounts.clone();
    wanted.pod_level = pod.effective(&spec_amounts.pod_level, infeasible);
    let (allocated, actual) = match (&pod.allocated, &pod.actual) {
        (Some(allocated), Some(actual)) => (whole(&wanted, allocated), whole(&wanted, actual)),
        _ => statuses.apply(spec, &wanted, infeasible),
    };
    let resize = if infeasible { Resize::Infeasible } else { Resize::Largest };
    resized(&wanted, &allocated, &actual, resize)
}

/// A pod whose status tells the sum over its containers: one container as large.
fn whole(wanted: &PodContainers, sum: &Amounts) -> PodContainers {
    let container = ContainerRequests {
        requests: resources(sum),
        cpu_set: true,
        memory_set: true,
        sidecar: false,
    };
    PodContainers { init: Vec::new(), main: vec![container], ..wanted.clone() }
}

/// `status.allocatedResources` and `status.resources.requests`.
struct PodStatusAmounts {
    allocated: Option<Amounts>,
    actual: Option<Amounts>,
    reported: bool,
}

impl PodStatusAmounts {
    fn read(reading: &mut Reading<'_>, status: &k8s::PodStatus) -> PodStatusAmounts {
        let allocated_at = STATUS.field("allocatedResources");
        PodStatusAmounts {
            allocated: given(reading, &allocated_at, &status.allocated_resources),
            actual: actual(reading, &STATUS, &status.resources),
            reported: !status.resources.is_absent(),
        }
    }

    /// Returns the pod-level amounts that count: the largest of what is asked for, allocated and
    /// actual; nothing if the spec asks for nothing at pod level.
    fn effective(&self, wanted: &Amounts, infeasible: bool) -> Amounts {
        if wanted.is_empty() || !self.reported {
            return wanted.clone();
        }
        let mut largest: BTreeMap<&Text, i64> = BTreeMap::new();
        let wanted = (!infeasible).then_some(wanted);
        let lists = [wanted, self.allocated.as_ref(), self.actual.as_ref()];
        for (name, amount) in lists.into_iter().flatten().flatten() {
            if counts_at_pod_level(name) {
                let entry = largest.entry(name).or_insert(0);
                *entry = (*entry).max(*amount);
            }
        }
        largest.into_iter().map(|(name, amount)| (name.clone(), amount)).collect()
    }
}

fn given(reading: &mut Reading<'_>, at: &Path<'_>, list: &Field<Map<Quantity>>) -> Option<Amounts> {
    (!list.is_absent()).then(|| reading.amounts(at, list))
}

fn actual(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    resources: &Field<k8s::ResourceRequirements>,
) -> Option<Amounts> {
    let at = at.field("resources");
    let resources = reading.opt(&at, resources)?;
    given(reading, &at.field("requests"), &resources.requests)
}

/// The amounts in the status of each container, by its name.
struct Statuses<'f> {
    by_name: BTreeMap<&'f str, ContainerAmounts>,
}

struct ContainerAmounts {
    allocated: Option<Amounts>,
    actual: Option<Amounts>,
}

impl<'f> Statuses<'f> {
    fn read(reading: &mut Reading<'_>, status: &'f k8s::PodStatus) -> Statuses<'f> {
        let mut by_name = BTreeMap::new();
        for (field, list) in [
            ("containerStatuses", &status.container_statuses),
            ("initContainerStatuses", &status.init_container_statuses),
        ] {
            reading.each(&STATUS.field(field), list, |reading, at, status| {
                let allocated_at = at.field("allocatedResources");
                let amounts = ContainerAmounts {
                    allocated: given(reading, &allocated_at, &status.allocated_resources),
                    actual: actual(reading, at, &status.resources),
                };
                if let Field::Is(name) = &status.name {
                    by_name.entry(name.as_str()).or_insert(amounts);
                }
            });
        }
        Statuses { by_name }
    }

    /// Returns the allocated and the actual amounts of all containers.
    fn apply(
        &self,
        spec: &k8s::PodSpec,
        wanted: &PodContainers,
        infeasible: bool,
    ) -> (PodContainers, PodContainers) {
        let mut allocated = wanted.clone();
        let mut actual = wanted.clone();
        for (names, allocated, actual) in [
            (names(&spec.containers), &mut allocated.main, &mut actual.main),
            (names(&spec.init_containers), &mut allocated.init, &mut actual.init),
        ] {
            for ((name, allocated), actual) in names.zip(allocated).zip(actual) {
                let Some(status) = name.and_then(|name| self.by_name.get(name)) else { continue };
                status.apply(allocated, actual, infeasible);
            }
        }
        (allocated, actual)
    }
}

impl ContainerAmounts {
    /// Replaces the spec's amounts. Those that the status doesn't tell are the spec's, or nothing
    /// where the spec asks for what the node can't grant.
    ///
    /// A container without any status keeps the spec's amounts even then: upstream counts nothing
    /// for it, but it will take something once it runs.
    fn apply(
        &self,
        allocated: &mut ContainerRequests,
        actual: &mut ContainerRequests,
        infeasible: bool,
    ) {
        let sidecar = allocated.sidecar;
        match &self.allocated {
            Some(amounts) => *allocated = of_amounts(amounts, sidecar),
            None if infeasible => *allocated = of_amounts(&Vec::new(), sidecar),
            None => {}
        }
        *actual = match &self.actual {
            Some(amounts) => of_amounts(amounts, sidecar),
            None => allocated.clone(),
        };
    }
}

/// Returns the names of the containers that [`read`] took amounts of, in its order.
fn names(list: &Field<List<k8s::Container>>) -> impl Iterator<Item = Option<&str>> {
    let containers = list.value().into_iter().flatten().filter_map(Field::value);
    containers.map(|container| container.name.value().map(String::as_str))
}

/// Returns the ports that containers and sidecars take on the node.
pub(super) fn host_ports(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> Vec<HostPort> {
    let host_network = spec.host_network.value().copied().unwrap_or(false);
    let mut ports = Vec::new();
    for (field, list, all) in
        [("containers", &spec.containers, true), ("initContainers", &spec.init_containers, false)]
    {
        for (i, container) in list.value().into_iter().flatten().enumerate() {
            let Field::Is(container) = container else { continue };
            if all || is_sidecar(container) {
                let list_at = SPEC.field(field);
                let at = list_at.index(i);
                reading.each(&at.field("ports"), &container.ports, |reading, at, port| {
                    ports.extend(host_port(reading, at, port, host_network));
                });
            }
        }
    }
    ports
}

fn host_port(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::ContainerPort,
    host_network: bool,
) -> Option<HostPort> {
    let mut port_at = at.field("hostPort");
    let mut port = reading.opt(&port_at, &wire.host_port).copied().unwrap_or(0);
    if port == 0 && host_network {
        port_at = at.field("containerPort");
        port = reading.opt(&port_at, &wire.container_port).copied().unwrap_or(0);
    }
    if port == 0 {
        return None;
    }
    let Ok(port) = u16::try_from(port) else {
        reading.problem(&port_at, format_args!("{port} is not a port number"));
        return None;
    };
    let ip = reading.opt_text(&at.field("hostIP"), &wire.host_ip);
    Some(HostPort {
        ip: ip.unwrap_or_else(|| reading.tables.intern("0.0.0.0")),
        protocol: protocol(reading, &at.field("protocol"), &wire.protocol)?,
        port,
    })
}

fn protocol(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    protocol: &Field<String>,
) -> Option<Protocol> {
    match reading.opt(at, protocol).map_or("", String::as_str) {
        "" | "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        other => {
            reading.unknown(at, other);
            None
        }
    }
}

pub(super) fn images(reading: &mut Reading<'_>, spec: &k8s::PodSpec) -> Vec<ImageId> {
    let mut images = Vec::new();
    for (field, list) in
        [("containers", &spec.containers), ("initContainers", &spec.init_containers)]
    {
        for (i, container) in list.value().into_iter().flatten().enumerate() {
            let Field::Is(container) = container else { continue };
            let list_at = SPEC.field(field);
            let at = list_at.index(i);
            let image = reading.opt(&at.field("image"), &container.image);
            images.push(ImageId::of(image.map_or("", String::as_str)));
        }
    }
    images
}
