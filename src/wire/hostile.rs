//! Hostile input: whatever JSON an object is made of, conversion ends, doesn't panic, and keeps
//! the identity if the metadata is intact.

use berth_core::types::group::Quorum;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::pod::tests::{busy_node, busy_pod};
use super::{Kind, Object, Tables, decode};

/// Values that fit nowhere, or only just.
fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|x| json!(x)),
        "\\PC{0,20}".prop_map(Value::from),
        "[-+]?[0-9]{0,25}(\\.[0-9]{0,25})?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,12})?"
            .prop_map(Value::from),
        prop::sample::select(vec!["NaN", "9e18", "-1", "", "Exists", "Gt", "DoNotSchedule"])
            .prop_map(Value::from),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(Value::from),
        Just(json!({})),
        Just(json!([null, {}, [], "x"])),
        Just(json!({"name": {"name": []}, "requests": {"cpu": {}}})),
    ]
}

fn busy_slice() -> Value {
    let range = json!({"min": "1", "max": "8", "step": "1"});
    json!({
        "metadata": {"name": "slice-1", "uid": "u"},
        "spec": {
            "driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b"]}]}]},
            "sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}],
            "devices": [{
                "name": "x", "taints": [{"key": "k", "effect": "NoSchedule"}],
                "attributes": {"a": {"int": 1}, "b": {"strings": ["x", "y"]}},
                "capacity": {"m": {"value": "8Gi", "requestPolicy": {"validRange": range}}},
                "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
                "bindingConditions": ["c"], "allowMultipleAllocations": true,
            }],
        },
    })
}

/// A group that uses everything that some dialect reads.
/// Levels for those that read levels, members for the others.
fn busy_tree() -> Value {
    json!({
        "metadata": {"name": "tree-1", "uid": "u", "resourceVersion": "7"},
        "spec": {
            "levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack", "alias": "Rack"}],
            "tier": 2,
            "tierName": "spine",
            "members": [
                {"type": "Node", "selector": {"exactMatch": {"name": "n-1"}}},
                {"type": "Node", "selector": {"regexMatch": {"pattern": "^n-[0-9]+$"}}},
                {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}},
                {"type": "HyperNode", "selector": {"exactMatch": {"name": "s0"}}},
            ],
        },
    })
}

fn busy_group() -> Value {
    json!({
        "metadata": {"namespace": "team", "name": "group-1", "uid": "u"},
        "spec": {
            "parentCompositePodGroupName": "all", "priority": 7, "preemptionPolicy": "Never",
            "schedulingPolicy": {"gang": {"minCount": 2, "minGroupCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
            "disruptionMode": {"all": {}},
            "minMember": 3, "scheduleTimeoutSeconds": 60, "minTaskMember": {"w": 1, "m": 2},
            "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
            "subGroupPolicy": [{
                "name": "s", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["k"],
                "labelSelector": {"matchLabels": {"a": "b"}},
                "networkTopology": {"mode": "hard", "highestTierName": "rack"},
            }],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"},
                           {"type": "Scheduled", "status": "True", "message": "m"}],
            "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b-x"}],
        },
    })
}

fn busy_claim() -> Value {
    let result = json!({"request": "r", "driver": "d", "pool": "p", "device": "x",
                        "consumedCapacity": {"m": "1Gi"}, "tolerations": [{"key": "k"}]});
    json!({
        "metadata": {"namespace": "team", "name": "claim-1", "uid": "u"},
        "spec": {"devices": {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "c", "count": 2}},
                {"name": "q", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}],
            "constraints": [{"matchAttribute": "d/a"}],
            "config": [{"opaque": {"driver": "d", "parameters": {"a": [1, {}]}}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "p"}],
            "devices": [{"driver": "d", "conditions": [{"type": "t", "status": "True"}]}],
        },
    })
}

/// Returns the paths of all values below `value`, as JSON pointers.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(k, v)| (k.replace('~', "~0").replace('/', "~1"), v)).collect()
        }
        Value::Array(list) => list.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let at = format!("{at}/{key}");
        pointers(child, &at, all);
        all.push(at);
    }
}

