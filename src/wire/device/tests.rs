//! What is read of slices, classes and taint rules, and what devices share.

use super::*;
use berth_core::types::device::{AttributeValue, DeviceModel, PolicyValues};
use serde_json::{Value, json};

/// A slice as a GPU driver publishes it: `n` devices that differ in a name and a UUID.
fn gpus(n: usize) -> Value {
    let device = |i: usize| {
        json!({
            "name": format!("gpu-{i}"),
            "attributes": {
                "uuid": {"string": format!("GPU-{i}")},
                "productName": {"string": "H100"},
                "driverVersion": {"version": "550.1.0"},
                "resource.kubernetes.io/numaNode": {"int": i / 4},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        })
    };
    slice_of((0..n).map(device).collect())
}

fn slice_of(devices: Vec<Value>) -> Value {
    json!({
        "metadata": {"name": "s", "uid": "u", "resourceVersion": "7"},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "n1", "devices": devices,
            "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1},
        },
    })
}

fn read(json: Value) -> (ResourceSlice, Vec<String>) {
    read_with(json, &mut Tables::default())
}

fn read_with(json: Value, tables: &mut Tables) -> (ResourceSlice, Vec<String>) {
    let (slice, problems) = slice(serde_json::from_value(json).unwrap(), tables);
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(slice.problem.is_some(), !problems.is_empty());
    (slice, problems)
}

/// Reads a slice of one device.
fn device(json: Value) -> (berth_core::types::Device, Vec<String>) {
    let (mut slice, problems) = read(slice_of(vec![json]));
    (slice.devices.pop().unwrap(), problems)
}

#[test]
fn what_devices_have_in_common_is_kept_once_also_across_slices() {
    let mut tables = Tables::default();
    let (first, problems) = read_with(gpus(8), &mut tables);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((first.generation, &first.placement), (2, &Placement::Node("n1".into())));
    let [a, b] = [&first.devices[0], &first.devices[3]];
    assert!(Arc::ptr_eq(&a.model, &b.model));
    // Another NUMA node, and for the rest the same.
    let c = &first.devices[4];
    assert!(!Arc::ptr_eq(&a.model, &c.model));
    assert!(Arc::ptr_eq(&a.model.capacity, &c.model.capacity));
    assert_eq!(a.own.len(), 1);
    let uuid = AttributeValue::String("GPU-3".into());
    assert_eq!(b.attribute("gpu.example.com", "gpu.example.com/uuid"), Some(&uuid));
    let numa = AttributeValue::Int(1);
    assert_eq!(c.attribute("gpu.example.com", "resource.kubernetes.io/numaNode"), Some(&numa));
    let mut other = gpus(8);
    other["metadata"]["name"] = json!("t");
    let (second, _) = read_with(other, &mut tables);
    assert!(Arc::ptr_eq(&second.devices[7].model, &c.model));
    // Whoever reads it, it is the same: the comparison with the server relies on it.
    assert_eq!(read(gpus(8)).0, first);
}

#[test]
fn parts_of_one_thing_share_what_tells_it_from_others() {
    let part = |gpu: &str, name: &str, profile: &str| {
        json!({"name": name, "capacity": {"memory": {"value": "10Gi"}}, "attributes": {
            "parentUUID": {"string": gpu}, "profile": {"string": profile}}})
    };
    let parts = [("g0", "a", "1g"), ("g0", "b", "2g"), ("g1", "c", "1g"), ("g1", "d", "2g")];
    let parts = parts.map(|(gpu, name, profile)| part(gpu, name, profile));
    let (slice, _) = read(slice_of(parts.into()));
    let [a, b, c, d] = &slice.devices[..] else { panic!() };
    assert!(Arc::ptr_eq(&a.own, &b.own) && Arc::ptr_eq(&c.own, &d.own));
    assert!(Arc::ptr_eq(&a.model, &c.model) && Arc::ptr_eq(&b.model, &d.model));
    assert!(!Arc::ptr_eq(&a.model, &b.model));
    assert!(Arc::ptr_eq(&a.model.capacity, &b.model.capacity));
    let uuid = Some(&AttributeValue::String("g1".into()));
    assert_eq!(d.published("parentUUID"), uuid);
}

