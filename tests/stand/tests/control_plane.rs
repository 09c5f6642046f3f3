//! The stand against itself: each test starts one control plane and asks several things of it.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use berth_stand::{
    ADMIN, ApiClient, Authorization, Binaries, FakeKubelet, KubeScheduler, Options, Patch, Stand,
    StandError, User, wait_for,
};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 500, burst: 500}
profiles:
- schedulerName: default-scheduler
";

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"name": "main", "image": "registry.example/work:1"}]},
    })
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn phase(api: &ApiClient, path: &str) -> Value {
    let pod = api.find(path).expect("the server answers");
    pod.map_or(Value::Null, |pod| pod["status"]["phase"].clone())
}

#[test]
fn objects_survive_restarts_and_nothing_survives_the_stand() {
    let Some(mut stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();

    let version = api.get("/version").expect("a version");
    assert_eq!(
        version["gitVersion"].as_str().map(|v| v.starts_with("v1.")),
        Some(true),
        "{version}"
    );
    let born = api.create_object(&node("n-1")).expect("a node");
    assert_eq!(born["status"]["allocatable"]["cpu"], "4");
    assert!(born["spec"]["taints"].is_null(), "{born}");

    // Its namespace is made too; the path is the one that discovery tells.
    let team_pod = pod("team", "p-1");
    api.create_object(&team_pod).expect("a pod in a new namespace");
    assert_eq!(api.path_of(&team_pod).expect("a path"), "/api/v1/namespaces/team/pods/p-1");
    assert_eq!(api.list("/api/v1/pods").expect("pods").len(), 1);

    errors_carry_status_and_message(&api);
    custom_resources_are_found(&api);

    let before = stand.pids();
    stand.kill_apiserver();
    assert!(api.get("/api/v1/nodes/n-1").is_err_and(|error| error.status().is_none()));
    stand.restart_apiserver().expect("the server comes back");
    assert_eq!(
        api.get("/api/v1/nodes/n-1").expect("the node is still there")["metadata"],
        born["metadata"]
    );
    stand.restart_etcd().expect("etcd comes back");
    wait_for(SOON, "the server finds etcd again", || api.get("/api/v1/nodes/n-1").ok());

    let after = stand.pids();
    let folder = stand.folder().to_path_buf();
    assert!(before.iter().all(|pid| !is_alive(*pid)) && after.iter().all(|pid| is_alive(*pid)));
    stand.stop();
    assert!(after.iter().all(|pid| !is_alive(*pid)));
    assert!(!folder.exists());
}

fn errors_carry_status_and_message(api: &ApiClient) {
    let missing = api.get("/api/v1/namespaces/default/pods/none").expect_err("no such pod");
    assert_eq!(missing.status(), Some(404));
    assert!(
        missing.to_string().contains(r#"pods "none" not found (HTTP 404 NotFound)"#),
        "{missing}"
    );

    let unknown = json!({"apiVersion": "v1", "kind": "Ship", "metadata": {"name": "s"}});
    let unknown = api.create_object(&unknown).expect_err("no such kind");
    assert_eq!(unknown.to_string(), r#"the server has no kind "Ship" in "v1""#);
}

fn custom_resources_are_found(api: &ApiClient) {
    let quay = json!({
        "apiVersion": "port.example.com/v1", "kind": "Quay", "metadata": {"name": "north"},
        "spec": {"length": 300}, "status": {"ships": 2},
    });
    api.create_object(&quay).expect_err("not served yet");
    api.create_object(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "quays.port.example.com"},
        "spec": {
            "group": "port.example.com", "scope": "Namespaced",
            "names": {"plural": "quays", "singular": "quay", "kind": "Quay"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))
    .expect("a definition");
    let created = wait_for(SOON, "the new kind is served", || api.create_object(&quay).ok());
    assert_eq!(created["status"]["ships"], 2);
}

#[test]
fn two_stands_with_roles_and_groups_run_side_by_side() {
    let roles = Options {
        authorization: Authorization::Rbac,
        users: vec![User { name: "viewer".to_owned(), groups: vec!["watchers".to_owned()] }],
        keep_history: true,
        json_storage: true,
        ..Options::default()
    };
    let Some(roles) = Stand::start_or_skip(&roles) else { return };
    let Some(groups) = Stand::start_or_skip(&Options::all_groups()) else { return };
    assert_ne!(roles.url(), groups.url());

    roles.client().create_object(&node("n-1")).expect("the admin may do everything");
    let viewer = roles.client_as("viewer").expect("a client");
    let refused = viewer.list("/api/v1/nodes").expect_err("nobody has bound a role to the viewer");
    assert_eq!(refused.status(), Some(403));

    let api = groups.client();
    assert!(api.list("/api/v1/nodes").expect("nodes").is_empty());
    api.create_object(&json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g-1"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }))
    .expect("a pod group");
    api.get("/apis/scheduling.k8s.io/v1alpha3/compositepodgroups")
        .expect("composite groups are served");
}

#[test]
fn the_real_scheduler_binds_and_the_fake_kubelet_runs() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let config = stand.folder().join("config.yaml");
    std::fs::write(&config, CONFIG).expect("a configuration");
    let scheduler = KubeScheduler::start(&stand, Some(&config)).expect("kube-scheduler starts");
    let kubelet = FakeKubelet::start(api.clone());
    api.create_object(&node("n-1")).expect("a node");
    api.create_object(&pod("default", "plain")).expect("a pod");

    let plain = "/api/v1/namespaces/default/pods/plain";
    wait_for(SOON, "the pod runs", || (phase(&api, plain) == "Running").then_some(()));
    let running = api.get(plain).expect("the pod");
    assert_eq!(running["spec"]["nodeName"], "n-1");
    assert!(running["status"]["startTime"].is_string());
    let conditions = running["status"]["conditions"].as_array().expect("conditions");
    for name in ["PodScheduled", "Ready"] {
        assert!(conditions.iter().any(|c| c["type"] == name && c["status"] == "True"), "{running}");
    }

    a_finalizer_holds_a_deleted_pod(&api, plain);
    a_claim_comes_and_goes_with_its_pod(&api);
    kubelet.stop();
    let pid = scheduler.pid();
    drop(scheduler);
    assert!(!is_alive(pid));
    assert!(stand.kubeconfig_path(ADMIN).is_ok_and(|path| path.is_file()));
}

fn a_finalizer_holds_a_deleted_pod(api: &ApiClient, path: &str) {
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    api.patch(path, Patch::Merge, &hold(json!(["example.com/hold"]))).expect("a finalizer");
    api.delete(path).expect("deleted");
    assert_eq!(phase(api, path), "Running");
    api.patch(path, Patch::Merge, &hold(Value::Null)).expect("no finalizer");
    wait_for(SOON, "the pod is gone", || phase(api, path).is_null().then_some(()));
}

fn a_claim_comes_and_goes_with_its_pod(api: &ApiClient) {
    let version = "resource.k8s.io/v1";
    for object in [
        json!({
            "apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {},
        }),
        json!({
            "apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "n-1-gpus"},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "n-1",
                "pool": {"name": "n-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        }),
        json!({
            "apiVersion": version, "kind": "ResourceClaimTemplate",
            "metadata": {"namespace": "default", "name": "one-gpu"},
            "spec": {"spec": {"devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}],
            }}},
        }),
    ] {
        api.create_object(&object).expect("a device");
    }
    let mut wants_gpu = pod("default", "wants-gpu");
    wants_gpu["spec"]["resourceClaims"] =
        json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]);
    api.create_object(&wants_gpu).expect("a pod with a claim");

    let path = api.path_of(&wants_gpu).expect("a path");
    wait_for(SOON, "the pod with a claim runs", || (phase(api, &path) == "Running").then_some(()));
    let list = || api.list("/apis/resource.k8s.io/v1/resourceclaims").expect("claims");
    let claims = list();
    let name = claims[0]["metadata"]["name"].as_str().expect("a name");
    assert!(claims.len() == 1 && name.starts_with("wants-gpu-gpu-"), "{claims:?}");
    assert_eq!(claims[0]["status"]["allocation"]["devices"]["results"][0]["device"], "gpu-0");

    api.delete(&path).expect("deleted");
    wait_for(SOON, "the claim is gone with its pod", || list().is_empty().then_some(()));
}

#[test]
fn servers_do_not_outlive_a_runner_that_is_killed() {
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if matches!(Binaries::locate(), Err(StandError::NoGo)) || !has_setpriv {
        eprintln!("skipped: neither Go nor KUBEBUILDER_ASSETS, or no setpriv of util-linux");
        return;
    }
    let mut runner = Command::new(env!("CARGO_BIN_EXE_stand"))
        .arg("run")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the runner starts");
    let mut lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("text");
    let addresses: Vec<&str> = first.split("127.0.0.1:").skip(1).collect();
    let ports: Vec<u16> = addresses
        .iter()
        .map(|text| text.split(' ').next().unwrap_or_default().parse().expect("a port"))
        .collect();
    let listens = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
    assert!(ports.len() == 2 && ports.iter().all(listens), "{first}");

    runner.kill().expect("killed");
    runner.wait().expect("gone");
    wait_for(SOON, "both servers are gone", || (!ports.iter().any(listens)).then_some(()));
}
