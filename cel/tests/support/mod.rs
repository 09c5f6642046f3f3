//! Devices in Kubernetes' JSON, and what comes of asking about them.

// Each test binary takes what it needs.
#![allow(dead_code, unreachable_pub)]

use berth_cel::{Budget, EvalError, OwnedAttribute, OwnedDevice, Quantity, Semver, compile};
use serde_json::{Value, json};

/// How a selector ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answer(bool),
    /// When compiled.
    Refused,
    /// When run.
    Fails,
    /// Kubernetes' code panics.
    Breaks,
}

impl Outcome {
    /// As the tables write it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answer(true) => "true",
            Self::Answer(false) => "false",
            Self::Refused => "refused",
            Self::Fails => "error",
            Self::Breaks => "panic",
        }
    }
}

/// What one side says. The cost is missing where nothing was evaluated.
#[derive(Clone, Debug)]
pub struct Answer {
    pub outcome: Outcome,
    pub cost: Option<u64>,
    pub error: String,
}

impl Answer {
    pub fn same(&self, other: &Self) -> bool {
        self.outcome == other.outcome && self.cost == other.cost
    }
}

/// Asks this crate.
pub fn ask(expression: &str, device: &OwnedDevice) -> Answer {
    let program = match compile(expression) {
        Ok(program) => program,
        Err(error) => {
            return Answer { outcome: Outcome::Refused, cost: None, error: error.to_string() };
        }
    };
    let mut budget = Budget::default();
    let result = program.matches(device, &mut budget);
    let error = result.as_ref().err().map(EvalError::to_string).unwrap_or_default();
    let outcome = result.map_or(Outcome::Fails, Outcome::Answer);
    Answer { outcome, cost: Some(budget.spent()), error }
}

/// A line of a table: an answer, a cost if anything was evaluated, and the selector.
pub struct Line {
    pub answer: &'static str,
    pub cost: Option<u64>,
    pub expression: &'static str,
}

/// Answers of Kubernetes 1.37 for [`h100`]; the differential test holds them against its code.
pub fn vectors() -> Vec<Line> {
    let lines = include_str!("../vectors.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(line).collect()
}

fn line(text: &'static str) -> Line {
    let (answer, rest) = text.split_once(' ').expect("an answer");
    let (cost, expression) = rest.trim_start().split_once(' ').expect("a cost");
    Line { answer, cost: cost.parse().ok(), expression: expression.trim_start() }
}

/// A device as a driver of large GPUs publishes it.
pub fn h100() -> Value {
    json!({
        "driver": "gpu.nvidia.com",
        "allowMultipleAllocations": false,
        "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "driverVersion": {"version": "565.57.1"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "index": {"int": 2},
            "ready": {"bool": true},
            "models": {"strings": ["a", "b", "c"]},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:17"},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        "capacity": {
            "memory": {"value": "80Gi"},
            "multiprocessors": {"value": "132"},
        },
    })
}

/// Reads a device as the API writes it: `{driver, allowMultipleAllocations, attributes, capacity}`.
pub fn device(json: &Value) -> OwnedDevice {
    let mut device = OwnedDevice::new(json["driver"].as_str().unwrap_or_default());
    device.set_allow_multiple_allocations(json["allowMultipleAllocations"] == true);
    for (name, value) in json["attributes"].as_object().into_iter().flatten() {
        device.set_attribute(name, attribute(value));
    }
    for (name, value) in json["capacity"].as_object().into_iter().flatten() {
        let amount = value["value"].as_str().expect("a quantity");
        device.set_capacity(name, Quantity::parse(amount).expect("a quantity"));
    }
    device
}

fn attribute(json: &Value) -> OwnedAttribute {
    let (kind, value) = json.as_object().and_then(|json| json.iter().next()).expect("a value");
    let version = |value: &Value| Semver::parse(value.as_str().expect("text")).expect("a version");
    let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
    match kind.as_str() {
        "bool" => OwnedAttribute::Bool(value.as_bool().expect("a bool")),
        "int" => OwnedAttribute::Int(value.as_i64().expect("an int")),
        "string" => OwnedAttribute::String(value.as_str().expect("text").to_owned()),
        "version" => OwnedAttribute::Version(version(value)),
        "bools" => OwnedAttribute::Bools(all.iter().filter_map(Value::as_bool).collect()),
        "ints" => OwnedAttribute::Ints(all.iter().filter_map(Value::as_i64).collect()),
        "strings" => OwnedAttribute::Strings(
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        ),
        "versions" => OwnedAttribute::Versions(all.iter().map(version).collect()),
        other => panic!("unknown kind of attribute {other}"),
    }
}
