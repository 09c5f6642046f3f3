//! Groups on the real API server, dialect by dialect: what of them reaches the ledger, and what is
//! written on them.

mod followed;
mod taken_over;
mod topologies;
mod whole;

use std::collections::BTreeSet;
use std::path::PathBuf;

use berth::live::outcome::{Next, judge};
use berth::live::preflight::needs::{Features, Need, of_scheduler};
use berth::live::request::About;
use berth::wire::Kind;
use berth::wire::dialect::DialectDef;
use berth_core::engine::WriteResult;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKind, GroupPhase, PodGroup, Quorum};
use berth_stand::{ADMIN, ApiClient, Authorization, Options, Patch, Stand, User, wait_for};
use serde_json::{Value, json};

use crate::installed::{USER, root, second};
use crate::support::SOON;
use crate::support::berth::{Berth, FAST};
use crate::support::objects::{bound, create, gpu_node, gpu_pod, node_of, role};
use followed::{Followed, tell, told};

/// The definition of the groups of a dialect.
fn crd(dialect: &str) -> Value {
    match dialect {
        "coscheduling" => crd_named("podgroups.scheduling.x-k8s.io"),
        _ => crd_named("podgroups.scheduling.volcano.sh"),
    }
}

fn crd_named(name: &str) -> Value {
    let path = root().join("tests/crds");
    let all = berth_stand::manifests(&path).expect("the CRDs");
    all.into_iter().find(|crd| crd["metadata"]["name"] == name).expect("the CRD")
}

/// Returns once the server has objects of it.
fn define(api: &ApiClient, crd: &Value) {
    create(api, crd);
    let path = format!(
        "/apis/{}/{}/{}",
        crd["spec"]["group"].as_str().expect("a group"),
        crd["spec"]["versions"][0]["name"].as_str().expect("a version"),
        crd["spec"]["names"]["plural"].as_str().expect("a resource"),
    );
    wait_for(SOON, &path, || api.get(&path).ok());
}

fn group(api_version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// A pod that says so much in its metadata.
fn member(name: &str, labels: Value, annotations: Value) -> Value {
    let mut pod = gpu_pod(name, 0);
    pod["metadata"]["labels"] = labels;
    pod["metadata"]["annotations"] = annotations;
    pod
}

/// Tells a group each phase in turn, and returns the object then.
fn told_all(followed: &Followed, api: &ApiClient, group: &PodGroup, path: &str) -> Value {
    for phase in [GroupPhase::Waiting, GroupPhase::Unschedulable, GroupPhase::Scheduled] {
        let said = told(phase, "why");
        let op = tell(group, said.clone());
        let answer = followed.send(&op, followed.about(&group.key));
        let next = judge(&op, answer, &followed.tables);
        let Next::Report(WriteResult::Done(written)) = next else { panic!("{next:?}") };
        assert!(written.resource_version > 0);
        let Some(ClusterEvent::Groups(GroupEvent::Applied(read))) = written.event.as_deref() else {
            panic!("the answer is an event: {written:?}")
        };
        assert!(read.is_told(&said), "{read:?}");
        // And by the watch.
        followed.until("what is told comes back", |known| {
            known.groups.get(&group.key).is_some_and(|group| group.is_told(&said)).then_some(())
        });
    }
    api.get(path).expect("the group")
}

/// A write that was decided for a group that is gone must not reach its namesake.
fn namesakes_are_not_told(followed: &Followed, api: &ApiClient, group: &PodGroup, path: &str) {
    let about = followed.about(&group.key);
    let mut object = api.get(path).expect("the group");
    // Kubernetes' own are kept by a finalizer while pods are in them.
    let freed = json!({"metadata": {"finalizers": null}});
    api.patch(path, Patch::Merge, &freed).expect("its finalizers are gone");
    api.delete_now(path).expect("it is deleted");
    object["metadata"] = json!({"name": &*group.key.name, "namespace": "default"});
    object["status"] = json!(null);
    let namesake = wait_for(SOON, "it is gone", || api.create_object(&object).ok());
    let op = tell(group, told(GroupPhase::Waiting, "not for you"));
    let next = judge(&op, followed.send(&op, about), &followed.tables);
    let told = matches!(next, Next::Report(WriteResult::Done(_)));
    assert!(!told, "{next:?}");
    assert_eq!(api.get(path).expect("the group")["status"], namesake["status"]);
}

#[test]
fn native_groups_come_and_are_told() {
    let Some(stand) = Stand::start_or_skip(&Options::all_groups()) else { return };
    let api = stand.client();
    let followed = Followed::start(&stand, ADMIN, &["native"]);
    create(
        &api,
        &group(
            "scheduling.k8s.io/v1beta1",
            "train",
            json!({
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "resourceClaims": [{"name": "shared", "resourceClaimName": "c"}],
            }),
        ),
    );
    create(
        &api,
        &json!({
            "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {
                "workloadRef": {"workloadName": "w", "templateName": "t"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}}, "disruptionMode": {"all": {}},
            },
        }),
    );
    let mut pod = gpu_pod("m", 0);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    create(&api, &pod);

    let train = followed.group(GroupKind::Pods, "train");
    assert_eq!((train.quorum, train.problem.as_ref()), (Quorum::AtLeast(3), None));
    assert_eq!((train.topology.len(), train.claims.len()), (1, 1));
    assert_eq!(train.priority, Some(0), "filled in by admission");
    let all = followed.group(GroupKind::Groups, "all");
    assert_eq!((all.quorum, all.problem.as_ref()), (Quorum::AtLeast(2), None));
    let hints = followed.pod("m").group_hints().to_vec();
    assert_eq!(hints.iter().map(|hint| &*hint.name).collect::<Vec<_>>(), ["train"]);

    let path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/train";
    let now = told_all(&followed, &api, &train, path);
    let condition = &now["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodGroupInitiallyScheduled");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("Scheduled")));
    let train_path = path;
    let path = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups/all";
    let now = told_all(&followed, &api, &all, path);
    let condition = &now["status"]["conditions"][0];
    assert_eq!(condition["type"], "CompositePodGroupInitiallyScheduled");
    others_conditions_and_times_stay(&followed, &api);
    namesakes_are_not_told(&followed, &api, &train, train_path);
}

