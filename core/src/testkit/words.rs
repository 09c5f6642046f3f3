//! Words of a statement, and the small values in them.

use crate::types::{ContainerRequests, Resources, Text};

/// A statement: `kind name key=value …`.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub kind: String,
    pub name: Text,
    /// Key and value; a bare key has the empty value.
    pub words: Vec<(String, String)>,
}

impl Line {
    /// Reads a line; `None` for an empty one or a comment.
    pub fn read(raw: &str) -> Result<Option<Line>, String> {
        let words = split(raw)?;
        let [kind, name, rest @ ..] = words.as_slice() else {
            return if words.is_empty() { Ok(None) } else { Err("a name is missing".into()) };
        };
        let words = rest.iter().map(|word| key_and_value(word)).collect();
        Ok(Some(Line { kind: kind.clone(), name: Text::from(name.as_str()), words }))
    }

    pub fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// What a key does to a draft. Source of each table: key, meaning, setter.
pub type Key<T> = (&'static str, &'static str, fn(&mut T, &str) -> Result<(), String>);

/// Applies the words of `line` by `table`; `other` gets those that it lacks.
pub fn apply<T>(
    line: &Line,
    table: &[Key<T>],
    draft: &mut T,
    other: impl Fn(&mut T, &str, &str) -> Result<(), String>,
) -> Result<(), String> {
    for (key, value) in &line.words {
        match table.iter().find(|(name, _, _)| name == key) {
            Some((_, _, set)) => set(draft, value)?,
            None => other(draft, key, value)?,
        }
    }
    Ok(())
}

/// Refuses a key that no table has.
pub fn unknown<T>(_draft: &mut T, key: &str, _value: &str) -> Result<(), String> {
    Err(format!("unknown key {key:?}"))
}

/// Splits at spaces outside double quotes, up to `#`. Quotes vanish.
fn split(raw: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in raw.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '#' if !quoted && word.is_none() => break,
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quoted { Err("a quote is not closed".into()) } else { Ok(words) }
}

pub fn key_and_value(word: &str) -> (String, String) {
    match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (word.to_owned(), String::new()),
    }
}

/// Splits a list at commas; an empty one has no entries.
pub fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

pub fn texts(value: &str) -> Vec<Text> {
    list(value).map(Text::from).collect()
}

/// Reads `a=1,b=2`; a key without `=` gets the empty value.
pub fn pairs(value: &str) -> Vec<(Text, Text)> {
    let pair = |item: &str| {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        (Text::from(key), Text::from(value))
    };
    list(value).map(pair).collect()
}

pub fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{value:?} is no number"))
}

/// Reads a quantity, in thousandths.
fn thousandths(value: &str) -> Result<i64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("m", 1e-3),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((value.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((value, 1.0));
    let number: f64 = digits.parse().map_err(|_| format!("{value:?} is no quantity"))?;
    Ok((number * factor * 1000.0).round() as i64)
}

/// Reads a quantity in whole units, rounded up as Kubernetes does.
pub fn quantity(value: &str) -> Result<i64, String> {
    Ok(thousandths(value)?.div_ceil_by(1000))
}

trait DivCeil {
    fn div_ceil_by(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_by(self, by: i64) -> i64 {
        self.div_euclid(by) + i64::from(self.rem_euclid(by) != 0)
    }
}

/// Returns the resource that a key names: `cpu`, `mem`, `disk`, `gpu` (nvidia.com/gpu), or any
/// name with `/` or starting with `hugepages-`.
pub fn resource_name(key: &str) -> Option<&str> {
    match key {
        "cpu" => Some("cpu"),
        "mem" => Some("memory"),
        "disk" => Some("ephemeral-storage"),
        "gpu" => Some("nvidia.com/gpu"),
        _ if key.contains('/') || key.starts_with("hugepages-") => Some(key),
        _ => None,
    }
}

/// Sets the amount that `key` names; an unknown key is an error.
pub fn set_amount(amounts: &mut Resources, key: &str, value: &str) -> Result<(), String> {
    let name = resource_name(key).ok_or_else(|| format!("unknown key {key:?}"))?;
    let amount = if name == "cpu" { thousandths(value)? } else { quantity(value)? };
    amounts.set(&Text::from(name), amount);
    Ok(())
}

/// Adds a request to a container, noting what was requested explicitly.
pub fn set_request(own: &mut ContainerRequests, key: &str, value: &str) -> Result<(), String> {
    set_amount(&mut own.requests, key, value)?;
    own.cpu_set |= key == "cpu";
    own.memory_set |= key == "mem";
    Ok(())
}

/// Reads a container: `cpu=1 mem=1Gi`.
pub fn container(value: &str) -> Result<ContainerRequests, String> {
    let mut own = ContainerRequests::default();
    for word in value.split_whitespace() {
        let (key, amount) = key_and_value(word);
        set_request(&mut own, &key, &amount)?;
    }
    Ok(own)
}
