//! Instances as the objects of resource.k8s.io/v1 that the reference reads.

use berth_core::types::claim::{
    AllocationMode, ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint, DeviceRequest,
    DeviceResult, DeviceToleration,
};
use berth_core::types::device::{
    AttributeValue, Capacity, CounterSet, DeviceTaint, DeviceTaintEffect, OpaqueConfig, Placement,
    PolicyValues, Quantity, RequestPolicy,
};
use berth_core::types::{Device, DeviceClass, Node, NodeSelector, Operator, ResourceSlice};
use berth_core::types::{Requirement, Text};
use serde_json::{Map, Value, json};

use super::instance::Instance;

/// Returns the question for the reference.
pub(crate) fn question(instance: &Instance) -> Value {
    let features = [
        "AdminAccess",
        "ConsumableCapacity",
        "DeviceBindingAndStatus",
        "DeviceTaints",
        "FractionalCapacityRange",
        "PartitionableDevices",
        "PrioritizedList",
    ];
    let mut features: Map<String, Value> =
        features.iter().map(|name| ((*name).to_owned(), json!(true))).collect();
    features.insert("ListTypeAttributes".to_owned(), json!(instance.lists));
    let allocator = if instance.lists { "experimental" } else { "incubating" };
    // Where slices contradict each other about their number, the reference believes the first.
    let mut by_name: Vec<&ResourceSlice> = instance.slices.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let counted = || instance.held.iter().filter(|result| !result.admin);
    json!({
        "allocator": allocator,
        "features": features,
        "node": node(&instance.node),
        "classes": list(&instance.classes, class),
        "slices": by_name.into_iter().map(|one| slice(instance, one)).collect::<Vec<_>>(),
        "claims": list(&instance.claims, claim),
        "allocated": counted().filter(|r| r.share_id.is_none()).map(held).collect::<Vec<_>>(),
        "shared": counted().filter(|r| r.share_id.is_some()).map(held).collect::<Vec<_>>(),
    })
}

fn list<T>(of: &[T], one: impl Fn(&T) -> Value) -> Value {
    of.iter().map(one).collect()
}

fn named(of: &[(Text, Quantity)], one: impl Fn(&Quantity) -> Value) -> Value {
    Value::Object(of.iter().map(|(name, amount)| (name.to_string(), one(amount))).collect())
}

fn text(quantity: &Quantity) -> Value {
    json!(&*quantity.text)
}

fn held(result: &DeviceResult) -> Value {
    json!({
        "driver": &*result.id.driver,
        "pool": &*result.id.pool,
        "device": &*result.id.device,
        "shareID": result.share_id.as_deref().unwrap_or_default(),
        "consumed": named(&result.consumed, text),
    })
}

fn node(node: &Node) -> Value {
    let labels = node.labels.iter().map(|(key, value)| (key.to_string(), json!(&**value)));
    json!({"metadata": {"name": &*node.name, "labels": Value::Object(labels.collect())}})
}

fn class(class: &DeviceClass) -> Value {
    json!({
        "metadata": {"name": &*class.name},
        "spec": {"selectors": list(&class.selectors, selector), "config": list(&class.config, config)},
    })
}

fn selector(expression: &Text) -> Value {
    json!({"cel": {"expression": &**expression}})
}

fn config(config: &OpaqueConfig) -> Value {
    json!({
        "requests": list(&config.requests, |name| json!(&**name)),
        "opaque": {"driver": &*config.driver, "parameters": {"text": config.parameters.to_string()}},
    })
}

/// The taint rules' taints stand on the devices, where upstream's tracker puts them.
fn slice(instance: &Instance, slice: &ResourceSlice) -> Value {
    let mut spec = json!({
        "driver": &*slice.driver,
        "pool": {
            "name": &*slice.pool,
            "generation": slice.generation,
            "resourceSliceCount": slice.slice_count,
        },
        "devices": list(&slice.devices, |one| device(instance, slice, one)),
        "sharedCounters": list(&slice.counter_sets, counter_set),
    });
    place(&mut spec, &slice.placement);
    json!({"metadata": {"name": &*slice.name}, "spec": spec})
}

fn place(object: &mut Value, placement: &Placement) {
    match placement {
        Placement::Node(name) => object["nodeName"] = json!(&**name),
        Placement::Selector(selector) => object["nodeSelector"] = node_selector(selector),
        Placement::AllNodes => object["allNodes"] = json!(true),
        Placement::PerDevice => object["perDeviceNodeSelection"] = json!(true),
        Placement::Unknown => {}
    }
}

pub(crate) fn node_selector(selector: &NodeSelector) -> Value {
    let terms = selector.terms.iter().map(|term| {
        json!({
            "matchExpressions": list(&term.labels, requirement),
            "matchFields": list(&term.names, requirement),
        })
    });
    json!({"nodeSelectorTerms": terms.collect::<Vec<_>>()})
}

fn requirement(requirement: &Requirement) -> Value {
    let operator = match requirement.operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    };
    let values = list(&requirement.values, |value| json!(&**value));
    json!({"key": &*requirement.key, "operator": operator, "values": values})
}

fn counter_set(set: &CounterSet) -> Value {
    json!({"name": &*set.name, "counters": named(&set.counters, |value| json!({"value": text(value)}))})
}

