//! Claims are written with all that is read of them, and with preconditions.

use std::sync::{Arc, Mutex};

use berth_core::engine::{WriteResult, Written};
use berth_core::framework::plan::NameOf;
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{Allocation, ClaimRef, Consumer, ResourceClaim};
use berth_core::types::{ClaimKey, PodRef, PodUid, Span, Timestamp, Value};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::resource::v1 as api;
use k8s_openapi::jiff;
use serde_json::{Value as Json, json};

use crate::live::client::Answer;
use crate::live::dialects::Dialects;
use crate::live::outcome::{self, Next};
use crate::live::request::{About, call};

fn pod() -> PodRef {
    PodRef { namespace: "ns".into(), name: "a".into(), uid: PodUid("u-1".into()) }
}

fn allocate(allocation: Option<Arc<Allocation>>) -> ClaimWrite {
    ClaimWrite::Allocate { allocation, pod: pod(), consumer: Consumer::Pod(pod().uid) }
}

fn op(resource_version: u64, write: ClaimWrite) -> Op {
    let key = ClaimKey { namespace: "ns".into(), name: "c".into() };
    Op::Claim { claim: ClaimRef { key, uid: "c-1".into() }, resource_version, write }
}

/// Returns request line, content type and body.
fn sent(op: &Op) -> (String, &'static str, Json) {
    let now = jiff::Timestamp::from_second(1_767_225_600).unwrap();
    let dialects = Dialects::new(Vec::new(), None);
    let call = call(op, Span::from_secs(5), About::default(), now, &dialects).unwrap();
    let line = format!("{} {}", call.method, call.path);
    match call.body {
        Some((content, body)) => (line, content, serde_json::from_slice(&body).unwrap()),
        None => (line, "", Json::Null),
    }
}

/// Reads a claim's answer as the dispatcher does.
fn read(claim: &Json) -> ResourceClaim {
    let body = claim.to_string().into();
    let answer = Answer { status: StatusCode::OK, headers: HeaderMap::new(), body };
    let next = outcome::judge(&op(0, ClaimWrite::Read), Ok(answer), &Mutex::default());
    let Next::Report(WriteResult::Done(Written { event: Some(event), .. })) = next else {
        panic!("{next:?}")
    };
    let ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim)) = *event else { panic!() };
    *claim
}

/// An allocation that says everything that the API has.
fn status() -> Json {
    json!({
        "allocation": {
            "allocationTimestamp": "2026-01-02T00:00:00Z",
            "devices": {
                "results": [
                    {"request": "gpu/large", "driver": "gpu.example.com", "pool": "n1",
                     "device": "gpu-0", "adminAccess": true,
                     "tolerations": [
                        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute",
                         "tolerationSeconds": 7},
                        {"operator": "Exists", "effect": "NoSchedule"}],
                     "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"],
                     "shareID": "a5b5e7f2-1111-4222-8333-444455556666",
                     "consumedCapacity": {"memory": "10Gi"},
                     "skipNodeOperations": ["NodePrepareResources"]},
                    {"request": "nic", "driver": "nic.example.com", "pool": "p/q", "device": "x"}],
                "config": [
                    {"source": "FromClass", "requests": ["gpu"], "opaque": {
                        "driver": "gpu.example.com",
                        "parameters": {"a": [1, 2.5, null, "x", true], "b": {}}}},
                    {"source": "FromClaim", "opaque": {
                        "driver": "gpu.example.com", "parameters": {"c": 1}}}],
            },
            "nodeSelector": {"nodeSelectorTerms": [{
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "fast", "operator": "Exists"},
                    {"key": "gpus", "operator": "Gt", "values": ["4"]}],
                "matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "u-1"}],
    })
}

fn claim(status: &Json) -> Json {
    json!({
        "metadata": {"namespace": "ns", "name": "c", "uid": "c-1", "resourceVersion": "7"},
        "spec": {}, "status": status,
    })
}

#[test]
fn an_allocation_is_written_with_every_field_that_is_read() {
    // What the API has no field for would get lost on the server.
    let typed: api::ResourceClaimStatus = serde_json::from_value(status()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), status());
    let known = read(&claim(&status()));
    assert_eq!(known.problem, None);
    let (line, content, body) = sent(&op(7, allocate(known.allocation.clone())));
    let path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status?timeout=5000ms";
    assert_eq!(line, format!("PATCH {path}"));
    assert_eq!(content, "application/strategic-merge-patch+json");
    assert_eq!(body["metadata"], json!({"uid": "c-1", "resourceVersion": "7"}));
    assert_eq!(body["status"], status());
    assert_eq!(read(&claim(&body["status"])), known);
}

