//! Resource claims on the real API server.

use std::collections::BTreeSet;

use berth_stand::{Options, Patch, Stand, wait_for};
use serde_json::{Value, json};

use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, event, gpu_node, node_of, read, told};

const DRIVER: &str = "gpu.example.com";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

fn class(extended_resource: Option<&str>) -> Value {
    let mut class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]},
    });
    if let Some(name) = extended_resource {
        class["spec"]["extendedResourceName"] = json!(name);
    }
    class
}

/// A pool of the node's own.
fn slice(node: &str, devices: usize) -> Value {
    let devices: Vec<Value> = (0..devices).map(|i| json!({"name": format!("gpu-{i}")})).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node},
        "spec": {
            "driver": DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
    })
}

/// A pod with the claim of its name.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [{
                "name": "main", "image": "registry.example/app:1",
                "resources": {"claims": [{"name": "gpu"}]},
            }],
        },
    })
}

fn asking_for(name: &str, resource: &str, amount: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example/app:1",
            "resources": {"limits": {resource: amount}},
        }]},
    })
}

/// Returns the devices of a claim, as pool and device.
fn devices(claim: &Value) -> Vec<String> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let named = |result: &Value| format!("{}/{}", result["pool"], result["device"]);
    results.into_iter().flatten().map(named).collect()
}

#[test]
fn an_extended_resource_that_a_class_backs_becomes_a_claim() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &class(Some("example.com/gpu")));
    create(&api, &gpu_node("n-1", 0));
    create(&api, &slice("n-1", 2));
    let berth = Berth::start(&stand, FAST);

    create(&api, &asking_for("by-devices", "example.com/gpu", "2"));
    assert_eq!(bound(&api, "by-devices"), "n-1");
    let pod = read(&api, "by-devices");
    let status = &pod["status"]["extendedResourceClaimStatus"];
    let mapping = &status["requestMappings"][0];
    assert_eq!(
        (&mapping["containerName"], &mapping["resourceName"]),
        (&json!("main"), &json!("example.com/gpu")),
        "{pod}"
    );
    let name = status["resourceClaimName"].as_str().expect("the claim's name");
    let claim = api.get(&format!("{CLAIMS}/{name}")).expect("the claim is there");
    let annotation = "resource.kubernetes.io/extended-resource-claim";
    assert_eq!(claim["metadata"]["annotations"][annotation], "true");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
    assert_eq!(claim["spec"]["devices"]["requests"][0]["name"], mapping["requestName"]);
    assert_eq!(claim["status"]["reservedFor"][0]["uid"], pod["metadata"]["uid"]);
    assert_eq!(devices(&claim).len(), 2);

    // By the class's own name, and with nothing left.
    let implicit = format!("deviceclass.resource.kubernetes.io/{DRIVER}");
    create(&api, &asking_for("too-late", &implicit, "1"));
    let condition = told(&api, "too-late", "Unschedulable");
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(message.contains("cannot allocate all claims"), "{message}");

    let log = berth.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    assert_eq!(berth.terminate(), Some(0));
}

/// kubernetes/kubernetes#136269.
#[test]
fn no_device_is_granted_twice_when_many_ask_at_once() {
    const CLIENTS: usize = 20;
    const PODS: usize = 200;
    const NODES: usize = 10;
    const A_NODE: usize = 5;
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &class(None));
    for i in 0..NODES {
        let node = format!("n-{i}");
        create(&api, &gpu_node(&node, 0));
        create(&api, &slice(&node, A_NODE));
    }
    let berth = Berth::start(&stand, FAST);
    let names: Vec<String> = (0..PODS).map(|i| format!("p-{i}")).collect();
    std::thread::scope(|scope| {
        for names in names.chunks(PODS / CLIENTS) {
            let api = stand.client();
            scope.spawn(move || {
                for name in names {
                    create(&api, &claim(name));
                    create(&api, &pod(name));
                }
            });
        }
    });

    wait_for(SOON, "all devices are granted, and the others are told", || {
        let pods = api.list("/api/v1/namespaces/default/pods").ok()?;
        let placed = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
        let waits = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.is_some_and(|list| list.iter().any(|c| c["reason"] == "Unschedulable"))
        };
        let waiting = pods.iter().filter(waits).count();
        (placed == NODES * A_NODE && waiting == PODS - NODES * A_NODE).then_some(())
    });
    let mut granted = BTreeSet::new();
    for claim in api.list(CLAIMS).expect("claims") {
        let name = claim["metadata"]["name"].as_str().expect("a name");
        for device in devices(&claim) {
            assert!(granted.insert(device.clone()), "{device} is granted twice");
            let node = node_of(&api, name).expect("who has a device is bound");
            assert!(device.starts_with(&format!("\"{node}\"")), "{name} on {node} has {device}");
        }
    }
    assert_eq!(granted.len(), NODES * A_NODE);
    assert_eq!(berth.terminate(), Some(0));
}

#[test]
fn devices_that_are_free_again_wake_who_waits() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &class(None));
    create(&api, &gpu_node("n-1", 0));
    create(&api, &slice("n-1", 1));
    let berth = Berth::start(&stand, FAST);
    for name in ["first", "second"] {
        create(&api, &claim(name));
        create(&api, &pod(name));
    }
    let first = wait_for(SOON, "one of them is bound", || {
        ["first", "second"].into_iter().find(|name| node_of(&api, name).is_some())
    });
    let other = if first == "first" { "second" } else { "first" };
    told(&api, other, "Unschedulable");
    // As the claim controller does once the pod has ended.
    let claim = format!("{CLAIMS}/{first}");
    let freed = json!({"status": {"allocation": null, "reservedFor": null}});
    api.patch(&format!("{claim}/status"), Patch::Merge, &freed).expect("it is freed");
    assert_eq!(bound(&api, other), "n-1");
    assert_eq!(berth.terminate(), Some(0));
}