#[test]
fn attributes_of_every_kind_are_read() {
    let (device, problems) = device(json!({"name": "d", "attributes": {
        "int": {"int": -3}, "bool": {"bool": true}, "string": {"string": "s"},
        "version": {"version": "1.2.3"}, "ints": {"ints": [1, 2]}, "bools": {"bools": [true]},
        "strings": {"strings": ["a", "b"]}, "versions": {"versions": ["1.0.0"]}}}));
    assert_eq!(problems, Vec::<String>::new());
    let value = |name: &str| device.published(name).unwrap().clone();
    assert_eq!(value("int"), AttributeValue::Int(-3));
    assert_eq!(value("bool"), AttributeValue::Bool(true));
    assert_eq!(value("string"), AttributeValue::String("s".into()));
    assert_eq!(value("version"), AttributeValue::Version("1.2.3".into()));
    assert_eq!(value("ints"), AttributeValue::Ints(Arc::from([1, 2])));
    assert_eq!(value("bools"), AttributeValue::Bools(Arc::from([true])));
    assert_eq!(value("strings"), AttributeValue::Strings(["a".into(), "b".into()].into()));
    assert_eq!(value("versions"), AttributeValue::Versions(["1.0.0".into()].into()));
}

#[test]
fn what_is_not_supported_is_named_and_no_problem() {
    let (device, problems) = device(json!({"name": "d",
        "attributes": {"new": {"quantum": 1}, "old": {"int": 1}},
        "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}},
                              "compatibilityGroups": ["g"]}],
        "nodeAllocatableResources": {"cpu": {}}, "nodeAllocatableResourceMappings": {}}));
    assert_eq!(problems, Vec::<String>::new());
    let named = "attributes[new], consumesCounters.compatibilityGroups, nodeAllocatableResources";
    assert_eq!(device.model.unsupported.as_deref(), Some(named));
    assert!(device.published("old").is_some() && device.published("new").is_none());
}

#[test]
fn capacities_have_exact_amounts_and_policies() {
    let (device, problems) = device(json!({"name": "d", "allowMultipleAllocations": true,
    "capacity": {
        "plain": {"value": "1.5"},
        "chosen": {"value": 10, "requestPolicy": {
            "default": "1", "validValues": ["4", "1"]}},
        "ranged": {"value": "10Gi", "requestPolicy": {
            "validRange": {"min": "1Gi", "max": "8Gi", "step": "512Mi"}}},
    }}));
    assert_eq!(problems, Vec::<String>::new());
    let nanos = |n: i128| n * 1_000_000_000;
    let capacity = |name: &str| device.capacity(name).unwrap();
    assert_eq!(capacity("plain").value.nanos, 1_500_000_000);
    assert_eq!(&*capacity("ranged").value.text, "10Gi");
    let policy = capacity("chosen").policy.clone().unwrap();
    assert_eq!(policy.default.unwrap().nanos, nanos(1));
    let PolicyValues::OneOf(values) = policy.values else { panic!() };
    assert_eq!(values.iter().map(|v| v.nanos).collect::<Vec<_>>(), [nanos(1), nanos(4)]);
    let PolicyValues::Range { min, max, step } = capacity("ranged").policy.clone().unwrap().values
    else {
        panic!()
    };
    assert_eq!(min.nanos, nanos(1 << 30));
    assert_eq!((max.unwrap().nanos, step.unwrap().nanos), (nanos(8 << 30), nanos(512 << 20)));
}

