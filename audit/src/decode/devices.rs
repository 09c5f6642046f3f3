//! Claims, and what may be allocated to them.
//!
//! A slice or class of which something can't be read is kept, as such: whether anything is granted
//! from it is what I14 asks.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{DecodeError, Meta, WireTaint, WireToleration, read, toleration};
use crate::objects::{
    Amounts, Claim, Class, Device, DeviceId, Grant, PoolId, Slice, Taint, TaintRule,
};
use crate::requests::{NoQuantity, Quantities, amounts};

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

#[derive(Deserialize)]
struct WireClaim {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: ClaimSpec,
    #[serde(default)]
    status: ClaimStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClaimSpec {
    devices: ClaimDevices,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClaimDevices {
    requests: Vec<Request>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    name: String,
    exactly: Option<Wanted>,
    first_available: Vec<Wanted>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    name: String,
    device_class_name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus {
    reserved_for: Vec<Consumer>,
    allocation: Option<Allocation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Consumer {
    resource: String,
    name: String,
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Allocation {
    devices: Allocated,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Allocated {
    results: Vec<WireResult>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireResult {
    request: String,
    driver: String,
    pool: String,
    device: String,
    admin_access: Option<bool>,
    #[serde(rename = "shareID")]
    share_id: Option<String>,
    consumed_capacity: Quantities,
    tolerations: Vec<WireToleration>,
}

pub(super) fn claim(value: &[u8]) -> Result<Claim, DecodeError> {
    let WireClaim { metadata, spec, status } = read("ResourceClaim", value)?;
    let consumers = status.reserved_for;
    let results = status.allocation.map(|allocation| allocation.devices.results);
    let granted = |results: Vec<WireResult>| results.into_iter().map(grant).collect();
    Ok(Claim {
        uid: metadata.uid.clone(),
        is_deleting: metadata.deletion_timestamp.is_some(),
        is_protected: metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER),
        name: metadata.name(),
        is_reserved: !consumers.is_empty(),
        reserved_for: consumers
            .into_iter()
            .filter(|consumer| consumer.resource == "pods")
            .map(|consumer| (consumer.name, consumer.uid))
            .collect(),
        allocation: results.map(granted).transpose()?,
        classes: spec.devices.requests.into_iter().flat_map(classes).collect(),
    })
}

/// Results name an alternative as `request/alternative`.
fn classes(request: Request) -> Vec<(String, String)> {
    let Request { name, exactly, first_available } = request;
    let alternatives = first_available.into_iter();
    let alternative =
        |wanted: Wanted| (format!("{name}/{}", wanted.name), wanted.device_class_name);
    let mut classes: Vec<_> = alternatives.map(alternative).collect();
    classes.extend(exactly.map(|wanted| (name.clone(), wanted.device_class_name)));
    classes
}

fn grant(result: WireResult) -> Result<Grant, NoQuantity> {
    let pool = PoolId { driver: result.driver, pool: result.pool };
    Ok(Grant {
        id: DeviceId { pool, device: result.device },
        request: result.request,
        is_admin: result.admin_access.unwrap_or_default(),
        share: result.share_id,
        consumed: amounts(&result.consumed_capacity)?,
        tolerations: result.tolerations.into_iter().map(toleration).collect(),
    })
}

#[derive(Deserialize)]
struct WireSlice {
    spec: SliceSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceSpec {
    driver: String,
    pool: WirePool,
    node_name: Option<String>,
    /// Each is read by itself, so that one that can't be read is told apart.
    #[serde(default)]
    devices: Vec<Value>,
    #[serde(default)]
    shared_counters: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePool {
    name: String,
    generation: i64,
    resource_slice_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireDevice {
    name: String,
    #[serde(default)]
    taints: Vec<WireTaint>,
    #[serde(default)]
    capacity: BTreeMap<String, Amount>,
    #[serde(default)]
    consumes_counters: Vec<Consumption>,
}

#[derive(Deserialize)]
struct Amount {
    value: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consumption {
    counter_set: String,
    counters: BTreeMap<String, Amount>,
}

#[derive(Deserialize)]
struct CounterSet {
    name: String,
    counters: BTreeMap<String, Amount>,
}

pub(super) fn slice(value: &[u8]) -> Result<Slice, DecodeError> {
    let WireSlice { spec } = read("ResourceSlice", value)?;
    let devices: Option<Vec<Device>> = spec.devices.iter().map(device).collect();
    let counters: Option<BTreeMap<String, Amounts>> =
        spec.shared_counters.iter().map(counter_set).collect();
    Ok(Slice {
        pool: PoolId { driver: spec.driver, pool: spec.pool.name },
        generation: spec.pool.generation,
        node: spec.node_name.filter(|name| !name.is_empty()),
        count: spec.pool.resource_slice_count,
        is_unreadable: devices.is_none() || counters.is_none(),
        devices: devices.unwrap_or_default(),
        counters: counters.unwrap_or_default(),
    })
}

fn device(value: &Value) -> Option<Device> {
    let device = WireDevice::deserialize(value).ok()?;
    let consumes = device.consumes_counters.into_iter();
    let consumes = consumes.map(|taken| Some((taken.counter_set, values(taken.counters)?)));
    Some(Device {
        name: device.name,
        taints: device.taints.into_iter().filter_map(taint).collect(),
        capacity: values(device.capacity)?,
        consumes: consumes.collect::<Option<_>>()?,
    })
}

fn counter_set(value: &Value) -> Option<(String, Amounts)> {
    let set = CounterSet::deserialize(value).ok()?;
    Some((set.name, values(set.counters)?))
}

fn values(of: BTreeMap<String, Amount>) -> Option<Amounts> {
    let of = of.into_iter().map(|(name, amount)| (name, amount.value));
    amounts(&of.collect::<Quantities>()).ok()
}

/// Only effects that keep a claim away.
fn taint(wire: WireTaint) -> Option<Taint> {
    let WireTaint { key, value, effect } = wire;
    let counts = matches!(effect.as_str(), "NoSchedule" | "NoExecute");
    counts.then_some(Taint { key, value, effect })
}

#[derive(Deserialize)]
struct WireClass {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: ClassSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClassSpec {
    selectors: Vec<Value>,
}

pub(super) fn class(value: &[u8]) -> Result<Class, DecodeError> {
    let WireClass { metadata, spec } = read("DeviceClass", value)?;
    let known = |selector: &Value| selector["cel"]["expression"].is_string();
    let is_unreadable = !spec.selectors.iter().all(known);
    Ok(Class { name: metadata.name, is_unreadable })
}

#[derive(Deserialize)]
struct WireTaintRule {
    spec: TaintRuleSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaintRuleSpec {
    device_selector: Option<DeviceSelector>,
    taint: WireTaint,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DeviceSelector {
    driver: Option<String>,
    pool: Option<String>,
    device: Option<String>,
}

/// A rule without a selector is about no device. Source: its description in the API.
pub(super) fn taint_rule(value: &[u8]) -> Result<TaintRule, DecodeError> {
    let WireTaintRule { spec } = read("DeviceTaintRule", value)?;
    let counts = spec.device_selector.is_some();
    let DeviceSelector { driver, pool, device } = spec.device_selector.unwrap_or_default();
    Ok(TaintRule { driver, pool, device, taint: taint(spec.taint).filter(|_| counts) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_read_with_the_classes_of_its_alternatives() {
        let claim = claim(
            json!({
                "metadata": {"name": "c", "namespace": "d", "uid": "u", "finalizers": [FINALIZER]},
                "spec": {"devices": {"requests": [
                    {"name": "one", "exactly": {"deviceClassName": "gpu"}},
                    {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "large"}]},
                ]}},
                "status": {
                    "reservedFor": [{"resource": "podgroups", "name": "g", "uid": "g"}],
                    "allocation": {"devices": {"results": [{
                        "request": "any/big", "driver": "dr", "pool": "p", "device": "x",
                        "shareID": "s", "consumedCapacity": {"memory": "1Gi"},
                        "tolerations": [{"key": "k", "operator": "Exists"}],
                    }]}},
                },
            })
            .to_string()
            .as_bytes(),
        )
        .expect("a claim");
        assert_eq!(claim.classes["one"], "gpu");
        assert_eq!(claim.classes["any/big"], "large");
        assert!(claim.is_protected && claim.is_reserved && claim.reserved_for.is_empty());
        let [grant] = &claim.allocation.expect("an allocation")[..] else { panic!("one device") };
        assert_eq!((grant.id.to_string().as_str(), grant.is_admin), ("dr/p/x", false));
        assert_eq!((grant.consumed.len(), grant.tolerations.len()), (1, 1));
    }

    #[test]
    fn a_slice_or_class_with_something_odd_is_kept_as_unreadable() {
        let pool = json!({"name": "p", "generation": 3, "resourceSliceCount": 1});
        let slice_of = |devices: Value| {
            let spec = json!({"driver": "d", "pool": pool, "devices": devices});
            slice(json!({"spec": spec}).to_string().as_bytes()).expect("a slice")
        };
        let good = slice_of(json!([{"name": "x", "taints": [{"key": "k", "effect": "None"}]}]));
        assert!(!good.is_unreadable && good.devices[0].taints.is_empty());
        assert!(
            slice_of(json!([{"name": "x", "capacity": {"m": {"value": "much"}}}])).is_unreadable
        );
        assert!(slice_of(json!([{"name": 7}])).is_unreadable);

        let class_of = |selector: Value| {
            let spec = json!({"selectors": [selector]});
            class(json!({"spec": spec}).to_string().as_bytes()).expect("a class").is_unreadable
        };
        assert!(!class_of(json!({"cel": {"expression": "true"}})));
        assert!(class_of(json!({"stars": {"sign": "libra"}})));
    }

    #[test]
    fn a_taint_rule_without_a_selector_is_about_nothing() {
        let rule_of = |selector: Value| {
            let taint = json!({"key": "k", "effect": "NoSchedule"});
            let spec = json!({"deviceSelector": selector, "taint": taint});
            taint_rule(json!({"spec": spec}).to_string().as_bytes()).expect("a rule")
        };
        assert!(rule_of(Value::Null).taint.is_none());
        let rule = rule_of(json!({"pool": "p"}));
        let id = |pool: &str| DeviceId {
            pool: PoolId { driver: "d".to_owned(), pool: pool.to_owned() },
            device: "x".to_owned(),
        };
        assert!(rule.taint.is_some() && rule.is_about(&id("p")) && !rule.is_about(&id("q")));
    }
}
