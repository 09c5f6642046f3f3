//! Random instances, small ones, by a seed.

mod devices;
mod held;
mod models;
mod wants;

use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::claim::{
    ClaimSpec, ConstraintKind, DeviceConstraint, DeviceDemand, DeviceResult,
};
use berth_core::types::device::{DeviceTaint, DeviceTaintEffect, OpaqueConfig, TaintedDevices};
use berth_core::types::{DeviceClass, DeviceId, DeviceTaintRule, Labels, Node, Text, Value};

use super::instance::Instance;
pub(crate) use wants::UNGUARDED;

pub(crate) const NODE: &str = "node-1";
pub(crate) const OTHER_NODE: &str = "node-2";
/// Drivers; both name a pool after the node.
pub(crate) const GPU: &str = "gpu.example.com";
pub(crate) const NIC: &str = "nic.example.com";

/// Draws by a seed.
pub(crate) struct Dice(Rng);

impl Dice {
    pub(crate) fn new(seed: u64, purpose: &str) -> Dice {
        Dice(Rng::stream(seed, purpose, "", 0))
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).expect("below a usize")
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn rarely(&mut self, per_mille: usize) -> bool {
        self.below(1000) < per_mille
    }

    pub(crate) fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }

    pub(crate) fn word(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    /// Returns the place of one of the weights, in proportion to them.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut drawn = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if drawn < *weight {
                return at;
            }
            drawn -= weight;
        }
        weights.len() - 1
    }
}

pub(crate) fn instance(seed: u64) -> Instance {
    let mut dice = Dice::new(seed, "devices");
    let lists = dice.chance(40);
    let labels = [("zone", "a"), ("gpus", "8")].map(|(k, v)| (Text::from(k), Text::from(v)));
    let mut made = Instance {
        node: Node { name: NODE.into(), labels: Labels::from_iter(labels), ..Node::default() },
        lists,
        claims_first: dice.chance(50),
        ..Instance::default()
    };
    made.slices = devices::slices(&mut dice, lists);
    made.rules = rules(&mut dice);
    held::hold(&mut Dice::new(seed, "held"), &mut made);
    let mut dice = Dice::new(seed, "wants");
    made.classes = classes(&mut dice);
    made.claims = wants::claims(&mut dice, &made);
    made
}

fn classes(dice: &mut Dice) -> Vec<DeviceClass> {
    let mut known = Vec::new();
    let is_gpu = format!("device.driver == '{GPU}'");
    let is_nic = format!("device.driver == '{NIC}'");
    let model_a = format!("device.attributes['{GPU}'].?model.orValue('') == 'a'");
    for (name, selectors) in [
        ("any", Vec::new()),
        ("gpu", vec![is_gpu.clone()]),
        ("nic", vec![is_nic]),
        ("gpu-a", vec![is_gpu, model_a]),
    ] {
        let with_config = dice.chance(20);
        known.push(DeviceClass {
            name: name.into(),
            selectors: selectors.into_iter().map(Text::from).collect(),
            config: if with_config { vec![config(GPU, name, &[])] } else { Vec::new() },
            ..DeviceClass::default()
        });
    }
    known
}

/// Returns an entry of `config`.
pub(crate) fn config(driver: &str, parameters: &str, requests: &[Text]) -> OpaqueConfig {
    OpaqueConfig {
        requests: requests.to_vec(),
        driver: driver.into(),
        parameters: Value::map([("text", Value::text(parameters))]),
    }
}

fn rules(dice: &mut Dice) -> Vec<DeviceTaintRule> {
    if !dice.chance(6) {
        return Vec::new();
    }
    let selector = TaintedDevices {
        driver: dice.chance(50).then(|| GPU.into()),
        pool: dice.chance(50).then(|| NODE.into()),
        device: dice.chance(50).then(|| "d0".into()),
    };
    let selector = dice.chance(90).then_some(selector);
    vec![DeviceTaintRule { name: "rule".into(), resource_version: 1, selector, taint: taint(dice) }]
}

pub(crate) fn taint(dice: &mut Dice) -> DeviceTaint {
    use DeviceTaintEffect::{NoExecute, NoSchedule, None};
    DeviceTaint {
        key: dice.word(&["broken", "old"]).into(),
        value: dice.word(&["", "yes"]).into(),
        effect: *dice.pick(&[NoSchedule, NoSchedule, NoExecute, None]),
    }
}

/// Returns a grant of a whole device to somebody.
pub(crate) fn dedicated(id: &DeviceId) -> DeviceResult {
    DeviceResult {
        request: "r".into(),
        id: id.clone(),
        admin: false,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed: Vec::new(),
        skip_node_operations: Vec::new(),
    }
}

/// Returns a rule that puts a taint on one device which nobody tolerates.
pub(crate) fn rule_on(id: &DeviceId) -> DeviceTaintRule {
    let selector = TaintedDevices {
        driver: Some(id.driver.clone()),
        pool: Some(id.pool.clone()),
        device: Some(id.device.clone()),
    };
    let effect = DeviceTaintEffect::NoSchedule;
    let taint = DeviceTaint { key: "planted".into(), value: "value".into(), effect };
    DeviceTaintRule { name: "planted".into(), resource_version: 1, selector: Some(selector), taint }
}

/// Has all devices of the claim agree on an attribute.
pub(crate) fn constrain(claim: &mut ClaimSpec, attribute: &str) {
    let mut demand = DeviceDemand::clone(&claim.demand);
    demand.constraints.push(DeviceConstraint {
        requests: Vec::new(),
        kind: ConstraintKind::Match,
        attribute: attribute.into(),
    });
    claim.demand = Arc::new(demand);
}
