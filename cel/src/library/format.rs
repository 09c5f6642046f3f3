//! `"…".format([…])`: the clauses `%s %d %f %e %b %x %X %o`, as Go and its English locale write
//! them.

use super::standard::shown;
use super::time;
use crate::meter::{Eval, Meter, Stop};
use crate::value::{List, Map, Value};

const DEFAULT_PRECISION: usize = 6;

/// One clause: its letter, its precision and how many bytes it takes after the `%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clause {
    verb: char,
    precision: Option<usize>,
    length: usize,
}

impl Clause {
    fn read(text: &str) -> Result<Self, String> {
        let unfinished = || "unexpected end of string".to_owned();
        let (precision, digits) = match text.strip_prefix('.') {
            None => (None, 0),
            Some(rest) => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                if digits == rest.len() {
                    return Err("could not find end of precision specifier".to_owned());
                }
                let precision = rest[..digits].parse();
                (Some(precision.map_err(|_| "the precision is no number".to_owned())?), digits + 1)
            }
        };
        let verb = text[digits..].chars().next().ok_or_else(unfinished)?;
        match verb {
            's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o' => {
                Ok(Self { verb, precision, length: digits + 1 })
            }
            other => Err(format!("unrecognized formatting clause \"{other}\"")),
        }
    }
}

/// Checks a template; `fits` says whether the nth argument suits a clause.
///
/// # Errors
/// What is wrong with the template or an argument.
pub(crate) fn check_format(
    template: &str,
    fits: impl Fn(usize, char) -> Result<(), String>,
) -> Result<usize, String> {
    let mut rest = template;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        let clause = Clause::read(rest)?;
        fits(used, clause.verb)?;
        used += 1;
        rest = &rest[clause.length..];
    }
    Ok(used)
}

pub(super) fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Eval<Value<'a>> {
    let [Value::Text(template), Value::List(values)] = args else {
        return Err(Stop::no_overload());
    };
    let mut out = Writer { meter, text: String::new() };
    let mut rest: &str = template;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        out.push(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push("%")?;
            rest = after;
            continue;
        }
        let Some(value) = values.get(used) else {
            return Err(Stop::error(format!("index {used} out of range")));
        };
        let clause = Clause::read(rest).map_err(Stop::error)?;
        out.clause(clause, &value)?;
        used += 1;
        rest = &rest[clause.length..];
    }
    out.push(rest)?;
    Ok(Value::text(out.text))
}

struct Writer<'m> {
    meter: &'m mut Meter,
    text: String,
}

impl Writer<'_> {
    fn push(&mut self, text: &str) -> Eval<()> {
        self.meter.work(1 + text.len() / 16)?;
        self.text += text;
        Ok(())
    }

    fn clause(&mut self, clause: Clause, value: &Value<'_>) -> Eval<()> {
        let precision = clause.precision.unwrap_or(DEFAULT_PRECISION);
        self.meter.work(precision / 16)?;
        match clause.verb {
            's' => self.string(value),
            'd' => {
                let text = integer(value, |value| value.to_string(), |value| value.to_string());
                self.push(&text.ok_or_else(|| unsuitable(clause.verb, value))?)
            }
            'f' => {
                let double = double(value).ok_or_else(|| unsuitable(clause.verb, value))?;
                self.push(&fixed(double, precision.min(100_000)))
            }
            'e' => {
                let double = double(value).ok_or_else(|| unsuitable(clause.verb, value))?;
                self.push(&scientific(double, precision.min(100_000)))
            }
            verb => {
                let text = radix(verb, value).ok_or_else(|| unsuitable(verb, value))?;
                self.push(&text)
            }
        }
    }

    fn string(&mut self, value: &Value<'_>) -> Eval<()> {
        match value {
            Value::Null => self.push("null"),
            Value::List(list) => self.list(list),
            Value::Map(map) => self.map(map),
            other => {
                let text = shown(other).map_err(|_| unsuitable('s', other))?;
                self.push(&text)
            }
        }
    }

    /// Writes a value inside of a list or map: texts are quoted.
    fn inner(&mut self, value: &Value<'_>) -> Eval<()> {
        match value {
            Value::Text(text) => self.push(&quoted(text)),
            Value::Bytes(_) => {
                let text = shown(value)?;
                self.push(&format!("b{}", quoted(&text)))
            }
            Value::Double(double) if double.is_finite() => self.push(&format!("{double:.6}")),
            Value::Double(double) => {
                let text = match (double.is_nan(), *double > 0.0) {
                    (true, _) => "\"NaN\"",
                    (false, true) => "\"+Inf\"",
                    (false, false) => "\"-Inf\"",
                };
                self.push(text)
            }
            Value::Duration(nanos) => {
                self.push(&format!("duration({})", quoted(&time::show_duration(*nanos))))
            }
            Value::Timestamp(timestamp) => {
                self.push(&format!("timestamp({})", quoted(&timestamp.to_string())))
            }
            other => self.string(other),
        }
    }

    fn list(&mut self, list: &List<'_>) -> Eval<()> {
        self.nested(|out| {
            out.push("[")?;
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.push(", ")?;
                }
                out.inner(&element)?;
            }
            out.push("]")
        })
    }

    /// Writes a map in the order of its keys as they are written.
    fn map(&mut self, map: &Map<'_>) -> Eval<()> {
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map.iter() {
            match key {
                Value::Text(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => {}
                other => return Err(unsuitable('s', &other)),
            }
            entries.push((self.apart(&key)?, self.apart(&value)?));
        }
        entries.sort();
        self.push("{")?;
        for (index, (key, value)) in entries.into_iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            self.push(&format!("{separator}{key}:{value}"))?;
        }
        self.push("}")
    }

    /// Writes a value into a text of its own.
    fn apart(&mut self, value: &Value<'_>) -> Eval<String> {
        let before = std::mem::take(&mut self.text);
        let written = self.nested(|out| out.inner(value));
        let text = std::mem::replace(&mut self.text, before);
        written.map(|()| text)
    }

    fn nested(&mut self, write: impl FnOnce(&mut Writer<'_>) -> Eval<()>) -> Eval<()> {
        let text = &mut self.text;
        self.meter.deeper(|meter| {
            let mut inner = Writer { meter, text: std::mem::take(text) };
            let result = write(&mut inner);
            *text = inner.text;
            result
        })
    }
}

