//! What is read of claims, and what of them is a problem.

use super::*;
use berth_core::types::claim::{Consumer, DeviceId};
use serde_json::{Value, json};

fn read(spec: Value, status: Value) -> (ResourceClaim, Vec<String>) {
    let json = json!({
        "metadata": {
            "name": "c", "namespace": "team", "uid": "u", "resourceVersion": "7",
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p", "controller": true}],
        },
        "spec": spec, "status": status,
    });
    let (claim, problems) = claim(serde_json::from_value(json).unwrap(), &mut Tables::default());
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(claim.problem.is_some(), !problems.is_empty());
    (claim, problems)
}

fn requests(requests: Value) -> (Vec<ClaimRequest>, Vec<String>) {
    let (claim, problems) = read(json!({"devices": {"requests": requests}}), Value::Null);
    (claim.spec.demand.requests.clone(), problems)
}

#[test]
fn identity_owner_and_what_is_asked_for() {
    let (claim, problems) = read(
        json!({"devices": {
            "requests": [{"name": "gpu", "exactly": {
                "deviceClassName": "gpu.example.com", "count": 2, "adminAccess": true,
                "selectors": [{"cel": {"expression": "true"}}],
                "tolerations": [{"key": "k", "value": "v"}],
                "capacity": {"requests": {"memory": "10Gi"}}}}],
            "constraints": [{"matchAttribute": "a.com/x"},
                            {"requests": ["gpu"], "distinctAttribute": "a.com/y"}],
            "config": [{"requests": ["gpu"], "opaque": {"driver": "d", "parameters": {}}}]}}),
        Value::Null,
    );
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((claim.key.to_string().as_str(), claim.resource_version), ("team/c", 7));
    assert_eq!(claim.owner_pod, Some(PodUid("p".into())));
    assert!(claim.extended_resources && claim.allocation.is_none());
    assert_eq!(claim.finalizers, ["resource.kubernetes.io/delete-protection"]);
    let demand = &claim.spec.demand;
    let request = &demand.requests[0].alternatives[0];
    assert_eq!((&*request.name, &request.mode), ("gpu", &AllocationMode::ExactCount(2)));
    assert!(request.admin && !request.tolerations[0].exists);
    assert_eq!(&*request.capacity[0].1.text, "10Gi");
    let kinds: Vec<_> = demand.constraints.iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [ConstraintKind::Match, ConstraintKind::Distinct]);
    assert_eq!(claim.spec.config.len(), 1);
}

#[test]
fn alternatives_are_named_after_their_request() {
    let (read, problems) = requests(json!([{"name": "r", "firstAvailable": [
        {"name": "large", "deviceClassName": "a", "allocationMode": "All"},
        {"name": "small", "deviceClassName": "b"}]}]));
    assert_eq!(problems, Vec::<String>::new());
    assert!(read[0].first_available);
    let [large, small] = &read[0].alternatives[..] else { panic!() };
    assert_eq!((&*large.name, &large.mode), ("r/large", &AllocationMode::All));
    assert_eq!((&*small.name, &small.mode), ("r/small", &AllocationMode::ExactCount(1)));
}

#[test]
fn claims_of_pods_of_one_job_share_what_they_ask_for() {
    let json = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "c"}}]}}});
    let mut tables = Tables::default();
    let mut demand = || {
        let wire = serde_json::from_value(json.clone()).unwrap();
        claim(wire, &mut tables).0.spec.demand.clone()
    };
    assert!(Arc::ptr_eq(&demand(), &demand()));
}

