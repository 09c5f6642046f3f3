//! CEL's standard operators, conversions and string tests.

use std::cmp::Ordering;
use std::sync::Arc;

use super::numbers::{self, Operator};
use super::table::{Binding, Library};
use super::{compare, net, regex, time};
use crate::meter::{Eval, Meter, Stop};
use crate::value::Value;

type Args<'v, 'a> = &'v [Value<'a>];

pub(super) fn declare(library: &mut Library) {
    logic(library);
    arithmetic(library);
    comparisons(library);
    collections(library);
    conversions(library);
    text_tests(library);
}

fn logic(library: &mut Library) {
    library.global("_?_:_", "conditional", "bool, A, A: A", Binding::None);
    library.global("_&&_", "logical_and", "bool, bool: bool", Binding::None);
    library.global("_||_", "logical_or", "bool, bool: bool", Binding::None);
    library.global("!_", "logical_not", "bool: bool", Binding::None);
    library.singleton(
        "!_",
        Binding::Fixed(|_, args| match args {
            [Value::Bool(value)] => Ok(Value::Bool(!value)),
            _ => Err(Stop::no_overload()),
        }),
    );
    library.global("@not_strictly_false", "not_strictly_false", "bool: bool", Binding::None);
    library.global("_==_", "equals", "A, A: bool", Binding::None);
    library.global("_!=_", "not_equals", "A, A: bool", Binding::None);
}

fn arithmetic(library: &mut Library) {
    for (id, signature) in [
        ("add_bytes", "bytes, bytes: bytes"),
        ("add_double", "double, double: double"),
        ("add_duration_duration", "duration, duration: duration"),
        ("add_duration_timestamp", "duration, timestamp: timestamp"),
        ("add_timestamp_duration", "timestamp, duration: timestamp"),
        ("add_int64", "int, int: int"),
        ("add_list", "list(A), list(A): list(A)"),
        ("add_string", "string, string: string"),
        ("add_uint64", "uint, uint: uint"),
    ] {
        library.global("_+_", id, signature, Binding::None);
    }
    library.singleton("_+_", Binding::Fixed(add));
    for (name, kinds, call) in [
        ("_/_", &["double", "int", "uint"][..], divide as super::Call),
        ("_%_", &["int", "uint"], modulo),
        ("_*_", &["double", "int", "uint"], multiply),
        ("_-_", &["double", "duration", "int"], subtract),
    ] {
        for kind in kinds {
            library.global(name, "arithmetic", &format!("{kind}, {kind}: {kind}"), Binding::None);
        }
        library.singleton(name, Binding::Fixed(call));
    }
    library.global("_-_", "subtract", "timestamp, duration: timestamp", Binding::None);
    library.global("_-_", "subtract", "timestamp, timestamp: duration", Binding::None);
    library.global("_-_", "subtract", "uint, uint: uint", Binding::None);
    library.global("-_", "negate_double", "double: double", Binding::None);
    library.global("-_", "negate_int64", "int: int", Binding::None);
    library.singleton("-_", Binding::Fixed(negate));
}

fn add<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [left, right] = args else { return Err(Stop::no_overload()) };
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            meter.foresee(((left.len() + right.len()) / 40) as u64)?;
            Ok(Value::text([&**left, &**right].concat()))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            meter.foresee(((left.len() + right.len()) / 10) as u64)?;
            Ok(Value::Bytes(Arc::from([&**left, &**right].concat())))
        }
        (Value::List(left), Value::List(right)) => {
            meter.work(left.len() + right.len())?;
            Ok(Value::List(left.clone().append(right.iter())))
        }
        (Value::Duration(_) | Value::Timestamp(_), _) => time::add(left, right),
        _ => numbers::apply(Operator::Add, left, right),
    }
}

fn subtract<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    match args {
        [left @ (Value::Duration(_) | Value::Timestamp(_)), right] => time::subtract(left, right),
        [left, right] => numbers::apply(Operator::Subtract, left, right),
        _ => Err(Stop::no_overload()),
    }
}

fn multiply<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    binary(Operator::Multiply, args)
}

fn divide<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    binary(Operator::Divide, args)
}

fn modulo<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    binary(Operator::Modulo, args)
}

fn binary<'a>(operator: Operator, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    match args {
        [left, right] => numbers::apply(operator, left, right),
        _ => Err(Stop::no_overload()),
    }
}

