//! The auditor against a real etcd and API server, with binds made by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use berth_audit::{
    AuditError, Auditor, Invariant, LeaseRule, Limits, Replica, Report, Sources, WireWrite,
};
use berth_stand::{ADMIN, ApiClient, KubeScheduler, Options, Patch, Stand, User, wait_for};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);
const SCHEDULER: &str = "berth-0";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct Scene {
    stand: Stand,
    admin: ApiClient,
    scheduler: ApiClient,
    auditor: Auditor,
}

impl Scene {
    fn start() -> Option<Self> {
        let options = Options {
            users: vec![User { name: SCHEDULER.to_owned(), groups: Vec::new() }],
            keep_history: true,
            json_storage: true,
            audit_log: true,
            ..Options::all_groups()
        };
        let stand = Stand::start_or_skip(&options)?;
        let admin = stand.client();
        let scheduler = stand.client_as(SCHEDULER).expect("a client");
        let auditor = Auditor::start(sources(&stand)).expect("the auditor starts");
        Some(Self { stand, admin, scheduler, auditor })
    }

    /// Everything is read, then judged.
    fn judge(&self) -> Report {
        self.auditor.caught_up(SOON).expect("etcd answers");
        self.auditor.judge()
    }

    /// Binds as the scheduler and returns the revision at which the store has it.
    fn bind(&self, pod: &str, node: &str) -> i64 {
        bind_as(&self.scheduler, pod, node);
        let bound = self.admin.get(&format!("{PODS}/{pod}")).expect("the pod");
        assert_eq!(bound["spec"]["nodeName"], node);
        let version = bound["metadata"]["resourceVersion"].as_str().expect("a version");
        version.parse().expect("a revision")
    }

    /// Takes the Lease as a scheduler does.
    fn take_lease(&self) {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "default", "name": "berth"},
            "spec": {"holderIdentity": "host_1", "leaseDurationSeconds": 600},
        });
        self.scheduler.create_object(&lease).expect("a Lease");
    }
}

fn sources(stand: &Stand) -> Sources {
    let lease = LeaseRule {
        namespace: "default".to_owned(),
        name: "berth".to_owned(),
        lease_duration: Duration::from_secs(600),
        renew_deadline: Duration::from_secs(500),
    };
    Sources {
        etcd_url: stand.etcd_url().to_owned(),
        audit_log: Some(stand.audit_log()),
        replicas: vec![Replica {
            user: SCHEDULER.to_owned(),
            scheduler_names: vec!["by-hand".to_owned()],
            lease: Some(lease),
        }],
    }
}

fn node(name: &str) -> Value {
    let resources = json!({"cpu": "64", "pods": "110", "example.com/gpu": "8"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "allocatable": resources, "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn pod(name: &str, group: Option<&str>) -> Value {
    let gpus = json!({"example.com/gpu": "8"});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"schedulerName": "by-hand", "containers": [{
            "name": "main", "image": "registry.example/work:1",
            "resources": {"requests": gpus, "limits": gpus},
        }]},
    });
    if let Some(group) = group {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    }
    pod
}

fn bind_as(api: &ApiClient, pod: &str, node: &str) {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    api.create(&format!("{PODS}/{pod}/binding"), &binding).expect("a bind");
}

fn create(api: &ApiClient, objects: &[Value]) {
    for object in objects {
        api.create_object(object).expect("created");
    }
}

/// Asks etcd through its gateway.
fn post_to_etcd(stand: &Stand, path: &str, body: &str) -> String {
    let address = stand.etcd_url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("etcd listens");
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
    assert!(status.success());
}

#[test]
fn binds_by_hand_are_judged_while_servers_die() {
    let Some(mut scene) = Scene::start() else { return };
    scene.take_lease();
    create(&scene.admin, &[node("n-1"), node("n-2"), pod("a", None), pod("b", None)]);
    scene.bind("a", "n-1");
    let report = scene.judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.binds, report.foreign_binds), (1, 0), "{report}");

    a_dead_etcd_loses_nothing(&mut scene);
    a_stopped_etcd_is_waited_for(&scene);
    let second = scene.bind("b", "n-1");
    an_overfull_node_is_convicted_at_the_revision_of_the_bind(&scene, second);
    others_are_load(&scene);
    the_program_finds_the_same(&scene);
    what_was_read_may_be_compacted_and_what_was_not_is_missed(&scene);
}

fn a_dead_etcd_loses_nothing(scene: &mut Scene) {
    scene.stand.kill_etcd();
    let behind = scene.auditor.caught_up(Duration::from_millis(100));
    assert!(matches!(behind, Err(AuditError::Behind { .. })), "{behind:?}");
    scene.stand.restart_etcd().expect("etcd comes back");
    wait_for(SOON, "the server finds etcd again", || scene.admin.get(PODS).ok());
    scene.stand.restart_apiserver().expect("the server comes back");
    create(&scene.admin, &[pod("c", None)]);
    scene.bind("c", "n-2");
    let report = scene.judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.binds, 2, "{report}");
}

