//! Objects as an API server sends them: a training pod and a GPU node, managedFields included.

use serde_json::{Value, json};

fn managed_fields() -> Value {
    let field = |name: &str| (format!("f:{name}"), json!({"f:value": {}, ".": {}}));
    let fields: serde_json::Map<String, Value> =
        ["metadata", "spec", "containers", "env", "resources", "volumes", "affinity", "status"]
            .into_iter()
            .flat_map(|group| (0..6).map(move |i| field(&format!("{group}-{i}"))))
            .collect();
    json!([{
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "time": "2026-11-01T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }])
}

/// A slice of `node` with its 8 whole GPUs, as NVIDIA's driver publishes them.
#[allow(dead_code)]
pub(crate) fn gpus(node: usize) -> Value {
    let devices = (0..8).map(|gpu| {
        let mut attributes = gpu_attributes(node, gpu);
        attributes["type"] = json!({"string": "gpu"});
        attributes["uuid"] = json!({"string": uuid(node, gpu)});
        let capacity = json!({"memory": {"value": "81559Mi"}});
        json!({"name": format!("gpu-{gpu}"), "attributes": attributes, "capacity": capacity})
    });
    slice(node, 0, 1, json!({"devices": devices.collect::<Vec<Value>>()}))
}

/// The slices of `node` with all that its 8 GPUs can be parted into: 26 placements each.
#[allow(dead_code)]
pub(crate) fn mig_slices(node: usize) -> Vec<Value> {
    let devices: Vec<Value> = (0..8).flat_map(|gpu| placements(node, gpu)).collect();
    let chunks: Vec<&[Value]> = devices.chunks(64).collect();
    let n_slices = chunks.len() + 1;
    let set = |gpu| json!({"name": format!("gpu-{gpu}-counter-set"), "counters": counters(0, 8)});
    let sets = json!({"sharedCounters": (0..8).map(set).collect::<Vec<Value>>()});
    let shown = chunks.into_iter().map(|devices| json!({"devices": devices}));
    let contents = std::iter::once(sets).chain(shown).enumerate();
    contents.map(|(at, content)| slice(node, at, n_slices, content)).collect()
}

fn slice(node: usize, at: usize, n_slices: usize, content: Value) -> Value {
    let name = format!("node-{node}");
    let mut spec = json!({
        "driver": "gpu.nvidia.com", "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": n_slices},
    });
    spec.as_object_mut().expect("a map").extend(content.as_object().expect("a map").clone());
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {
            "name": format!("{name}-gpu.nvidia.com-{at}"), "resourceVersion": "123456",
            "uid": format!("22222222-0000-0000-{at:04}-{node:012}"),
            "managedFields": managed_fields(),
        },
        "spec": spec,
    })
}

fn uuid(node: usize, gpu: usize) -> String {
    format!("GPU-33333333-0000-0000-{gpu:04}-{node:012}")
}

/// What a GPU and its parts have in common.
fn gpu_attributes(node: usize, gpu: usize) -> Value {
    // Nodes were set up at different times.
    let driver = format!("550.{}.0", node % 4);
    json!({
        "productName": {"string": "NVIDIA H100 80GB HBM3"}, "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"}, "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": driver}, "cudaDriverVersion": {"version": "12.4.0"},
        "resource.kubernetes.io/pciBusID": {"string": format!("0000:{:02x}:00.0", 0x18 + gpu * 8)},
        "resource.kubernetes.io/pcieRoot": {"string": format!("pci0000:{:02x}", 0x10 + gpu * 8)},
        "resource.kubernetes.io/numaNode": {"int": gpu / 4},
    })
}

/// Profiles as name, slots of memory, and where they may begin.
const PROFILES: [(&str, usize, &[usize]); 7] = [
    ("1g.10gb", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.10gb.me", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.20gb", 2, &[0, 2, 4, 6]),
    ("2g.20gb", 2, &[0, 2, 4]),
    ("3g.40gb", 4, &[0, 4]),
    ("4g.40gb", 4, &[0]),
    ("7g.80gb", 8, &[0]),
];

