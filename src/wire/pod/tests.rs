//! Pods as files and servers give them, whole and broken.

use std::sync::Arc;

use berth_core::types::group::{GroupHint, NATIVE};
use berth_core::types::pod::TolerationOperator;
use berth_core::types::resources::AMOUNT_MAX;
use berth_core::types::{
    Labels, Operator, Phase, Pod, Protocol, Resources, Text, Timestamp, VolumeSource,
};
use serde_json::{Value, json};

use crate::wire::{Tables, k8s};

/// A pod that uses everything that is read.
pub(in crate::wire) fn busy_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "train-0", "namespace": "team", "uid": "uid-0", "resourceVersion": "42",
            "generation": 3, "creationTimestamp": "1970-01-01T00:00:02Z",
            "labels": {"app": "train", "index": "0"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train",
                                 "uid": "job-uid", "controller": true}],
        },
        "spec": {
            "schedulerName": "berth", "nodeName": "node-1", "priority": 7,
            "preemptionPolicy": "Never",
            "schedulingGates": [{"name": "wait"}],
            "schedulingGroup": {"podGroupName": "train"},
            "containers": [{
                "name": "main", "image": "repo/train:1",
                "resources": {"requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": 4},
                              "limits": {"nvidia.com/gpu": "4"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}],
                "restartPolicyRules": [{"action": "RestartAllContainers"}],
                "volumeMounts": [{"name": "data", "mountPath": "/d",
                                  "bindMountOptions": ["noexec"]}],
            }],
            "initContainers": [{
                "name": "side", "image": "repo/side", "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "100m"}},
                "ports": [{"hostPort": 9, "hostIP": "10.0.0.1"}],
            }],
            "ephemeralContainers": [{"name": "debug"}],
            "resources": {"requests": {"cpu": "10"}},
            "overhead": {"cpu": "50m"},
            "nodeSelector": {"zone": "a"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "gpu", "operator": "Gt", "values": ["3"]}],
                         "matchFields": [{"key": "metadata.name", "operator": "NotIn",
                                          "values": ["node-9"]}]}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 5, "preference": {"matchExpressions": [
                            {"key": "rack", "operator": "Exists"}]}}],
                },
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}},
                         "matchLabelKeys": ["index"], "namespaces": ["b", "a"]}],
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}],
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}],
                },
            },
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                            {"key": "x", "value": "y", "tolerationSeconds": 300}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                 "nodeTaintsPolicy": "Honor", "minDomains": 2, "matchLabelKeys": ["app"]}],
            "hostUsers": false, "hostNetwork": true,
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "disk", "gcePersistentDisk": {"pdName": "p", "readOnly": true}},
                {"name": "ebs", "awsElasticBlockStore": {"volumeID": "vol-1"}},
                {"name": "scsi", "iscsi": {"iqn": "iqn.1"}},
                {"name": "ceph", "rbd": {"monitors": ["m"], "image": "i"}},
                {"name": "csi", "csi": {"driver": "d"}},
                {"name": "model", "image": {"reference": "repo/model:2"}},
                {"name": "cfg", "configMap": {"name": "cfg"}},
            ],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "tpl"},
                               {"name": "nic", "resourceClaimName": "own"}],
        },
        "status": {
            "phase": "Running", "startTime": "1970-01-01T00:00:03Z", "nominatedNodeName": "node-2",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                            "message": "0/1 nodes"},
                           {"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
            "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "8"},
                                   "resources": {"requests": {"cpu": "9"}}}],
            "initContainerStatuses": [{"name": "side"}],
            "resources": {"requests": {"cpu": "11"}},
            "allocatedResources": {"cpu": "10"},
        },
    })
}

pub(in crate::wire) fn busy_node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "uid": "u", "resourceVersion": "1",
                     "labels": {"zone": "a"}},
        "spec": {"unschedulable": false, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "64", "pods": "110"},
            "allocatable": {"cpu": "63500m", "memory": "500Gi", "pods": "110",
                            "nvidia.com/gpu": "8", "hugepages-2Mi": "1Gi"},
            "images": [{"names": ["repo/a@sha256:0", "repo/a:1"], "sizeBytes": 1000}],
            "declaredFeatures": ["A"],
        },
    })
}

fn read(json: Value) -> Pod {
    super::pod(serde_json::from_value(json).unwrap(), &mut Tables::default())
}

