//! Devices of the nodes, and a claim for each pod: no controller makes them here.

use http::Method;
use serde_json::{Value, json};

use crate::client::Sending;
use crate::load::NAMESPACE;

const DRIVER: &str = "gpu.example.com";
const REQUEST: &str = "gpu";
/// Devices a node.
pub(crate) const PER_NODE: u32 = 8;

pub(crate) fn class() -> (String, Value) {
    let expression =
        format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'");
    let class = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    });
    ("/apis/resource.k8s.io/v1/deviceclasses".to_owned(), class)
}

/// Returns the slice of a node.
pub(crate) fn slice(node: &str) -> (String, Value) {
    let devices: Vec<Value> = (0..PER_NODE).map(|i| device(node, i)).collect();
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": format!("{node}-{DRIVER}")},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    });
    ("/apis/resource.k8s.io/v1/resourceslices".to_owned(), slice)
}

/// As the NVIDIA driver publishes a whole GPU.
fn device(node: &str, i: u32) -> Value {
    json!({
        "name": device_name(i),
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": format!("GPU-{node}-{i}")},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "architecture": {"string": "Hopper"},
            "driverVersion": {"version": "580.65.6"},
            "resource.kubernetes.io/pcieRoot": {"string": format!("pci0000:{}", i / 2)},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    })
}

pub(crate) fn device_name(i: u32) -> String {
    format!("gpu-{i}")
}

/// Returns the claim of a pod, which has the pod's name.
pub(crate) fn claim(pod: &str) -> (String, Value) {
    let expression = format!("device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0");
    let request = json!({"name": REQUEST, "exactly": {
        "deviceClassName": DRIVER,
        "selectors": [{"cel": {"expression": expression}}],
    }});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [request]}},
    });
    (format!("/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"), claim)
}

/// Puts the pod's claim into it.
pub(crate) fn use_claim(pod: &mut Value) {
    let name = pod["metadata"]["name"].clone();
    pod["spec"]["resourceClaims"] = json!([{"name": REQUEST, "resourceClaimName": name}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": REQUEST}]);
}

/// Returns the two writes with which a scheduler grants a device: finalizer and status.
pub(crate) fn grant(pod: &str, node: &str, device: &str) -> Vec<Sending> {
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/{pod}");
    let finalizer =
        json!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
    let result = json!({"request": REQUEST, "driver": DRIVER, "pool": node, "device": device});
    let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let status = json!({"status": {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [name]}]},
        },
        // The server doesn't look whether there is such a pod.
        "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}],
    }});
    let patch = |path: String, body: &Value| Sending {
        method: Method::PATCH,
        path,
        body: body.to_string().into_bytes(),
    };
    vec![patch(path.clone(), &finalizer), patch(format!("{path}/status"), &status)]
}