fn a_stopped_etcd_is_waited_for(scene: &Scene) {
    let etcd = scene.stand.pids()[0];
    signal(etcd, "-STOP");
    let behind = scene.auditor.caught_up(Duration::from_millis(100));
    signal(etcd, "-CONT");
    assert!(matches!(behind, Err(AuditError::Behind { .. })), "{behind:?}");
    let read_to = scene.auditor.caught_up(SOON).expect("it answers again");
    assert!(scene.auditor.read_to() >= read_to);
}

fn an_overfull_node_is_convicted_at_the_revision_of_the_bind(scene: &Scene, revision: i64) {
    let report = scene.judge();
    let [violation] = &report.violations[..] else { panic!("not one violation:\n{report}") };
    assert_eq!((violation.invariant, violation.revision), (Invariant::I2, Some(revision)));
    let text = "default/b bound to n-1 by berth-0: example.com/gpu 16 of 8, beside default/a";
    assert_eq!(violation.text, text);
    // Each revision was read, and once.
    assert_eq!(i64::try_from(report.revisions).expect("few"), scene.auditor.read_to() - 1);
}

fn others_are_load(scene: &Scene) {
    create(&scene.admin, &[pod("d", None)]);
    bind_as(&scene.admin, "d", "n-2");
    let report = scene.judge();
    assert_eq!((report.binds, report.foreign_binds), (3, 1), "{report}");
    assert_eq!(report.violations.len(), 1, "{report}");
}

fn the_program_finds_the_same(scene: &Scene) {
    let log = scene.stand.audit_log();
    let until = scene.auditor.read_to().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_berth-audit"))
        .args(["--etcd", scene.stand.etcd_url(), "--until-revision", &until])
        .args(["--audit-log".as_ref(), log.as_os_str()])
        .args(["--replica", SCHEDULER, "--lease", "default/berth"])
        .args(["--lease-duration", "600", "--renew-deadline", "500"])
        .output()
        .expect("berth-audit runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("I2 at revision "), "{text}");
    assert!(text.contains("\n1 violations in "), "{text}");
    assert!(text.contains(" 3 binds, 1 foreign binds; "), "{text}");
}

fn what_was_read_may_be_compacted_and_what_was_not_is_missed(scene: &Scene) {
    let revision = scene.auditor.read_to();
    let body = format!(r#"{{"revision":"{revision}"}}"#);
    let answer = post_to_etcd(&scene.stand, "/v3/kv/compaction", &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    create(&scene.admin, &[pod("e", None)]);
    let report = scene.judge();
    assert!(report.problems.is_empty(), "{report}");

    let late = Auditor::start(sources(&scene.stand)).expect("another auditor starts");
    late.caught_up(SOON).expect("etcd answers");
    let report = late.judge();
    assert!(report.problems[0].contains("were compacted unread"), "{report}");
    assert!(!report.is_clean());
}

#[test]
fn a_gang_in_part_a_lost_pod_and_a_write_without_the_lease_are_convicted() {
    let Some(scene) = Scene::start() else { return };
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    });
    create(&scene.admin, &[node("n-1"), node("n-2"), group, pod("a", Some("g"))]);
    create(&scene.admin, &[pod("b", Some("g"))]);
    scene.bind("a", "n-1");
    scene.auditor.faults_ended(Instant::now());
    let limits = Limits {
        partial_gang: Duration::from_millis(200),
        lost_pod: Duration::from_millis(200),
        ..Limits::default()
    };
    let report = wait_for(SOON, "I4 and I5 to be broken long enough", || {
        scene.auditor.caught_up(SOON).expect("etcd answers");
        let report = scene.auditor.judge_by(&limits);
        let found = [Invariant::I4, Invariant::I5].iter().all(|i| report.of(*i).len() == 1);
        found.then_some(report)
    });
    let texts: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 3, "{report}");
    assert!(texts[0].contains("gang default/g: 1 of 2 bound"), "{report}");
    assert!(texts[1].contains("default/b was neither bound nor told why"), "{report}");
    assert!(texts[2].contains("berth-0 sent create of pods default/a binding"), "{report}");
    assert!(texts[2].ends_with("before it had the Lease"), "{report}");
    two_targets_on_the_wire_are_convicted(&scene);
}

