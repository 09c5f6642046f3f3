//! Feature gates: all of kube-scheduler's names are known, and each is followed, without effect in
//! a scheduler, or refused away from its default because decisions would change.
//!
//! Source of rules and messages: `component-base/featuregate` and `component-base/compatibility`
//! 0.37.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use table::{all, find};

/// Who may be named before a gate, as in `kube:GenericWorkload=true`.
const COMPONENT: &str = "kube";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

impl Stage {
    /// Returns the stage as the metric `kubernetes_feature_enabled` labels it.
    pub fn label(self) -> &'static str {
        match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Ga => "",
            Stage::Deprecated => "DEPRECATED",
        }
    }
}

/// What Berth does with a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Both values do what they do upstream; the text says what `true` does.
    Followed(&'static str),
    /// Nothing that Berth decides depends on it. Of groups of pods the profile decides.
    NoEffect,
    /// Berth decides as the default says, so the other value is an error.
    RefusedUnlessDefault,
}

/// A gate that kube-scheduler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub name: &'static str,
    pub stage: Stage,
    pub default: bool,
    /// kube-scheduler refuses the other value too.
    pub locked: bool,
    pub kind: Kind,
}

/// The gates of this process: those that were set, and the defaults of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    set: BTreeMap<&'static str, bool>,
}

impl Gates {
    /// Reads the values of `--feature-gates`, each a comma list of `[kube:]name=bool`.
    ///
    /// A name counts before `AllAlpha` and `AllBeta`, wherever it stands; of several values for
    /// one name, the last counts.
    ///
    /// # Errors
    /// One line: an unknown name or component, a value that is no boolean, a locked gate, or one
    /// whose other value Berth does not follow.
    pub fn parse(values: &[String]) -> Result<Gates, String> {
        let named = read(values)?;
        let mut gates = Gates { set: named.clone() };
        for (special, stage) in [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)] {
            let Some(&value) = named.get(special) else { continue };
            for gate in all().filter(|gate| gate.stage == stage && !is_special(gate.name)) {
                gates.set.entry(gate.name).or_insert(value);
            }
        }
        gates.refuse_what_is_not_followed()?;
        Ok(gates)
    }

    /// Tells whether the gate is on.
    pub fn enabled(&self, name: &str) -> bool {
        let value = self.set.get(name).copied();
        value.or_else(|| find(name).map(|gate| gate.default)).unwrap_or(false)
    }

    /// Returns every known gate with its value, by name: the metric `kubernetes_feature_enabled`.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Gate, bool)> {
        all().map(|gate| (gate, self.enabled(gate.name)))
    }

    /// Returns a line for each gate that was moved and does nothing here, and for each whose days
    /// are counted upstream.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let moved = |gate: &&Gate| self.enabled(gate.name) != gate.default;
        let idle = |gate: &&Gate| gate.kind == Kind::NoEffect;
        let idle: Vec<&str> = all().filter(moved).filter(idle).map(|gate| gate.name).collect();
        if !idle.is_empty() {
            let names = idle.join(", ");
            notes.push(format!("--feature-gates: without effect here: {names}"));
        }
        let given = all().filter(|gate| self.set.contains_key(gate.name));
        for gate in given.filter(|gate| matches!(gate.stage, Stage::Ga | Stage::Deprecated)) {
            let stage = if gate.stage == Stage::Ga { "GA" } else { "deprecated" };
            let name = gate.name;
            notes.push(format!(
                "--feature-gates: {name} is {stage}; a future release won't know it"
            ));
        }
        notes
    }

    fn refuse_what_is_not_followed(&self) -> Result<(), String> {
        let refused = |gate: &&Gate| {
            gate.kind == Kind::RefusedUnlessDefault && self.enabled(gate.name) != gate.default
        };
        let refused: Vec<String> =
            all().filter(refused).map(|gate| format!("{}={}", gate.name, !gate.default)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let names = refused.join(", ");
        Err(format!("feature gates that Berth follows at their default only: {names}"))
    }
}

fn is_special(name: &str) -> bool {
    matches!(name, "AllAlpha" | "AllBeta")
}

/// Reads the lists as they are written, without `AllAlpha` and `AllBeta` being expanded.
fn read(values: &[String]) -> Result<BTreeMap<&'static str, bool>, String> {
    let mut named = BTreeMap::new();
    let (mut bare, mut prefixed) = (false, false);
    let pairs = values.iter().flat_map(|list| list.split(','));
    for pair in pairs.map(str::trim).filter(|pair| !pair.is_empty()) {
        let pair = match pair.split_once(':') {
            Some((COMPONENT, rest)) => {
                prefixed = true;
                rest.trim()
            }
            Some((component, _)) => return Err(format!("component not registered: {component}")),
            None => {
                bare = true;
                pair
            }
        };
        let (gate, value) = read_pair(pair)?;
        named.insert(gate.name, value);
    }
    if bare && prefixed {
        return Err("set kube feature gates with default empty prefix or kube: prefix \
                    consistently, do not mix use"
            .to_owned());
    }
    Ok(named)
}

fn read_pair(pair: &str) -> Result<(&'static Gate, bool), String> {
    let Some((name, value)) = pair.split_once('=') else {
        return Err(format!("missing bool value for {pair}"));
    };
    let (name, value) = (name.trim(), value.trim());
    let value = crate::flags::values::go_bool(value)
        .map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
    let gate = find(name).ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
    if gate.locked && value != gate.default {
        let locked = gate.default;
        return Err(format!(
            "cannot set feature gate {name} to {value}, feature is locked to {locked}"
        ));
    }
    Ok((gate, value))
}
