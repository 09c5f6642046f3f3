//! Kubernetes' functions of lists, and CEL's lists extension, version 3.

use std::cmp::Ordering;

use super::compare::{self, Equality, same};
use super::numbers::{self, Operator};
use super::table::{Binding, Library};
use super::time;
use crate::meter::{Eval, Meter, Stop};
use crate::value::{List, Value};

type Args<'v, 'a> = &'v [Value<'a>];

const ORDERED: [&str; 8] =
    ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];

pub(super) fn declare(library: &mut Library) {
    extension(library);
    kubernetes(library);
}

fn extension(library: &mut Library) {
    let fixed = Binding::Fixed;
    let slice = Binding::Variadic(slice);
    library.member("slice", "list_slice", "list(T), int, int: list(T)", slice);
    library.member("flatten", "list_flatten", "list(list(T)): list(T)", fixed(flatten));
    library.member("flatten", "list_flatten_int", "list(dyn), int: list(dyn)", fixed(flatten));
    library.unguarded("flatten");
    for kind in ORDERED {
        library.member("sort", "list_sort", &format!("list({kind}): list({kind})"), Binding::None);
        let signature = format!("list(T), list({kind}): list(T)");
        library.member("@sortByAssociatedKeys", "list_sort_by", &signature, Binding::None);
    }
    library.singleton(
        "sort",
        fixed(|meter, args| match args {
            [Value::List(list)] => sort(meter, list, list),
            _ => Err(Stop::no_overload()),
        }),
    );
    library.singleton(
        "@sortByAssociatedKeys",
        fixed(|meter, args| match args {
            [Value::List(list), Value::List(keys)] => sort(meter, list, keys),
            _ => Err(Stop::no_overload()),
        }),
    );
    library.global("lists.range", "lists_range", "int: list(int)", fixed(range));
    library.member("reverse", "list_reverse", "list(T): list(T)", fixed(reverse));
    library.member("distinct", "list_distinct", "list(T): list(T)", fixed(distinct));
    library.global("cel.@mapInsert", "map_insert_key", "map(K, V), K, V: map(K, V)", Binding::None);
    library.global(
        "cel.@mapInsert",
        "map_insert_map",
        "map(K, V), map(K, V): map(K, V)",
        Binding::None,
    );
}

fn kubernetes(library: &mut Library) {
    let fixed = Binding::Fixed;
    for kind in ORDERED {
        library.member("isSorted", "is_sorted", &format!("list({kind}): bool"), fixed(is_sorted));
    }
    for (kind, sum) in [
        ("int", (|_, args| sum(args, Value::Int(0))) as super::Call),
        ("uint", |_, args| sum(args, Value::Uint(0))),
        ("double", |_, args| sum(args, Value::Double(0.0))),
        ("duration", |_, args| sum(args, Value::Duration(0))),
    ] {
        library.member("sum", "sum", &format!("list({kind}): {kind}"), fixed(sum));
    }
    for kind in ORDERED {
        let signature = format!("list({kind}): {kind}");
        let max = fixed(|_, args| extreme(args, "max", Ordering::Less));
        library.member("max", "max", &signature, max);
        let min = fixed(|_, args| extreme(args, "min", Ordering::Greater));
        library.member("min", "min", &signature, min);
    }
    let first = fixed(|meter, args| index_of(meter, args, false));
    library.member("indexOf", "list_a_index_of_int", "list(A), A: int", first);
    let last = fixed(|meter, args| index_of(meter, args, true));
    library.member("lastIndexOf", "list_a_last_index_of_int", "list(A), A: int", last);
    library.member("includes", "list_includes_dyn_dyn", "dyn, dyn: bool", fixed(includes));
}

fn the_list<'v, 'a>(args: Args<'v, 'a>) -> Eval<&'v List<'a>> {
    match args.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Stop::no_overload()),
    }
}

fn slice<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(Stop::no_overload());
    };
    let wrong = |why: &str| Stop::error(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(wrong("negative indexes not supported"));
    };
    if from > to {
        return Err(wrong("start index must be less than or equal to end index"));
    }
    if to > list.len() {
        return Err(wrong(&format!("list is length {}", list.len())));
    }
    meter.work(to - from)?;
    Ok(Value::list((from..to).filter_map(|index| list.get(index)).collect()))
}

