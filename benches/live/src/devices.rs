//! Devices of the nodes, and a claim for each pod: no controller makes them here.

use http::Method;
use serde_json::{Value, json};

use crate::client::Sending;
use crate::load::NAMESPACE;
use crate::partitions;

const DRIVER: &str = "gpu.example.com";
const REQUEST: &str = "gpu";

/// What devices the nodes have, and what of them a pod wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    /// 8 GPUs a node, one a pod.
    Whole,
    /// 10 GPUs a node, two a pod that are on one PCIe root.
    Pairs,
    /// 8 GPUs a node, each of which can be partitioned in 25 ways (MIG) and has counters for that; one
    /// partition a pod.
    Partitions,
}

impl Devices {
    pub(crate) fn class(self) -> (String, Value) {
        let wanted = if self == Devices::Partitions { "mig" } else { "gpu" };
        let expression = format!(
            "device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{wanted}'"
        );
        let class = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        });
        ("/apis/resource.k8s.io/v1/deviceclasses".to_owned(), class)
    }

    /// Returns the slices of a node.
    pub(crate) fn slices(self, node: &str) -> Vec<(String, Value)> {
        let bodies = match self {
            Devices::Whole => vec![json!({"devices": gpus(node, 8)})],
            Devices::Pairs => vec![json!({"devices": gpus(node, 10)})],
            Devices::Partitions => partitions::slices(node),
        };
        let n = bodies.len();
        let slice = |(at, body): (usize, Value)| {
            let mut slice = json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": format!("{node}-{DRIVER}-{at}")},
                "spec": body,
            });
            slice["spec"]["driver"] = json!(DRIVER);
            slice["spec"]["nodeName"] = json!(node);
            let pool = json!({"name": node, "generation": 1, "resourceSliceCount": n});
            slice["spec"]["pool"] = pool;
            ("/apis/resource.k8s.io/v1/resourceslices".to_owned(), slice)
        };
        bodies.into_iter().enumerate().map(slice).collect()
    }

    /// Returns the claim of the `i`-th pod, which has the pod's name.
    pub(crate) fn claim(self, pod: &str, i: u32) -> (String, Value) {
        let expression = match self {
            Devices::Whole | Devices::Pairs => {
                format!("device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0")
            }
            Devices::Partitions => {
                let profile = partitions::wanted(i);
                format!("device.attributes['{DRIVER}'].profile == '{profile}'")
            }
        };
        let count = if self == Devices::Pairs { 2 } else { 1 };
        let request = json!({"name": REQUEST, "exactly": {
            "deviceClassName": DRIVER,
            "count": count,
            "selectors": [{"cel": {"expression": expression}}],
        }});
        let mut devices = json!({"requests": [request]});
        if self == Devices::Pairs {
            devices["constraints"] = json!([{"matchAttribute": PCIE_ROOT}]);
        }
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": pod, "namespace": NAMESPACE},
            "spec": {"devices": devices},
        });
        (format!("/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"), claim)
    }

    /// Returns what one who needn't think grants to the `n`-th claim of a node: names, separated by
    /// commas.
    pub(crate) fn granted(self, n: u32) -> String {
        match self {
            Devices::Whole => name(n),
            Devices::Pairs => format!("{},{}", name(2 * n), name(2 * n + 1)),
            Devices::Partitions => partitions::nth_smallest(n),
        }
    }
}

const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";

/// As the NVIDIA driver publishes whole GPUs; two on each PCIe root.
fn gpus(node: &str, n: u32) -> Vec<Value> {
    let gpu = |i: u32| {
        json!({
            "name": name(i),
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": format!("GPU-{node}-{i}")},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "architecture": {"string": "Hopper"},
                "driverVersion": {"version": "580.65.6"},
                PCIE_ROOT: {"string": format!("pci0000:{}", i / 2)},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        })
    };
    (0..n).map(gpu).collect()
}

fn name(i: u32) -> String {
    format!("gpu-{i}")
}

/// Puts the pod's claim into it.
pub(crate) fn use_claim(pod: &mut Value) {
    let name = pod["metadata"]["name"].clone();
    pod["spec"]["resourceClaims"] = json!([{"name": REQUEST, "resourceClaimName": name}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": REQUEST}]);
}

/// Returns the two writes with which a scheduler grants devices, given by their names with commas:
/// finalizer and status.
pub(crate) fn grant(pod: &str, node: &str, devices: &str) -> Vec<Sending> {
    let path = format!("/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/{pod}");
    let finalizer =
        json!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
    let result =
        |device| json!({"request": REQUEST, "driver": DRIVER, "pool": node, "device": device});
    let results: Vec<Value> = devices.split(',').map(result).collect();
    let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let status = json!({"status": {
        "allocation": {
            "devices": {"results": results},
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
