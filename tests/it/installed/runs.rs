//! Berth with exactly the rights of the manifests, on a server where only roles count.

use std::collections::BTreeSet;

use berth_stand::{ApiClient, AuditedRequest, Stand, wait_for};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::rights::{Right, granted};
use super::{USER, allow_metrics, guarded, read, second};
use crate::support::SOON;
use crate::support::berth::Berth;
use crate::support::https::{Ask, free_port};
use crate::support::objects::{bound, create, event, gpu_node, gpu_pod, told};

/// What none of the below needs, with the reason why it is granted.
const UNUSED: [(&str, &str); 11] = [
    ("get", "a pod whose bind has had no answer; what SIGUSR2's comparison looks at again"),
    ("patch events", "an event that repeats counts up"),
    ("patch resourceclaims/binding", "no path of its own: asked for beside resourceclaims/status"),
    ("delete resourceclaims", "a claim for extended resources whose pod finds no place after all"),
    ("delete pods", "a group that can't be completed is taken back; the campaign's F17"),
    ("list podgroups", "this server has no groups; tests/it/live_dialects.rs"),
    ("watch podgroups", "the same"),
    ("patch podgroups/status", "the same"),
    ("list compositepodgroups", "the same"),
    ("watch compositepodgroups", "the same"),
    ("patch compositepodgroups/status", "the same"),
];

/// Starts Berth as the Deployment would: with its configuration, as its service account.
pub(crate) fn start(stand: &Stand, flags: &[&str]) -> Berth {
    let kubeconfig = stand.service_account_kubeconfig(USER).expect("a token");
    let delegated = ["authentication", "authorization"]
        .map(|what| format!("--{what}-kubeconfig={}", kubeconfig.display()));
    let flags: Vec<&str> =
        delegated.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    let config = read(&second().join("config.yaml"));
    Berth::start_with(stand.folder(), &kubeconfig, &config, &flags)
}

/// A node that is Berth's, as docs/install.md makes it.
fn node(name: &str, zone: &str) -> Value {
    let mut node = gpu_node(name, 8);
    node["metadata"]["labels"] = json!({
        "scheduled-by": "berth", "topology.kubernetes.io/zone": zone,
        "kubernetes.io/hostname": name,
    });
    node["spec"]["taints"] =
        json!([{"key": "scheduled-by", "value": "berth", "effect": "NoSchedule"}]);
    node
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = gpu_pod(name, 1);
    let spec = pod["spec"].as_object_mut().expect("a map");
    spec.insert("schedulerName".to_owned(), json!("berth"));
    spec.insert("tolerations".to_owned(), json!([{"key": "scheduled-by", "value": "berth"}]));
    spec.extend(more.as_object().expect("a map").clone());
    pod
}

#[test]
fn its_rights_are_enough_and_none_is_spare() {
    let Some(stand) = guarded(&["scraper", "nobody"]) else { return };
    let api = stand.client();
    stand.grant_rights(&second()).expect("rights");
    allow_metrics(&api, "scraper");
    for object in [node("n-a", "a"), node("n-b", "b"), gpu_node("not-ours", 8)] {
        create(&api, &object);
    }
    let address = free_port();
    let port = format!("--secure-port={}", address.port());
    let berth = start(&stand, &[&port, "--bind-address=127.0.0.1"]);

    plain_pods_land_on_its_own_nodes(&api);
    a_volume_pulls_its_pod(&api);
    spread_and_affinity_hold(&api);
    devices_are_allocated(&api);
    what_fits_nowhere_is_told_why(&api);

    let runtime = Runtime::new().expect("a runtime");
    let status = |user: &str| {
        let ask = Ask::token(&stand.token(user));
        runtime.block_on(ask.get(address, "/metrics")).0
    };
    assert_eq!((status("scraper"), status("nobody")), (200, 403));
    let lease = api.get("/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/berth");
    let holder = lease.expect("the Lease")["spec"]["holderIdentity"].clone();
    assert!(holder.as_str().is_some_and(|holder| !holder.is_empty()), "{holder}");

    // Berth's own word on its rights agrees.
    let checked = || Some(berth.log()).filter(|log| log.contains("rights are checked"));
    let log = wait_for(SOON, "the rights are checked", checked);
    assert!(!log.contains("a rule is missing"), "{log}");
    assert_eq!(berth.terminate(), Some(0));
    let requests = stand.requests_of(USER).expect("the audit log");
    let refused: Vec<String> =
        requests.iter().filter(|r| r.status == 403).map(ToString::to_string).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    the_cas_were_read(&requests);
    no_right_is_spare(&requests);
}

fn plain_pods_land_on_its_own_nodes(api: &ApiClient) {
    create(api, &pod("plain", &json!({})));
    assert!(["n-a", "n-b"].contains(&bound(api, "plain").as_str()));
    event(api, "plain", "Scheduled");
}