#[test]
fn counters_are_shared_by_devices_of_one_shape() {
    let device = |name: &str| {
        json!({"name": name, "consumesCounters": [
            {"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}}}]})
    };
    let mut json = slice_of(vec![device("a"), device("b")]);
    json["spec"]["sharedCounters"] =
        json!([{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]);
    let (slice, problems) = read(json);
    assert_eq!(problems, Vec::<String>::new());
    let [a, b] = [&slice.devices[0].consumes[0], &slice.devices[1].consumes[0]];
    assert!(Arc::ptr_eq(&a.counters, &b.counters));
    assert_eq!(slice.counter_sets[0].counters[0].1.nanos, 80 * (1 << 30) * 1_000_000_000);
}

#[test]
fn unknown_choices_are_left_alone_and_contradictions_told() {
    let mut json = gpus(1);
    json["spec"].as_object_mut().unwrap().remove("nodeName");
    json["spec"]["nodeOracle"] = json!("yes");
    let (slice, problems) = read(json.clone());
    assert_eq!((slice.placement, problems.len()), (Placement::Unknown, 0));
    json["spec"]["perDeviceNodeSelection"] = json!(true);
    json["spec"]["devices"][0]["allNodes"] = json!(true);
    let (slice, _) = read(json.clone());
    assert_eq!(slice.placement, Placement::PerDevice);
    assert_eq!(slice.devices[0].model.placement, Some(Placement::AllNodes));
    json["spec"]["allNodes"] = json!(true);
    let (slice, problems) = read(json);
    assert_eq!(slice.placement, Placement::Unknown);
    let what = "must not stand beside another choice of nodes";
    assert_eq!(problems, [format!("spec.perDeviceNodeSelection: {what}")]);
}

#[test]
fn limits_and_odd_values_make_the_slice_a_problem_with_its_place() {
    let (slice, problems) = read(gpus(129));
    assert_eq!(problems, ["spec.devices: has 129 items, at most 128 are allowed"]);
    assert_eq!(slice.devices.len(), 129);
    let mut json = gpus(1);
    json["spec"]["devices"][0]["capacity"]["memory"]["value"] = json!("much");
    json["spec"]["pool"]["resourceSliceCount"] = json!(0);
    let (_, problems) = read(json);
    assert_eq!(
        problems,
        [
            "spec.devices[0].capacity.memory.value: \"much\" is not a quantity",
            "spec.pool.resourceSliceCount: must be greater than 0",
        ]
    );
}

#[test]
fn taint_effects_that_are_not_known_keep_nobody_off() {
    let taint = |effect: &str| json!({"key": "k", "value": "v", "effect": effect});
    let taints = ["NoSchedule", "NoExecute", "None", "PreferNot"].map(taint);
    let (device, problems) = device(json!({"name": "d", "taints": taints}));
    assert_eq!(problems, Vec::<String>::new());
    let effects: Vec<_> = device.model.taints.iter().map(|taint| taint.effect).collect();
    use DeviceTaintEffect::{NoExecute, NoSchedule, None};
    assert_eq!(effects, [NoSchedule, NoExecute, None, None]);
    let DeviceModel { binds_to_node, multi_allocatable, .. } = &*device.model;
    assert!(!binds_to_node && !multi_allocatable);
}

#[test]
fn a_class_is_read() {
    let (class, problems) = class(
        serde_json::from_value(json!({
            "metadata": {"name": "gpu", "creationTimestamp": "1970-01-01T00:00:01Z"},
            "spec": {
                "selectors": [{"cel": {"expression": "true"}}],
                "extendedResourceName": "example.com/gpu",
                "config": [{"opaque": {"driver": "d", "parameters": {"a": [1, null]}}}],
            },
        }))
        .unwrap(),
        &mut Tables::default(),
    );
    assert_eq!((problems.len(), class.created.0), (0, 1000));
    assert_eq!(class.extended_resource.as_deref(), Some("example.com/gpu"));
    assert_eq!(class.config[0].parameters.to_string(), r#"{"a": [1, null]}"#);
    let selectors: Vec<Value> = (0..33).map(|_| json!({"cel": {"expression": "true"}})).collect();
    let json = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}});
    let (class, _) = super::class(serde_json::from_value(json).unwrap(), &mut Tables::default());
    assert_eq!(
        class.problem.as_deref(),
        Some("spec.selectors: has 33 items, at most 32 are allowed")
    );
}

#[test]
fn a_taint_rule_without_selector_or_of_an_older_form_selects_nothing() {
    let rule = |selector: Value| {
        let json = json!({"metadata": {"name": "r"}, "spec": {
            "deviceSelector": selector, "taint": {"key": "k", "effect": "NoSchedule"}}});
        taint_rule(serde_json::from_value(json).unwrap(), &mut Tables::default())
    };
    assert_eq!(rule(Value::Null).0.selector, None);
    let (all, _) = rule(json!({}));
    assert!(all.selector.unwrap().select("d", "p", "x"));
    let (one, _) = rule(json!({"driver": "d", "pool": "p"}));
    let one = one.selector.unwrap();
    assert!(one.select("d", "p", "x") && !one.select("d", "q", "x"));
    let (old, problems) = rule(json!({"deviceClassName": "c"}));
    assert_eq!((old.selector, problems.len()), (None, 1));
}
