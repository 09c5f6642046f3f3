//! Maps: the device and its parts, or made by the selector.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Held, Text, Value};
use crate::device::Device;

#[derive(Clone)]
pub(crate) enum Map<'a> {
    Made(Arc<Entries<'a>>),
    /// The device as `dyn(device)` shows it.
    Device(&'a dyn Device),
    /// Domains. One that isn't there has an empty map, but is neither listed nor counted.
    Attributes(&'a dyn Device),
    Capacity(&'a dyn Device),
    AttributesOf(&'a dyn Device, Text<'a>),
    CapacityOf(&'a dyn Device, Text<'a>),
}

/// The fields of the device, in order.
const FIELDS: [&str; 4] = ["allowMultipleAllocations", "attributes", "capacity", "driver"];

/// Entries in the order of their keys.
#[derive(Clone, Default)]
pub(crate) struct Entries<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
}

impl<'a> Entries<'a> {
    /// Sets the value of a key, or returns false if such a key can't be.
    pub(crate) fn set(&mut self, key: Value<'a>, value: Value<'a>) -> bool {
        match self.place(&key) {
            _ if !key.is_hashable() => return false,
            Ok(found) => self.entries[found].1 = value,
            Err(free) => self.entries.insert(free, (key, value)),
        }
        true
    }

    pub(crate) fn remove(&mut self, key: &Value<'_>) {
        if let Ok(found) = self.place(key) {
            self.entries.remove(found);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Finds a key of the same type. Lists and the like are never the same key.
    fn place(&self, key: &Value<'_>) -> Result<usize, usize> {
        match rank(key) {
            Some(_) => self.entries.binary_search_by(|(known, _)| compare_keys(known, key)),
            None => Err(self.entries.len()),
        }
    }

    fn exact(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        self.place(key).ok().map(|found| &self.entries[found].1)
    }

    /// Finds a key; numbers of different types may be the same key.
    pub(crate) fn find(&self, key: &Value<'_>) -> Option<Value<'a>> {
        let found = self.exact(key).or_else(|| match key {
            Value::Int(key) => self.exact(&Value::Uint(u64::try_from(*key).ok()?)),
            Value::Uint(key) => self.exact(&Value::Int(i64::try_from(*key).ok()?)),
            Value::Double(key) => {
                let int = crate::library::lossless_int(*key).map(Value::Int);
                let uint = crate::library::lossless_uint(*key).map(Value::Uint);
                let int = int.and_then(|key| self.exact(&key));
                int.or_else(|| self.exact(&uint?))
            }
            _ => None,
        });
        found.cloned()
    }
}

/// The order of key types; nothing for those that are never found.
fn rank(key: &Value<'_>) -> Option<u8> {
    Some(match key {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) => 2,
        Value::Uint(_) => 3,
        Value::Double(_) => 4,
        Value::Text(_) => 5,
        Value::Duration(_) => 6,
        Value::Timestamp(_) => 7,
        Value::Type(_) => 8,
        Value::Ip(_) => 9,
        Value::Cidr(_) => 10,
        _ => return None,
    })
}

fn compare_keys(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Uint(left), Value::Uint(right)) => left.cmp(right),
        // -0.0 is the same key as 0.0.
        (Value::Double(left), Value::Double(right)) => (left + 0.0).total_cmp(&(right + 0.0)),
        (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (Value::Timestamp(left), Value::Timestamp(right)) => left.key().cmp(&right.key()),
        (Value::Type(left), Value::Type(right)) => left.cmp(right),
        (Value::Ip(left), Value::Ip(right)) => left.cmp(right),
        (Value::Cidr(left), Value::Cidr(right)) => left.cmp(right),
        _ => rank(left).unwrap_or(u8::MAX).cmp(&rank(right).unwrap_or(u8::MAX)),
    }
}

impl<'a> Map<'a> {
    pub(crate) fn empty() -> Self {
        Self::Made(Arc::default())
    }

    /// Whether keys that aren't there are found.
    pub(crate) fn has_defaults(&self) -> bool {
        matches!(self, Self::Attributes(_) | Self::Capacity(_))
    }

    /// Looks a key up, as a selection or an index does.
    pub(crate) fn find(&self, key: &Value<'a>) -> Option<Value<'a>> {
        if let Self::Made(entries) = self {
            return entries.find(key);
        }
        match (self, key) {
            (Self::Attributes(device), Value::Text(domain)) => {
                Some(Value::Map(Self::AttributesOf(*device, domain.clone())))
            }
            (Self::Capacity(device), Value::Text(domain)) => {
                Some(Value::Map(Self::CapacityOf(*device, domain.clone())))
            }
            (Self::Attributes(_) | Self::Capacity(_), _) => Some(Value::Map(Self::empty())),
            (_, Value::Text(name)) => self.named(name),
            _ => None,
        }
    }

    fn named(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::AttributesOf(device, domain) => {
                device.attribute(domain, name).map(Value::attribute)
            }
            Self::CapacityOf(device, domain) => {
                device.capacity(domain, name).map(|found| Value::Quantity(Held::Borrowed(found)))
            }
            Self::Device(device) => Some(match name {
                "driver" => Value::borrowed(device.driver()),
                "allowMultipleAllocations" => Value::Bool(device.allow_multiple_allocations()),
                "attributes" => Value::Map(Self::Attributes(*device)),
                "capacity" => Value::Map(Self::Capacity(*device)),
                _ => return None,
            }),
            _ => None,
        }
    }

    /// Whether the map lists a key, as `in` asks.
    pub(crate) fn contains(&self, key: &Value<'a>) -> bool {
        match (self, key) {
            (Self::Attributes(_) | Self::Capacity(_), Value::Text(name)) => {
                self.iter().any(|(known, _)| known.as_text() == Some(&**name))
            }
            (Self::Attributes(_) | Self::Capacity(_), _) => false,
            _ => self.find(key).is_some(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Made(entries) => entries.len(),
            Self::Device(_) => FIELDS.len(),
            _ => self.iter().count(),
        }
    }

    /// Iterates in the order of keys.
    pub(crate) fn iter(&self) -> MapIter<'a, '_> {
        MapIter { map: self, next: 0 }
    }
}

pub(crate) struct MapIter<'a, 'm> {
    map: &'m Map<'a>,
    /// The place in the entries, or in the device's tables.
    next: usize,
}

impl<'a> Iterator for MapIter<'a, '_> {
    type Item = (Value<'a>, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match self.map {
            Map::Made(entries) => {
                let entry = entries.entries.get(self.next).cloned();
                self.next += 1;
                entry
            }
            Map::Device(_) => {
                let name = FIELDS.get(self.next)?;
                self.next += 1;
                Some((Value::borrowed(name), self.map.named(name)?))
            }
            Map::Attributes(device) => {
                let (domain, next) =
                    next_domain(self.next, |n| device.nth_attribute(n).map(|(domain, ..)| domain))?;
                self.next = next;
                let inner = Map::AttributesOf(*device, Text::Borrowed(domain));
                Some((Value::borrowed(domain), Value::Map(inner)))
            }
            Map::Capacity(device) => {
                let (domain, next) =
                    next_domain(self.next, |n| device.nth_capacity(n).map(|(domain, ..)| domain))?;
                self.next = next;
                let inner = Map::CapacityOf(*device, Text::Borrowed(domain));
                Some((Value::borrowed(domain), Value::Map(inner)))
            }
            Map::AttributesOf(device, wanted) => loop {
                let (domain, name, value) = device.nth_attribute(self.next)?;
                self.next += 1;
                if domain == &**wanted {
                    return Some((Value::borrowed(name), Value::attribute(value)));
                }
            },
            Map::CapacityOf(device, wanted) => loop {
                let (domain, name, value) = device.nth_capacity(self.next)?;
                self.next += 1;
                if domain == &**wanted {
                    let value = Value::Quantity(Held::Borrowed(value));
                    return Some((Value::borrowed(name), value));
                }
            },
        }
    }
}

/// Returns the domain at a place of a sorted table, and the place where the next begins.
fn next_domain<'d>(at: usize, nth: impl Fn(usize) -> Option<&'d str>) -> Option<(&'d str, usize)> {
    let domain = nth(at)?;
    let mut next = at + 1;
    while nth(next) == Some(domain) {
        next += 1;
    }
    Some((domain, next))
}