fn flatten<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let depth = match args {
        [_] => 1,
        [_, Value::Int(depth)] => *depth,
        _ => return Err(Stop::no_overload()),
    };
    if depth < 0 {
        return Err(Stop::error("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(meter, &mut flat, the_list(args)?, depth)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    meter: &mut Meter,
    flat: &mut Vec<Value<'a>>,
    list: &List<'a>,
    depth: i64,
) -> Eval<()> {
    for element in list.iter() {
        meter.work(1)?;
        match element {
            Value::List(inner) if depth > 0 => {
                meter.deeper(|meter| flatten_into(meter, flat, &inner, depth - 1))?;
            }
            other => flat.push(other),
        }
    }
    Ok(())
}

/// Sorts a list by keys; equal keys keep their order.
fn sort<'a>(meter: &mut Meter, list: &List<'a>, keys: &List<'a>) -> Eval<Value<'a>> {
    if list.len() != keys.len() {
        let message = format!("a list of {} can't be sorted by {} keys", list.len(), keys.len());
        return Err(Stop::error(message));
    }
    let Some(first) = keys.get(0) else { return Ok(Value::List(list.clone())) };
    if !compare::has_order(&first) {
        return Err(Stop::error("list elements must be comparable"));
    }
    let same_type = |key: &Value<'_>| key.type_name() == first.type_name();
    if keys.len() > 1 && !keys.iter().all(|key| same_type(&key)) {
        return Err(Stop::error("list elements must have the same type"));
    }
    meter.work(keys.len() * 16)?;
    let mut sorted: Vec<(Value<'a>, Value<'a>)> = keys.iter().zip(list.iter()).collect();
    sorted.sort_by(|(left, _), (right, _)| compare::order(left, right).unwrap_or(Ordering::Equal));
    Ok(Value::list(sorted.into_iter().map(|(_, value)| value).collect()))
}

fn range<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [Value::Int(size)] = args else { return Err(Stop::no_overload()) };
    let Ok(units) = u64::try_from(*size) else {
        let message = format!("lists.range: size must be non-negative, got {size}");
        return Err(Stop::error(message));
    };
    meter.foresee(units)?;
    Ok(Value::list((0..*size).map(Value::Int).collect()))
}

fn reverse<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let list = the_list(args)?;
    meter.work(list.len())?;
    let mut reversed: Vec<Value<'a>> = list.iter().collect();
    reversed.reverse();
    Ok(Value::list(reversed))
}

fn distinct<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    for (place, value) in the_list(args)?.iter().enumerate() {
        let mut seen = false;
        for (index, other) in unique.iter().enumerate() {
            meter.work(1)?;
            if index != place && same(meter, &value, other)? == Equality::Equal {
                seen = true;
                break;
            }
        }
        if !seen {
            unique.push(value);
        }
    }
    Ok(Value::list(unique))
}

fn is_sorted<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let mut before: Option<Value<'a>> = None;
    for value in the_list(args)?.iter() {
        if !compare::has_order(&value) {
            return Err(Stop::no_overload());
        }
        let descends = |before| matches!(compare::order(before, &value), Ok(Ordering::Greater));
        if before.as_ref().is_some_and(descends) {
            return Ok(Value::Bool(false));
        }
        before = Some(value);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: Args<'_, 'a>, zero: Value<'a>) -> Eval<Value<'a>> {
    let mut sum = zero;
    for value in the_list(args)?.iter() {
        sum = match sum {
            Value::Duration(_) => time::add(&sum, &value)?,
            _ => numbers::apply(Operator::Add, &sum, &value)?,
        };
    }
    Ok(sum)
}

/// Returns the element that the others are not beyond; `worse` is how one compares that gives way.
fn extreme<'a>(args: Args<'_, 'a>, name: &str, worse: Ordering) -> Eval<Value<'a>> {
    let mut best: Option<Value<'a>> = None;
    for value in the_list(args)?.iter() {
        if !compare::has_order(&value) {
            return Err(Stop::no_overload());
        }
        best = Some(match best {
            Some(best) if compare::order(&best, &value) != Ok(worse) => best,
            _ => value,
        });
    }
    best.ok_or_else(|| Stop::error(format!("{name} called on empty list")))
}

fn index_of<'a>(meter: &mut Meter, args: Args<'_, 'a>, last: bool) -> Eval<Value<'a>> {
    let [Value::List(list), wanted] = args else { return Err(Stop::no_overload()) };
    let mut found = -1;
    for (index, value) in list.iter().enumerate() {
        meter.work(1)?;
        if same(meter, &value, wanted)? == Equality::Equal {
            found = i64::try_from(index).unwrap_or(i64::MAX);
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

/// Whether a list has a value, or a single value is it.
fn includes<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [target, wanted] = args else { return Err(Stop::no_overload()) };
    let Value::List(list) = target else {
        return Ok(Value::Bool(same(meter, target, wanted)? == Equality::Equal));
    };
    for value in list.iter() {
        meter.work(1)?;
        if same(meter, &value, wanted)? == Equality::Equal {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
