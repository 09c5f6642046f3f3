//! Selections and indexes.

use super::{Evaluator, Slot, borrowed};
use crate::library::lossless_int;
use crate::meter::{Eval, Stop};
use crate::plan::{Attribute, Base, Key, Qualifier};
use crate::value::{Map, Value};

/// What a key leads to.
enum Found<'a> {
    Value(Value<'a>),
    NoKey,
    NoIndex,
    /// Nothing that has keys.
    NoContainer,
}

impl<'a> Evaluator<'a> {
    /// Evaluates an attribute. A ternary has no cost of its own.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Eval<Value<'a>> {
        let value = self.resolve(attribute);
        let ended = matches!(value, Err(Stop::Limit(_)));
        if !ended && !matches!(attribute.base, Base::Ternary(..)) {
            self.meter.charge(1)?;
        }
        value
    }

    pub(super) fn has(&mut self, attribute: &'a Attribute) -> Eval<Value<'a>> {
        match self.resolve(attribute)? {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            other => Ok(other),
        }
    }

    /// Returns what an attribute stands for, charging its keys but not itself.
    pub(super) fn resolve(&mut self, attribute: &'a Attribute) -> Eval<Value<'a>> {
        let base = match &attribute.base {
            Base::Device => Value::Map(Map::Device(self.device)),
            Base::Slot(slot) => self.read(*slot)?,
            Base::Node(node) => self.eval(node)?,
            Base::Ternary(condition, branches) => match self.eval(condition)? {
                Value::Bool(yes) => self.resolve(&branches[usize::from(!yes)])?,
                _ => return Err(Stop::no_overload()),
            },
        };
        if attribute.qualifiers.is_empty() {
            return Ok(base);
        }
        let (mut value, mut optional) = match base {
            Value::Optional(None) => return Ok(Value::none()),
            Value::Optional(Some(inner)) => (inner.as_ref().clone(), true),
            other => (other, false),
        };
        for qualifier in &attribute.qualifiers {
            optional |= qualifier.optional;
            match self.qualify(value, qualifier, optional)? {
                Some(next) => value = next,
                None => return Ok(Value::none()),
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Applies one key. Nothing, if it is missing and that is no error.
    fn qualify(
        &mut self,
        value: Value<'a>,
        qualifier: &'a Qualifier,
        optional: bool,
    ) -> Eval<Option<Value<'a>>> {
        let key = match &qualifier.key {
            Key::Const(key) => Ok(borrowed(key)),
            Key::Attribute(attribute) => self.resolve(attribute),
            Key::Node(node) => self.eval(node),
        };
        if let Err(stop @ Stop::Limit(_)) = key {
            return Err(stop);
        }
        let found = key.and_then(|key| Ok((find(&value, &key)?, key)));
        if !optional || matches!(found, Ok((Found::Value(_), _))) {
            self.meter.charge(1)?;
        }
        let (found, key) = found?;
        let present = matches!(found, Found::Value(_));
        if qualifier.test && !optional {
            return Ok(Some(Value::Bool(present)));
        }
        match found {
            Found::Value(next) => Ok(Some(next)),
            _ if optional => Ok(None),
            Found::NoIndex => Err(Stop::error(format!("index out of bounds: {key}"))),
            Found::NoKey | Found::NoContainer => Err(Stop::error(format!("no such key: {key}"))),
        }
    }

    /// Reads a variable; an accumulator's first value is made now.
    pub(super) fn read(&mut self, slot: usize) -> Eval<Value<'a>> {
        match &self.slots[slot] {
            Slot::Known(value) => value.clone(),
            Slot::Empty => Err(Stop::error("a variable without a value")),
            Slot::Lazy(init) => {
                let value = self.settled(init)?;
                self.slots[slot] = Slot::Known(value.clone());
                value
            }
        }
    }
}

fn find<'a>(value: &Value<'a>, key: &Value<'a>) -> Eval<Found<'a>> {
    if !matches!(
        key,
        Value::Text(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_)
    ) {
        return Err(Stop::error(format!("invalid qualifier type: {}", key.type_name())));
    }
    match value {
        Value::Map(map) => Ok(map.find(key).map_or(Found::NoKey, Found::Value)),
        Value::List(list) => {
            let index = list_index(key)?;
            Ok(index.and_then(|index| list.get(index)).map_or(Found::NoIndex, Found::Value))
        }
        _ => Ok(Found::NoContainer),
    }
}

/// Returns a number as an index; nothing if it is beyond any list.
fn list_index(key: &Value<'_>) -> Eval<Option<usize>> {
    let unsupported = || Stop::error(format!("unsupported index value {key} in list"));
    match key {
        Value::Int(index) => Ok(usize::try_from(*index).ok()),
        Value::Uint(index) => i64::try_from(*index)
            .map_err(|_| unsupported())
            .map(|index| usize::try_from(index).ok()),
        Value::Double(index) => {
            let index = lossless_int(*index).ok_or_else(unsupported)?;
            Ok(usize::try_from(index).ok())
        }
        _ => Err(Stop::error(format!("unsupported index type '{}' in list", key.type_name()))),
    }
}