fn negate<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let overflow = || Stop::error("integer overflow");
    match args {
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Duration(nanos)] => nanos.checked_neg().map(Value::Duration).ok_or_else(overflow),
        _ => Err(Stop::no_overload()),
    }
}

/// What can be ordered with what.
const ORDERED: [&str; 14] = [
    "bool, bool",
    "int, int",
    "int, double",
    "int, uint",
    "uint, uint",
    "uint, double",
    "uint, int",
    "double, double",
    "double, int",
    "double, uint",
    "string, string",
    "bytes, bytes",
    "timestamp, timestamp",
    "duration, duration",
];

fn comparisons(library: &mut Library) {
    let operators: [(&str, super::Call); 4] = [
        ("_<_", |_, args| ordered(args, Ordering::is_lt)),
        ("_<=_", |_, args| ordered(args, Ordering::is_le)),
        ("_>_", |_, args| ordered(args, Ordering::is_gt)),
        ("_>=_", |_, args| ordered(args, Ordering::is_ge)),
    ];
    for (name, call) in operators {
        for kinds in ORDERED {
            // Costs tell texts and bytes from the rest.
            let id = match kinds {
                "string, string" | "bytes, bytes" => "compare_text",
                _ => "compare",
            };
            library.global(name, id, &format!("{kinds}: bool"), Binding::None);
        }
        library.singleton(name, Binding::Fixed(call));
    }
}

fn ordered<'a>(args: Args<'_, 'a>, holds: fn(Ordering) -> bool) -> Eval<Value<'a>> {
    match args {
        [left, right] => compare::order(left, right).map(|order| Value::Bool(holds(order))),
        _ => Err(Stop::no_overload()),
    }
}

fn collections(library: &mut Library) {
    library.global("_[_]", "index_list", "list(A), int: A", Binding::None);
    library.global("_[_]", "index_map", "map(A, B), A: B", Binding::None);
    library.global("@in", "in_list", "A, list(A): bool", Binding::None);
    library.global("@in", "in_map", "A, map(A, B): bool", Binding::None);
    library.singleton(
        "@in",
        Binding::Fixed(|meter, args| match args {
            [value, within] => compare::contains(meter, within, value).map(Value::Bool),
            _ => Err(Stop::no_overload()),
        }),
    );
    for kind in ["bytes", "list(A)", "map(A, B)", "string"] {
        library.global("size", "size", &format!("{kind}: int"), Binding::None);
        library.member("size", "size", &format!("{kind}: int"), Binding::None);
    }
    library.singleton(
        "size",
        Binding::Fixed(|_, args| match args {
            [value @ (Value::Text(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
                Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => Err(Stop::no_overload()),
        }),
    );
}

fn conversions(library: &mut Library) {
    library.global("type", "type", "A: type(A)", Binding::None);
    library.singleton(
        "type",
        Binding::Fixed(|_, args| match args {
            [value] => Ok(Value::Type(value.type_name())),
            _ => Err(Stop::no_overload()),
        }),
    );
    library.global("dyn", "to_dyn", "A: dyn", Binding::None);
    library.singleton(
        "dyn",
        Binding::Fixed(|_, args| match args {
            [value] => Ok(value.clone()),
            _ => Err(Stop::no_overload()),
        }),
    );
    let targets: [(&'static str, &[&str], super::Call); 6] = [
        ("bool", &["bool", "string"], to_bool),
        ("bytes", &["bytes", "string"], to_bytes),
        ("double", &["double", "int", "string", "uint"], to_double),
        ("int", &["int", "double", "duration", "string", "timestamp", "uint"], to_int),
        (
            "string",
            &[
                "string",
                "bool",
                "bytes",
                "double",
                "duration",
                "int",
                "timestamp",
                "uint",
                "ip",
                "cidr",
            ],
            to_string,
        ),
        ("uint", &["uint", "double", "int", "string"], to_uint),
    ];
    for (target, sources, call) in targets {
        for source in sources {
            let id = match (*source, target) {
                ("string", "bytes") => "string_to_bytes",
                ("bytes", "string") => "bytes_to_string",
                _ => "convert",
            };
            library.global(target, id, &format!("{source}: {target}"), Binding::Fixed(call));
        }
    }
}

fn cannot<'a>(value: &Value<'_>, to: &str) -> Eval<Value<'a>> {
    Err(Stop::error(format!("type conversion error from '{}' to '{to}'", value.type_name())))
}

fn to_bool<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [value @ Value::Text(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => cannot(value, "bool"),
        },
        _ => Err(Stop::no_overload()),
    }
}

fn to_bytes<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.clone())),
        [Value::Text(text)] => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => Err(Stop::no_overload()),
    }
}

