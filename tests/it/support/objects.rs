//! Small nodes and pods, and questions about them.

use berth::live::preflight::needs::Need;
pub(crate) use berth_faults::objects::{gpu_node, gpu_pod, scheduled_condition};
use berth_stand::{ApiClient, wait_for};
use serde_json::{Value, json};

use super::SOON;

pub(crate) fn create(api: &ApiClient, object: &Value) -> Value {
    api.create_object(object).expect("the object is created")
}

pub(crate) fn read(api: &ApiClient, name: &str) -> Value {
    api.get(&format!("/api/v1/namespaces/default/pods/{name}")).expect("the pod is there")
}

/// Returns the node that the pod is bound to.
pub(crate) fn node_of(api: &ApiClient, name: &str) -> Option<String> {
    read(api, name)["spec"]["nodeName"].as_str().map(str::to_owned)
}

/// Waits until the pod is bound, and returns the node.
#[track_caller]
pub(crate) fn bound(api: &ApiClient, name: &str) -> String {
    wait_for(SOON, &format!("{name} is bound"), || node_of(api, name))
}

/// Waits until PodScheduled has this reason, and returns the condition.
#[track_caller]
pub(crate) fn told(api: &ApiClient, name: &str, reason: &str) -> Value {
    wait_for(SOON, &format!("{name} is told {reason}"), || {
        let condition = scheduled_condition(&read(api, name));
        (condition["reason"] == reason).then_some(condition)
    })
}

/// Waits for an event about the pod.
#[track_caller]
pub(crate) fn event(api: &ApiClient, name: &str, reason: &str) -> Value {
    wait_for(SOON, &format!("an event {reason} about {name}"), || {
        let events = api.list("/apis/events.k8s.io/v1/namespaces/default/events").ok()?;
        let about = |e: &&Value| e["regarding"]["name"] == name && e["reason"] == reason;
        events.iter().find(about).cloned()
    })
}

/// Returns how many GPUs the bound pods of each node ask for together, fullest node first.
pub(crate) fn gpus_by_node(api: &ApiClient) -> Vec<(String, u64)> {
    let mut by_node = std::collections::BTreeMap::<String, u64>::new();
    for pod in api.list("/api/v1/pods").expect("pods") {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        let asked = &pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"];
        let asked = asked.as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        *by_node.entry(node.to_owned()).or_default() += asked;
    }
    let mut nodes: Vec<_> = by_node.into_iter().collect();
    nodes.sort_by_key(|(_, gpus)| std::cmp::Reverse(*gpus));
    nodes
}

pub(crate) fn n_bound(api: &ApiClient) -> usize {
    let pods = api.list("/api/v1/pods").unwrap_or_default();
    pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
}

/// A ClusterRole of one rule a need.
pub(crate) fn role(name: &str, needs: &[Need]) -> Value {
    let rule = |need: &Need| {
        let mut rule = json!({
            "apiGroups": [need.group], "resources": [need.resource], "verbs": [need.verb],
        });
        if let Some(name) = &need.name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": needs.iter().map(rule).collect::<Vec<Value>>(),
    })
}
