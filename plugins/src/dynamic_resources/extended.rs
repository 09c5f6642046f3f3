//! Extended resources that a device class backs: on nodes without a device plugin for them the pod
//! gets a claim of its own, made by the scheduler.
//!
//! Source: KEP-5004, `extendeddynamicresources.go` of kube-scheduler 1.37. The claim's name is a
//! function of the pod, so that one whose creation went unanswered is found again.

use std::sync::Arc;

use berth_core::framework::Verdict;
use berth_core::snapshot::Cluster;
use berth_core::types::claim::{
    AllocationMode, ClaimKey, ClaimRequest, ClaimSpec, DeviceDemand, DeviceRequest, ResourceClaim,
};
use berth_core::types::pod::ContainerExtended;
use berth_core::types::resources::may_be_devices;
use berth_core::types::{Node, Pod, Text, Value};

/// The resource that claims are written to.
pub(super) const CLAIMS: &str = "resourceclaims";
/// Marks the claim. Source: `ExtendedResourceClaimAnnotation` of the resource.k8s.io API.
const ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";
const NAME_INFIX: &str = "-extended-resources-";
/// As the API server cuts generated names.
const NAME_BASE_MAX: usize = 58;
const NAME_SUFFIX: usize = 5;
const NO_RESOURCE: &str = "cannot fit resource";

/// What a pod asks for of resources that may be devices.
#[derive(Clone, Debug)]
pub(super) struct Extended {
    containers: Vec<ContainerExtended>,
    /// Resources with the class that backs each, in order of name.
    backed: Vec<(Text, Text)>,
    /// Resources that no class backs.
    others: Vec<Text>,
}

/// Which request of the claim serves a resource of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) container: Text,
    pub(super) resource: Text,
    pub(super) request: Text,
}

impl Extended {
    /// Returns `None` if no class backs a resource of the pod.
    pub(super) fn of(pod: &Pod, cluster: &Cluster) -> Option<Extended> {
        if pod.spec.extended.is_empty() {
            return None;
        }
        let (mut backed, mut others) = (Vec::new(), Vec::new());
        let wanted = pod.spec.requests.real.iter();
        for (name, _) in wanted.filter(|(name, amount)| *amount > 0 && may_be_devices(name)) {
            match cluster.devices().class_for(name) {
                Some(class) => backed.push((name.into(), class.name.clone())),
                None => others.push(name.into()),
            }
        }
        // Most pods that ask for extended resources get them from device plugins.
        if backed.is_empty() {
            return None;
        }
        backed.sort();
        Some(Extended { containers: pod.spec.extended.clone(), backed, others })
    }

    /// Returns the resources with the class that backs each.
    pub(super) fn backed(&self) -> &[(Text, Text)] {
        &self.backed
    }

    /// Returns what backs the pod's resources, to tell classes of pods apart.
    pub(super) fn backing(&self) -> impl Iterator<Item = &Text> {
        self.backed.iter().flat_map(|(resource, class)| [resource, class])
    }

    /// Returns the demand that the node has to meet with devices, with what each container gets;
    /// `None` if device plugins do.
    ///
    /// # Errors
    /// The node has a resource in neither way.
    pub(super) fn on(&self, node: &Node) -> Result<Option<(DeviceDemand, Vec<Mapping>)>, Verdict> {
        let has = |name: &Text| node.allocatable.amount(name) > 0;
        if !self.others.iter().all(has) {
            return Err(Verdict::Unresolvable(NO_RESOURCE.into()));
        }
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        for (resource, class) in self.backed.iter().filter(|(resource, _)| !has(resource)) {
            let sharing = Sharing { resource, class, containers: &self.containers };
            sharing.add(&mut requests, &mut mappings);
        }
        if requests.is_empty() {
            return Ok(None);
        }
        requests.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Some((DeviceDemand { requests, constraints: Vec::new() }, mappings)))
    }
}

/// One resource of all containers.
struct Sharing<'a> {
    resource: &'a Text,
    class: &'a Text,
    containers: &'a [ContainerExtended],
}

/// A container with what it asks for of the resource.
struct Asks<'a> {
    container: &'a ContainerExtended,
    amount: i64,
    request: Text,
}

