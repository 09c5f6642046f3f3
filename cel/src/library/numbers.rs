//! Arithmetic with overflow as an error, and numbers of different types compared.

use std::cmp::Ordering;

use crate::meter::{Eval, Stop};
use crate::value::Value;

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// Compares two numbers; nothing if one is NaN or none.
pub(super) fn compare(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Uint(right)) => Some(int_uint(*left, *right)),
        (Value::Uint(left), Value::Int(right)) => Some(int_uint(*right, *left).reverse()),
        (Value::Double(left), Value::Int(right)) => double_int(*left, *right),
        (Value::Int(left), Value::Double(right)) => {
            double_int(*right, *left).map(Ordering::reverse)
        }
        (Value::Double(left), Value::Uint(right)) => double_uint(*left, *right),
        (Value::Uint(left), Value::Double(right)) => {
            double_uint(*right, *left).map(Ordering::reverse)
        }
        _ => None,
    }
}

fn int_uint(int: i64, uint: u64) -> Ordering {
    u64::try_from(int).map_or(Ordering::Less, |int| int.cmp(&uint))
}

fn double_int(double: f64, int: i64) -> Option<Ordering> {
    if double < -TWO_TO_63 {
        return Some(Ordering::Less);
    }
    if double > TWO_TO_63 {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&(int as f64))
}

fn double_uint(double: f64, uint: u64) -> Option<Ordering> {
    if double < 0.0 {
        return Some(Ordering::Less);
    }
    if double > TWO_TO_64 {
        return Some(Ordering::Greater);
    }
    double.partial_cmp(&(uint as f64))
}

pub(super) fn double_to_int(double: f64) -> Option<i64> {
    let fits = double > -TWO_TO_63 && double < TWO_TO_63;
    // The range is checked, so that nothing but the fraction is lost.
    #[allow(clippy::cast_possible_truncation)]
    fits.then_some(double as i64)
}

pub(super) fn double_to_uint(double: f64) -> Option<u64> {
    let fits = (0.0..TWO_TO_64).contains(&double);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fits.then_some(double as u64)
}

/// Returns the same whole number as an int.
pub(crate) fn lossless_int(double: f64) -> Option<i64> {
    double_to_int(double).filter(|int| *int as f64 == double)
}

/// Returns the same whole number as a uint.
pub(crate) fn lossless_uint(double: f64) -> Option<u64> {
    double_to_uint(double).filter(|uint| *uint as f64 == double)
}

#[derive(Clone, Copy)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// Applies an operator to two numbers of one type.
pub(super) fn apply<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Eval<Value<'a>> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(operator, *left, *right).map(Value::Int),
        (Value::Uint(left), Value::Uint(right)) => uint(operator, *left, *right).map(Value::Uint),
        (Value::Double(left), Value::Double(right)) => {
            double(operator, *left, *right).map(Value::Double)
        }
        _ => Err(Stop::no_overload()),
    }
}

fn int(operator: Operator, left: i64, right: i64) -> Eval<i64> {
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide if right == 0 => return Err(Stop::error("division by zero")),
        Operator::Divide => left.checked_div(right),
        Operator::Modulo if right == 0 => return Err(Stop::error("modulus by zero")),
        Operator::Modulo => left.checked_rem(right),
    };
    result.ok_or_else(|| Stop::error("integer overflow"))
}

fn uint(operator: Operator, left: u64, right: u64) -> Eval<u64> {
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide if right == 0 => return Err(Stop::error("division by zero")),
        Operator::Divide => left.checked_div(right),
        Operator::Modulo if right == 0 => return Err(Stop::error("modulus by zero")),
        Operator::Modulo => left.checked_rem(right),
    };
    result.ok_or_else(|| Stop::error("unsigned integer overflow"))
}

fn double(operator: Operator, left: f64, right: f64) -> Eval<f64> {
    Ok(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => return Err(Stop::no_overload()),
    })
}
