//! Equality and order of values.

use std::cmp::Ordering;

use super::numbers;
use crate::meter::{Eval, Limit, Meter, Stop};
use crate::value::{Map, Value};

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Equality {
    Equal,
    Different,
    /// The left side can't be compared with such a thing.
    NoOverload,
}

impl From<bool> for Equality {
    fn from(equal: bool) -> Self {
        if equal { Self::Equal } else { Self::Different }
    }
}

/// Compares as `==` does: null equals null only.
pub(crate) fn equal<'a>(meter: &mut Meter, left: &Value<'a>, right: &Value<'a>) -> Eval<Equality> {
    match (left, right) {
        (Value::Null, Value::Null) => Ok(Equality::Equal),
        (Value::Null, _) | (_, Value::Null) => Ok(Equality::Different),
        _ => same(meter, left, right),
    }
}

/// Compares as the left value's own comparison does.
pub(super) fn same<'a>(meter: &mut Meter, left: &Value<'a>, right: &Value<'a>) -> Eval<Equality> {
    let equal = match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => numbers::compare(left, right) == Some(Ordering::Equal),
        (Value::Text(left), Value::Text(right)) => {
            meter.work(left.len() / 64)?;
            **left == **right
        }
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::Timestamp(left), Value::Timestamp(right)) => left.instant() == right.instant(),
        (Value::Type(left), Value::Type(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len()
                && meter.deeper(|meter| all_equal(meter, left.iter().zip(right.iter())))?
        }
        (Value::Map(left), Value::Map(right)) => {
            left.len() == right.len() && meter.deeper(|meter| same_entries(meter, left, right))?
        }
        (Value::Optional(left), Value::Optional(right)) => match (left, right) {
            (None, None) => true,
            (Some(left), Some(right)) => {
                return meter.deeper(|meter| same(meter, left, right));
            }
            _ => false,
        },
        (Value::Quantity(left), Value::Quantity(right)) => **left == **right,
        (Value::Sum(left), Value::Quantity(right)) => **left == **right,
        (Value::Semver(left), Value::Semver(right)) => **left == **right,
        (Value::Url(left), Value::Url(right)) => left == right,
        (Value::Ip(left), Value::Ip(right)) => left == right,
        (Value::Cidr(left), Value::Cidr(right)) => left == right,
        (Value::Format(left), Value::Format(right)) => left.name() == right.name(),
        (
            Value::Quantity(_)
            | Value::Sum(_)
            | Value::Semver(_)
            | Value::Url(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_),
            _,
        ) => return Ok(Equality::NoOverload),
        _ => false,
    };
    Ok(equal.into())
}

fn same_entries<'a>(meter: &mut Meter, left: &Map<'a>, right: &Map<'a>) -> Eval<bool> {
    for (key, value) in left.iter() {
        let Some(other) = right.find(&key) else { return Ok(false) };
        if !all_equal(meter, [(value, other)].into_iter())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Within lists and maps only a plain difference counts, as upstream has it.
fn all_equal<'a>(
    meter: &mut Meter,
    pairs: impl Iterator<Item = (Value<'a>, Value<'a>)>,
) -> Eval<bool> {
    for (left, right) in pairs {
        meter.work(1)?;
        if equal(meter, &left, &right)? == Equality::Different {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a list or map has a value, by the value's own comparison.
pub(super) fn contains<'a>(meter: &mut Meter, within: &Value<'a>, value: &Value<'a>) -> Eval<bool> {
    match within {
        Value::List(list) => {
            for element in list.iter() {
                meter.work(1)?;
                if same(meter, value, &element)? == Equality::Equal {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map @ Map::Made(_)) if map.len() > 0 && !value.is_hashable() => {
            Err(Stop::Limit(Limit::Broken))
        }
        Value::Map(map) => Ok(map.contains(value)),
        _ => Err(Stop::no_overload()),
    }
}

/// Whether values of this kind have an order.
pub(super) fn has_order(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
    )
}

/// Orders two values.
pub(super) fn order(left: &Value<'_>, right: &Value<'_>) -> Eval<Ordering> {
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => numbers::compare(left, right)
            .ok_or_else(|| Stop::error("NaN values cannot be ordered"))?,
        (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (Value::Timestamp(left), Value::Timestamp(right)) => left.instant().cmp(&right.instant()),
        _ => return Err(Stop::no_overload()),
    })
}