impl Sharing<'_> {
    /// Containers that run together get devices of their own. One that has ended before uses those
    /// of later containers; of what such containers need beyond, the largest is enough for all.
    fn add(&self, requests: &mut Vec<ClaimRequest>, mappings: &mut Vec<Mapping>) {
        let asks: Vec<Asks<'_>> = self.asks().collect();
        let lasting: Vec<&Asks<'_>> = asks.iter().filter(|ask| !ask.container.ends).collect();
        for ask in &lasting {
            requests.push(self.request(ask.request.clone(), ask.amount));
            mappings.push(self.mapping(ask, &ask.request));
        }
        let mut shortfalls: Vec<(&Asks<'_>, i64)> = Vec::new();
        for ask in asks.iter().filter(|ask| ask.container.ends) {
            let mut missing = ask.amount;
            for later in lasting.iter().filter(|l| l.container.index > ask.container.index) {
                if missing <= 0 {
                    break;
                }
                missing -= later.amount;
                mappings.push(self.mapping(ask, &later.request));
            }
            if missing > 0 {
                shortfalls.push((ask, missing));
            }
        }
        let largest = shortfalls.iter().rev().max_by_key(|(_, missing)| *missing);
        let Some((largest, missing)) = largest.map(|(ask, missing)| (&ask.request, *missing))
        else {
            return;
        };
        requests.push(self.request(largest.clone(), missing));
        mappings.extend(shortfalls.iter().map(|(ask, _)| self.mapping(ask, largest)));
    }

    fn asks(&self) -> impl Iterator<Item = Asks<'_>> {
        self.containers.iter().filter_map(|container| {
            let found =
                container.resources.iter().find(|entry| entry.resource == *self.resource)?;
            let request = format!("container-{}-request-{}", container.index, found.index);
            Some(Asks { container, amount: found.amount, request: request.into() })
        })
    }

    fn mapping(&self, ask: &Asks<'_>, request: &Text) -> Mapping {
        let container = ask.container.container.clone();
        Mapping { container, resource: self.resource.clone(), request: request.clone() }
    }

    fn request(&self, name: Text, count: i64) -> ClaimRequest {
        ClaimRequest::only(DeviceRequest::exact(name, self.class.clone(), count))
    }
}

/// Returns the claim that is to be made for the pod. Its UID stands for it until the API server has
/// given it one.
pub(super) fn special_claim(pod: &Pod, demand: DeviceDemand) -> ResourceClaim {
    let spec = ClaimSpec { demand: Arc::new(demand), config: Vec::new() };
    ResourceClaim {
        key: ClaimKey { namespace: pod.namespace.clone(), name: name_of(pod) },
        uid: format!("extended-resources/{}", pod.uid).into(),
        spec: Arc::new(spec),
        owner_pod: Some(pod.uid.clone()),
        extended_resources: true,
        ..ResourceClaim::default()
    }
}

fn name_of(pod: &Pod) -> Text {
    let mut base = format!("{}{NAME_INFIX}", pod.name);
    base.truncate(NAME_BASE_MAX);
    // FNV-1a of the UID: another pod of that name gets another claim.
    let mut hash = pod.uid.0.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    for _ in 0..NAME_SUFFIX {
        base.push(char::from(LETTERS[(hash % LETTERS.len() as u64) as usize]));
        hash /= LETTERS.len() as u64;
    }
    base.into()
}

/// Returns the object that is created for the claim, without its name.
pub(super) fn body(pod: &Pod, claim: &ResourceClaim) -> Value {
    let owner = Value::map([
        ("apiVersion", Value::text("v1")),
        ("kind", Value::text("Pod")),
        ("name", Value::Text(pod.name.clone())),
        ("uid", Value::Text(pod.uid.0.clone())),
        ("controller", Value::Bool(true)),
    ]);
    let metadata = Value::map([
        ("annotations", Value::map([(ANNOTATION, Value::text("true"))])),
        ("ownerReferences", Value::List(vec![owner])),
    ]);
    let requests = claim.spec.demand.alternatives();
    let requests = requests.map(|request| {
        let AllocationMode::ExactCount(count) = request.mode else { return Value::Null };
        let exactly = Value::map([
            ("deviceClassName", Value::Text(request.class.clone())),
            ("allocationMode", Value::text("ExactCount")),
            ("count", Value::Int(count)),
        ]);
        Value::map([("name", Value::Text(request.name.clone())), ("exactly", exactly)])
    });
    let devices = Value::map([("requests", Value::List(requests.collect()))]);
    Value::map([
        ("apiVersion", Value::text("resource.k8s.io/v1")),
        ("kind", Value::text("ResourceClaim")),
        ("metadata", metadata),
        ("spec", Value::map([("devices", devices)])),
    ])
}

