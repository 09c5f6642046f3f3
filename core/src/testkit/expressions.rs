//! A tiny language of device selectors, for tests that need some and not the real one.
//!
//! Terms are joined by `&&`: `true`, `false`, `shared`, `driver == d`, `attr.name == value` or
//! `!=` (without a value where the device lacks the attribute), `has.name`, `cap.name >= 40Gi`;
//! `cost.100` is true and takes so many steps.
//! Values are written as in [`super::devices`].

use std::sync::Arc;

use crate::snapshot::{DeviceSelector, Evaluation, SelectorCompiler};
use crate::types::{Device, Text};

use super::amounts::{attribute, quantity};

/// Returns what compiles the tiny language.
pub fn tiny() -> Arc<dyn SelectorCompiler> {
    Arc::new(Tiny)
}

#[derive(Debug)]
struct Tiny;

#[derive(Debug)]
struct Terms(Vec<Vec<String>>);

impl SelectorCompiler for Tiny {
    fn compile(&self, expression: &str) -> Result<Arc<dyn DeviceSelector>, Text> {
        let words = |term: &str| term.split_whitespace().map(str::to_owned).collect();
        let terms: Vec<Vec<String>> = expression.split("&&").map(words).collect();
        match terms.iter().find(|term| !known(term)) {
            Some(term) => Err(format!("{:?} can't be read", term.join(" ")).into()),
            None => Ok(Arc::new(Terms(terms))),
        }
    }
}

fn known(term: &[String]) -> bool {
    let words: Vec<&str> = term.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["true" | "false" | "shared"] | ["driver", "==", _] => true,
        [one] => one.starts_with("has.") || cost(term).is_some(),
        [name, "==" | "!=", value] => name.starts_with("attr.") && attribute(value).is_ok(),
        [name, ">=", value] => name.starts_with("cap.") && quantity(value).is_ok(),
        _ => false,
    }
}

impl DeviceSelector for Terms {
    fn evaluate(&self, driver: &str, device: &Device, steps_max: u64) -> Evaluation {
        let mut terms = self.0.iter().map(|term| holds(term, driver, device));
        let answer = terms.find(|holds| !matches!(holds, Ok(true))).unwrap_or(Ok(true));
        let costs = self.0.iter().filter_map(|term| cost(term));
        let steps = STEPS + costs.sum::<u64>();
        let answer = (steps <= steps_max).then_some(answer);
        Evaluation { answer, steps: steps.min(steps_max) }
    }

    fn sees(&self, driver: &str, attribute: &str) -> bool {
        let bare = |name: &str| match name.split_once('/') {
            Some((domain, bare)) if domain == driver => bare.to_owned(),
            Some(_) | None => name.to_owned(),
        };
        let named = |term: &Vec<String>| {
            let (_, name) = term[0].split_once('.').unwrap_or_default();
            bare(name) == bare(attribute)
        };
        self.0.iter().any(named)
    }
}

/// Steps of an evaluation, besides what terms say that they cost.
const STEPS: u64 = 5;

fn cost(term: &[String]) -> Option<u64> {
    term[0].strip_prefix("cost.")?.parse().ok()
}

fn holds(term: &[String], driver: &str, device: &Device) -> Result<bool, Text> {
    let words: Vec<&str> = term.iter().map(String::as_str).collect();
    let name = words[0].split_once('.').map_or("", |(_, name)| name);
    Ok(match words.as_slice() {
        ["true"] => true,
        ["shared"] => device.model.multi_allocatable,
        ["driver", _, wanted] => *wanted == driver,
        [_] if cost(term).is_some() => true,
        [_] if !name.is_empty() => device.attribute(driver, name).is_some(),
        [_, ">=", least] => {
            let least = quantity(least)?;
            device.capacity(name).is_some_and(|capacity| capacity.value.nanos >= least.nanos)
        }
        [_, operator, wanted] => {
            let Some(value) = device.attribute(driver, name) else {
                return Err(format!("no such attribute: {name}").into());
            };
            (*value == attribute(wanted)?) == (*operator == "==")
        }
        _ => false,
    })
}
