//! Lists as sets: `sets.contains`, `sets.equivalent` and `sets.intersects`.

use super::compare;
use super::table::{Binding, Library};
use crate::meter::{Eval, Meter, Stop};
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    let signature = "list(T), list(T): bool";
    let fixed = Binding::Fixed;
    library.global(
        "sets.contains",
        "list_sets_contains_list",
        signature,
        fixed(|meter, args| {
            let [list, part] = args else { return Err(Stop::no_overload()) };
            has_all(meter, list, part).map(Value::Bool)
        }),
    );
    library.global(
        "sets.equivalent",
        "list_sets_equivalent_list",
        signature,
        fixed(|meter, args| {
            let [left, right] = args else { return Err(Stop::no_overload()) };
            Ok(Value::Bool(has_all(meter, left, right)? && has_all(meter, right, left)?))
        }),
    );
    library.global(
        "sets.intersects",
        "list_sets_intersects_list",
        signature,
        fixed(|meter, args| {
            let [Value::List(left), right] = args else { return Err(Stop::no_overload()) };
            for element in left.iter() {
                if compare::contains(meter, right, &element)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }),
    );
}

fn has_all<'a>(meter: &mut Meter, list: &Value<'a>, part: &Value<'a>) -> Eval<bool> {
    let Value::List(part) = part else { return Err(Stop::no_overload()) };
    for element in part.iter() {
        if !compare::contains(meter, list, &element)? {
            return Ok(false);
        }
    }
    Ok(true)
}
