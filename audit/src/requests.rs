//! What a pod asks of its node, all in all.
//!
//! Source: the Kubernetes documentation of pod overhead, sidecar containers and pod-level
//! resources; KEP-753 and KEP-1287 for the sums over init containers and resizes in flight.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::objects::Amounts;
use crate::quantity::{self, Nanos, UNIT};

/// Quantities as they are stored.
pub(crate) type Quantities = BTreeMap<String, serde_json::Value>;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Resources {
    requests: Option<Quantities>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container {
    name: String,
    #[serde(default)]
    resources: Resources,
    restart_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    name: String,
    allocated_resources: Option<Quantities>,
    resources: Option<Resources>,
}

/// The parts of a pod that say what it asks for.
pub(crate) struct Asked<'a> {
    pub(crate) containers: &'a [Container],
    pub(crate) init_containers: &'a [Container],
    pub(crate) pod_level: Option<&'a Resources>,
    pub(crate) overhead: Option<&'a Quantities>,
    pub(crate) statuses: Vec<&'a ContainerStatus>,
    pub(crate) status_allocated: Option<&'a Quantities>,
    pub(crate) status_resources: Option<&'a Resources>,
    /// The node has said that it will never do the resize that the spec asks for.
    pub(crate) resize_is_infeasible: bool,
}

/// Where a container's requests are read. While a resize is under way the three differ, and the
/// pod holds the largest.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Spec,
    Allocated,
    Actuated,
}

/// An amount that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{resource} is no quantity: {text}")]
pub(crate) struct NoQuantity {
    resource: String,
    text: String,
}

/// Reads quantities.
///
/// # Errors
/// The first that is none.
pub(crate) fn amounts(quantities: &Quantities) -> Result<Amounts, NoQuantity> {
    let read = |(resource, value): (&String, &serde_json::Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match quantity::parse(&text) {
            Some(amount) => Ok((resource.clone(), amount)),
            None => Err(NoQuantity { resource: resource.clone(), text }),
        }
    };
    quantities.iter().map(read).collect()
}

/// Returns what the pod takes from its node, one of `pods` included.
///
/// # Errors
/// The first quantity that cannot be read.
pub(crate) fn effective(asked: &Asked<'_>) -> Result<Amounts, NoQuantity> {
    let mut total = Amounts::new();
    for source in [Source::Spec, Source::Allocated, Source::Actuated] {
        if source != Source::Spec || !asked.resize_is_infeasible {
            raise(&mut total, &of_containers(asked, source)?);
        }
    }
    apply_pod_level(asked, &mut total)?;
    if let Some(overhead) = asked.overhead {
        add(&mut total, &amounts(overhead)?);
    }
    total.insert("pods".to_owned(), UNIT);
    Ok(total)
}

