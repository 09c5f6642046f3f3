//! Small nodes and pods, claims and devices.

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

/// The same pod as one that a Job's controller has made, and makes anew when it is gone.
pub fn owned(mut pod: Value, job: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": format!("uid-of-{job}"),
        "controller": true,
    }]);
    pod
}

/// The driver of all devices, and the name of their class.
pub const DRIVER: &str = "gpu.example.com";

/// The class that all claims ask for.
pub fn device_class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]},
    })
}

/// A slice of the pool that belongs to a node and has its name. `pool` sets generation and
/// resourceSliceCount, which are 1 otherwise.
pub fn device_slice(name: &str, node: &str, devices: &[&str], pool: &Value) -> Value {
    let devices: Vec<Value> = devices.iter().map(|name| json!({"name": name})).collect();
    let or_one = |field: &str| if pool[field].is_null() { json!(1) } else { pool[field].clone() };
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {
                "name": node, "generation": or_one("generation"),
                "resourceSliceCount": or_one("resourceSliceCount"),
            },
        },
    })
}

/// A claim in `default` for one device.
pub fn claim(name: &str) -> Value {
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": DRIVER}});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"devices": {"requests": [request]}},
    })
}

/// A pod in `default` that uses these claims, and asks for nothing else.
pub fn claiming(name: &str, claims: &[&str]) -> Value {
    let entry = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
    let used = |claim: &&str| json!({"name": claim});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {
            "resourceClaims": claims.iter().map(entry).collect::<Vec<_>>(),
            "containers": [{
                "name": "main", "image": "registry.example/work:1",
                "resources": {"claims": claims.iter().map(used).collect::<Vec<_>>()},
            }],
        },
    })
}

/// Returns the condition PodScheduled; null if there is none.
pub fn scheduled_condition(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|c| c["type"] == "PodScheduled").cloned().unwrap_or_default()
}