/// Conditions are merged by type, and a time changes only with the status.
fn others_conditions_and_times_stay(followed: &Followed, api: &ApiClient) {
    let spec = json!({"schedulingPolicy": {"basic": {}}});
    let mut other = group("scheduling.k8s.io/v1beta1", "other", spec);
    let long_ago = "2020-01-02T03:04:05Z";
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": "m",
               "lastTransitionTime": long_ago})
    };
    let conditions = [
        condition("DisruptionTarget", "PreemptionByScheduler"),
        condition("PodGroupInitiallyScheduled", "Unschedulable"),
    ];
    other["status"] = json!({"conditions": conditions});
    create(api, &other);
    let other = followed.group(GroupKind::Pods, "other");
    followed.until("its status is read", |_| followed.about(&other.key).phase);
    let about = followed.about(&other.key);
    assert_eq!(about.phase, Some(GroupPhase::Unschedulable));
    let answer = followed.send(&tell(&other, told(GroupPhase::Error, "n")), about);
    assert!(answer.expect("an answer").status.is_success());
    let path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/other";
    let now = api.get(path).expect("the group");
    let of = |kind: &str| {
        let conditions = now["status"]["conditions"].as_array().expect("conditions");
        conditions.iter().find(|c| c["type"] == kind).expect("the condition").clone()
    };
    assert_eq!(of("DisruptionTarget"), conditions[0]);
    let own = of("PodGroupInitiallyScheduled");
    assert_eq!((&own["reason"], &own["message"]), (&json!("SchedulerError"), &json!("n")));
    assert_eq!(own["lastTransitionTime"], long_ago);
}

