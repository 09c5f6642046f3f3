//! From an operation to the request that carries it out.

mod claim;

use std::collections::BTreeMap;

use berth_core::framework::plan::NameOf;
use berth_core::framework::{ClaimWrite, Op};
use berth_core::types::gpu_share::GPU_INDEX;
use berth_core::types::group::{GroupPhase, PLAN_ANNOTATION};
use berth_core::types::{Condition, GpuNumbers, PlanNote, PodRef, Span, Text, Value};
use http::Method;
use k8s_openapi::jiff;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::client::Call;
use super::dialects::Dialects;
use super::kinds;
use crate::wire::Kind;
use crate::wire::dialect::object::{GroupObject, PatchType};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// What the ledger knew of a write's pod or group when the write was decided on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub generation: i64,
    /// PodScheduled was False already: its transition time stays.
    pub unscheduled: bool,
    /// For a group: what its object said, and in which version.
    pub phase: Option<GroupPhase>,
    pub resource_version: u64,
}

/// Returns the request of an operation; `now` is wall time.
///
/// # Errors
/// What the operation names that isn't known, or whose it is.
pub fn call(
    op: &Op,
    timeout: Span,
    about: About,
    now: jiff::Timestamp,
    dialects: &Dialects,
) -> Result<Call, String> {
    let path = |path: String| format!("{path}?timeout={}ms", timeout.as_millis());
    let send = |method, at: String, content_type, body: Json| {
        Ok(Call { method, path: path(at), body: Some((content_type, written(&body)?)) })
    };
    match op {
        Op::Bind { pod, node, resource_version, plan, gpus } => {
            let notes = (plan.as_ref(), gpus.as_ref());
            let body = written(&Binding::of(pod, node, *resource_version, notes))?;
            let path = path(format!("{}/binding", pod_path(pod)));
            Ok(Call { method: Method::POST, path, body: Some((JSON, body)) })
        }
        Op::TryBind { pod, node } => {
            let body = written(&Binding::of(pod, node, 0, (None, None)))?;
            let path = path(format!("{}/binding", pod_path(pod))) + "&dryRun=All";
            Ok(Call { method: Method::POST, path, body: Some((JSON, body)) })
        }
        Op::ReadPod { pod } => Ok(Call::get(path(pod_path(pod)))),
        Op::Fence { pod, resource_version, node } => {
            let body = fence(pod, *resource_version, node, now);
            send(Method::PATCH, format!("{}/status", pod_path(pod)), STRATEGIC, body)
        }
        Op::SetCondition { pod, resource_version, condition, nominated_node } => {
            let mut body = set_condition(pod, *resource_version, condition, about, now);
            if let Some(node) = nominated_node {
                body["status"]["nominatedNodeName"] = nomination(node);
            }
            send(Method::PATCH, format!("{}/status", pod_path(pod)), STRATEGIC, body)
        }
        Op::Nominate { pod, resource_version, node } => {
            let metadata = metadata(pod, Some(*resource_version));
            let status = json!({"nominatedNodeName": nomination(node)});
            let body = json!({"metadata": metadata, "status": status});
            send(Method::PATCH, format!("{}/status", pod_path(pod)), STRATEGIC, body)
        }
        Op::TellGroup { group, uid, told } => {
            let at = dialects.status_at(group).map_err(|not_told| not_told.to_string())?;
            let status = at.object.status(told, about.phase, &seconds(now));
            let body = json!({"metadata": group_metadata(at.object, uid, about), "status": status});
            send(Method::PATCH, at.path, patch_type(at.object), body)
        }
        Op::SetDisruption { pod, reason, message } => {
            let body = set_disruption(pod, reason, message, now);
            send(Method::PATCH, format!("{}/status", pod_path(pod)), STRATEGIC, body)
        }
        Op::DeletePod { pod } => {
            let body = json!({"preconditions": {"uid": pod.uid.0.as_str()}});
            send(Method::DELETE, pod_path(pod), JSON, body)
        }
        Op::Claim { claim, resource_version, write } => {
            let (namespace, name) = (&claim.key.namespace, &claim.key.name);
            let at = format!("{}/{name}", kinds::collection_path(Kind::ResourceClaim, namespace));
            let meta = claim::metadata(claim, *resource_version);
            match write {
                ClaimWrite::Read => Ok(Call::get(path(at))),
                ClaimWrite::Protect { finalizers } => {
                    let body = claim::protect(meta, finalizers);
                    send(Method::PATCH, at, MERGE, body)
                }
                ClaimWrite::Allocate { allocation, pod, consumer } => {
                    let consumer = claim::reference(consumer, pod)?;
                    let body = claim::allocate(meta, allocation.as_deref(), consumer, now);
                    send(Method::PATCH, format!("{at}/status"), STRATEGIC, body)
                }
                ClaimWrite::Release { consumer, deallocate } => {
                    let body = claim::release(meta, consumer, *deallocate);
                    send(Method::PATCH, format!("{at}/status"), STRATEGIC, body)
                }
            }
        }
        Op::Create { kind, namespace, name, generate_name, body } => {
            let key = if *generate_name { "generateName" } else { "name" };
            let mut body = json_of(body);
            body["metadata"][key] = json!(known(name)?);
            send(Method::POST, collection(kind, namespace)?, JSON, body)
        }
        Op::Patch { kind, namespace, name, subresource, resource_version, body } => {
            let mut at = format!("{}/{}", collection(kind, namespace)?, known(name)?);
            if let Some(subresource) = subresource {
                at += &format!("/{subresource}");
            }
            let mut body = json_of(body);
            if *resource_version > 0 {
                body["metadata"]["resourceVersion"] = json!(resource_version.to_string());
            }
            send(Method::PATCH, at, MERGE, body)
        }
        Op::Delete { kind, namespace, name } => {
            let at = format!("{}/{}", collection(kind, namespace)?, known(name)?);
            send(Method::DELETE, at, JSON, json!({}))
        }
    }
}