fn with_spec(spec: Value) -> Pod {
    read(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec}))
}

fn container(resources: Value) -> Value {
    json!({"containers": [{"name": "a", "resources": resources}]})
}

/// Returns the problem of a pod with this spec, which must have one.
fn problem(spec: Value) -> String {
    with_spec(spec).problem.unwrap().to_string()
}

#[test]
fn a_busy_pod_is_read_without_problems() {
    let pod = read(busy_pod());
    assert_eq!(pod.problem, None);
    assert_eq!(pod.reference().to_string(), "team/train-0");
    assert_eq!((pod.uid.0.as_str(), pod.resource_version, pod.generation), ("uid-0", 42, 3));
    assert_eq!((pod.priority, pod.phase), (7, Phase::Running));
    assert_eq!((pod.created, pod.started), (Timestamp(2000), Some(Timestamp(3000))));
    assert_eq!(pod.node_name, Some("node-1".into()));
    assert_eq!(pod.nominated_node, Some("node-2".into()));
    assert_eq!(pod.gates, ["wait"]);
    assert_eq!(pod.group_hints(), [GroupHint::of_object(NATIVE, "train".into())]);
    assert_eq!(pod.owner.unwrap().kind, "Job");
    assert_eq!(pod.unscheduled.unwrap().message, "0/1 nodes");
}

#[test]
fn a_busy_spec_is_read() {
    let spec = &read(busy_pod()).spec;
    assert_eq!(spec.scheduler_name, "berth");
    assert_eq!(spec.node_selector, [("zone".into(), "a".into())]);
    let required = spec.node_affinity.required.as_ref().unwrap();
    let labels = Labels::new(vec![("gpu".into(), "4".into())]);
    assert!(required.matches("node-1", &labels));
    assert!(!required.matches("node-9", &labels));
    assert_eq!(spec.node_affinity.preferred[0].weight, 5);
    assert_eq!(spec.required_affinity[0].namespaces, ["a", "b"]);
    assert_eq!(spec.required_anti_affinity[0].selector, None);
    assert!(spec.required_anti_affinity[0].namespace_selector.as_ref().unwrap().is_empty());
    assert_eq!(spec.preferred_pod_terms, 1);
    assert_eq!(spec.tolerations[0].operator, TolerationOperator::Exists);
    assert_eq!(spec.tolerations[1].operator, TolerationOperator::Equal);
    let spread = &spec.spread[0];
    assert_eq!((spread.hard, spread.min_domains, &spread.selector), (false, Some(2), &None));
    assert!(spread.honor_node_affinity && spread.honor_node_taints);
    assert_eq!((spec.images.len(), spec.image_volumes.len(), spec.volumes.len()), (2, 1, 7));
    assert!(spec.volumes.contains(&VolumeSource::Ephemeral { volume: "scratch".into() }));
    assert_eq!((spec.claims[0].from_template, spec.claims[1].from_template), (true, false));
    assert_eq!(
        spec.required_features,
        [
            "RestartAllContainersOnContainerExits",
            "UserNamespacesHostNetworkSupport",
            "VolumeBindMountOptions",
        ]
    );
}

#[test]
fn label_keys_are_merged_into_affinity_selectors_once() {
    let requirement = |pod: &Pod| {
        let selector = pod.spec.required_affinity[0].selector.clone().unwrap();
        let of_key = selector.requirements.into_iter().filter(|r| r.key == "index");
        of_key.collect::<Vec<_>>()
    };
    let merged = requirement(&read(busy_pod()));
    assert_eq!((merged.len(), merged[0].operator), (1, Operator::In));
    let mut json = busy_pod();
    // As the API server returns it, and with a label that has changed since.
    json["metadata"]["labels"]["index"] = json!("1");
    let term = "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
    json.pointer_mut(term).unwrap()["labelSelector"]["matchExpressions"] =
        json!([{"key": "index", "operator": "In", "values": ["0"]}]);
    assert_eq!(requirement(&read(json)), merged);
}

#[test]
fn a_minimal_pod_has_the_defaults_of_the_api_server() {
    let pod = read(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}}));
    assert_eq!(pod.problem, None);
    assert_eq!((pod.namespace.as_str(), pod.uid.0.as_str()), ("default", "default/p"));
    assert_eq!(pod.spec.scheduler_name, "default-scheduler");
    assert_eq!((pod.priority, pod.phase, pod.terminating), (0, Phase::Pending, false));
    assert_eq!(pod.spec.requests.real, Resources::default());
    assert_eq!(*pod.usage, pod.spec.requests);
}

