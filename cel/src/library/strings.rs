//! The strings extension, version 2. Places in strings count characters.

use super::format;
use super::table::{Binding, Library};
use crate::meter::{Eval, Meter, Stop};
use crate::value::Value;

type Args<'v, 'a> = &'v [Value<'a>];

pub(super) fn declare(library: &mut Library) {
    let fixed = Binding::Fixed;
    let variadic = Binding::Variadic;
    library.member("charAt", "string_char_at_int", "string, int: string", fixed(char_at));
    let index = fixed(|_, args| index_of(args, false));
    let index3 = variadic(|_, args| index_of(args, false));
    library.member("indexOf", "string_index_of_string", "string, string: int", index);
    library.member("indexOf", "string_index_of_string_int", "string, string, int: int", index3);
    let last = fixed(|_, args| index_of(args, true));
    let last3 = variadic(|_, args| index_of(args, true));
    library.member("lastIndexOf", "string_last_index_of_string", "string, string: int", last);
    library.member(
        "lastIndexOf",
        "string_last_index_of_string_int",
        "string, string, int: int",
        last3,
    );
    declare_changes(library);
}

/// What makes a text of a text.
fn declare_changes(library: &mut Library) {
    let fixed = Binding::Fixed;
    let variadic = Binding::Variadic;
    let lower = fixed(|_, args| mapped(args, str::to_ascii_lowercase));
    let upper = fixed(|_, args| mapped(args, str::to_ascii_uppercase));
    let trim = fixed(|_, args| mapped(args, |text| text.trim_matches(is_space).to_owned()));
    library.member("lowerAscii", "string_lower_ascii", "string: string", lower);
    library.member(
        "replace",
        "string_replace",
        "string, string, string: string",
        variadic(replace),
    );
    library.member(
        "replace",
        "string_replace_int",
        "string, string, string, int: string",
        variadic(replace),
    );
    library.member("split", "string_split_string", "string, string: list(string)", fixed(split));
    library.member(
        "split",
        "string_split_string_int",
        "string, string, int: list(string)",
        variadic(split),
    );
    library.member("substring", "string_substring_int", "string, int: string", fixed(substring));
    library.member(
        "substring",
        "string_substring_int_int",
        "string, int, int: string",
        variadic(substring),
    );
    library.member("trim", "string_trim", "string: string", trim);
    library.member("upperAscii", "string_upper_ascii", "string: string", upper);
    library.member(
        "format",
        "string_format",
        "string, list(dyn): string",
        variadic(format::format),
    );
    let quote = fixed(|_, args| mapped(args, quote));
    library.global("strings.quote", "strings_quote", "string: string", quote);
    library.member("join", "list_join", "list(string): string", fixed(join));
    library.member("join", "list_join_string", "list(string), string: string", fixed(join));
}

/// What Unicode calls white space.
fn is_space(letter: char) -> bool {
    letter.is_whitespace()
}

fn out_of_range<T>(index: i64) -> Eval<T> {
    Err(Stop::error(format!("index out of range: {index}")))
}

fn mapped<'a>(args: Args<'_, 'a>, map: fn(&str) -> String) -> Eval<Value<'a>> {
    match args {
        [Value::Text(text)] => Ok(Value::text(map(text))),
        _ => Err(Stop::no_overload()),
    }
}

fn char_at<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [Value::Text(text), Value::Int(index)] = args else { return Err(Stop::no_overload()) };
    let place = usize::try_from(*index).or_else(|_| out_of_range(*index))?;
    match text.chars().nth(place) {
        Some(letter) => Ok(Value::text(letter.to_string())),
        None if place == text.chars().count() => Ok(Value::text("")),
        None => out_of_range(*index),
    }
}