/// Sums over the containers, with the peak of the init containers; sidecars run beside all that
/// starts after them.
fn of_containers(asked: &Asked<'_>, source: Source) -> Result<Amounts, NoQuantity> {
    let mut running = Amounts::new();
    for container in asked.containers {
        add(&mut running, &of_container(asked, container, source)?);
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in asked.init_containers {
        let own = of_container(asked, container, source)?;
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut with_sidecars = sidecars.clone();
            add(&mut with_sidecars, &own);
            raise(&mut peak, &with_sidecars);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &peak);
    Ok(running)
}

fn of_container(
    asked: &Asked<'_>,
    container: &Container,
    source: Source,
) -> Result<Amounts, NoQuantity> {
    let status = asked.statuses.iter().find(|status| status.name == container.name);
    let allocated = status.and_then(|status| status.allocated_resources.as_ref());
    let actuated = status.and_then(|status| status.resources.as_ref()?.requests.as_ref());
    let spec = container.resources.requests.as_ref();
    let fallback = if asked.resize_is_infeasible { None } else { spec };
    let found = match source {
        Source::Spec => spec,
        Source::Allocated => allocated.or(fallback),
        Source::Actuated => actuated.or(allocated).or(fallback),
    };
    found.map_or_else(|| Ok(Amounts::new()), amounts)
}

/// What the pod as a whole asks for replaces the sum, for the resources that it can be asked for.
fn apply_pod_level(asked: &Asked<'_>, total: &mut Amounts) -> Result<(), NoQuantity> {
    let Some(requests) = asked.pod_level.and_then(|resources| resources.requests.as_ref()) else {
        return Ok(());
    };
    let mut level = Amounts::new();
    if !asked.resize_is_infeasible {
        raise(&mut level, &amounts(requests)?);
    }
    let actuated = asked.status_resources.and_then(|resources| resources.requests.as_ref());
    if let Some(actuated) = actuated {
        raise(&mut level, &amounts(actuated)?);
        if let Some(allocated) = asked.status_allocated {
            raise(&mut level, &amounts(allocated)?);
        }
    }
    for (resource, amount) in level {
        let counts = matches!(resource.as_str(), "cpu" | "memory");
        if counts || resource.starts_with("hugepages-") {
            total.insert(resource, amount);
        }
    }
    Ok(())
}

/// Adds what `more` holds.
pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum: &mut Nanos = to.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

/// Raises each amount to what `other` holds.
fn raise(to: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let largest = to.entry(resource.clone()).or_default();
        *largest = (*largest).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::decode::decode;
    use crate::objects::Object;
    use crate::quantity::shown;

    /// Returns the amounts of `resource` asked for by a pod with this spec and status.
    fn asks(resource: &str, spec: Value, status: Value) -> String {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "spec": spec, "status": status});
        match decode(pod.to_string().as_bytes()) {
            Ok(Some(Object::Pod(pod))) => shown(*pod.requests.get(resource).unwrap_or(&0)),
            other => panic!("{other:?}"),
        }
    }

    fn cpu(name: &str, amount: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": amount}}})
    }

    fn sidecar(name: &str, amount: &str) -> Value {
        let mut container = cpu(name, amount);
        container["restartPolicy"] = json!("Always");
        container
    }

    #[test]
    fn containers_add_up_and_an_init_container_counts_as_a_peak() {
        let containers = json!([cpu("a", "1"), cpu("b", "500m")]);
        assert_eq!(asks("cpu", json!({"containers": containers}), json!({})), "1.5");
        assert_eq!(asks("pods", json!({"containers": containers}), json!({})), "1");
        let spec = json!({"containers": containers, "initContainers": [cpu("i", "4")]});
        assert_eq!(asks("cpu", spec, json!({})), "4");
    }

    #[test]
    fn sidecars_run_beside_what_starts_after_them() {
        let init = json!([cpu("before", "3"), sidecar("s", "2"), cpu("after", "2500m")]);
        let spec = json!({"containers": [cpu("a", "1")], "initContainers": init});
        assert_eq!(asks("cpu", spec, json!({})), "4.5");
        let spec = json!({"containers": [cpu("a", "3")], "initContainers": [sidecar("s", "2")]});
        assert_eq!(asks("cpu", spec, json!({})), "5");
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_comes_on_top() {
        let container = json!({"name": "a", "resources": {"requests": {"cpu": "1", "x/gpu": "2"}}});
        let spec = json!({
            "containers": [container], "overhead": {"cpu": "250m"},
            "resources": {"requests": {"cpu": "6", "x/gpu": "9"}},
        });
        assert_eq!(asks("cpu", spec.clone(), json!({})), "6.25");
        assert_eq!(asks("x/gpu", spec, json!({})), "2");
    }

    #[test]
    fn a_resize_under_way_holds_the_largest() {
        let spec = json!({"containers": [cpu("a", "1")]});
        let running = json!([{"name": "a", "allocatedResources": {"cpu": "3"}}]);
        let status = json!({"containerStatuses": running});
        assert_eq!(asks("cpu", spec, status.clone()), "3");

        let infeasible = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        let status = json!({"containerStatuses": running, "conditions": infeasible});
        assert_eq!(asks("cpu", json!({"containers": [cpu("a", "9")]}), status), "3");
    }
}