fn placements(node: usize, gpu: usize) -> Vec<Value> {
    let device = |name: String, kind: &str, profile: &str, begin: usize, slots: usize| {
        let mut attributes = gpu_attributes(node, gpu);
        attributes["type"] = json!({"string": kind});
        let of = if kind == "gpu" { "uuid" } else { "parentUUID" };
        attributes[of] = json!({"string": uuid(node, gpu)});
        if kind == "mig" {
            attributes["profile"] = json!({"string": profile});
        }
        let engine = json!({"value": slots.to_string()});
        let mut capacity = json!({"memory": {"value": format!("{}Mi", slots * 9856)}});
        for name in
            ["multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines"]
        {
            capacity[name] = engine.clone();
        }
        let set = format!("gpu-{gpu}-counter-set");
        let consumes = json!([{"counterSet": set, "counters": counters(begin, slots)}]);
        json!({"name": name, "attributes": attributes, "capacity": capacity,
               "consumesCounters": consumes})
    };
    let parts = PROFILES.iter().flat_map(|(profile, slots, begins)| {
        begins.iter().map(move |begin| {
            let name = format!("gpu-{gpu}-mig-{profile}-{begin}").replace('.', "-");
            device(name, "mig", profile, *begin, *slots)
        })
    });
    let whole = device(format!("gpu-{gpu}"), "gpu", "", 0, 8);
    parts.chain([whole]).collect()
}

fn counters(begin: usize, slots: usize) -> Value {
    let value = |amount: usize| json!({"value": amount.to_string()});
    let mut counters = json!({"memory": {"value": format!("{}Mi", slots * 9856)}});
    for name in
        ["multiprocessors", "copy-engines", "decoders", "encoders", "jpeg-engines", "ofa-engines"]
    {
        counters[name] = value(slots);
    }
    for slot in begin..begin + slots {
        counters[format!("memory-slice-{slot}")] = value(1);
    }
    counters
}

/// A training worker of about 6 KB, bound to `node`.
pub(crate) fn pod(at: usize, node: &str) -> Value {
    let env: Vec<Value> = (0..20)
        .map(
            |i| json!({"name": format!("VARIABLE_{i}"), "value": format!("value of {i} and {at}")}),
        )
        .collect();
    let job = at / 64;
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("train-{job}-worker-{at}"), "namespace": "research",
            "uid": format!("00000000-0000-0000-0000-{at:012}"), "resourceVersion": "123456",
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {
                "app": "train", "job-name": format!("train-{job}"), "team": "nlp",
                "batch.kubernetes.io/job-completion-index": format!("{at}"),
                "controller-uid": format!("11111111-0000-0000-0000-{job:012}"),
            },
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": format!("train-{job}"),
                "uid": format!("11111111-0000-0000-0000-{job:012}"), "controller": true,
            }],
            "managedFields": managed_fields(),
        },
        "spec": {
            "schedulerName": "default-scheduler", "nodeName": node, "priority": 0,
            "nodeSelector": {"pool": "h100"},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                 "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "containers": [{
                "name": "worker", "image": "registry.example/research/train:v42",
                "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
                "env": env,
                "resources": {
                    "requests": {"cpu": "12", "memory": "180Gi", "nvidia.com/gpu": "1"},
                    "limits": {"memory": "180Gi", "nvidia.com/gpu": "1"},
                },
                "volumeMounts": [{"name": "data", "mountPath": "/data"},
                    {"name": "token", "mountPath": "/var/run/secrets/token", "readOnly": true}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "dataset"}},
                {"name": "token", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]}}],
        },
        "status": {
            "phase": "Running", "startTime": "2026-11-01T10:00:10Z",
            "conditions": [{"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "worker", "ready": true, "restartCount": 0,
                "image": "registry.example/research/train:v42", "imageID": "sha256:0123",
                "state": {"running": {"startedAt": "2026-11-01T10:00:20Z"}}}],
        },
    })
}

/// A GPU node of about 13 KB: 40 labels, 50 images.
pub(crate) fn node(at: usize) -> Value {
    let labels: serde_json::Map<String, Value> = (0..40)
        .map(|i| (format!("example.com/label-{i}"), json!(format!("value-{}", (at + i) % 7))))
        .collect();
    let images: Vec<Value> = (0..50)
        .map(|i| {
            let name = format!("registry.example/team-{}/image-{i}:v{}", i % 9, at % 5);
            json!({"names": [format!("{name}@sha256:{:064x}", i), name], "sizeBytes": 100_000_000 + i})
        })
        .collect();
    let amounts = json!({
        "cpu": "96", "memory": "1056Gi", "ephemeral-storage": "3Ti", "pods": "110",
        "nvidia.com/gpu": "8", "rdma/shared_dev": "64",
    });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("node-{at}"), "uid": format!("22222222-0000-0000-0000-{at:012}"),
            "resourceVersion": "99", "labels": labels, "managedFields": managed_fields(),
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts, "allocatable": amounts, "images": images,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Linux"},
        },
    })
}