#[test]
fn limits_stand_in_for_missing_requests() {
    let pod = with_spec(container(json!({
        "requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 2}})));
    let real = &pod.spec.requests.real;
    assert_eq!((real.cpu_milli, real.memory_bytes), (1000, 1 << 30));
    assert_eq!(real.amount("nvidia.com/gpu"), 2);
    assert_eq!(pod.spec.requests.nonzero_memory_bytes, 1 << 30);
}

#[test]
fn limits_of_a_pod_are_those_of_what_runs_together_and_its_overhead() {
    let mut spec = container(json!({"limits": {"cpu": "2", "nvidia.com/gpu": 1}}));
    spec["initContainers"] = json!([
        {"name": "i", "resources": {"limits": {"cpu": "5"}}},
        {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": 1}}},
    ]);
    spec["overhead"] = json!({"cpu": "100m", "memory": "1Mi"});
    let limits = with_spec(spec.clone()).limits;
    assert_eq!((limits.cpu_milli, limits.amount("nvidia.com/gpu")), (5100, 2));
    assert_eq!(limits.memory_bytes, 0, "overhead alone limits nothing");
    spec["resources"] = json!({"limits": {"cpu": "3", "nvidia.com/gpu": 8}});
    let limits = with_spec(spec).limits;
    assert_eq!((limits.cpu_milli, limits.amount("nvidia.com/gpu")), (3100, 2));
}

#[test]
fn pod_level_amounts_replace_the_sum_for_what_they_may_name() {
    let with = |pod_level: Value, resources: Value| {
        let mut spec = container(resources);
        spec["resources"] = pod_level;
        with_spec(spec).spec.requests.real.clone()
    };
    let level = json!({"requests": {"cpu": "3", "nvidia.com/gpu": 8, "hugepages-2Mi": "4Mi"}});
    let real = with(level, json!({"requests": {"cpu": "1", "nvidia.com/gpu": 1}}));
    assert_eq!((real.cpu_milli, real.amount("nvidia.com/gpu")), (3000, 1));
    assert_eq!(real.amount("hugepages-2Mi"), 4 << 20);
    let limits = json!({"limits": {"cpu": "5", "memory": "2Gi"}});
    let real = with(limits, json!({"requests": {"cpu": "1"}}));
    assert_eq!((real.cpu_milli, real.memory_bytes), (1000, 2 << 30));
}

/// Returns the milli-CPU that a placed pod takes: one container that asks for 2, and this status.
fn cpu_while_resizing(status: Value, pod_level: Value) -> i64 {
    let mut spec = container(json!({"requests": {"cpu": "2"}}));
    spec["nodeName"] = json!("n");
    spec["resources"] = pod_level;
    let pod = read(json!({"metadata": {"name": "p"}, "spec": spec, "status": status}));
    assert_eq!(pod.problem, None);
    pod.usage.real.cpu_milli
}

#[test]
fn a_resize_takes_the_largest_unless_it_is_infeasible() {
    let status = |allocated: &str, actual: &str, reason: &str| {
        json!({
            "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": allocated},
                                   "resources": {"requests": {"cpu": actual}}}],
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        })
    };
    let cpu = |status| cpu_while_resizing(status, Value::Null);
    assert_eq!(cpu(Value::Null), 2000);
    assert_eq!(cpu(status("1", "1", "Deferred")), 2000);
    assert_eq!(cpu(status("3", "1", "Deferred")), 3000);
    assert_eq!(cpu(status("1", "4", "Deferred")), 4000);
    assert_eq!(cpu(status("1", "1", "Infeasible")), 1000);
    let only_actual = json!({
        "containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]});
    assert_eq!(cpu(only_actual), 1000);
    let no_status = json!({"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]});
    assert_eq!(cpu(no_status), 2000);
}

#[test]
fn a_pod_level_resize_counts_what_the_status_tells() {
    let status = |allocated: &str, actual: &str, reason: &str| {
        json!({
            "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}},
            "conditions": [{"type": "PodResizePending", "reason": reason}],
        })
    };
    let level = || json!({"requests": {"cpu": "6"}});
    assert_eq!(cpu_while_resizing(Value::Null, level()), 6000);
    assert_eq!(cpu_while_resizing(status("4", "5", "Deferred"), level()), 6000);
    assert_eq!(cpu_while_resizing(status("4", "7", "Deferred"), level()), 7000);
    assert_eq!(cpu_while_resizing(status("4", "5", "Infeasible"), level()), 5000);
    // Without pod-level requests the sums over the containers stand in the pod's status.
    assert_eq!(cpu_while_resizing(status("3", "1", "Deferred"), Value::Null), 3000);
}

#[test]
fn a_pending_pod_counts_its_spec_only() {
    let mut json = busy_pod();
    json["spec"]["nodeName"] = Value::Null;
    let pod = read(json);
    assert_eq!(*pod.usage, pod.spec.requests);
    assert_eq!(pod.usage.real.cpu_milli, 10_050);
    assert_eq!(read(busy_pod()).usage.real.cpu_milli, 11_050);
}

#[test]
fn ports_of_containers_and_sidecars_are_taken() {
    let ports = with_spec(json!({
        "containers": [{"ports": [{"containerPort": 80}, {"hostPort": 53, "protocol": "UDP"}]}],
        "initContainers": [{"ports": [{"hostPort": 1}]},
                           {"restartPolicy": "Always", "ports": [{"hostPort": 2}]}],
    }))
    .spec
    .host_ports
    .clone();
    let shown: Vec<_> = ports.iter().map(|p| (p.ip.as_str(), p.protocol, p.port)).collect();
    assert_eq!(shown, [("0.0.0.0", Protocol::Udp, 53), ("0.0.0.0", Protocol::Tcp, 2)]);
    let on_host = json!({
        "hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]});
    assert_eq!(with_spec(on_host).spec.host_ports[0].port, 80);
}

#[test]
fn problems_name_the_place_and_what_is_wrong() {
    let cpu = |cpu: Value| container(json!({"requests": {"cpu": cpu}}));
    let at = "spec.containers[0].resources.requests.cpu";
    let first = |field: &str, value: Value| json!({"containers": [], field: [value]});
    for (spec, expected) in [
        (json!(null), "spec: is missing".to_owned()),
        (json!("x"), "spec: is a string, not an object".to_owned()),
        (cpu(json!("NaN")), format!("{at}: \"NaN\" is not a quantity")),
        (cpu(json!("-1")), format!("{at}: must not be negative")),
        (cpu(json!(-1)), format!("{at}: must not be negative")),
        (cpu(json!({})), format!("{at}: is an object, not a quantity")),
        (
            container(json!({"limits": {"nvidia.com/gpu": "all"}})),
            "spec.containers[0].resources.limits[nvidia.com/gpu]: \"all\" is not a quantity".into(),
        ),
        (
            first("tolerations", json!({"operator": "Maybe"})),
            "spec.tolerations[0].operator: unknown value \"Maybe\"".into(),
        ),
        (
            first("tolerations", json!({"effect": "NoFun"})),
            "spec.tolerations[0].effect: unknown value \"NoFun\"".into(),
        ),
        (
            first("topologySpreadConstraints", json!({"maxSkew": 0, "topologyKey": "z"})),
            "spec.topologySpreadConstraints[0].maxSkew: must be at least 1".into(),
        ),
        (
            first("volumes", json!({"name": "v", "persistentVolumeClaim": {}})),
            "spec.volumes[0].persistentVolumeClaim.claimName: is missing".into(),
        ),
        (
            first("resourceClaims", json!({"name": "c"})),
            "spec.resourceClaims[0]: must name either resourceClaimName or \
             resourceClaimTemplateName"
                .into(),
        ),
        (first("schedulingGates", Value::Null), "spec.schedulingGates[0]: is missing".into()),
        (
            json!({"containers": [{"ports": [{"hostPort": 70000}]}]}),
            "spec.containers[0].ports[0].hostPort: 70000 is not a port number".into(),
        ),
        (
            json!({"containers": [], "priority": 3_000_000_000_i64}),
            "spec.priority: 3000000000 is out of range".into(),
        ),
        (
            json!({"containers": [], "preemptionPolicy": "Perhaps"}),
            "spec.preemptionPolicy: unknown value \"Perhaps\"".into(),
        ),
    ] {
        assert_eq!(problem(spec), expected);
    }
}

#[test]
fn comparing_tolerations_are_left_out_while_their_gate_is_off() {
    let spec = json!({"tolerations": [
        {"key": "level", "operator": "Lt", "value": "9"},
        {"key": "level", "operator": "Exists"},
    ]});
    let json = json!({"metadata": {"name": "a"}, "spec": spec});
    let wire: k8s::Pod = serde_json::from_value(json).unwrap();
    for (on, kept) in [(false, 1), (true, 2)] {
        let mut tables = Tables::default();
        tables.comparison_tolerations = on;
        let pod = super::pod(wire.clone(), &mut tables);
        assert_eq!((pod.spec.tolerations.len(), pod.problem), (kept, None));
    }
}

#[test]
fn why_a_kubelet_has_refused_a_pod_is_read_of_pods_that_failed_by_it() {
    let refused = |phase: &str, reason: &str| {
        let status = json!({"phase": phase, "reason": reason});
        let spec = json!({"nodeName": "n", "containers": [{"name": "a"}]});
        read(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).refused
    };
    for reason in ["TopologyAffinityError", "UnexpectedAdmissionError"] {
        assert_eq!(refused("Failed", reason).unwrap(), reason);
        assert_eq!(refused("Running", reason), None);
    }
    assert_eq!(refused("Failed", "Evicted"), None);
}

#[test]
fn a_phase_that_is_not_known_never_counts_as_ended() {
    let phase = |phase: &str, node: Value| {
        let spec = json!({"containers": [], "nodeName": node});
        read(json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}))
    };
    assert_eq!(phase("Failed", json!("n")).phase, Phase::Failed);
    let unknown = phase("Unknown", json!("n"));
    assert_eq!((unknown.phase, unknown.problem), (Phase::Running, None));
    let odd = phase("Gone", json!("n"));
    assert_eq!(odd.phase, Phase::Running);
    assert_eq!(odd.problem.unwrap(), "status.phase: unknown value \"Gone\"");
}

#[test]
fn absurd_amounts_are_cut_and_stay_cut_in_sums() {
    let one = json!({"resources": {"requests": {"cpu": "9e18", "memory": "9Ei", "x/y": "1e99"}}});
    let pod = with_spec(json!({"containers": vec![one; 100]}));
    assert_eq!(pod.problem, None);
    let real = &pod.spec.requests.real;
    assert_eq!(real.cpu_milli, AMOUNT_MAX);
    assert_eq!((real.memory_bytes, real.amount("x/y")), (AMOUNT_MAX, AMOUNT_MAX));
}

#[test]
fn a_megabyte_of_pod_is_read() {
    let mut spec = container(json!({}));
    let one = json!({"name": "c", "resources": {"requests": {"cpu": "1m"}}});
    spec["containers"] = json!(vec![one; 5000]);
    spec["tolerations"] = json!(vec![json!({"key": "k", "operator": "Odd"}); 5000]);
    spec["nodeSelector"] = json!({"k": "v".repeat(500_000)});
    let json = json!({"metadata": {"name": "p"}, "spec": spec});
    assert!(json.to_string().len() > 900_000);
    let pod = read(json);
    assert_eq!(pod.spec.requests.real.cpu_milli, 5000);
    let expected = "spec.tolerations[0].operator: unknown value \"Odd\" (and 4999 more)";
    assert_eq!(pod.problem.unwrap(), expected);
}

/// Bytes of a text's own allocation: two counters and the characters.
fn text_bytes(text: &Text) -> usize {
    16 + text.len()
}

/// Returns what `pod` holds that no other pod of its job holds. Unit: bytes.
fn own_bytes(pod: &Pod) -> usize {
    let shared = |text: &Text| text.len() < 30 && !text.contains("-7");
    let labels = pod.labels.iter().map(|(key, value)| {
        let texts = [key, value].into_iter().filter(|text| !shared(text));
        2 * size_of::<Text>() + texts.map(text_bytes).sum::<usize>()
    });
    size_of::<Pod>()
        + 16
        + labels.sum::<usize>()
        + text_bytes(&pod.uid.0)
        + text_bytes(&pod.name)
        + pod.gates.len() * size_of::<Text>()
        + pod.problem.as_ref().map_or(0, text_bytes)
}

#[test]
fn pods_of_one_job_share_their_spec_and_stay_below_two_kilobytes() {
    let mut tables = Tables::default();
    let mut pods = Vec::new();
    for i in 0..1000 {
        let mut json = busy_pod();
        json["metadata"]["name"] = json!(format!("train-{i}-7x9kq"));
        json["metadata"]["uid"] = json!(format!("0b1e6c56-7a0e-4e0f-9d58-{i:012}"));
        json["metadata"]["labels"]["batch.kubernetes.io/job-name"] = json!("train");
        json["metadata"]["labels"]["controller-uid"] = json!("7a0e4e0f-9d58-0b1e6c56");
        // The index may not be in the affinity term here: it would make each spec differ.
        let affinity = &mut json["spec"]["affinity"]["podAffinity"];
        affinity["requiredDuringSchedulingIgnoredDuringExecution"][0]["matchLabelKeys"] = json!([]);
        json["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] =
            json!(i.to_string());
        pods.push(super::pod(serde_json::from_value(json).unwrap(), &mut tables));
    }
    assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.spec, &pods[0].spec)));
    assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.usage, &pods[0].usage)));
    let (n_texts, n_specs, n_usages) = tables.sizes();
    assert_eq!((n_specs, n_usages), (1, 1));
    // The interner keeps a text of about 64 bytes with its tree node for each index.
    let per_pod = own_bytes(&pods[7]) + n_texts * 64 / 1000;
    assert!(per_pod <= 2048, "{per_pod} bytes");
    drop(pods);
    tables.purge();
    assert_eq!(tables.sizes(), (0, 0, 0));
}

/// What its kubelet has to align, the whole pod's last.
fn aligned(mut spec: Value) -> Vec<(i64, i64, i64)> {
    for (field, name) in [("containers", "c"), ("initContainers", "i")] {
        for (at, container) in spec[field].as_array_mut().into_iter().flatten().enumerate() {
            container["name"] = json!(format!("{name}{at}"));
        }
    }
    let json = json!({"metadata": {"name": "p"}, "spec": spec});
    let pod = super::pod(serde_json::from_value(json).unwrap(), &mut Tables::default());
    assert_eq!(pod.problem, None);
    let Some(alignment) = &pod.spec.alignment else { return Vec::new() };
    let all = alignment.containers.iter().map(|container| &container.amounts);
    let amounts = |of: &Resources| (of.cpu_milli, of.memory_bytes, of.amount("nvidia.com/gpu"));
    all.chain([&alignment.pod]).map(amounts).collect()
}

#[test]
fn cpus_and_memory_are_aligned_only_of_guaranteed_pods_and_devices_always() {
    let limits = |cpu: &str| json!({"limits": {"cpu": cpu, "memory": "8", "nvidia.com/gpu": "2"}});
    let of = |containers: Value| aligned(json!({"containers": containers}));
    let main = |resources: Value| of(json!([{"resources": resources}]));
    assert_eq!(main(limits("4")), [(4000, 8, 2); 2]);
    // Fractions of a CPU are of the pool that all share.
    assert_eq!(main(limits("4500m")), [(0, 8, 2); 2]);
    assert_eq!(of(json!([{"resources": limits("4")}, {}])), [(0, 0, 2); 2]);
    let mut less = limits("4");
    less["requests"] = json!({"memory": "7"});
    assert_eq!(main(less), [(0, 0, 2); 2]);
    assert_eq!(main(json!({"requests": {"cpu": "4"}})), []);
    let pod_level = json!({"limits": {"cpu": "4", "memory": "8"}});
    let spec = json!({"resources": pod_level, "containers": [{"resources": limits("4")}]});
    assert_eq!(aligned(spec), [(0, 0, 2); 2]);
}

#[test]
fn init_containers_leave_what_they_had_to_those_that_follow() {
    let gpus = |n: u32| json!({"limits": {"nvidia.com/gpu": n}});
    let spec = json!({
        "initContainers": [
            {"resources": gpus(3)}, {"resources": gpus(1), "restartPolicy": "Always"},
        ],
        "containers": [{"resources": gpus(1)}, {}],
    });
    assert_eq!(aligned(spec), [(0, 0, 3), (0, 0, 1), (0, 0, 1), (0, 0, 3)]);
}
