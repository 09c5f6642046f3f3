//! Optionals. `or` and `orValue` evaluate their argument only if needed, so the evaluator has them.

use super::table::{Binding, Library};
use crate::meter::Stop;
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    let fixed = Binding::Fixed;
    library.global(
        "optional.of",
        "optional_of",
        "V: optional(V)",
        fixed(|_, args| match args {
            [value] => Ok(Value::some(value.clone())),
            _ => Err(Stop::no_overload()),
        }),
    );
    let non_zero = fixed(|_, args| match args {
        [value] if value.is_zero() => Ok(Value::none()),
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Stop::no_overload()),
    });
    library.global(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        "V: optional(V)",
        non_zero,
    );
    let none = Binding::Variadic(|_, _| Ok(Value::none()));
    library.global("optional.none", "optional_none", "optional(V)", none);
    library.member(
        "value",
        "optional_value",
        "optional(V): V",
        fixed(|_, args| match args {
            [Value::Optional(Some(value))] => Ok(value.as_ref().clone()),
            [Value::Optional(None)] => Err(Stop::error("optional.none() dereference")),
            _ => Err(Stop::no_overload()),
        }),
    );
    let has_value = fixed(|_, args| match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Stop::no_overload()),
    });
    library.member("hasValue", "optional_hasValue", "optional(V): bool", has_value);
    let either = "optional(V), optional(V): optional(V)";
    library.member("or", "optional_or_optional", either, Binding::None);
    library.member("orValue", "optional_orValue_value", "optional(V), V: V", Binding::None);
    selections(library);
    lists(library);
}

/// Selections with `?`, and those on optionals.
fn selections(library: &mut Library) {
    for (name, id, signature) in [
        ("_[?_]", "list_optindex", "list(V), int: optional(V)"),
        ("_[?_]", "optional_list_optindex", "optional(list(V)), int: optional(V)"),
        ("_[?_]", "map_optindex", "map(K, V), K: optional(V)"),
        ("_[?_]", "optional_map_optindex", "optional(map(K, V)), K: optional(V)"),
        ("_[_]", "optional_list_index", "optional(list(V)), int: optional(V)"),
        ("_[_]", "optional_map_index", "optional(map(K, V)), K: optional(V)"),
    ] {
        library.global(name, id, signature, Binding::None);
    }
}

fn lists(library: &mut Library) {
    let fixed = Binding::Fixed;
    library.member(
        "last",
        "list_last",
        "list(V): optional(V)",
        fixed(|_, args| match args {
            [Value::List(list)] => {
                let last = list.len().checked_sub(1).and_then(|last| list.get(last));
                Ok(last.map_or_else(Value::none, Value::some))
            }
            _ => Err(Stop::no_overload()),
        }),
    );
    library.member(
        "first",
        "list_first",
        "list(V): optional(V)",
        fixed(|_, args| match args {
            [Value::List(list)] => Ok(list.get(0).map_or_else(Value::none, Value::some)),
            _ => Err(Stop::no_overload()),
        }),
    );
    let unwrap = fixed(|meter, args| {
        let [Value::List(list)] = args else { return Err(Stop::no_overload()) };
        meter.work(list.len())?;
        let mut values = Vec::new();
        for element in list.iter() {
            match element {
                Value::Optional(Some(value)) => values.push(value.as_ref().clone()),
                Value::Optional(None) => {}
                other => return Err(Stop::error(format!("value {other} is not optional"))),
            }
        }
        Ok(Value::list(values))
    });
    library.global("optional.unwrap", "optional_unwrap", "list(optional(V)): list(V)", unwrap);
    library.member("unwrapOpt", "optional_unwrapOpt", "list(optional(V)): list(V)", unwrap);
}
