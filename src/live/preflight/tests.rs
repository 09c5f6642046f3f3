//! Every request has a row, and rules are read as RBAC means them.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_core::framework::plan::NameOf;
use berth_core::framework::{ClaimWrite, Op};
use berth_core::types::claim::Consumer;
use berth_core::types::group::{GroupKey, GroupPhase, GroupTold};
use berth_core::types::{ClaimKey, ClaimRef, Condition, PodRef, PodUid, Span, Value};
use http::Method;
use k8s_openapi::jiff;

use super::needs::{self, Features, Need};
use super::reviews::Rules;
use super::seen;
use crate::live::client::Call;
use crate::live::dialects::Dialects;
use crate::live::lease::record::{Draft, Record, read_call, watch_call};
use crate::live::lease::{self, announce};
use crate::live::request::{self, About};
use crate::live::{events, kinds};
use crate::wire::dialect::object::GroupObject;
use crate::wire::{Kind, dialect};

fn rules_of_lease() -> lease::Rules {
    lease::Rules {
        namespace: "kube-system".to_owned(),
        name: "kube-scheduler".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn all_needs() -> Vec<Need> {
    let features = Features {
        kinds: Kind::all().collect(),
        dialects: dialect::ALL.to_vec(),
        preemption: true,
        taking_back: true,
        volume_binding: true,
        lease: Some(rules_of_lease()),
    };
    [needs::of_scheduler(&features), needs::of_authentication(true), needs::of_authorization()]
        .concat()
}

/// One of each operation: a new one doesn't compile before it has a sample, and a row.
fn operations() -> Vec<Op> {
    let pod = || PodRef { namespace: "ns".into(), name: "a".into(), uid: PodUid("u".into()) };
    let condition = Condition { reason: "r".into(), message: "m".into() };
    let claim = |subresource| Op::Patch {
        kind: "persistentvolumeclaims".into(),
        namespace: "ns".into(),
        name: NameOf::Known("c".into()),
        subresource,
        resource_version: 1,
        body: Value::map([]),
    };
    let devices = |write| {
        let key = ClaimKey { namespace: "ns".into(), name: "c".into() };
        let claim = ClaimRef { key, uid: "u".into() };
        Op::Claim { claim, resource_version: 1, write }
    };
    let told = |object: GroupObject| Op::TellGroup {
        group: GroupKey {
            dialect: object.dialect(),
            kind: object.makes(),
            namespace: "ns".into(),
            name: "g".into(),
        },
        uid: "u".into(),
        told: GroupTold { phase: GroupPhase::Waiting, message: "m".into(), scheduled: 0 },
    };
    let mut operations = vec![
        Op::Bind { pod: pod(), node: "n".into(), resource_version: 1, plan: None, gpus: None },
        Op::TryBind { pod: pod(), node: "n".into() },
        Op::SetDisruption { pod: pod(), reason: "r".into(), message: "m".into() },
        Op::ReadPod { pod: pod() },
        Op::Fence { pod: pod(), resource_version: 1, node: "n".into() },
        Op::SetCondition { pod: pod(), resource_version: 1, condition, nominated_node: None },
        Op::Nominate { pod: pod(), resource_version: 1, node: "n".into() },
        Op::DeletePod { pod: pod() },
        claim(None),
        Op::Create {
            kind: "resourceclaims".into(),
            namespace: "ns".into(),
            name: NameOf::Known("a-extended-resources-".into()),
            generate_name: true,
            body: Value::map([("spec", Value::map([]))]),
        },
        Op::Delete {
            kind: "resourceclaims".into(),
            namespace: "ns".into(),
            name: NameOf::Known("c".into()),
        },
        devices(ClaimWrite::Read),
        devices(ClaimWrite::Protect { finalizers: Vec::new() }),
        devices(ClaimWrite::Allocate {
            allocation: None,
            pod: pod(),
            consumer: Consumer::Pod(pod().uid),
        }),
        devices(ClaimWrite::Release { consumer: Consumer::Pod(pod().uid), deallocate: true }),
    ];
    operations.extend(dialect::objects().filter(|it| it.is_told()).map(told));
    for operation in &operations {
        match operation {
            Op::Bind { .. } | Op::ReadPod { .. } | Op::Fence { .. } | Op::SetCondition { .. } => {}
            Op::TryBind { .. } | Op::SetDisruption { .. } | Op::Nominate { .. } => {}
            Op::TellGroup { .. } => {}
            Op::DeletePod { .. } | Op::Patch { .. } => {}
            Op::Claim { write, .. } => match write {
                ClaimWrite::Read | ClaimWrite::Protect { .. } => {}
                ClaimWrite::Allocate { .. } | ClaimWrite::Release { .. } => {}
            },
            Op::Create { .. } | Op::Delete { .. } => {}
        }
    }
    operations
}

/// Everything that is sent, whoever sends it.
fn requests() -> Vec<Call> {
    let rules = rules_of_lease();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let second = Duration::from_secs(1);
    let dialects = Dialects::serving_all();
    let mut requests: Vec<Call> = operations()
        .iter()
        .map(|op| request::call(op, Span::from_secs(5), About::default(), now, &dialects).unwrap())
        .collect();
    for kind in Kind::all() {
        let path = kinds::list_path(kind);
        requests.push(Call::get(format!("{path}?limit=500")));
        requests.push(Call::get(format!("{path}?watch=true")));
        let namespace = if path == "/api/v1/pods" { "ns" } else { "" };
        requests.push(Call::get(format!("{}/x", kinds::collection_path(kind, namespace))));
    }
    let lease = serde_json::json!({"metadata": {"resourceVersion": "1"}, "spec": {}});
    let held = Draft::hold(Record::read(lease.clone()).unwrap(), "me", second);
    for peer in dialect::ALL.iter().filter_map(|def| def.peer) {
        let (namespace, name) = (peer.namespace.to_owned(), peer.name.to_owned());
        let rules = lease::Rules { namespace, name, ..rules_of_lease() };
        requests.extend([read_call(&rules, second), watch_call(&rules, 1)]);
    }
    requests.push(read_call(&rules, second));
    requests.push(watch_call(&rules, 1));
    requests.push(Draft::create("me", second).call(&rules, now, second));
    requests.push(held.call(&rules, now, second));
    let record = Record::read(lease).unwrap();
    requests.push(announce::call(&rules, &record, "berth", "me became leader", now));
    requests.extend(events::samples());
    requests
}

/// What the API server makes of a request: verb, group, resource, namespace, name.
fn attributes(call: &Call) -> (String, String, String, String, String) {
    let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let group = if parts.remove(0) == "apis" { parts.remove(0) } else { "" };
    parts.remove(0);
    let mut namespace = "";
    if parts[0] == "namespaces" && parts.len() > 2 {
        (_, namespace) = (parts.remove(0), parts.remove(0));
    }
    let resource = [&parts[..1], parts.get(2..).unwrap_or_default()].concat().join("/");
    let named_by_selector =
        query.split('&').find_map(|it| it.strip_prefix("fieldSelector=metadata.name%3D"));
    let name = parts.get(1).copied().or(named_by_selector).unwrap_or_default();
    let verb = match (call.method.as_str(), query.contains("watch=true")) {
        ("GET", true) => "watch",
        ("GET", false) if parts.len() == 1 => "list",
        ("GET", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        other => panic!("{other:?}"),
    };
    let owned = str::to_owned;
    (owned(verb), owned(group), resource, owned(namespace), owned(name))
}

#[test]
fn every_request_has_a_row() {
    let needs = all_needs();
    for call in requests() {
        let (verb, group, resource, namespace, name) = attributes(&call);
        let row = needs.iter().any(|need| {
            need.verb == verb
                && need.group == group
                && need.resource == resource
                && need.namespace.as_ref().is_none_or(|it| *it == namespace)
                && need.name.as_ref().is_none_or(|it| *it == name)
        });
        assert!(row, "{} {}: no row for {verb} {group} {resource}", call.method, call.path);
    }
    assert!(requests().iter().any(|call| call.method == Method::DELETE));
}

fn rules(json: &str) -> Rules {
    serde_json::from_str(json).unwrap()
}

#[test]
fn rules_are_read_as_rbac_has_them() {
    let need = |resource: &str, verb| {
        let needs = all_needs();
        needs.into_iter().find(|need| need.resource == resource && need.verb == verb).unwrap()
    };
    let all = rules(r#"{"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}"#);
    assert!(all_needs().iter().all(|need| all.allow(need)));
    let one = rules(
        r#"{"resourceRules":[
            {"verbs":["get"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["other"]},
            {"verbs":["create"],"apiGroups":[""],"resources":["*/binding"]}]}"#,
    );
    assert!(one.allow(&need("pods/binding", "create")) && !one.allow(&need("leases", "get")));
    assert!(!one.allow(&need("pods/status", "patch")) && !one.allow(&need("pods", "list")));
}

#[test]
fn a_rule_of_one_namespace_is_not_one_of_all() {
    let pods = r#"{"resourceRules":[{"verbs":["list"],"apiGroups":[""],"resources":["pods"]}]}"#;
    let need = all_needs().into_iter().find(|n| n.resource == "pods" && n.verb == "list").unwrap();
    let of = |default: &str, system: &str| {
        BTreeMap::from([
            ("default".to_owned(), rules(default)),
            ("kube-system".to_owned(), rules(system)),
        ])
    };
    assert!(seen(&need, &of(pods, pods)) && !seen(&need, &of(pods, "{}")));
    let here = Need { namespace: Some("default".to_owned()), ..need };
    assert!(seen(&here, &of(pods, "{}")) && !seen(&here, &of("{}", pods)));
}