fn device(instance: &Instance, slice: &ResourceSlice, device: &Device) -> Value {
    let model = &device.model;
    let attributes = device.attributes().map(|(name, value)| (name.to_string(), attribute(value)));
    let by_rule = instance.rules.iter().filter(|rule| {
        let selector = rule.selector.as_ref();
        selector.is_some_and(|s| s.select(&slice.driver, &slice.pool, &device.name))
    });
    let taints = model.taints.iter().chain(by_rule.map(|rule| &rule.taint));
    let consumes = device.consumes.iter().map(|consumption| {
        let counters = named(&consumption.counters, |value| json!({"value": text(value)}));
        json!({"counterSet": &*consumption.set, "counters": counters})
    });
    let capacity = model.capacity.iter().map(|c| (c.name.to_string(), capacity(c)));
    let mut object = json!({
        "name": &*device.name,
        "attributes": Value::Object(attributes.collect()),
        "capacity": Value::Object(capacity.collect()),
        "taints": taints.map(taint).collect::<Vec<_>>(),
        "consumesCounters": consumes.collect::<Vec<_>>(),
    });
    if model.multi_allocatable {
        object["allowMultipleAllocations"] = json!(true);
    }
    if model.binds_to_node {
        object["bindsToNode"] = json!(true);
    }
    if !model.binding_conditions.is_empty() {
        object["bindingConditions"] = list(&model.binding_conditions, |c| json!(&**c));
        object["bindingFailureConditions"] =
            list(&model.binding_failure_conditions, |c| json!(&**c));
    }
    if let Some(placement) = &model.placement {
        place(&mut object, placement);
    }
    object
}

fn attribute(value: &AttributeValue) -> Value {
    let texts = |values: &[Text]| list(values, |value| json!(&**value));
    match value {
        AttributeValue::Bool(value) => json!({"bool": value}),
        AttributeValue::Int(value) => json!({"int": value}),
        AttributeValue::String(value) => json!({"string": &**value}),
        AttributeValue::Version(value) => json!({"version": &**value}),
        AttributeValue::Bools(values) => json!({"bools": &**values}),
        AttributeValue::Ints(values) => json!({"ints": &**values}),
        AttributeValue::Strings(values) => json!({"strings": texts(values)}),
        AttributeValue::Versions(values) => json!({"versions": texts(values)}),
    }
}

fn capacity(capacity: &Capacity) -> Value {
    let mut object = json!({"value": text(&capacity.value)});
    if let Some(policy) = &capacity.policy {
        object["requestPolicy"] = request_policy(policy);
    }
    object
}

fn request_policy(policy: &RequestPolicy) -> Value {
    let mut object = json!({});
    if let Some(default) = &policy.default {
        object["default"] = text(default);
    }
    match &policy.values {
        PolicyValues::Any => {}
        PolicyValues::OneOf(values) => object["validValues"] = list(values, text),
        PolicyValues::Range { min, max, step } => {
            let mut range = json!({"min": text(min)});
            if let Some(max) = max {
                range["max"] = text(max);
            }
            if let Some(step) = step {
                range["step"] = text(step);
            }
            object["validRange"] = range;
        }
    }
    object
}

fn effect(effect: DeviceTaintEffect) -> &'static str {
    match effect {
        DeviceTaintEffect::None => "None",
        DeviceTaintEffect::NoSchedule => "NoSchedule",
        DeviceTaintEffect::NoExecute => "NoExecute",
    }
}

fn taint(taint: &DeviceTaint) -> Value {
    json!({"key": &*taint.key, "value": &*taint.value, "effect": effect(taint.effect)})
}

fn toleration(toleration: &DeviceToleration) -> Value {
    json!({
        "key": &*toleration.key,
        "operator": if toleration.exists { "Exists" } else { "Equal" },
        "value": &*toleration.value,
        "effect": toleration.effect.map(effect).unwrap_or_default(),
    })
}

fn claim(claim: &ClaimSpec) -> Value {
    json!({
        "metadata": {"name": "wanted", "namespace": "default"},
        "spec": {"devices": {
            "requests": list(&claim.demand.requests, request),
            "constraints": list(&claim.demand.constraints, constraint),
            "config": list(&claim.config, config),
        }},
    })
}

fn request(request: &ClaimRequest) -> Value {
    if request.first_available {
        return json!({"name": &*request.name, "firstAvailable": list(&request.alternatives, exact)});
    }
    let exactly = request.alternatives.first().map(exact);
    json!({"name": &*request.name, "exactly": exactly})
}

fn exact(request: &DeviceRequest) -> Value {
    let mut object = json!({
        "deviceClassName": &*request.class,
        "selectors": list(&request.selectors, selector),
        "tolerations": list(&request.tolerations, toleration),
    });
    match &request.mode {
        AllocationMode::ExactCount(count) => {
            object["allocationMode"] = json!("ExactCount");
            object["count"] = json!(count);
        }
        AllocationMode::All => object["allocationMode"] = json!("All"),
        AllocationMode::Unknown(mode) => object["allocationMode"] = json!(&**mode),
    }
    if request.admin {
        object["adminAccess"] = json!(true);
    }
    if !request.capacity.is_empty() {
        object["capacity"] = json!({"requests": named(&request.capacity, text)});
    }
    if let Some((_, alternative)) = request.name.split_once('/') {
        object["name"] = json!(alternative);
    }
    object
}

fn constraint(constraint: &DeviceConstraint) -> Value {
    let mut object = json!({"requests": list(&constraint.requests, |name| json!(&**name))});
    let attribute = json!(&*constraint.attribute);
    match constraint.kind {
        ConstraintKind::Match => object["matchAttribute"] = attribute,
        ConstraintKind::Distinct => object["distinctAttribute"] = attribute,
        ConstraintKind::Unknown => {}
    }
    object
}