fn unsuitable(verb: char, value: &Value<'_>) -> Stop {
    Stop::error(format!("error during formatting: %{verb} was given a {}", value.type_name()))
}

fn integer(
    value: &Value<'_>,
    int: impl Fn(i64) -> String,
    uint: impl Fn(u64) -> String,
) -> Option<String> {
    match value {
        Value::Int(value) => Some(int(*value)),
        Value::Uint(value) => Some(uint(*value)),
        _ => None,
    }
}

fn radix(verb: char, value: &Value<'_>) -> Option<String> {
    let digits = |value: u64| match verb {
        'b' => format!("{value:b}"),
        'o' => format!("{value:o}"),
        'X' => format!("{value:X}"),
        _ => format!("{value:x}"),
    };
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| match verb {
                'X' => format!("{byte:02X}"),
                _ => format!("{byte:02x}"),
            })
            .collect()
    };
    match (verb, value) {
        ('b', Value::Bool(value)) => Some(u8::from(*value).to_string()),
        ('x' | 'X', Value::Text(text)) => Some(hex(text.as_bytes())),
        ('x' | 'X', Value::Bytes(bytes)) => Some(hex(bytes)),
        _ => {
            let sign = |value: i64| if value < 0 { "-" } else { "" };
            integer(value, |int| sign(int).to_owned() + &digits(int.unsigned_abs()), digits)
        }
    }
}

/// A double, or one of the three words for what has no digits.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn without_digits(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Writes with commas between thousands.
fn fixed(value: f64, precision: usize) -> String {
    if let Some(word) = without_digits(value) {
        return word.to_owned();
    }
    let plain = format!("{:.precision$}", value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text += fraction;
    }
    text
}

/// Writes `1.5×10⁰³`. The number after the point of the clause is a width: that is what upstream
/// makes of it.
fn scientific(value: f64, width: usize) -> String {
    let text = without_digits(value).map_or_else(|| with_exponent(value), str::to_owned);
    let missing = width.saturating_sub(text.chars().count());
    " ".repeat(missing) + &text
}

fn with_exponent(value: f64) -> String {
    let plain = format!("{:.6e}", value.abs());
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let sign = if value < 0.0 { "-" } else { "" };
    let (minus, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let raised: String = format!("{digits:0>2}").chars().map(superscript).collect();
    format!("{sign}{mantissa}×10{minus}{raised}")
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    }
}

/// Quotes as Go's `%q` does.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted += "\\a",
            '\u{8}' => quoted += "\\b",
            '\u{c}' => quoted += "\\f",
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            '\u{b}' => quoted += "\\v",
            '\\' => quoted += "\\\\",
            '"' => quoted += "\\\"",
            other if u32::from(other) < 0x20 || other == '\u{7f}' => {
                quoted += &format!("\\x{:02x}", u32::from(other));
            }
            other if is_unprintable(other) => quoted += &format!("\\u{:04x}", u32::from(other)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn is_unprintable(letter: char) -> bool {
    letter != ' ' && (letter.is_control() || letter.is_whitespace())
}
