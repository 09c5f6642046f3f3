//! Functions of quantities.

use std::cmp::Ordering;
use std::sync::Arc;

use super::table::{Binding, Library};
use crate::meter::{Eval, Stop};
use crate::quantity::Quantity;
use crate::value::{Held, Value};

type Args<'v, 'a> = &'v [Value<'a>];

pub(super) fn declare(library: &mut Library) {
    let fixed = Binding::Fixed;
    let parse = fixed(|_, args| match args {
        [Value::Text(text)] => match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Quantity(Held::Shared(Arc::new(quantity)))),
            Err(error) => Err(Stop::error(error.to_string())),
        },
        _ => Err(Stop::no_overload()),
    });
    library.global("quantity", "string_to_quantity", "string: quantity", parse);
    let is = fixed(|_, args| match args {
        [Value::Text(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => Err(Stop::no_overload()),
    });
    library.global("isQuantity", "is_quantity_string", "string: bool", is);
    let sign = fixed(|_, args| one(args, |quantity| Ok(Value::Int(quantity.sign()))));
    library.global("sign", "quantity_sign", "quantity: int", sign);
    comparisons(library);
    let float = fixed(|_, args| one(args, |quantity| Ok(Value::Double(quantity.as_float()))));
    library.member("asApproximateFloat", "quantity_get_float", "quantity: double", float);
    let int = fixed(|_, args| {
        one(args, |quantity| {
            let int = quantity.as_int().map(Value::Int);
            int.ok_or_else(|| Stop::error("cannot convert value to integer"))
        })
    });
    library.member("asInteger", "quantity_get_int", "quantity: int", int);
    let is_int =
        fixed(|_, args| one(args, |quantity| Ok(Value::Bool(quantity.as_int().is_some()))));
    library.member("isInteger", "quantity_is_integer", "quantity: bool", is_int);
    let add = fixed(|_, args| combine(args, Quantity::add));
    library.member("add", "quantity_add", "quantity, quantity: quantity", add);
    library.member("add", "quantity_add_int", "quantity, int: quantity", add);
    let sub = fixed(|_, args| combine(args, Quantity::sub));
    library.member("sub", "quantity_sub", "quantity, quantity: quantity", sub);
    library.member("sub", "quantity_sub_int", "quantity, int: quantity", sub);
}

fn comparisons(library: &mut Library) {
    let fixed = Binding::Fixed;
    let signature = "quantity, quantity: bool";
    let greater = fixed(|_, args| Ok(Value::Bool(order(args)?.is_gt())));
    library.member("isGreaterThan", "quantity_is_greater_than", signature, greater);
    let less = fixed(|_, args| Ok(Value::Bool(order(args)?.is_lt())));
    library.member("isLessThan", "quantity_is_less_than", signature, less);
    let compare = fixed(|_, args| Ok(Value::Int(order(args)? as i64)));
    library.member("compareTo", "quantity_compare_to", "quantity, quantity: int", compare);
}

fn one<'a>(args: Args<'_, 'a>, apply: impl Fn(&Quantity) -> Eval<Value<'a>>) -> Eval<Value<'a>> {
    match args {
        [value] => apply(value.as_quantity().ok_or_else(Stop::no_overload)?),
        _ => Err(Stop::no_overload()),
    }
}

fn order(args: Args<'_, '_>) -> Eval<Ordering> {
    match args {
        [left, right] => match (left.as_quantity(), right.as_quantity()) {
            (Some(left), Some(right)) => Ok(left.cmp(right)),
            _ => Err(Stop::no_overload()),
        },
        _ => Err(Stop::no_overload()),
    }
}

fn combine<'a>(
    args: Args<'_, 'a>,
    apply: fn(&Quantity, &Quantity) -> Option<Quantity>,
) -> Eval<Value<'a>> {
    let [left, right] = args else { return Err(Stop::no_overload()) };
    let left = left.as_quantity().ok_or_else(Stop::no_overload)?;
    let result = match right {
        Value::Int(int) => apply(left, &Quantity::from_int(*int)),
        other => apply(left, other.as_quantity().ok_or_else(Stop::no_overload)?),
    };
    let sum = result.ok_or_else(|| Stop::error("the quantity has too many digits"))?;
    Ok(Value::Sum(Arc::new(sum)))
}
