//! Kubernetes' own allocator as a process: questions in, answers out.

use std::path::Path;

use berth_core::types::DeviceId;
use serde_json::Value;

use super::instance::{Instance, quantity};
use super::json;

/// What the reference says.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Why not.
    pub(crate) error: String,
    /// Shape: one entry a claim.
    pub(crate) allocations: Vec<Allocated>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Allocated,
    /// No solution, or none because pools are invalid.
    NoFit,
    /// A selector has no value for a device.
    Selector,
    /// A request for all devices meets a pool that can't be used.
    AllPools,
    /// A request for all devices meets one that a constraint refuses.
    AllConstraint,
    /// The claims themselves are wrong.
    Claim,
    Timeout,
    Panic,
}

/// An allocation in what can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) grants: Vec<Grant>,
    /// As JSON, without empty parts.
    pub(crate) node_selector: Value,
    /// Source, requests and driver of each entry.
    pub(crate) config: Vec<(bool, Vec<String>, String)>,
}

/// One device of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) request: String,
    pub(crate) id: DeviceId,
    pub(crate) admin: bool,
    pub(crate) shared: bool,
    /// Unit: billionths. Sorted by name.
    pub(crate) consumed: Vec<(String, i128)>,
    pub(crate) binding_conditions: Vec<String>,
    pub(crate) binding_failure_conditions: Vec<String>,
    pub(crate) tolerations: usize,
}

/// The program, built.
pub(crate) struct Oracle(berth_stand::Oracle);

impl Oracle {
    /// Builds the oracle, or says on stderr why the test is skipped: there is no Go.
    pub(crate) fn build_or_skip() -> Option<Oracle> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle");
        berth_stand::Oracle::build_or_skip(&module, "draoracle").map(Oracle)
    }

    /// Asks about all instances; the answers come in their order.
    pub(crate) fn ask(&self, instances: &[Instance]) -> Vec<Answer> {
        self.0.ask(instances.iter().map(json::question).collect()).iter().map(answer).collect()
    }
}

fn answer(json: &Value) -> Answer {
    let outcome = match json["outcome"].as_str() {
        Some("allocated") => Outcome::Allocated,
        Some("none" | "node") => Outcome::NoFit,
        Some("cel") => Outcome::Selector,
        Some("allPools") => Outcome::AllPools,
        Some("allConstraint") => Outcome::AllConstraint,
        Some("limit" | "class" | "mode" | "other") => Outcome::Claim,
        Some("timeout") => Outcome::Timeout,
        Some("panic") => Outcome::Panic,
        other => panic!("the oracle answers {other:?}"),
    };
    Answer {
        outcome,
        error: string(&json["error"]),
        allocations: entries(&json["allocations"]).map(allocated).collect(),
    }
}

fn entries(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn string(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn strings(json: &Value) -> Vec<String> {
    entries(json).map(string).collect()
}

fn allocated(json: &Value) -> Allocated {
    let config = entries(&json["devices"]["config"]).map(|entry| {
        let from_class = entry["source"] == "FromClass";
        (from_class, strings(&entry["requests"]), string(&entry["opaque"]["driver"]))
    });
    Allocated {
        grants: entries(&json["devices"]["results"]).map(grant).collect(),
        node_selector: without_empty(&json["nodeSelector"]),
        config: config.collect(),
    }
}

fn grant(json: &Value) -> Grant {
    let consumed = json["consumedCapacity"].as_object().into_iter().flatten();
    let consumed = consumed.map(|(name, amount)| (name.clone(), quantity(&string(amount)).nanos));
    let mut consumed: Vec<(String, i128)> = consumed.collect();
    consumed.sort();
    let part = |name: &str| string(&json[name]).into();
    Grant {
        request: string(&json["request"]),
        id: DeviceId { driver: part("driver"), pool: part("pool"), device: part("device") },
        admin: json["adminAccess"] == true,
        shared: json["shareID"].is_string(),
        consumed,
        binding_conditions: strings(&json["bindingConditions"]),
        binding_failure_conditions: strings(&json["bindingFailureConditions"]),
        tolerations: entries(&json["tolerations"]).count(),
    }
}

/// Returns the value without lists that have nothing in them.
pub(crate) fn without_empty(json: &Value) -> Value {
    match json {
        Value::Object(map) => {
            let kept =
                map.iter().filter(|(_, value)| value.as_array().is_none_or(|l| !l.is_empty()));
            Value::Object(kept.map(|(key, value)| (key.clone(), without_empty(value))).collect())
        }
        Value::Array(values) => values.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}
