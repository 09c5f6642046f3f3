//! What a placed pod takes, also while it is resized in place.

use std::collections::BTreeMap;

use berth_core::types::requests::{PodContainers, resized};
use berth_core::types::{ContainerRequests, PodRequests, Resize, Text};

use super::containers::{Amounts, counts_at_pod_level, of_amounts, resources};
use super::status::{STATUS, resize_is_infeasible};
use crate::wire::field::{Field, List, Map};
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::quantity::Quantity;
use crate::wire::reading::Reading;

/// Returns what the pod takes; `spec_amounts` are those that its spec asks for.
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

/// Returns the names of the containers whose amounts were read from the spec, in its order.
fn names(list: &Field<List<k8s::Container>>) -> impl Iterator<Item = Option<&str>> {
    let containers = list.value().into_iter().flatten().filter_map(Field::value);
    containers.map(|container| container.name.value().map(String::as_str))
}
