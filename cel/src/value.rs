//! Values while a selector runs: those of the device are borrowed, the rest is shared.

mod list;
mod map;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub(crate) use list::List;
pub(crate) use map::{Entries, Map};

use crate::check::types;
use crate::device::Attribute;
use crate::library::{Cidr, Format, Ip, Timestamp, Url};
use crate::quantity::Quantity;
use crate::semver::Semver;

#[derive(Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    Type(&'static str),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Value<'a>>>),
    Quantity(Held<'a, Quantity>),
    /// What `add` and `sub` return: equal to nothing on its right, as upstream's is.
    Sum(Arc<Quantity>),
    Semver(Held<'a, Semver>),
    Url(Arc<Url>),
    Ip(Ip),
    Cidr(Cidr),
    Format(&'static Format),
}

/// A string of the device, of the selector or of its making.
#[derive(Clone)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// A value of the device or of the selector's making.
#[derive(Clone)]
pub(crate) enum Held<'a, T> {
    Borrowed(&'a T),
    Shared(Arc<T>),
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(value) => value,
            Self::Shared(value) => value,
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    pub(crate) fn borrowed(text: &'a str) -> Self {
        Self::Text(Text::Borrowed(text))
    }

    pub(crate) fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List::from(elements))
    }

    pub(crate) fn none() -> Self {
        Self::Optional(None)
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn semver(version: Semver) -> Self {
        Self::Semver(Held::Shared(Arc::new(version)))
    }

    pub(crate) fn attribute(attribute: Attribute<'a>) -> Self {
        match attribute {
            Attribute::Bool(value) => Self::Bool(value),
            Attribute::Int(value) => Self::Int(value),
            Attribute::String(value) => Self::borrowed(value),
            Attribute::Version(value) => Self::Semver(Held::Borrowed(value)),
            Attribute::Bools(values) => Self::List(List::Bools(values)),
            Attribute::Ints(values) => Self::List(List::Ints(values)),
            Attribute::Strings(values) => Self::List(List::Strings(values)),
            Attribute::Versions(values) => Self::List(List::Versions(values)),
        }
    }

    pub(crate) fn as_quantity(&self) -> Option<&Quantity> {
        match self {
            Self::Quantity(quantity) => Some(quantity),
            Self::Sum(quantity) => Some(quantity),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of the type, as `type(x)` and messages show it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => types::DURATION,
            Self::Timestamp(_) => types::TIMESTAMP,
            Self::Type(_) => "type",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) | Self::Sum(_) => types::QUANTITY,
            Self::Semver(_) => types::SEMVER,
            Self::Url(_) => types::URL,
            Self::Ip(_) => types::IP,
            Self::Cidr(_) => types::CIDR,
            Self::Format(_) => types::FORMAT,
        }
    }

    /// Whether upstream can look the value up in a map; if not, it breaks off.
    pub(crate) fn is_hashable(&self) -> bool {
        !matches!(self, Self::Bytes(_) | Self::Semver(_) | Self::Format(_))
    }

    /// Returns the size that costs are counted by; 1 for what has none.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Ip(ip) => ip.size(),
            Self::Cidr(cidr) => cidr.size(),
            _ => 1,
        };
        size as u64
    }

    /// Whether the value is its type's zero, for `optional.ofNonZeroValue`.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(nanos) => *nanos == 0,
            Self::Timestamp(timestamp) => timestamp.is_zero(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => !map.has_defaults() && map.len() == 0,
            _ => false,
        }
    }
}

/// Shows a value in messages.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            other => f.write_str(other.type_name()),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