fn a_volume_pulls_its_pod(api: &ApiClient) {
    let storage = json!({"storage": "1Gi"});
    let terms = json!([{"matchExpressions": [{
        "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"],
    }]}]);
    create(
        api,
        &json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
            "spec": {
                "capacity": storage, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "data"},
                "csi": {"driver": "disk.example", "volumeHandle": "1"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
            "status": {"phase": "Bound"},
        }),
    );
    create(
        api,
        &json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": "default", "name": "data",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeName": "disk", "storageClassName": "",
                "resources": {"requests": storage},
            },
            "status": {"phase": "Bound"},
        }),
    );
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(api, &pod("with-disk", &json!({"volumes": volumes})));
    assert_eq!(bound(api, "with-disk"), "n-b");
}

fn spread_and_affinity_hold(api: &ApiClient) {
    let constraint = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }]);
    let mut nodes = BTreeSet::new();
    for name in ["spread-1", "spread-2"] {
        let mut spread = pod(name, &json!({"topologySpreadConstraints": constraint}));
        spread["metadata"]["labels"] = json!({"app": "spread"});
        create(api, &spread);
        nodes.insert(bound(api, name));
    }
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    create(api, &pod("choosy", &json!({"nodeSelector": {"kubernetes.io/hostname": "n-a"}})));
    assert_eq!(bound(api, "choosy"), "n-a");
}

fn devices_are_allocated(api: &ApiClient) {
    let version = "resource.k8s.io/v1";
    let selector = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    let devices: Vec<Value> = ["gpu-0", "gpu-1"].map(|name| json!({"name": name})).into();
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    for object in [
        json!({"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"},
               "spec": {"selectors": [selector], "extendedResourceName": "example.com/gpu"}}),
        json!({"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "gpus"},
               "spec": {"driver": "gpu.example.com", "nodeName": "n-a", "devices": devices,
                        "pool": {"name": "n-a", "generation": 1, "resourceSliceCount": 1}}}),
        json!({"apiVersion": version, "kind": "ResourceClaim",
               "metadata": {"namespace": "default", "name": "card"},
               "spec": {"devices": {"requests": [request]}}}),
    ] {
        create(api, &object);
    }
    let claims = json!([{"name": "card", "resourceClaimName": "card"}]);
    create(api, &pod("with-card", &json!({"resourceClaims": claims})));
    assert_eq!(bound(api, "with-card"), "n-a");
    let path = format!("/apis/{version}/namespaces/default/resourceclaims/card");
    let claim = api.get(&path).expect("the claim");
    let finalizers = json!(["resource.kubernetes.io/delete-protection"]);
    assert_eq!(claim["metadata"]["finalizers"], finalizers);
    let status = &claim["status"];
    assert_eq!(status["allocation"]["devices"]["results"][0]["pool"], "n-a");
    assert_eq!(status["reservedFor"][0]["name"], "with-card");

    let mut extended = pod("extended", &json!({}));
    let amounts = json!({"example.com/gpu": "1"});
    extended["spec"]["containers"][0]["resources"] =
        json!({"requests": amounts, "limits": amounts});
    create(api, &extended);
    assert_eq!(bound(api, "extended"), "n-a");
}

fn what_fits_nowhere_is_told_why(api: &ApiClient) {
    let mut large = pod("large", &json!({}));
    let amounts = json!({"nvidia.com/gpu": "9"});
    large["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    create(api, &large);
    let message = told(api, "large", "Unschedulable")["message"].clone();
    let message = message.as_str().unwrap_or_default();
    assert!(message.starts_with("0/3 nodes are available: "), "{message}");
    event(api, "large", "FailedScheduling");
}

/// The RoleBinding in kube-system is there for this request. A server without CAs for clients has
/// no such object, which is no refusal.
fn the_cas_were_read(requests: &[AuditedRequest]) {
    let asked = |r: &&AuditedRequest| r.resource == "configmaps" && r.namespace == "kube-system";
    let statuses: Vec<u16> = requests.iter().filter(asked).map(|r| r.status).collect();
    assert!(statuses.iter().any(|status| [200, 404].contains(status)), "{statuses:?}");
}

fn no_right_is_spare(requests: &[AuditedRequest]) {
    let used = |right: &Right| {
        let (group, resource) = (&right.group, &right.resource);
        requests
            .iter()
            .any(|r| r.verb == right.verb && r.group == *group && r.resource == *resource)
    };
    let explained = |right: &Right| {
        let (verb, resource) = (&right.verb, &right.resource);
        UNUSED.iter().any(|(what, _)| what == verb || *what == format!("{verb} {resource}"))
    };
    let granted = granted();
    let spare: Vec<&Right> =
        granted.iter().filter(|right| !used(right) && !explained(right)).collect();
    assert!(spare.is_empty(), "granted, and neither used nor explained: {spare:?}");
}