#[test]
fn what_is_not_known_is_told_to_the_pod_or_is_a_problem() {
    let exactly = |more: Value| {
        let mut exactly = json!({"deviceClassName": "c"});
        exactly.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        requests(json!([{"name": "r", "exactly": exactly}]))
    };
    let (read, problems) = exactly(json!({"allocationMode": "Some"}));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(read[0].alternatives[0].mode, AllocationMode::Unknown("Some".into()));
    let (read, problems) = exactly(json!({"derivedAttributes": [{"name": "x"}]}));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(read[0].alternatives[0].unsupported.as_deref(), Some("derivedAttributes"));
    let at = "spec.devices.requests[0].exactly";
    for (json, problem) in [
        (json!({"count": 0}), "count: must be greater than 0"),
        (
            json!({"tolerations": [{"operator": "Like"}]}),
            "tolerations[0].operator: unknown value \"Like\"",
        ),
        (
            json!({"tolerations": [{"effect": "Maybe"}]}),
            "tolerations[0].effect: unknown value \"Maybe\"",
        ),
        (json!({"selectors": [{"rego": {}}]}), "selectors[0].cel: is missing"),
        (
            json!({"capacity": {"requests": {"m": "x"}}}),
            "capacity.requests.m: \"x\" is not a quantity",
        ),
    ] {
        assert_eq!(exactly(json).1, [format!("{at}.{problem}")]);
    }
    let (_, problems) = requests(json!([{"name": "r", "quantum": {}}]));
    let what = "must say one of exactly and firstAvailable";
    assert_eq!(problems, [format!("spec.devices.requests[0]: {what}")]);
}

#[test]
fn the_limits_of_the_api_hold() {
    let many: Vec<Value> = (0..33)
        .map(|i| json!({"name": format!("r{i}"), "exactly": {"deviceClassName": "c"}}))
        .collect();
    assert_eq!(
        requests(json!(many)).1,
        ["spec.devices.requests: has 33 items, at most 32 are allowed"]
    );
    let many: Vec<Value> =
        (0..9).map(|i| json!({"name": format!("s{i}"), "deviceClassName": "c"})).collect();
    let at = "spec.devices.requests[0].firstAvailable";
    assert_eq!(
        requests(json!([{"name": "r", "firstAvailable": many}])).1,
        [format!("{at}: has 9 items, at most 8 are allowed")]
    );
}

#[test]
fn what_is_allocated_counts_also_where_it_is_odd() {
    let result = json!({"request": "r", "driver": "d", "pool": "p", "device": "x",
                        "bindingConditions": ["Ready"], "shareID": "s",
                        "consumedCapacity": {"memory": "1Gi"}});
    let (claim, problems) = read(
        json!({}),
        json!({
            "allocation": {"devices": {"results": [result, 7]}},
            "reservedFor": [
                {"resource": "pods", "name": "a", "uid": "p"},
                {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "q"},
                {"apiGroup": "x.io", "resource": "pods", "name": "b", "uid": "z"}],
            "devices": [{"driver": "d", "pool": "p", "device": "x", "shareID": "s", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Hot", "status": "Unknown"}]}],
        }),
    );
    assert_eq!(problems, ["status.allocation.devices.results[1]: is an integer, not an object"]);
    let allocation = claim.allocation.clone().unwrap();
    let [result] = &allocation.results[..] else { panic!() };
    let id = DeviceId { driver: "d".into(), pool: "p".into(), device: "x".into() };
    assert_eq!((&result.id, result.share_id.as_deref()), (&id, Some("s")));
    assert_eq!(result.consumed[0].1.nanos, (1 << 30) * 1_000_000_000);
    assert!(claim.reserved_for_pod(&PodUid("p".into())));
    assert!(matches!(&claim.reserved_for[1], Consumer::PodGroup { name, .. } if name == "g"));
    assert_eq!(claim.reserved_for[2], Consumer::Other { uid: "z".into() });
    let conditions: Vec<_> =
        claim.devices[0].conditions.iter().map(|(name, is)| (&**name, *is)).collect();
    assert_eq!(conditions, [("Hot", false), ("Ready", true)]);
    let (odd, problems) = read(json!({}), json!({"allocation": "yes"}));
    assert!(odd.allocation.is_some() && problems.len() == 1);
}