/// The server compares the UID of its own kinds only. What keeps a namesake of a custom resource from
/// being told is the version.
fn group_metadata(object: GroupObject, uid: &Text, about: About) -> Json {
    let mut metadata = json!({"uid": uid.as_str()});
    if object.patch() == PatchType::Merge && about.resource_version > 0 {
        metadata["resourceVersion"] = json!(about.resource_version.to_string());
    }
    metadata
}

fn patch_type(object: GroupObject) -> &'static str {
    match object.patch() {
        PatchType::Merge => MERGE,
        PatchType::Strategic => STRATEGIC,
    }
}

fn written(body: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(body).map_err(|problem| problem.to_string())
}

fn set_disruption(pod: &PodRef, reason: &Text, message: &Text, now: jiff::Timestamp) -> Json {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason.as_str(),
        "message": message.as_str(),
        "lastTransitionTime": seconds(now),
    });
    json!({"metadata": metadata(pod, None), "status": {"conditions": [condition]}})
}

/// UID and version are preconditions: neither a namesake nor a pod that has changed since is bound.
/// Typed, because one is written for each pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Bound<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bound<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    /// The server puts them on the pod together with the node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<&'static str, String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

impl<'a> Binding<'a> {
    fn of(
        pod: &'a PodRef,
        node: &'a Text,
        resource_version: u64,
        (plan, gpus): (Option<&PlanNote>, Option<&GpuNumbers>),
    ) -> Binding<'a> {
        let plan = plan.map(|plan| (PLAN_ANNOTATION, plan.to_string()));
        let gpus = gpus.map(|gpus| (GPU_INDEX, gpus.to_string()));
        let annotations: BTreeMap<_, _> = plan.into_iter().chain(gpus).collect();
        let annotations = Some(annotations).filter(|all| !all.is_empty());
        let resource_version = (resource_version > 0).then(|| resource_version.to_string());
        let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid.0);
        Binding {
            api_version: "v1",
            kind: "Binding",
            metadata: Bound { namespace, name, uid, resource_version, annotations },
            target: Target { api_version: "v1", kind: "Node", name: node },
        }
    }
}

/// The times make it a change also where the texts are the same as before: a patch that changes
/// nothing is not written, and would fence nothing off.
fn fence(pod: &PodRef, resource_version: u64, node: &Text, now: jiff::Timestamp) -> Json {
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": format!("bind to {node} unconfirmed"),
        "lastProbeTime": seconds(now),
        "lastTransitionTime": seconds(now),
    });
    json!({
        "metadata": metadata(pod, Some(resource_version)),
        "status": {"conditions": [condition]},
    })
}

fn set_condition(
    pod: &PodRef,
    resource_version: u64,
    condition: &Condition,
    about: About,
    now: jiff::Timestamp,
) -> Json {
    let mut body = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": condition.reason.as_str(),
        "message": condition.message.as_str(),
        "lastProbeTime": null,
    });
    if !about.unscheduled {
        body["lastTransitionTime"] = json!(seconds(now));
    }
    if about.generation > 0 {
        body["observedGeneration"] = json!(about.generation);
    }
    json!({
        "metadata": metadata(pod, Some(resource_version)),
        "status": {"conditions": [body]},
    })
}

fn nomination(node: &Text) -> Json {
    if node.is_empty() { Json::Null } else { json!(node.as_str()) }
}

/// UID and version are preconditions: the server answers 409 where they differ.
fn metadata(pod: &PodRef, resource_version: Option<u64>) -> Json {
    let mut metadata = json!({
        "namespace": pod.namespace.as_str(),
        "name": pod.name.as_str(),
        "uid": pod.uid.0.as_str(),
    });
    if let Some(version) = resource_version {
        metadata["resourceVersion"] = json!(version.to_string());
    }
    metadata
}

fn pod_path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Returns the path of the objects of a kind, by resource name such as `persistentvolumeclaims`.
fn collection(kind: &Text, namespace: &Text) -> Result<String, String> {
    let known = kinds::by_resource(kind).ok_or(format!("unknown resource {kind:?}"))?;
    Ok(kinds::collection_path(known, namespace))
}

