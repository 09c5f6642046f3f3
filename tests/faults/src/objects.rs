//! Small nodes and pods.

use serde_json::{Value, json};

/// A node with so many GPUs and more than enough of everything else.
pub fn gpu_node(name: &str, gpus: u32) -> Value {
    let amounts = json!({
        "cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string(),
    });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "allocatable": amounts, "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// A pod in `default` that asks for so many GPUs.
pub fn gpu_pod(name: &str, gpus: u32) -> Value {
    let amounts = json!({"nvidia.com/gpu": gpus.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example/work:1",
            "resources": {"requests": amounts, "limits": amounts},
        }]},
    })
}

/// A group in `default` whose pods are placed together, from `min_count` on.
pub fn pod_group(name: &str, min_count: u32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    })
}

/// The same pod as a member of a group.
pub fn member(mut pod: Value, group: &str) -> Value {
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

/// Returns the condition PodScheduled; null if there is none.
pub fn scheduled_condition(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|c| c["type"] == "PodScheduled").cloned().unwrap_or_default()
}
