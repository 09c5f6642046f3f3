//! A tree of plain values: plugin arguments on the way in, bodies of writes on the way out.

use std::collections::BTreeMap;
use std::fmt;

use super::Text;

/// JSON's shapes, with integers kept apart from other numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Text),
    List(Vec<Value>),
    Map(BTreeMap<Text, Value>),
}

impl Value {
    pub fn text(text: impl Into<Text>) -> Value {
        Value::Text(text.into())
    }

    pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
        Value::Map(entries.into_iter().map(|(k, v)| (Text::from(k), v)).collect())
    }

    /// Names the shape, as an error message calls it.
    pub fn shape(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => b.fmt(f),
            Value::Int(i) => i.fmt(f),
            Value::Float(x) => x.fmt(f),
            Value::Text(t) => write!(f, "{t:?}"),
            Value::List(items) => f.debug_list().entries(items.iter().map(Shown)).finish(),
            Value::Map(map) => {
                f.debug_map().entries(map.iter().map(|(k, v)| (k, Shown(v)))).finish()
            }
        }
    }
}

struct Shown<'a>(&'a Value);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)
    }
}
