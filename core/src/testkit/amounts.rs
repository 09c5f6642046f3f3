//! Small values in statements about devices: attributes, capacities, quantities.

use crate::types::Text;
use crate::types::device::{
    AttributeValue, Capacity, DeviceTaintEffect, NANOS, PolicyValues, Quantity, RequestPolicy,
};

use super::words;

/// Reads the value of an attribute; see [`super::devices`].
pub fn attribute(text: &str) -> Result<AttributeValue, String> {
    if let Some(items) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return list(items);
    }
    if let Some(version) = text.strip_prefix("version(").and_then(|text| text.strip_suffix(')')) {
        return Ok(AttributeValue::Version(version.into()));
    }
    if let Some(quoted) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return Ok(AttributeValue::String(quoted.into()));
    }
    Ok(match (text, text.parse::<i64>()) {
        ("true", _) => AttributeValue::Bool(true),
        ("false", _) => AttributeValue::Bool(false),
        (_, Ok(int)) => AttributeValue::Int(int),
        (string, Err(_)) => AttributeValue::String(string.into()),
    })
}

fn list(items: &str) -> Result<AttributeValue, String> {
    let (mut bools, mut ints, mut strings, mut versions) = (vec![], vec![], vec![], vec![]);
    for item in items.split('+') {
        match attribute(item)? {
            AttributeValue::Bool(value) => bools.push(value),
            AttributeValue::Int(value) => ints.push(value),
            AttributeValue::String(value) => strings.push(value),
            AttributeValue::Version(value) => versions.push(value),
            other => return Err(format!("{other:?} can't be in a list")),
        }
    }
    match (bools.len(), ints.len(), strings.len(), versions.len()) {
        (_, 0, 0, 0) => Ok(AttributeValue::Bools(bools.into())),
        (0, _, 0, 0) => Ok(AttributeValue::Ints(ints.into())),
        (0, 0, _, 0) => Ok(AttributeValue::Strings(strings.into())),
        (0, 0, 0, _) => Ok(AttributeValue::Versions(versions.into())),
        _ => Err(format!("[{items}] mixes kinds")),
    }
}

/// Reads `name:quantity` or `name:quantity(policy)`.
pub fn capacity(word: &str) -> Result<Capacity, String> {
    let (name, rest) = word.split_once(':').ok_or("name:quantity is needed")?;
    let (value, policy) = match rest.split_once('(') {
        Some((value, policy)) => (value, Some(policy.trim_end_matches(')'))),
        None => (rest, None),
    };
    let policy = policy.map(request_policy).transpose()?;
    Ok(Capacity { name: name.into(), value: quantity(value)?, policy })
}

fn request_policy(text: &str) -> Result<RequestPolicy, String> {
    let (mut default, mut min, mut max, mut step, mut one_of) = (None, None, None, None, None);
    for (key, value) in words::pairs(text) {
        match key.as_str() {
            "default" => default = Some(quantity(&value)?),
            "min" => min = Some(quantity(&value)?),
            "max" => max = Some(quantity(&value)?),
            "step" => step = Some(quantity(&value)?),
            "one-of" => one_of = Some(value.split('+').map(quantity).collect::<Result<_, _>>()?),
            _ => return Err(format!("unknown part {key:?} of a policy")),
        }
    }
    let values = match (one_of, min) {
        (Some(values), _) => PolicyValues::OneOf(values),
        (None, Some(min)) => PolicyValues::Range { min, max, step },
        (None, None) => PolicyValues::Any,
    };
    Ok(RequestPolicy { default, values })
}

/// Reads `a=1,b=10Gi`, sorted by name.
pub fn amounts(text: &str) -> Result<Vec<(Text, Quantity)>, String> {
    let amount = |(name, value): (Text, Text)| Ok::<_, String>((name, quantity(&value)?));
    let mut amounts: Vec<_> =
        words::pairs(text).into_iter().map(amount).collect::<Result<_, _>>()?;
    amounts.sort();
    Ok(amounts)
}

/// Effects that aren't known count as none, as for the decoder.
pub fn effect(text: &str) -> DeviceTaintEffect {
    match text {
        "NoSchedule" => DeviceTaintEffect::NoSchedule,
        "NoExecute" => DeviceTaintEffect::NoExecute,
        _ => DeviceTaintEffect::None,
    }
}

/// Reads a quantity exactly.
pub fn quantity(text: &str) -> Result<Quantity, String> {
    const UNITS: [(&str, i128); 10] = [
        ("Ki", NANOS << 10),
        ("Mi", NANOS << 20),
        ("Gi", NANOS << 30),
        ("Ti", NANOS << 40),
        ("k", NANOS * 1_000),
        ("M", NANOS * 1_000_000),
        ("G", NANOS * 1_000_000_000),
        ("T", NANOS * 1_000_000_000_000),
        ("m", NANOS / 1_000),
        ("n", 1),
    ];
    let bad = || format!("{text:?} is no quantity");
    let unit = UNITS.iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, *nanos)));
    let (number, unit) = unit.unwrap_or((text, NANOS));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| bad())?;
    let scale = 10_i128.checked_pow(fraction.len() as u32).ok_or_else(bad)?;
    let nanos = digits.checked_mul(unit).ok_or_else(bad)? / scale;
    Ok(Quantity { nanos, text: text.into() })
}