fn known(name: &NameOf) -> Result<&str, String> {
    match name {
        NameOf::Known(name) => Ok(name),
        NameOf::FromWrite(label) => Err(format!("the name that write {label:?} brings is missing")),
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) => json!(x),
        Value::Text(text) => json!(text.as_str()),
        Value::List(items) => items.iter().map(json_of).collect(),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| (key.to_string(), json_of(value)));
            Json::Object(entries.collect::<Map<String, Json>>())
        }
    }
}

/// As Kubernetes writes a Time.
fn seconds(time: jiff::Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::PodUid;

    fn pod() -> PodRef {
        PodRef { namespace: "ns".into(), name: "a".into(), uid: PodUid("u-1".into()) }
    }

    fn sent(op: Op, about: About) -> (String, Json) {
        let (timeout, now) = (Span::from_secs(5), jiff::Timestamp::UNIX_EPOCH);
        let call = call(&op, timeout, about, now, &Dialects::new(Vec::new(), None)).unwrap();
        let body = call.body.map(|(_, body)| serde_json::from_slice(&body).unwrap());
        (format!("{} {}", call.method, call.path), body.unwrap_or_default())
    }

    fn bind(resource_version: u64) -> Op {
        Op::Bind { pod: pod(), node: "n1".into(), resource_version, plan: None, gpus: None }
    }

    #[test]
    fn a_bind_carries_uid_version_and_a_timeout() {
        let (line, body) = sent(bind(0), About::default());
        assert_eq!(line, "POST /api/v1/namespaces/ns/pods/a/binding?timeout=5000ms");
        assert_eq!(body["metadata"]["uid"], "u-1");
        assert_eq!(body["target"]["name"], "n1");
        assert!(body["metadata"].get("resourceVersion").is_none());
        assert!(body["metadata"].get("annotations").is_none());
        let (_, body) = sent(bind(7), About::default());
        assert_eq!(body["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_bind_carries_the_numbers_of_the_gpus_and_the_commit() {
        let mut op = bind(7);
        let Op::Bind { plan, gpus, .. } = &mut op else { panic!("{op:?}") };
        *gpus = GpuNumbers::parse("0,3", ',');
        *plan = PlanNote::parse("g/1/8");
        let (_, body) = sent(op, About::default());
        let annotations = json!({"berth.dev/gpu-index": "0,3", "berth.dev/plan": "g/1/8"});
        assert_eq!(body["metadata"]["annotations"], annotations);
    }

    #[test]
    fn a_condition_carries_its_version_and_moves_its_time_only_on_a_transition() {
        let op = |nominated_node| Op::SetCondition {
            pod: pod(),
            resource_version: 7,
            condition: Condition { reason: "Unschedulable".into(), message: "m".into() },
            nominated_node,
        };
        let (line, body) = sent(op(None), About { generation: 3, ..About::default() });
        assert_eq!(line, "PATCH /api/v1/namespaces/ns/pods/a/status?timeout=5000ms");
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        let condition = &body["status"]["conditions"][0];
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(condition["observedGeneration"], 3);
        assert!(body["status"].get("nominatedNodeName").is_none());
        let (_, body) = sent(
            op(Some("".into())),
            About { generation: 3, unscheduled: true, ..About::default() },
        );
        assert!(body["status"]["conditions"][0].get("lastTransitionTime").is_none());
        assert_eq!(body["status"]["nominatedNodeName"], Json::Null);
    }

    #[test]
    fn a_fence_is_a_condition_that_changes() {
        let op = Op::Fence { pod: pod(), resource_version: 9, node: "n1".into() };
        let (_, body) = sent(op, About::default());
        assert_eq!(body["metadata"]["resourceVersion"], "9");
        let condition = &body["status"]["conditions"][0];
        assert_eq!(condition["message"], "bind to n1 unconfirmed");
        assert_eq!(condition["lastProbeTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn other_kinds_go_to_their_own_paths() {
        let op = Op::Patch {
            kind: "persistentvolumeclaims".into(),
            namespace: "ns".into(),
            name: NameOf::Known("c".into()),
            subresource: None,
            resource_version: 4,
            body: Value::map([("spec", Value::map([("x", Value::Int(1))]))]),
        };
        let (line, body) = sent(op, About::default());
        assert_eq!(line, "PATCH /api/v1/namespaces/ns/persistentvolumeclaims/c?timeout=5000ms");
        assert_eq!(body, json!({"metadata": {"resourceVersion": "4"}, "spec": {"x": 1}}));
        let unknown = Op::Delete {
            kind: "secrets".into(),
            namespace: "ns".into(),
            name: NameOf::Known("s".into()),
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        let dialects = Dialects::new(Vec::new(), None);
        assert!(call(&unknown, Span::from_secs(5), About::default(), now, &dialects).is_err());
    }
}