/// The answers say that neither bind is known to have failed; the pod's UID comes from the store.
fn two_targets_on_the_wire_are_convicted(scene: &Scene) {
    let observer = scene.auditor.observer();
    for node in ["n-1", "n-2"] {
        let body = json!({"kind": "Binding", "target": {"name": node}}).to_string();
        let path = format!("{PODS}/b/binding?timeout=5s");
        observer.observe(WireWrite::seen("berth-0", "POST", &path, body.as_bytes()).answered(500));
    }
    let report = scene.judge();
    let [violation] = report.of(Invariant::I3)[..] else { panic!("not one of I3:\n{report}") };
    assert!(violation.text.starts_with("default/b was sent to n-2"), "{report}");
}

#[test]
fn a_device_given_twice_and_one_of_an_incomplete_pool_are_convicted() {
    let Some(scene) = Scene::start() else { return };
    scene.take_lease();
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "true"}}]},
    });
    create(&scene.admin, &[class, slice("whole", 1), slice("part", 2)]);
    for name in ["a", "b", "c"] {
        create(&scene.admin, &[claim(name)]);
    }
    allocate(&scene.scheduler, "a", "whole");
    let report = scene.judge();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.allocations, report.foreign_allocations), (1, 0), "{report}");
    allocate(&scene.scheduler, "b", "whole");
    allocate(&scene.scheduler, "c", "part");
    let report = scene.judge();
    let texts: Vec<&str> = report.violations.iter().map(|v| v.text.as_str()).collect();
    let id = "gpu.example.com";
    assert_eq!(
        texts,
        [
            format!(
                "default/b gets {id}/whole/x by berth-0: it is given 2 times, to default/a, default/b"
            ),
            format!(
                "default/c gets {id}/part/x by berth-0: its pool has 1 of 2 slices of generation 1"
            ),
        ],
        "{report}"
    );
    assert!(report.problems.is_empty(), "{report}");
}

/// A slice of a pool of the same name, which should have so many.
fn slice(name: &str, of: u32) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com", "allNodes": true, "devices": [{"name": "x"}],
            "pool": {"name": name, "generation": 1, "resourceSliceCount": of},
        },
    })
}

fn claim(name: &str) -> Value {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"devices": {"requests": [request]}},
    })
}

fn allocate(api: &ApiClient, claim: &str, pool: &str) {
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": pool, "device": "x"});
    let status = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    let path = format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{claim}/status");
    api.patch(&path, Patch::Merge, &status).expect("allocated");
}

/// A policy that refuses the bind of one member for good: kube-scheduler leaves the others bound.
#[test]
fn the_real_kube_scheduler_is_convicted_of_a_gang_bound_in_part() {
    let options = Options {
        keep_history: true,
        json_storage: true,
        audit_log: true,
        ..Options::all_groups()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    let auditor = Auditor::start(Sources {
        etcd_url: stand.etcd_url().to_owned(),
        audit_log: Some(stand.audit_log()),
        replicas: vec![Replica {
            user: ADMIN.to_owned(),
            scheduler_names: vec!["default-scheduler".to_owned()],
            lease: None,
        }],
    })
    .expect("the auditor starts");
    refuse_binds_of(&api, "d");
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
    });
    create(&api, &[group]);
    for name in ["a", "b", "c", "d"] {
        let mut member = pod(name, Some("g"));
        member["spec"]["schedulerName"] = json!("default-scheduler");
        create(&api, &[node(&format!("n-{name}")), member]);
    }
    let mut scheduler = KubeScheduler::start(&stand, None).expect("kube-scheduler starts");
    auditor.faults_ended(Instant::now());
    let limits = Limits { partial_gang: Duration::from_secs(5), ..Limits::default() };
    let report = wait_for(3 * SOON, "the gang is bound in part for too long", || {
        assert!(!scheduler.has_ended(), "{}", scheduler.last_words());
        auditor.caught_up(SOON).expect("etcd answers");
        let report = auditor.judge_by(&limits);
        (!report.of(Invariant::I4).is_empty()).then_some(report)
    });
    assert!(report.to_string().contains("gang default/g: 3 of 4 bound for"), "{report}");
    assert_eq!((report.violations.len(), report.binds), (1, 3), "{report}");
    assert!(report.problems.is_empty(), "{report}");
}

fn refuse_binds_of(api: &ApiClient, pod: &str) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "refuse"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods/binding"],
            }]},
            "validations": [{"expression": format!("object.metadata.name != '{pod}'")}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "refuse"},
        "spec": {"policyName": "refuse", "validationActions": ["Deny"]},
    });
    create(api, &[policy, binding, self::pod(pod, None)]);
    let trial = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    });
    let path = format!("{PODS}/{pod}/binding?dryRun=All");
    wait_for(SOON, "the policy is in force", || {
        let refused = api.create(&path, &trial).err()?;
        (refused.status() == Some(422)).then_some(())
    });
    api.delete_now(&format!("{PODS}/{pod}")).expect("the trial is over");
}
