//! Bodies of writes to resource claims.
//!
//! All are patches that name what they change only, so that they drop no field that is newer than
//! this. Lists of an allocation are replaced whole; `reservedFor` is merged by UID.

use berth_core::types::claim::{
    AllocatedConfig, Allocation, ClaimRef, Consumer, DeviceResult, DeviceToleration,
};
use berth_core::types::device::{DeviceTaintEffect, Quantity};
use berth_core::types::{NodeSelector, Operator, PodRef, PodUid, Requirement, Text, Timestamp};
use k8s_openapi::jiff;
use serde_json::{Map, Value as Json, json};

use super::{json_of, seconds};

/// UID and version are preconditions: the server answers 409 where they differ.
pub(super) fn metadata(claim: &ClaimRef, resource_version: u64) -> Json {
    let mut metadata = json!({"uid": claim.uid.as_str()});
    if resource_version > 0 {
        metadata["resourceVersion"] = json!(resource_version.to_string());
    }
    metadata
}

pub(super) fn protect(mut metadata: Json, finalizers: &[Text]) -> Json {
    metadata["finalizers"] = texts(finalizers);
    json!({"metadata": metadata})
}

/// Returns the entry of `reservedFor` for a consumer: the pod that a write is for, or its group.
///
/// # Errors
/// It is neither.
pub(super) fn reference(consumer: &Consumer, pod: &PodRef) -> Result<Json, String> {
    match consumer {
        Consumer::Pod(uid) if *uid == pod.uid => {
            Ok(json!({"resource": "pods", "name": pod.name.as_str(), "uid": uid.0.as_str()}))
        }
        Consumer::PodGroup { uid, name } => Ok(json!({
            "apiGroup": "scheduling.k8s.io", "resource": "podgroups",
            "name": name.as_str(), "uid": uid.as_str(),
        })),
        Consumer::Pod(PodUid(uid)) | Consumer::Other { uid } => {
            Err(format!("a claim of pod {pod} can't be reserved for {uid}"))
        }
    }
}

/// `now` is when it was allocated, unless the allocation says so itself.
pub(super) fn allocate(
    metadata: Json,
    allocation: Option<&Allocation>,
    consumer: Json,
    now: jiff::Timestamp,
) -> Json {
    let mut status = json!({"reservedFor": [consumer]});
    if let Some(allocation) = allocation {
        status["allocation"] = allocated(allocation, now);
    }
    json!({"metadata": metadata, "status": status})
}

/// What drivers say of the devices goes with the allocation: the server sees to that.
pub(super) fn release(metadata: Json, consumer: &Consumer, deallocate: bool) -> Json {
    let (Consumer::Pod(PodUid(uid)) | Consumer::PodGroup { uid, .. } | Consumer::Other { uid }) =
        consumer;
    let consumer = json!({"$patch": "delete", "uid": uid.as_str()});
    let mut status = json!({"reservedFor": [consumer]});
    if deallocate {
        status["allocation"] = Json::Null;
    }
    json!({"metadata": metadata, "status": status})
}

fn allocated(allocation: &Allocation, now: jiff::Timestamp) -> Json {
    let mut devices = Fields::default();
    devices.list("results", &allocation.results, result);
    devices.list("config", &allocation.config, config);
    let at = allocation.timestamp.and_then(time).unwrap_or(now);
    let mut fields = Fields::default();
    fields.put("devices", devices.json());
    fields.put("allocationTimestamp", json!(seconds(at)));
    if let Some(selector) = &allocation.node_selector {
        fields.put("nodeSelector", node_selector(selector));
    }
    fields.json()
}

fn time(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

fn result(result: &DeviceResult) -> Json {
    let DeviceResult { request, id, admin, tolerations, share_id, consumed, .. } = result;
    let mut fields = Fields::default();
    fields.text("request", request);
    fields.text("driver", &id.driver);
    fields.text("pool", &id.pool);
    fields.text("device", &id.device);
    if *admin {
        fields.put("adminAccess", json!(true));
    }
    fields.list("tolerations", tolerations, toleration);
    fields.list("bindingConditions", &result.binding_conditions, text);
    fields.list("bindingFailureConditions", &result.binding_failure_conditions, text);
    if let Some(share_id) = share_id {
        fields.text("shareID", share_id);
    }
    if !consumed.is_empty() {
        let amount = |(name, amount): &(Text, Quantity)| (name.to_string(), text(&amount.text));
        fields.put("consumedCapacity", Json::Object(consumed.iter().map(amount).collect()));
    }
    fields.list("skipNodeOperations", &result.skip_node_operations, text);
    fields.json()
}

fn toleration(toleration: &DeviceToleration) -> Json {
    let DeviceToleration { key, exists, value, effect, seconds } = toleration;
    let mut fields = Fields::default();
    fields.some_text("key", key);
    fields.put("operator", json!(if *exists { "Exists" } else { "Equal" }));
    fields.some_text("value", value);
    if let Some(effect) = effect {
        let effect = match effect {
            DeviceTaintEffect::None => "None",
            DeviceTaintEffect::NoSchedule => "NoSchedule",
            DeviceTaintEffect::NoExecute => "NoExecute",
        };
        fields.put("effect", json!(effect));
    }
    if let Some(seconds) = seconds {
        fields.put("tolerationSeconds", json!(seconds));
    }
    fields.json()
}

fn config(config: &AllocatedConfig) -> Json {
    let AllocatedConfig { from_class, config } = config;
    let mut fields = Fields::default();
    fields.put("source", json!(if *from_class { "FromClass" } else { "FromClaim" }));
    fields.list("requests", &config.requests, text);
    let parameters = json_of(&config.parameters);
    fields.put("opaque", json!({"driver": config.driver.as_str(), "parameters": parameters}));
    fields.json()
}

fn node_selector(selector: &NodeSelector) -> Json {
    let terms = selector.terms.iter().map(|term| {
        let mut fields = Fields::default();
        fields.list("matchExpressions", &term.labels, requirement);
        fields.list("matchFields", &term.names, requirement);
        fields.json()
    });
    json!({"nodeSelectorTerms": terms.collect::<Vec<Json>>()})
}

fn requirement(requirement: &Requirement) -> Json {
    let operator = match requirement.operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    };
    let mut fields = Fields::default();
    fields.text("key", &requirement.key);
    fields.put("operator", json!(operator));
    fields.list("values", &requirement.values, text);
    fields.json()
}

fn texts(texts: &[Text]) -> Json {
    texts.iter().map(text).collect()
}

fn text(text: &Text) -> Json {
    json!(text.as_str())
}

/// An object in the making; what is empty is left out, as Kubernetes does.
#[derive(Default)]
struct Fields(Map<String, Json>);

impl Fields {
    fn put(&mut self, key: &str, value: Json) {
        self.0.insert(key.to_owned(), value);
    }

    fn text(&mut self, key: &str, value: &Text) {
        self.put(key, text(value));
    }

    fn some_text(&mut self, key: &str, value: &Text) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }

    fn list<T>(&mut self, key: &str, items: &[T], json: impl Fn(&T) -> Json) {
        if !items.is_empty() {
            self.put(key, items.iter().map(json).collect());
        }
    }

    fn json(self) -> Json {
        Json::Object(self.0)
    }
}

#[cfg(test)]
mod tests;
