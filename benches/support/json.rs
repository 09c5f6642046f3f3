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