/// Finds a part, from the start or from the end, from or up to an offset.
fn index_of<'a>(args: Args<'_, 'a>, last: bool) -> Eval<Value<'a>> {
    let (text, part, offset) = match args {
        [Value::Text(text), Value::Text(part)] => (text, part, None),
        [Value::Text(text), Value::Text(part), Value::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(Stop::no_overload()),
    };
    let text: Vec<char> = text.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let end = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let offset = match offset {
        Some(offset) if offset < 0 => return out_of_range(offset),
        Some(offset) if part.is_empty() => return Ok(Value::Int(offset.min(end))),
        Some(offset) if offset >= end => return Ok(Value::Int(-1)),
        Some(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
        None if part.is_empty() => return Ok(Value::Int(if last { end } else { 0 })),
        None if last => text.len().saturating_sub(1),
        None => 0,
    };
    let mut windows = text.windows(part.len()).enumerate();
    let is_part = |(_, window): &(usize, &[char])| *window == part;
    let found = match last {
        true => windows.take(offset.saturating_add(1)).rfind(is_part),
        false => windows.find(|window| window.0 >= offset && is_part(window)),
    };
    let found = found.and_then(|(place, _)| i64::try_from(place).ok());
    Ok(Value::Int(found.unwrap_or(-1)))
}

/// Turns Go's count, where any negative number means all, into a limit.
fn limit(args: Args<'_, '_>, at: usize) -> Eval<usize> {
    match args.get(at) {
        None => Ok(usize::MAX),
        Some(Value::Int(count)) => Ok(usize::try_from(*count).unwrap_or(usize::MAX)),
        Some(_) => Err(Stop::no_overload()),
    }
}

fn replace<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [Value::Text(text), Value::Text(old), Value::Text(new), ..] = args else {
        return Err(Stop::no_overload());
    };
    let count = limit(args, 3)?;
    let places = if old.is_empty() { text.len() + 1 } else { text.matches(&**old).count() };
    meter.work(places.min(count).saturating_mul(new.len()) / 16)?;
    Ok(Value::text(text.replacen(&**old, new, count)))
}

fn split<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let [Value::Text(text), Value::Text(separator), ..] = args else {
        return Err(Stop::no_overload());
    };
    let count = limit(args, 2)?;
    let parts: Vec<Value<'a>> = match (count, separator.is_empty()) {
        (0, _) => Vec::new(),
        (count, true) => characters(text, count).map(Value::text).collect(),
        (count, false) => text.splitn(count, &**separator).map(Value::text).collect(),
    };
    Ok(Value::list(parts))
}

/// Splits into characters; the last part keeps the rest.
fn characters(text: &str, count: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    let mut left = count;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (part, after) = rest.split_at(if left == 1 { rest.len() } else { first.len_utf8() });
        rest = after;
        left -= 1;
        Some(part)
    })
}

fn substring<'a>(_: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let (text, start, end) = match args {
        [Value::Text(text), Value::Int(start)] => (text, *start, None),
        [Value::Text(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Stop::no_overload()),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        let message = format!("invalid substring range. start: {start}, end: {end}");
        return Err(Stop::error(message));
    }
    // Bytes at which characters begin, and the end.
    let begins: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let byte = |index: i64| {
        let place = usize::try_from(index).ok().and_then(|index| begins.get(index));
        place.copied().map_or_else(|| out_of_range(index), Ok)
    };
    let start = byte(start)?;
    let end = end.map_or(Ok(text.len()), byte)?;
    Ok(Value::text(&text[start..end]))
}

fn join<'a>(meter: &mut Meter, args: Args<'_, 'a>) -> Eval<Value<'a>> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::Text(separator)] => (list, &**separator),
        _ => return Err(Stop::no_overload()),
    };
    let mut joined = String::new();
    for (index, element) in list.iter().enumerate() {
        let Value::Text(text) = &element else {
            return Err(Stop::error(format!("join: invalid input: {element}")));
        };
        if index > 0 {
            joined += separator;
        }
        joined += text;
        meter.foresee((joined.len() / 20) as u64)?;
    }
    Ok(Value::text(joined))
}

/// Quotes as CEL writes strings.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