#[test]
fn a_fresh_allocation_is_dated_and_none_leaves_what_is_there() {
    let write = |allocation| op(7, allocate(allocation));
    let (_, _, body) = sent(&write(Some(Arc::new(Allocation::default()))));
    let allocation = json!({"allocationTimestamp": "2026-01-01T00:00:00Z", "devices": {}});
    assert_eq!(body["status"]["allocation"], allocation);
    let at = Some(Timestamp(1_000));
    let dated = Allocation { timestamp: at, ..Allocation::default() };
    let (_, _, body) = sent(&write(Some(Arc::new(dated))));
    assert_eq!(body["status"]["allocation"]["allocationTimestamp"], "1970-01-01T00:00:01Z");
    let (_, _, body) = sent(&write(None));
    assert_eq!(body["status"], json!({"reservedFor": status()["reservedFor"]}));
}

#[test]
fn a_claim_is_protected_by_its_whole_list_of_finalizers() {
    let finalizers = vec!["a".into(), "resource.kubernetes.io/delete-protection".into()];
    let (line, content, body) = sent(&op(7, ClaimWrite::Protect { finalizers }));
    let path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c?timeout=5000ms";
    assert_eq!((line, content), (format!("PATCH {path}"), "application/merge-patch+json"));
    let finalizers = ["a", "resource.kubernetes.io/delete-protection"];
    let metadata = json!({"uid": "c-1", "resourceVersion": "7", "finalizers": finalizers});
    assert_eq!(body, json!({"metadata": metadata}));
    let (line, _, _) = sent(&op(7, ClaimWrite::Read));
    assert_eq!(line, format!("GET {path}"));
}

#[test]
fn a_release_takes_out_the_pod_and_the_allocation_only_if_it_says_so() {
    let consumer = || Consumer::Pod(pod().uid);
    let release = |deallocate| op(0, ClaimWrite::Release { consumer: consumer(), deallocate });
    let (_, content, body) = sent(&release(false));
    assert_eq!(content, "application/strategic-merge-patch+json");
    let gone = json!([{"$patch": "delete", "uid": "u-1"}]);
    let metadata = json!({"uid": "c-1"});
    assert_eq!(body, json!({"metadata": metadata, "status": {"reservedFor": gone}}));
    let (_, _, body) = sent(&release(true));
    assert_eq!(body["status"], json!({"allocation": null, "reservedFor": gone}));
}

#[test]
fn a_claim_of_a_group_is_reserved_once_and_for_the_group() {
    let group = Consumer::PodGroup { uid: "g-1".into(), name: "g".into() };
    let write = |consumer| ClaimWrite::Allocate { allocation: None, pod: pod(), consumer };
    let (_, _, body) = sent(&op(7, write(group.clone())));
    let entry = json!({
        "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g-1",
    });
    assert_eq!(body["status"], json!({"reservedFor": [entry]}));
    assert_eq!(read(&claim(&body["status"])).reserved_for, std::slice::from_ref(&group));
    let release = ClaimWrite::Release { consumer: group, deallocate: false };
    let (_, _, body) = sent(&op(7, release));
    let gone = json!([{"$patch": "delete", "uid": "g-1"}]);
    assert_eq!(body["status"], json!({"reservedFor": gone}));
    // Whoever else it is has no entry that could be told.
    let other = op(7, write(Consumer::Other { uid: "x".into() }));
    let now = jiff::Timestamp::UNIX_EPOCH;
    let dialects = Dialects::new(Vec::new(), None);
    assert!(call(&other, Span::from_secs(5), About::default(), now, &dialects).is_err());
}

#[test]
fn a_claim_is_created_with_its_owner_and_a_name_that_the_server_chooses() {
    let owner = Value::map([("kind", Value::text("Pod")), ("controller", Value::Bool(true))]);
    let metadata = Value::map([("ownerReferences", Value::List(vec![owner]))]);
    let op = Op::Create {
        kind: "resourceclaims".into(),
        namespace: "ns".into(),
        name: NameOf::Known("a-extended-resources-".into()),
        generate_name: true,
        body: Value::map([("metadata", metadata), ("spec", Value::map([]))]),
    };
    let (line, _, body) = sent(&op);
    let path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims?timeout=5000ms";
    assert_eq!(line, format!("POST {path}"));
    let owners = json!([{"kind": "Pod", "controller": true}]);
    let metadata = json!({"generateName": "a-extended-resources-", "ownerReferences": owners});
    assert_eq!(body, json!({"metadata": metadata, "spec": {}}));
    let body = claim(&json!({})).to_string().into();
    let answer = Answer { status: StatusCode::CREATED, headers: HeaderMap::new(), body };
    let Next::Report(WriteResult::Done(written)) =
        outcome::judge(&op, Ok(answer), &Mutex::default())
    else {
        panic!("not done")
    };
    assert_eq!((written.name, written.event.is_some()), (Some("c".into()), true));
}