#[test]
fn a_server_with_an_older_version_is_read_in_that() {
    let options = Options {
        runtime_config: "scheduling.k8s.io/v1alpha3=true".to_owned(),
        ..Options::all_groups()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    let followed = Followed::start(&stand, ADMIN, &["native"]);
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
    create(&api, &group("scheduling.k8s.io/v1alpha3", "train", spec));
    let train = followed.group(GroupKind::Pods, "train");
    assert_eq!(train.quorum, Quorum::AtLeast(2));
    let at = followed.dialects.status_at(&train.key).expect("ours");
    let path = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/podgroups/train";
    assert_eq!(at.path, format!("{path}/status"));
    told_all(&followed, &api, &train, path);
}

/// Most clusters have no groups at all, and get custom resources later.
#[test]
fn custom_resources_come_and_go_while_we_watch() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    let followed = Followed::start(&stand, ADMIN, &["native", "coscheduling", "volcano", "kueue"]);
    followed.until("none is served", |known| {
        let off = |name: &&str| known.served.get(*name) == Some(&false);
        let nothing_awaited = known.awaited.is_empty();
        (["native", "coscheduling", "volcano"].iter().all(off) && nothing_awaited).then_some(())
    });
    assert!(followed.dialects.watched().is_empty());
    define(&api, &crd("coscheduling"));
    coscheduling(&followed, &api);
    define(&api, &crd("volcano"));
    volcano(&followed, &api);
    kueue(&followed, &api);

    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.delete(&format!("{path}/podgroups.scheduling.x-k8s.io")).expect("the CRD is deleted");
    followed.until("its groups are gone, and the dialect is off", |known| {
        let gone = known.groups.keys().all(|key| key.dialect.name != "coscheduling");
        let off = known.served.get("coscheduling") == Some(&false);
        (gone && off && known.awaited.is_empty()).then_some(())
    });
    assert!(followed.now().groups.keys().any(|key| key.dialect.name == "volcano"));
    assert_eq!(followed.now().served.get("volcano"), Some(&true));
}

fn coscheduling(followed: &Followed, api: &ApiClient) {
    let spec = json!({"minMember": 4, "minResources": {"cpu": "4"}, "scheduleTimeoutSeconds": 20});
    create(api, &group("scheduling.x-k8s.io/v1alpha1", "mpi", spec));
    create(api, &member("mpi-0", json!({"scheduling.x-k8s.io/pod-group": "mpi"}), json!({})));
    let mpi = followed.group(GroupKind::Pods, "mpi");
    assert_eq!((mpi.quorum, mpi.problem.as_ref()), (Quorum::AtLeast(4), None));
    assert_eq!(mpi.deadline.map(|span| span.as_millis()), Some(20_000));
    assert_eq!(followed.hints("mpi-0"), ["coscheduling: mpi"]);
    let path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups/mpi";
    let now = told_all(followed, api, &mpi, path);
    // A field that this version doesn't have is dropped by the server.
    assert_eq!(now["status"], json!({"phase": "Scheduling"}));
    namesakes_are_not_told(followed, api, &mpi, path);
}

fn volcano(followed: &Followed, api: &ApiClient) {
    let spec = json!({"minMember": 3, "minTaskMember": {"master": 1, "worker": 2}, "queue": "q"});
    create(api, &group("scheduling.volcano.sh/v1beta1", "job", spec.clone()));
    let annotations = json!({
        "scheduling.k8s.io/group-name": "job", "scheduling.volcano.sh/group-name": "job",
        "volcano.sh/task-spec": "worker",
    });
    create(api, &member("job-0", json!({}), annotations));
    let torn = json!({
        "scheduling.k8s.io/group-name": "job", "scheduling.volcano.sh/group-name": "other",
    });
    create(api, &member("torn", json!({}), torn));
    let mut plain =
        member("plain", json!({}), json!({"scheduling.volcano.sh/group-min-member": "2"}));
    plain["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": true,
    }]);
    create(api, &plain);
    let job = followed.group(GroupKind::Pods, "job");
    assert_eq!((job.quorum, job.sub_groups.len()), (Quorum::AtLeast(3), 2));
    assert_eq!(followed.hints("job-0"), ["volcano: job as worker"]);
    assert_eq!(followed.hints("plain"), ["volcano: podgroup-r-uid of 2"]);
    let pod = followed.pod("torn");
    assert!(pod.group_hints()[0].problem.as_ref().is_some_and(|p| p.contains("name two groups")));

    let path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/job";
    let now = told_all(followed, api, &job, path);
    assert_eq!((&now["status"]["phase"], &now["spec"]), (&json!("Running"), &spec));
    let conditions = now["status"]["conditions"].as_array().expect("conditions");
    assert!(matches!(&conditions[..], [it] if it["type"] == "Scheduled"), "{conditions:?}");
    namesakes_are_not_told(followed, api, &job, path);
}