/// Returns what the pod's status tells of the claim.
pub(super) fn pod_status(pod: &Pod, claim: &Text, mappings: &[Mapping]) -> Value {
    let mappings = mappings.iter().map(|mapping| {
        Value::map([
            ("containerName", Value::Text(mapping.container.clone())),
            ("resourceName", Value::Text(mapping.resource.clone())),
            ("requestName", Value::Text(mapping.request.clone())),
        ])
    });
    let status = Value::map([
        ("requestMappings", Value::List(mappings.collect())),
        ("resourceClaimName", Value::Text(claim.clone())),
    ]);
    let status = Value::map([("extendedResourceClaimStatus", status)]);
    let metadata = Value::map([("uid", Value::Text(pod.uid.0.clone()))]);
    Value::map([("metadata", metadata), ("status", status)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::ExtendedAmount;

    fn container(index: u32, ends: bool, amount: i64) -> ContainerExtended {
        let resource = ExtendedAmount { resource: "example.com/gpu".into(), amount, index: 2 };
        ContainerExtended {
            container: format!("c{index}").into(),
            index,
            ends,
            resources: vec![resource],
        }
    }

    /// Requests as `name=count`, mappings as `container->request`.
    fn shared(containers: &[ContainerExtended]) -> (Vec<String>, Vec<String>) {
        let (resource, class) = ("example.com/gpu".into(), "gpu".into());
        let sharing = Sharing { resource: &resource, class: &class, containers };
        let (mut requests, mut mappings) = (Vec::new(), Vec::new());
        sharing.add(&mut requests, &mut mappings);
        let counted = |request: &ClaimRequest| match request.alternatives[0].mode {
            AllocationMode::ExactCount(count) => format!("{}={count}", request.name),
            _ => panic!("{request:?}"),
        };
        let shown = mappings.iter().map(|m| format!("{}->{}", m.container, m.request));
        (requests.iter().map(counted).collect(), shown.collect())
    }

    #[test]
    fn containers_that_run_together_get_devices_of_their_own() {
        let (requests, mappings) = shared(&[container(0, false, 1), container(1, false, 2)]);
        assert_eq!(requests, ["container-0-request-2=1", "container-1-request-2=2"]);
        assert_eq!(mappings, ["c0->container-0-request-2", "c1->container-1-request-2"]);
    }

    #[test]
    fn what_ends_before_uses_the_devices_of_later_ones_and_shares_what_is_missing() {
        let containers = [container(0, true, 3), container(1, true, 4), container(2, false, 2)];
        let (requests, mappings) = shared(&containers);
        assert_eq!(requests, ["container-2-request-2=2", "container-1-request-2=2"]);
        assert_eq!(
            mappings,
            [
                "c2->container-2-request-2",
                "c0->container-2-request-2",
                "c1->container-2-request-2",
                "c0->container-1-request-2",
                "c1->container-1-request-2",
            ]
        );
    }

    #[test]
    fn a_sidecar_that_started_earlier_keeps_its_devices() {
        let (requests, _) = shared(&[container(0, false, 1), container(1, true, 1)]);
        assert_eq!(requests, ["container-0-request-2=1", "container-1-request-2=1"]);
    }

    #[test]
    fn names_fit_and_tell_pods_apart() {
        let pod = |uid: &str| Pod {
            name: "a".repeat(200).as_str().into(),
            uid: berth_core::types::PodUid(uid.into()),
            ..Pod::default()
        };
        let (one, two) = (name_of(&pod("1")), name_of(&pod("2")));
        assert_ne!(one, two);
        assert_eq!((one.len(), &one), (63, &name_of(&pod("1"))));
    }
}
