//! Typed, strict reading of plugin arguments: every problem is collected with its path, and a key
//! that nobody read is an error.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::types::{Text, Value};

/// One problem of a configuration, with the path of the value it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArgError {
    pub path: String,
    pub message: String,
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// An object of the arguments, read key by key.
///
/// Readers return a default (or `None`) where the key is absent or its value is wrong; the latter
/// is noted as an error. [`Args::finish`] refuses keys that were not asked for.
pub struct Args {
    path: String,
    map: BTreeMap<Text, Value>,
    asked: RefCell<BTreeSet<String>>,
    errors: Rc<RefCell<Vec<ArgError>>>,
}

impl Args {
    /// Starts reading `value`; null and absent arguments are an empty object.
    pub fn new(path: impl Into<String>, value: &Value) -> Args {
        let errors = Rc::new(RefCell::new(Vec::new()));
        Args::within(path.into(), value, errors)
    }

    fn within(path: String, value: &Value, errors: Rc<RefCell<Vec<ArgError>>>) -> Args {
        let map = match value {
            Value::Map(map) => map.clone(),
            Value::Null => BTreeMap::new(),
            other => {
                let message = format!("must be an object, not {}", other.shape());
                errors.borrow_mut().push(ArgError { path: path.clone(), message });
                BTreeMap::new()
            }
        };
        Args { path, map, asked: RefCell::default(), errors }
    }

    /// Tells whether `key` is there and not null.
    pub fn has(&self, key: &str) -> bool {
        !matches!(self.raw(key), None | Some(Value::Null))
    }

    /// Returns the value as it stands, counting the key as read.
    pub fn raw(&self, key: &str) -> Option<&Value> {
        self.asked.borrow_mut().insert(key.to_owned());
        self.map.get(key)
    }

    /// Notes an error about `key` (empty: about this object).
    pub fn error(&self, key: &str, message: impl Into<String>) {
        let path = if key.is_empty() { self.path.clone() } else { self.path_of(key) };
        self.errors.borrow_mut().push(ArgError { path, message: message.into() });
    }

    pub fn path_of(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    pub fn int(&self, key: &str) -> Option<i64> {
        match self.raw(key)? {
            Value::Int(i) => Some(*i),
            Value::Null => None,
            other => self.wrong(key, "an integer", other),
        }
    }

    /// Reads an integer that must lie in `range`.
    pub fn int_in(&self, key: &str, default: i64, range: RangeInclusive<i64>) -> i64 {
        match self.int(key) {
            Some(i) if range.contains(&i) => i,
            Some(i) => {
                let (low, high) = (range.start(), range.end());
                self.error(key, format!("invalid value {i}: must be in the range {low}-{high}"));
                default
            }
            None => default,
        }
    }

    pub fn bool(&self, key: &str, default: bool) -> bool {
        match self.raw(key) {
            Some(Value::Bool(b)) => *b,
            None | Some(Value::Null) => default,
            Some(other) => self.wrong(key, "a boolean", other).unwrap_or(default),
        }
    }

    pub fn text(&self, key: &str) -> Option<Text> {
        match self.raw(key)? {
            Value::Text(t) => Some(t.clone()),
            Value::Null => None,
            other => self.wrong(key, "a string", other),
        }
    }

    /// Reads a Go duration such as `10s` or `1m30s`. Unit: milliseconds.
    pub fn duration_ms(&self, key: &str) -> Option<i64> {
        let text = self.text(key)?;
        let parsed = parse_duration_ms(&text);
        if parsed.is_none() {
            self.error(key, format!("invalid duration {:?}", text.as_str()));
        }
        parsed
    }

    pub fn texts(&self, key: &str) -> Vec<Text> {
        let mut texts = Vec::new();
        for (at, item) in self.items(key).iter().enumerate() {
            match item {
                Value::Text(t) => texts.push(t.clone()),
                other => {
                    self.wrong::<Text>(&format!("{key}[{at}]"), "a string", other);
                }
            }
        }
        texts
    }

    /// Reads a nested object; `None` if it is absent.
    pub fn object(&self, key: &str) -> Option<Args> {
        if !self.has(key) {
            return None;
        }
        let value = self.raw(key)?;
        Some(Args::within(self.path_of(key), value, self.errors.clone()))
    }

    /// Reads a list of objects.
    pub fn objects(&self, key: &str) -> Vec<Args> {
        let nested = |(at, item)| {
            Args::within(self.path_of(&format!("{key}[{at}]")), item, self.errors.clone())
        };
        self.items(key).iter().enumerate().map(nested).collect()
    }

    fn items(&self, key: &str) -> &[Value] {
        match self.raw(key) {
            Some(Value::List(items)) => items,
            None | Some(Value::Null) => &[],
            Some(other) => {
                self.wrong::<()>(key, "a list", other);
                &[]
            }
        }
    }

    fn wrong<T>(&self, key: &str, wanted: &str, found: &Value) -> Option<T> {
        self.error(key, format!("must be {wanted}, not {}", found.shape()));
        None
    }

    /// Refuses the keys that were not read. Call it once for each object.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for key in self.map.keys().filter(|key| !asked.contains(key.as_str())) {
            self.error(key, "unknown field");
        }
    }

    /// Takes the errors noted so far, by this object and those nested in it.
    pub fn take_errors(&self) -> Vec<ArgError> {
        std::mem::take(&mut self.errors.borrow_mut())
    }
}

/// Parses a Go duration: decimal numbers with units `h m s ms us ns`, or `0`. Unit: milliseconds,
/// cut towards zero. `None` if it is none.
pub fn parse_duration_ms(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit_ms = match &rest[..end] {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1_000.0,
            "ms" => 1.0,
            "us" | "µs" | "μs" => 1e-3,
            "ns" => 1e-6,
            _ => return None,
        };
        total += number * unit_ms;
        rest = &rest[end..];
    }
    // Go's durations end at 2^63 ns; beyond that its parser reports an error too.
    if total > 9.2e12 {
        return None;
    }
    let ms = total as i64;
    Some(if negative { -ms } else { ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_keys_and_wrong_shapes_are_errors_with_paths() {
        let value = Value::map([
            ("weight", Value::text("x")),
            ("extra", Value::Int(1)),
            ("inner", Value::map([("odd", Value::Null)])),
        ]);
        let args = Args::new("args", &value);
        assert_eq!(args.int_in("weight", 3, 0..=10), 3);
        args.object("inner").expect("inner is there").finish();
        args.finish();
        let errors: Vec<String> = args.take_errors().iter().map(ArgError::to_string).collect();
        assert_eq!(
            errors,
            [
                "args.weight: must be an integer, not a string",
                "args.inner.odd: unknown field",
                "args.extra: unknown field",
            ]
        );
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        assert_eq!(parse_duration_ms("1m30s"), Some(90_000));
        assert_eq!(parse_duration_ms("1.5s"), Some(1_500));
        assert_eq!(parse_duration_ms("-2ms"), Some(-2));
        assert_eq!(parse_duration_ms("0"), Some(0));
        for bad in ["", "5", "s", "1x", "1s2", "9999999999999h"] {
            assert_eq!(parse_duration_ms(bad), None, "{bad}");
        }
    }
}
