//! Compiled selectors.

mod sees;

use std::fmt;

use crate::check;
use crate::device::Device;
use crate::error::CompileError;
use crate::eval::Evaluator;
use crate::meter::{Budget, Limit, Meter, Stop};
use crate::parse;
use crate::plan::{self, Node};
use crate::value::Value;
use sees::Sight;

/// A selector, ready to be asked about devices.
pub struct Program {
    root: Node,
    slots: usize,
    sight: Sight,
}

/// A selector that gives no answer for a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A key that isn't there.
    #[error(
        "{message}. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
    )]
    NoSuchKey { message: Box<str> },
    #[error("{0}")]
    Runtime(Box<str>),
    #[error("the selector's result is a {0}, not a bool: compare it")]
    NotBool(&'static str),
    /// One evaluation costs more than [`crate::COST_LIMIT`].
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// The budget that was handed in is spent.
    #[error("the budget for evaluating selectors is spent")]
    Budget,
}

impl From<Stop> for EvalError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Error(message) if message.starts_with("no such key:") => {
                Self::NoSuchKey { message }
            }
            Stop::Error(message) => Self::Runtime(message),
            Stop::Limit(Limit::Cost) => Self::CostLimit,
            Stop::Limit(Limit::Budget) => Self::Budget,
            stop @ Stop::Limit(Limit::Broken) => Self::Runtime(stop.to_string().into()),
        }
    }
}

/// Compiles a selector.
///
/// Cost: tens of microseconds. The parser needs stack in proportion to the nesting: 64 MiB bear
/// whatever passes the limits.
///
/// # Errors
/// The first thing that is wrong with the text: its syntax, a name, a type, a literal.
pub fn compile(text: &str) -> Result<Program, CompileError> {
    let ast = parse::parse(text)?;
    let checked = check::check(text, ast)?;
    let (root, slots) = plan::plan(text, &checked)?;
    let sight = Sight::of(&root);
    Ok(Program { root, slots, sight })
}

impl Program {
    /// Returns whether the selector takes a device. What it costs is taken from the budget, errors
    /// included.
    ///
    /// # Errors
    /// [`EvalError`].
    pub fn matches(&self, device: &dyn Device, budget: &mut Budget) -> Result<bool, EvalError> {
        let mut evaluator = Evaluator::new(device, Meter::new(budget), self.slots);
        let result = evaluator.eval(&self.root);
        evaluator.meter().settle(budget);
        as_bool(&result?)
    }

    /// Tells whether the answer may depend on an attribute: on its value, or on whether it is there.
    pub fn sees_attribute(&self, domain: &str, name: &str) -> bool {
        self.sight.has_attribute(domain, name)
    }

    /// As [`Program::sees_attribute`], of a capacity.
    pub fn sees_capacity(&self, domain: &str, name: &str) -> bool {
        self.sight.has_capacity(domain, name)
    }
}

fn as_bool(value: &Value<'_>) -> Result<bool, EvalError> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Optional(Some(inner)) => as_bool(inner),
        other => Err(EvalError::NotBool(other.type_name())),
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("slots", &self.slots).finish_non_exhaustive()
    }
}