fn mutated(base: Value, changes: &[(prop::sample::Index, Value)], spare: &str) -> Value {
    let mut value = base;
    for (index, odd) in changes {
        let mut all = Vec::new();
        pointers(&value, "", &mut all);
        all.retain(|at| !at.starts_with(spare));
        if let Some(place) =
            all.get(index.index(all.len().max(1))).and_then(|at| value.pointer_mut(at))
        {
            *place = odd.clone();
        }
    }
    value
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, Value)>> {
    prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_broken_pod_keeps_its_identity(changes in changes()) {
        let json = mutated(busy_pod(), &changes, "/metadata");
        let decoded = decode(Kind::Pod, json, &mut Tables::default()).unwrap();
        let Object::Pod(pod) = decoded.object else { panic!("not a pod") };
        prop_assert_eq!(pod.reference().to_string(), "team/train-0");
        prop_assert_eq!(pod.uid.0.as_str(), "uid-0");
        prop_assert_eq!(pod.resource_version, 42);
        prop_assert_eq!(pod.problem.is_some(), !decoded.problems.is_empty());
        prop_assert!(pod.problem.is_none_or(|text| text.len() < 1000));
    }

    #[test]
    fn a_broken_node_keeps_its_identity(changes in changes()) {
        let json = mutated(busy_node(), &changes, "/metadata");
        let decoded = decode(Kind::Node, json, &mut Tables::default()).unwrap();
        let Object::Node(node) = decoded.object else { panic!("not a node") };
        prop_assert_eq!(node.name.as_str(), "node-1");
        prop_assert!(node.allocatable.cpu_milli >= 0 && node.pods_max >= 0);
        prop_assert_eq!(node.labels.value("zone").unwrap().as_str(), "a");
    }

    #[test]
    fn a_broken_slice_keeps_its_identity(changes in changes()) {
        let json = mutated(busy_slice(), &changes, "/metadata");
        let decoded = decode(Kind::ResourceSlice, json, &mut Tables::default()).unwrap();
        let Object::ResourceSlice(slice) = decoded.object else { panic!("not a slice") };
        prop_assert_eq!(slice.name.as_str(), "slice-1");
        prop_assert_eq!(slice.problem.is_some(), !decoded.problems.is_empty());
        prop_assert!(slice.problem.is_none_or(|text| text.len() < 1000));
    }

    #[test]
    fn a_broken_claim_keeps_its_identity_and_stays_allocated(changes in changes()) {
        let mut json = mutated(busy_claim(), &changes, "/metadata");
        if json["status"].is_null() {
            json["status"] = json!({"allocation": "odd"});
        }
        let said = json.pointer("/status/allocation").is_some_and(|a| !a.is_null());
        let decoded = decode(Kind::ResourceClaim, json, &mut Tables::default()).unwrap();
        let Object::ResourceClaim(claim) = decoded.object else { panic!("not a claim") };
        prop_assert_eq!(claim.key.to_string(), "team/claim-1");
        prop_assert_eq!(claim.allocation.is_some(), said);
        prop_assert_eq!(claim.problem.is_some(), !decoded.problems.is_empty());
    }

    #[test]
    fn a_broken_group_keeps_its_identity_and_tells_what_is_wrong(
        object in prop::sample::select(super::dialect::objects().collect::<Vec<_>>()),
        changes in changes(),
    ) {
        let json = mutated(busy_group(), &changes, "/metadata");
        let decoded = decode(Kind::Group(object), json, &mut Tables::default()).unwrap();
        let Object::PodGroup(group) = decoded.object else { panic!("not a group") };
        prop_assert_eq!(format!("{} {}", group.key, group.uid), "team/group-1 u");
        let of_spec = |problem: &super::Problem| !problem.path.starts_with("status");
        prop_assert_eq!(group.problem.is_some(), decoded.problems.iter().any(of_spec));
        // Whoever can't be understood is told so, whatever was said before.
        prop_assert!(group.problem.is_some() || group.quorum != Quorum::AtLeast(0));
    }

    #[test]
    fn a_broken_topology_keeps_its_name_and_tells_what_is_wrong(
        object in prop::sample::select(super::dialect::trees().collect::<Vec<_>>()),
        changes in changes(),
    ) {
        let json = mutated(busy_tree(), &changes, "/metadata");
        let decoded = decode(Kind::Tree(object), json, &mut Tables::default()).unwrap();
        let Object::Topology(tree) = decoded.object else { panic!("no topology") };
        prop_assert_eq!(&*tree.key.name, "tree-1");
        prop_assert!(tree.problem.is_none() || !decoded.problems.is_empty());
    }

    #[test]
    fn no_kind_panics_on_any_object(kind in prop::sample::select(Kind::all().collect::<Vec<_>>()), changes in changes()) {
        let mut json = busy_pod();
        json["provisioner"] = json!("p");
        json["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
        json["spec"]["drivers"] = json!([{"name": "d", "allocatable": {"count": 3}}]);
        json["spec"]["csi"] = json!({"driver": "d", "volumeHandle": "h"});
        json["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{}]}});
        json["attributes"] = json!([{"name": "topologyManagerPolicy", "value": "restricted"}]);
        let amounts = json!({"name": "cpu", "allocatable": "8", "available": "4"});
        json["zones"] = json!([{"name": "node-0", "type": "Node", "resources": [amounts]}]);
        let _ = decode(kind, mutated(json, &changes, "\0"), &mut Tables::default());
    }

    #[test]
    fn the_same_bytes_decode_as_a_watched_object(changes in changes()) {
        let text = mutated(busy_pod(), &changes, "\0").to_string();
        if text.starts_with('{') {
            let wire: super::k8s::Pod = serde_json::from_str(&text).unwrap();
            super::pod::pod(wire, &mut Tables::default());
        }
    }
}