fn to_double<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [value @ Value::Text(text)] => match parse_double(text) {
            Some(parsed) => Ok(Value::Double(parsed)),
            None => cannot(value, "double"),
        },
        _ => Err(Stop::no_overload()),
    }
}

/// Reads a number; one that is written in digits must be finite.
fn parse_double(text: &str) -> Option<f64> {
    let parsed: f64 = text.parse().ok()?;
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    (parsed.is_finite() || !digits).then_some(parsed)
}

fn to_int<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let overflow = || Stop::error("integer overflow");
    match args {
        [Value::Int(value)] => Ok(Value::Int(*value)),
        [Value::Double(value)] => {
            numbers::double_to_int(*value).map(Value::Int).ok_or_else(overflow)
        }
        [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(timestamp)] => Ok(Value::Int(timestamp.unix_seconds())),
        [value @ Value::Text(text)] => match text.parse() {
            Ok(parsed) => Ok(Value::Int(parsed)),
            Err(_) => cannot(value, "int"),
        },
        _ => Err(Stop::no_overload()),
    }
}

fn to_uint<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let overflow = || Stop::error("unsigned integer overflow");
    match args {
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Double(value)] => {
            numbers::double_to_uint(*value).map(Value::Uint).ok_or_else(overflow)
        }
        [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        [value @ Value::Text(text)] => match text.parse() {
            Ok(parsed) if !text.starts_with('+') => Ok(Value::Uint(parsed)),
            _ => cannot(value, "uint"),
        },
        _ => Err(Stop::no_overload()),
    }
}

fn to_string<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    match args {
        [value @ Value::Text(_)] => Ok(value.clone()),
        [Value::Ip(ip)] => Ok(Value::text(ip.to_string())),
        [Value::Cidr(cidr)] => Ok(Value::text(net::show(cidr))),
        [value] => shown(value).map(Value::text),
        _ => Err(Stop::no_overload()),
    }
}

/// Returns a simple value as `string(x)` and `%s` show it.
pub(super) fn shown(value: &Value<'_>) -> Eval<String> {
    Ok(match value {
        Value::Text(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => show_double(*value),
        Value::Duration(nanos) => time::show_duration(*nanos),
        Value::Timestamp(timestamp) => timestamp.to_string(),
        Value::Type(name) => (*name).to_owned(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Err(Stop::error("invalid UTF-8 in bytes, cannot convert to string"));
            }
        },
        _ => return Err(Stop::no_overload()),
    })
}

/// From which exponent on Go's shortest `%g` takes the scientific form.
const SCIENTIFIC_FROM: i32 = 6;

/// Shows a double as C's `%g` does with as many digits as it takes.
fn show_double(value: f64) -> String {
    if !value.is_finite() {
        return match (value.is_nan(), value > 0.0) {
            (true, _) => "NaN",
            (false, true) => "+Inf",
            (false, false) => "-Inf",
        }
        .to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..SCIENTIFIC_FROM).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn text_tests(library: &mut Library) {
    let tests: [(&str, &str, super::Call); 3] = [
        ("contains", "contains_string", |_, args| {
            text_test(args, |text, part| text.contains(part))
        }),
        ("endsWith", "ends_with_string", |_, args| {
            text_test(args, |text, end| text.ends_with(end))
        }),
        ("startsWith", "starts_with_string", |_, args| {
            text_test(args, |text, start| text.starts_with(start))
        }),
    ];
    for (name, id, call) in tests {
        library.member(name, id, "string, string: bool", Binding::Fixed(call));
        library.unguarded(name);
    }
    library.global("matches", "matches", "string, string: bool", Binding::None);
    library.member("matches", "matches_string", "string, string: bool", Binding::None);
    library.singleton(
        "matches",
        Binding::Fixed(|_, args| match args {
            [Value::Text(text), Value::Text(pattern)] => {
                let pattern = regex::compile(pattern).map_err(Stop::error)?;
                Ok(Value::Bool(pattern.is_match(text)))
            }
            _ => Err(Stop::no_overload()),
        }),
    );
}

fn text_test<'a>(args: Args<'_, 'a>, holds: fn(&str, &str) -> bool) -> Eval<Value<'a>> {
    match args {
        [Value::Text(text), Value::Text(part)] => Ok(Value::Bool(holds(text, part))),
        _ => Err(Stop::no_overload()),
    }
}
