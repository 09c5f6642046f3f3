//! A tiny language of device selectors, for tests that need some and not the real one.
//!
//! Terms are joined by `&&`: `true`, `false`, `shared`, `driver == d`, `attr.name == value` or
//! `!=` (without a value where the device lacks the attribute), `has.name`, `cap.name >= 40Gi`.
//! Values are written as in [`super::devices`].

use std::sync::Arc;

use crate::snapshot::{DeviceSelector, SelectorCompiler};
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
        [has] => has.starts_with("has."),
        [name, "==" | "!=", value] => name.starts_with("attr.") && attribute(value).is_ok(),
        [name, ">=", value] => name.starts_with("cap.") && quantity(value).is_ok(),
        _ => false,
    }
}

impl DeviceSelector for Terms {
    fn selects(&self, driver: &str, device: &Device) -> Result<bool, Text> {
        for term in &self.0 {
            if !holds(term, driver, device)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn holds(term: &[String], driver: &str, device: &Device) -> Result<bool, Text> {
    let words: Vec<&str> = term.iter().map(String::as_str).collect();
    let name = words[0].split_once('.').map_or("", |(_, name)| name);
    Ok(match words.as_slice() {
        ["true"] => true,
        ["shared"] => device.model.multi_allocatable,
        ["driver", _, wanted] => *wanted == driver,
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