const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";

/// A pod of the group `train` that uses what the group's claim is.
fn member(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "t"}]);
    pod
}

/// KEP-5729: one device, one reservation, however many members.
#[test]
fn a_claim_of_a_pod_group_is_reserved_for_the_group() {
    let Some(stand) = Stand::start_or_skip(&Options::all_groups()) else { return };
    let api = stand.client();
    create(&api, &class(None));
    for node in ["n-1", "n-2"] {
        create(&api, &gpu_node(node, 0));
        create(&api, &slice(node, 1));
    }
    create(
        &api,
        &json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
            },
        }),
    );
    let berth = Berth::start(&stand, FAST);
    let names = ["w-0", "w-1", "w-2"];
    for name in names {
        create(&api, &member(name));
    }
    told(&api, "w-2", "NotReadyForScheduling");

    // As the claim controller does.
    let group = api.get(&format!("{GROUPS}/train")).expect("the group is there");
    let mut made = claim("train-gpu-x");
    made["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "train",
        "uid": group["metadata"]["uid"], "controller": true,
    }]);
    create(&api, &made);
    let statuses = json!([{"name": "gpu", "resourceClaimName": "train-gpu-x"}]);
    let status = json!({"status": {"resourceClaimStatuses": statuses}});
    let status_path = format!("{GROUPS}/train/status");
    api.patch(&status_path, Patch::Merge, &status).expect("the status is written");

    let nodes: BTreeSet<String> = names.iter().map(|name| bound(&api, name)).collect();
    assert_eq!(nodes.len(), 1, "they share a device of one node: {nodes:?}");
    let claim = api.get(&format!("{CLAIMS}/train-gpu-x")).expect("the claim is there");
    let reserved = json!([{
        "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train",
        "uid": group["metadata"]["uid"],
    }]);
    assert_eq!((&claim["status"]["reservedFor"], devices(&claim).len()), (&reserved, 1), "{claim}");
    let log = berth.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    assert_eq!(berth.terminate(), Some(0));
}

/// A driver that has to attach the device before a pod may start. Source: KEP-5007.
#[test]
fn a_pod_waits_for_its_driver_and_says_where_it_will_be() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    create(&api, &class(None));
    create(&api, &gpu_node("n-1", 0));
    let mut attached = slice("n-1", 1);
    let device = &mut attached["spec"]["devices"][0];
    device["bindingConditions"] = json!(["example.com/Attached"]);
    device["bindingFailureConditions"] = json!(["example.com/Failed"]);
    create(&api, &attached);
    create(&api, &claim("p"));
    let berth = Berth::start(&stand, FAST);
    create(&api, &pod("p"));

    let said = event(&api, "p", "BindingConditionsPending");
    let note = "waiting for binding conditions for device on node n-1";
    assert_eq!(
        (&said["type"], &said["action"], &said["note"]),
        (&json!("Normal"), &json!("Scheduling"), &json!(note)),
        "{said}"
    );
    let nominated = || read(&api, "p")["status"]["nominatedNodeName"].as_str().map(str::to_owned);
    wait_for(SOON, "it says where it will be", || nominated().filter(|node| node == "n-1"));
    assert_eq!(node_of(&api, "p"), None);
    drop(berth);

    // As if the process that allocated it had died an hour ago.
    let path = format!("{CLAIMS}/p/status");
    let status = api.get(&format!("{CLAIMS}/p")).expect("the claim is there")["status"].clone();
    let long_ago = "2026-01-01T00:00:00Z";
    let allocated_at = || {
        let claim = api.get(&format!("{CLAIMS}/p")).expect("the claim is there");
        claim["status"]["allocation"]["allocationTimestamp"].as_str().map(str::to_owned)
    };
    assert!(allocated_at().is_some_and(|at| at.as_str() > long_ago));
    let freed = json!({"status": {"allocation": null, "reservedFor": null}});
    api.patch(&path, Patch::Merge, &freed).expect("it is freed");
    let mut early = json!({"status": status});
    early["status"]["allocation"]["allocationTimestamp"] = json!(long_ago);
    api.patch(&path, Patch::Merge, &early).expect("it is allocated");

    let berth = Berth::start(&stand, FAST);
    wait_for(SOON, "what took too long is allocated anew", || {
        allocated_at().filter(|at| at.as_str() > long_ago)
    });
    wait_for(SOON, "it says where it will be", || nominated().filter(|node| node == "n-1"));
    let ready = json!({"status": {"devices": [{
        "driver": DRIVER, "pool": "n-1", "device": "gpu-0",
        "conditions": [{
            "type": "example.com/Attached", "status": "True", "reason": "Attached", "message": "",
            "lastTransitionTime": long_ago,
        }],
    }]}});
    api.patch(&path, Patch::Merge, &ready).expect("the driver has attached it");
    assert_eq!((bound(&api, "p").as_str(), nominated()), ("n-1", None));
    assert_eq!(berth.terminate(), Some(0));
}
