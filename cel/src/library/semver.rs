//! Functions of semantic versions.

use std::cmp::Ordering;

use super::table::{Binding, Library};
use crate::meter::{Eval, Stop};
use crate::semver::{Semver, SemverError};
use crate::value::Value;

type Args<'v, 'a> = &'v [Value<'a>];

pub(super) fn declare(library: &mut Library) {
    let fixed = Binding::Fixed;
    let make = fixed(|_, args| match parse(args)? {
        Ok(version) => Ok(Value::semver(version)),
        Err(error) => Err(Stop::error(error.to_string())),
    });
    library.global("semver", "string_to_semver", "string: semver", make);
    library.global("semver", "string_bool_to_semver", "string, bool: semver", make);
    let is = fixed(|_, args| Ok(Value::Bool(parse(args)?.is_ok())));
    library.global("isSemver", "is_semver_string", "string: bool", is);
    library.global("isSemver", "is_semver_string_bool", "string, bool: bool", is);
    let greater = fixed(|_, args| Ok(Value::Bool(order(args)?.is_gt())));
    library.member("isGreaterThan", "semver_is_greater_than", "semver, semver: bool", greater);
    let less = fixed(|_, args| Ok(Value::Bool(order(args)?.is_lt())));
    library.member("isLessThan", "semver_is_less_than", "semver, semver: bool", less);
    let compare = fixed(|_, args| Ok(Value::Int(order(args)? as i64)));
    library.member("compareTo", "semver_compare_to", "semver, semver: int", compare);
    let part: [(&str, super::Call); 3] = [
        ("major", |_, args| number(args, |version| version.major)),
        ("minor", |_, args| number(args, |version| version.minor)),
        ("patch", |_, args| number(args, |version| version.patch)),
    ];
    for (name, call) in part {
        library.member(name, name, "semver: int", fixed(call));
    }
}

fn parse(args: Args<'_, '_>) -> Eval<Result<Semver, SemverError>> {
    match args {
        [Value::Text(text)] | [Value::Text(text), Value::Bool(false)] => Ok(Semver::parse(text)),
        [Value::Text(text), Value::Bool(true)] => Ok(Semver::parse_normalized(text)),
        _ => Err(Stop::no_overload()),
    }
}

fn order(args: Args<'_, '_>) -> Eval<Ordering> {
    match args {
        [Value::Semver(left), Value::Semver(right)] => Ok((**left).cmp(&**right)),
        _ => Err(Stop::no_overload()),
    }
}

/// Returns a part of a version; upstream lets those over 63 bits wrap.
fn number<'a>(args: Args<'_, 'a>, part: fn(&Semver) -> u64) -> Eval<Value<'a>> {
    match args {
        [Value::Semver(version)] => Ok(Value::Int(part(version).cast_signed())),
        _ => Err(Stop::no_overload()),
    }
}