/// Its groups have no object; and what a commit leaves on a member is read whatever its dialect.
fn kueue(followed: &Followed, api: &ApiClient) {
    let counted = json!({"kueue.x-k8s.io/pod-group-total-count": "2"});
    create(api, &member("k-0", json!({"kueue.x-k8s.io/pod-group-name": "k"}), counted));
    assert_eq!(followed.hints("k-0"), ["kueue: k of 2"]);
    create(api, &gpu_node("n-1", 1));
    let pod = followed.pod("k-0");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "k-0", "namespace": "default", "uid": &*pod.uid.0,
                     "annotations": {"berth.dev/plan": "kueue/default/k/1/2"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n-1"},
    });
    let path = "/api/v1/namespaces/default/pods/k-0";
    api.create(&format!("{path}/binding"), &binding).expect("it is bound");
    let status = json!({"status": {
        "phase": "Running",
        "containerStatuses": [{
            "name": "main", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }],
    }});
    api.patch(&format!("{path}/status"), Patch::Merge, &status).expect("the kubelet's part");
    let gang = followed.until("it runs", |known| {
        let gang = known.pods.get("k-0")?.gang.clone()?;
        gang.running.is_some().then_some(gang)
    });
    let plan = gang.plan.as_ref().map(ToString::to_string);
    assert_eq!(plan.as_deref(), Some("kueue/default/k/1/2"));
    assert_eq!(gang.running.map(|at| at.0), Some(1_767_225_600_000));
    assert!(gang.scheduled.is_some_and(|at| at.0 > 1_767_225_600_000), "{gang:?}");
}

/// While the scheduler of a dialect holds its Lease its groups are its own.
#[test]
fn nothing_is_told_while_the_dialects_own_scheduler_leads() {
    let Some(stand) = Stand::start_or_skip(&Options::default()) else { return };
    let api = stand.client();
    define(&api, &crd("volcano"));
    create(&api, &group("scheduling.volcano.sh/v1beta1", "job", json!({"minMember": 1})));
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "volcano-system", "name": "volcano"},
        "spec": {"holderIdentity": "vc", "leaseDurationSeconds": 3600,
                 "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    create(&api, &lease);
    let followed = Followed::start(&stand, ADMIN, &["volcano"]);
    let job = followed.group(GroupKind::Pods, "job");
    let op = tell(&job, told(GroupPhase::Waiting, "m"));
    let refused = followed.call(&op, About::default()).expect_err("not ours");
    assert!(refused.contains("volcano scheduler holds its Lease"), "{refused}");

    // Another one starts where nobody holds it: that is seen at once.
    let other = Followed::start(&stand, ADMIN, &["coscheduling"]);
    define(&api, &crd("coscheduling"));
    create(&api, &group("scheduling.x-k8s.io/v1alpha1", "mpi", json!({"minMember": 1})));
    let mpi = other.group(GroupKind::Pods, "mpi");
    wait_for(SOON, "ours to tell", || other.dialects.status_at(&mpi.key).ok());
    let mut lease = lease;
    lease["metadata"] = json!({"namespace": "kube-system", "name": "scheduler-plugins-scheduler"});
    create(&api, &lease);
    wait_for(SOON, "not ours any more", || other.dialects.status_at(&mpi.key).err());
}

