//! Reads the objects that are judged out of etcd's JSON.

mod devices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::moment::Moment;
use crate::objects::{Group, HostPort, Lease, Name, Node, Object, Pod, Taint, Toleration};
use crate::requests::{
    Asked, Container, ContainerStatus, NoQuantity, Quantities, Resources, amounts, effective,
};

/// Why a value tells nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    /// Kubernetes' binary form begins with these four bytes.
    #[error("it is protobuf: start the API server with --storage-media-type=application/json")]
    Protobuf,
    #[error("it is no JSON")]
    NoJson(#[source] serde_json::Error),
    #[error("it is no {kind} as we know them: {source}")]
    Unknown {
        kind: String,
        #[source]
        source: serde_json::Error,
    },
    #[error(transparent)]
    NoQuantity(#[from] NoQuantity),
}

/// Reads a stored value. Returns nothing if it is JSON of a kind that is not judged.
///
/// # Errors
/// [`DecodeError`]; fields that are not known are no error.
pub(crate) fn decode(value: &[u8]) -> Result<Option<Object>, DecodeError> {
    #[derive(Deserialize)]
    struct TypeMeta {
        kind: Option<String>,
    }
    if value.starts_with(b"k8s\0") {
        return Err(DecodeError::Protobuf);
    }
    let meta: TypeMeta = serde_json::from_slice(value).map_err(DecodeError::NoJson)?;
    let kind = meta.kind.unwrap_or_default();
    Ok(Some(match kind.as_str() {
        "Pod" => Object::Pod(Arc::new(pod(read(&kind, value)?)?)),
        "Node" => Object::Node(Arc::new(node(read(&kind, value)?)?)),
        "PodGroup" => Object::Group(Arc::new(group(read(&kind, value)?))),
        "Lease" => Object::Lease(Arc::new(lease(read(&kind, value)?))),
        "ResourceClaim" => Object::Claim(Arc::new(devices::claim(value)?)),
        "ResourceSlice" => Object::Slice(Arc::new(devices::slice(value)?)),
        "DeviceClass" => Object::Class(Arc::new(devices::class(value)?)),
        "DeviceTaintRule" => Object::TaintRule(Arc::new(devices::taint_rule(value)?)),
        _ => return Ok(None),
    }))
}

fn read<T: DeserializeOwned>(kind: &str, value: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(value)
        .map_err(|source| DecodeError::Unknown { kind: kind.to_owned(), source })
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    namespace: String,
    name: String,
    uid: String,
    deletion_timestamp: Option<String>,
    finalizers: Vec<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl Meta {
    fn name(self) -> Name {
        Name { namespace: self.namespace, name: self.name }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct WirePod {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    scheduler_name: String,
    scheduling_gates: Vec<serde_json::Value>,
    scheduling_group: Option<SchedulingGroup>,
    containers: Vec<serde_json::Value>,
    init_containers: Vec<serde_json::Value>,
    overhead: Option<Quantities>,
    resources: Option<Resources>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<serde_json::Value>,
    tolerations: Vec<WireToleration>,
    topology_spread_constraints: Vec<serde_json::Value>,
    resource_claims: Vec<serde_json::Value>,
    volumes: Vec<BTreeMap<String, serde_json::Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchedulingGroup {
    pod_group_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireToleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    conditions: Vec<Condition>,
    nominated_node_name: Option<String>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
    allocated_resources: Option<Quantities>,
    resources: Option<Resources>,
    resource_claim_statuses: Vec<serde_json::Value>,
    extended_resource_claim_status: Option<serde_json::Value>,
}

fn pod(wire: WirePod) -> Result<Pod, DecodeError> {
    let WirePod { metadata, spec, status } = wire;
    let requests = requests(&spec, &status)?;
    let ports = spec.containers.iter().chain(&spec.init_containers).flat_map(host_ports).collect();
    let anti_affinity = spec.affinity.as_ref().map(|affinity| &affinity["podAntiAffinity"]);
    let has_anti_affinity = anti_affinity
        .and_then(|terms| terms["requiredDuringSchedulingIgnoredDuringExecution"].as_array())
        .is_some_and(|terms| !terms.is_empty());
    Ok(Pod {
        is_plain: is_plain(&spec, &ports),
        claims: claims(&spec, &status),
        uid: metadata.uid.clone(),
        is_deleting: metadata.deletion_timestamp.is_some(),
        name: metadata.name(),
        scheduler: spec.scheduler_name,
        node: spec.node_name.filter(|name| !name.is_empty()),
        nominated: status.nominated_node_name.filter(|name| !name.is_empty()),
        is_terminal: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
        has_failed: status.phase == "Failed",
        is_gated: !spec.scheduling_gates.is_empty(),
        requests,
        ports,
        tolerations: spec.tolerations.into_iter().map(toleration).collect(),
        node_selector: spec.node_selector.unwrap_or_default(),
        group: spec.scheduling_group.and_then(|group| group.pod_group_name),
        has_reason: status.conditions.iter().any(says_why_it_waits),
        has_anti_affinity,
    })
}

fn requests(spec: &PodSpec, status: &PodStatus) -> Result<crate::objects::Amounts, DecodeError> {
    let containers = read_all(&spec.containers)?;
    let init_containers = read_all(&spec.init_containers)?;
    let statuses = status.container_statuses.iter().chain(&status.init_container_statuses);
    let is_infeasible = |condition: &Condition| {
        condition.r#type == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    };
    let asked = Asked {
        containers: &containers,
        init_containers: &init_containers,
        pod_level: spec.resources.as_ref(),
        overhead: spec.overhead.as_ref(),
        statuses: statuses.collect(),
        status_allocated: status.allocated_resources.as_ref(),
        status_resources: status.resources.as_ref(),
        resize_is_infeasible: status.conditions.iter().any(is_infeasible),
    };
    Ok(effective(&asked)?)
}

/// Claims made from a template are named by the status, and so is the one for extended resources.
fn claims(spec: &PodSpec, status: &PodStatus) -> BTreeSet<String> {
    let made = status.resource_claim_statuses.iter();
    let named =
        spec.resource_claims.iter().chain(made).chain(&status.extended_resource_claim_status);
    named.filter_map(|claim| Some(claim["resourceClaimName"].as_str()?.to_owned())).collect()
}

fn read_all(containers: &[serde_json::Value]) -> Result<Vec<Container>, DecodeError> {
    let read = containers.iter().map(Container::deserialize).collect::<Result<_, _>>();
    read.map_err(|source| DecodeError::Unknown { kind: "container".to_owned(), source })
}

fn host_ports(container: &serde_json::Value) -> Vec<HostPort> {
    let ports = container["ports"].as_array();
    let host_port = |port: &serde_json::Value| {
        let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
        let ip = port["hostIP"].as_str().unwrap_or_default();
        Some(HostPort {
            port: number,
            protocol: port["protocol"].as_str().unwrap_or("TCP").to_owned(),
            ip: if ip == "0.0.0.0" { String::new() } else { ip.to_owned() },
        })
    };
    ports.into_iter().flatten().filter_map(host_port).collect()
}

/// Volumes that exist on any node.
const LOCAL_VOLUMES: [&str; 6] =
    ["name", "configMap", "downwardAPI", "emptyDir", "projected", "secret"];

fn is_plain(spec: &PodSpec, ports: &BTreeSet<HostPort>) -> bool {
    let has_local_volumes = spec
        .volumes
        .iter()
        .all(|volume| volume.keys().all(|key| LOCAL_VOLUMES.contains(&key.as_str())));
    spec.affinity.is_none()
        && spec.topology_spread_constraints.is_empty()
        && spec.resource_claims.is_empty()
        && spec.scheduling_group.is_none()
        && ports.is_empty()
        && has_local_volumes
}

fn says_why_it_waits(condition: &Condition) -> bool {
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    condition.r#type == "PodScheduled"
        && condition.status == "False"
        && is_set(&condition.reason)
        && is_set(&condition.message)
}

fn toleration(wire: WireToleration) -> Toleration {
    let WireToleration { key, operator, value, effect } = wire;
    Toleration { key, operator, value, effect }
}

#[derive(Deserialize)]
struct WireNode {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Vec<WireTaint>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTaint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus {
    allocatable: Quantities,
    conditions: Vec<Condition>,
}

fn node(wire: WireNode) -> Result<Node, DecodeError> {
    let mut taints: Vec<Taint> = wire
        .spec
        .taints
        .into_iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .map(|WireTaint { key, value, effect }| Taint { key, value, effect })
        .collect();
    if wire.spec.unschedulable {
        let key = "node.kubernetes.io/unschedulable".to_owned();
        taints.push(Taint { key, value: String::new(), effect: "NoSchedule".to_owned() });
    }
    let is_ready =
        |condition: &Condition| condition.r#type == "Ready" && condition.status == "True";
    Ok(Node {
        name: wire.metadata.name,
        labels: wire.metadata.labels.unwrap_or_default(),
        allocatable: amounts(&wire.status.allocatable)?,
        is_ready: wire.status.conditions.iter().any(is_ready),
        taints,
    })
}

#[derive(Deserialize)]
struct WireGroup {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: GroupSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupSpec {
    scheduling_policy: Option<SchedulingPolicy>,
}

#[derive(Deserialize)]
struct SchedulingPolicy {
    gang: Option<Gang>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gang {
    min_count: u64,
}

fn group(wire: WireGroup) -> Group {
    let gang = wire.spec.scheduling_policy.and_then(|policy| policy.gang);
    Group { name: wire.metadata.name(), min_count: gang.map(|gang| gang.min_count) }
}

#[derive(Deserialize)]
struct WireLease {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    renew_time: Option<String>,
}

fn lease(wire: WireLease) -> Lease {
    Lease {
        name: wire.metadata.name(),
        holder: wire.spec.holder_identity.unwrap_or_default(),
        renewed: wire.spec.renew_time.as_deref().and_then(Moment::parse),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_a_later_version_are_no_error() {
        let later = json!({
            "kind": "Pod", "apiVersion": "v9", "colour": {"of": ["the", "sea"]},
            "metadata": {"name": "a", "namespace": "default", "uid": "u", "tide": 3},
            "spec": {"nodeName": "n-1", "anchors": [1], "tolerations": [{"key": "k", "depth": 4}]},
            "status": {"phase": "Drifting", "conditions": [{"type": "New", "status": "Perhaps"}]},
        });
        let Ok(Some(Object::Pod(pod))) = decode(later.to_string().as_bytes()) else {
            panic!("no pod")
        };
        assert_eq!((pod.node.as_deref(), pod.is_terminal), (Some("n-1"), false));
    }

    #[test]
    fn values_that_tell_nothing_are_told_apart() {
        assert!(matches!(decode(b"k8s\0\n\x09\n\x02v1"), Err(DecodeError::Protobuf)));
        assert!(matches!(decode(b"27"), Err(DecodeError::NoJson(_))));
        assert!(matches!(decode(br#"{"kind":"Ship"}"#), Ok(None)));
        assert!(matches!(decode(br#"{"range":"10.0.0.0/24"}"#), Ok(None)));
        let odd = br#"{"kind":"Pod","spec":{"containers":"none"}}"#;
        assert!(matches!(decode(odd), Err(DecodeError::Unknown { .. })));
        let odd = br#"{"kind":"Node","status":{"allocatable":{"cpu":"many"}}}"#;
        assert!(matches!(decode(odd), Err(DecodeError::NoQuantity(_))));
    }

    #[test]
    fn gangs_are_told_from_groups_whose_pods_come_one_by_one() {
        let group = |policy| json!({"kind": "PodGroup", "spec": {"schedulingPolicy": policy}});
        for (policy, expected) in
            [(json!({"gang": {"minCount": 4}}), Some(4)), (json!({"basic": {}}), None)]
        {
            let Ok(Some(Object::Group(group))) = decode(group(policy).to_string().as_bytes())
            else {
                panic!("no group")
            };
            assert_eq!(group.min_count, expected);
        }
    }
}