/// With just the rights of the manifests: all that is asked for is allowed, and what isn't granted
/// is missed by nobody else.
#[test]
fn the_roles_of_dialects_are_enough() {
    let options =
        Options { authorization: Authorization::Rbac, audit_log: true, ..Options::all_groups() };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    define(&api, &crd("coscheduling"));
    define(&api, &crd("volcano"));
    stand.grant_rights(&second()).expect("the rights of a second scheduler");
    let kubeconfig = stand.service_account_kubeconfig(USER).expect("a token");
    let followed = Followed::with(kubeconfig.clone(), &["native", "coscheduling", "volcano"]);
    let awaited = followed.until("only what may not be read is awaited", |known| {
        let pods =
            known.synced.contains("pods") && known.synced.contains("podgroups.scheduling.k8s.io");
        (pods && known.awaited.len() == 2).then(|| known.awaited.clone())
    });
    let others = ["podgroups.scheduling.volcano.sh", "podgroups.scheduling.x-k8s.io"];
    assert_eq!(awaited, BTreeSet::from(others.map(str::to_owned)));
    drop(followed);

    let before = stand.requests_of(USER).expect("the audit log").len();
    stand.grant_rights(&root().join("manifests/groups")).expect("the rights of dialects");
    let followed = Followed::with(kubeconfig, &["native", "coscheduling", "volcano", "kueue"]);
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 1}}, "minMember": 1});
    let told_one = |api_version: &str, name: &str, status: &str| {
        let mut spec = spec.clone();
        spec.as_object_mut()
            .expect("a map")
            .retain(|key, _| (key == "minMember") != api_version.starts_with("scheduling.k8s.io"));
        create(&api, &group(api_version, name, spec));
        let group = followed.group(GroupKind::Pods, name);
        let op = tell(&group, told(GroupPhase::Waiting, "m"));
        let answer = followed.send(&op, About::default()).expect("an answer");
        assert!(answer.status.is_success(), "{name}: {:?}", answer.failure());
        let path = followed.call(&op, About::default()).expect("ours").path;
        assert!(path.contains(&format!("/{name}{status}?")), "{path}");
    };
    told_one("scheduling.k8s.io/v1beta1", "a", "/status");
    told_one("scheduling.x-k8s.io/v1alpha1", "b", "/status");
    told_one("scheduling.volcano.sh/v1beta1", "c", "");
    let requests = stand.requests_of(USER).expect("the audit log");
    let refused: Vec<String> = requests[before..]
        .iter()
        .filter(|request| request.status == 403)
        .map(ToString::to_string)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// A rule that is missing, or a server that can't be asked, holds the groups of that kind alone.
#[test]
fn groups_that_may_not_be_listed_hold_nobody_else() {
    let options = Options {
        authorization: Authorization::Rbac,
        users: vec![User { name: SCHEDULER.to_owned(), groups: Vec::new() }],
        ..Options::all_groups()
    };
    let Some(stand) = Stand::start_or_skip(&options) else { return };
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": 1}}});
    create(&api, &group("scheduling.k8s.io/v1beta1", "train", spec));
    grant(&api, "all-but-groups", &[]);
    let kubeconfig = stand.kubeconfig_path(SCHEDULER).expect("a kubeconfig");
    let berth = Berth::start_with(stand.folder(), &kubeconfig, FAST, &[]);
    let mut member = gpu_pod("member", 1);
    member["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    create(&api, &member);
    create(&api, &gpu_pod("alone", 1));
    assert_eq!(bound(&api, "alone"), "n-1");
    let refused = || berth.log().contains("its groups wait meanwhile").then_some(());
    wait_for(SOON, "the list is refused", refused);
    assert_eq!(node_of(&api, "member"), None);
    grant(&api, "all", &[DialectDef::named("native").expect("native")]);
    assert_eq!(bound(&api, "member"), "n-1");
    assert_eq!(berth.terminate(), Some(0));
}

/// Who is granted what a scheduler needs, bit by bit.
const SCHEDULER: &str = "scheduler";

/// Grants all that a scheduler needs of what Kubernetes has, and of these dialects.
fn grant(api: &ApiClient, name: &str, dialects: &[&'static DialectDef]) {
    let kinds = Kind::all().filter(|kind| !matches!(kind, Kind::Group(_) | Kind::Tree(_)));
    let needs = of_scheduler(&Features {
        kinds: kinds.collect(),
        dialects: dialects.to_vec(),
        preemption: true,
        taking_back: true,
        volume_binding: true,
        lease: None,
    });
    for object in role_of(name, SCHEDULER, &needs) {
        create(api, &object);
    }
}

/// A role for these needs, and its binding to a user.
fn role_of(name: &str, user: &str, needs: &[Need]) -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    [role(name, needs), binding]
}

/// The folder of CRDs is one object a dialect that needs one.
#[test]
fn each_custom_resource_has_its_definition() {
    let n_files = std::fs::read_dir(root().join("tests/crds")).expect("the folder").count();
    let custom = berth::wire::dialect::ALL.iter().filter(|def| {
        let custom = def.objects().any(|it| !it.api_version().contains(".k8s.io/v1beta1"));
        def.dialect.name != "native" && (custom || def.tree().is_some())
    });
    let groups: Vec<PathBuf> =
        custom.map(|def| format!("{}.yaml", def.dialect.name).into()).collect();
    assert_eq!(n_files, groups.len());
    assert!(groups.iter().all(|file| root().join("tests/crds").join(file).is_file()), "{groups:?}");
}
