//! Decoding that can't fail: a field is absent, understood, or of a shape that it can't have.
//!
//! serde gives up on a whole LIST when one field of one object has the wrong type. A [`Field`]
//! takes any shape, remembers what it was, and leaves the verdict to the conversion.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use berth_core::types::{Text, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A field of a wire object. `null` is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    #[default]
    Absent,
    Is(T),
    /// Something else; the text names its shape ("a list").
    Odd(&'static str),
}

pub type List<T> = Vec<Field<T>>;
pub type Map<T> = BTreeMap<String, Field<T>>;

impl<T> Field<T> {
    /// Returns the value; None also for odd ones, so use it only where a problem is told elsewhere.
    pub fn value(&self) -> Option<&T> {
        match self {
            Field::Is(value) => Some(value),
            Field::Absent | Field::Odd(_) => None,
        }
    }

    pub fn is_absent(&self) -> bool {
        matches!(self, Field::Absent)
    }
}

/// A type that a [`Field`] can hold: each function answers for one JSON shape, None refuses it.
pub trait Shape: Sized {
    /// What is expected, as an error message calls it.
    const WANTED: &'static str;

    fn text(_text: &str) -> Option<Self> {
        None
    }

    fn integer(_number: i64) -> Option<Self> {
        None
    }

    fn number(_number: f64) -> Option<Self> {
        None
    }

    fn boolean(_value: bool) -> Option<Self> {
        None
    }

    /// # Errors
    /// Those of the input itself (broken JSON), never those of its content.
    fn list<'de, A: SeqAccess<'de>>(mut items: A) -> Result<Option<Self>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// # Errors
    /// As [`Shape::list`].
    fn object<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Option<Self>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl Shape for String {
    const WANTED: &'static str = "a string";
    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

impl Shape for i64 {
    const WANTED: &'static str = "an integer";
    fn integer(number: i64) -> Option<i64> {
        Some(number)
    }
}

impl Shape for bool {
    const WANTED: &'static str = "true or false";
    fn boolean(value: bool) -> Option<bool> {
        Some(value)
    }
}

impl<T: Shape> Shape for List<T> {
    const WANTED: &'static str = "a list";
    fn list<'de, A: SeqAccess<'de>>(mut items: A) -> Result<Option<Self>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Some(list))
    }
}

impl<T: Shape> Shape for Map<T> {
    const WANTED: &'static str = "an object";
    fn object<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Option<Self>, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry::<String, Field<T>>()? {
            map.insert(key, value);
        }
        Ok(Some(map))
    }
}

/// Any JSON at all, for what is handed on as it is. A null within is kept.
impl Shape for Value {
    const WANTED: &'static str = "any value";

    fn text(text: &str) -> Option<Value> {
        Some(Value::text(text))
    }

    fn integer(number: i64) -> Option<Value> {
        Some(Value::Int(number))
    }

    fn number(number: f64) -> Option<Value> {
        Some(Value::Float(number))
    }

    fn boolean(value: bool) -> Option<Value> {
        Some(Value::Bool(value))
    }

    fn list<'de, A: SeqAccess<'de>>(mut items: A) -> Result<Option<Self>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Field<Value>>()? {
            list.push(or_null(item));
        }
        Ok(Some(Value::List(list)))
    }

    fn object<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Option<Self>, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry::<String, Field<Value>>()? {
            map.insert(Text::from(key), or_null(value));
        }
        Ok(Some(Value::Map(map)))
    }
}

fn or_null(field: Field<Value>) -> Value {
    match field {
        Field::Is(value) => value,
        Field::Absent | Field::Odd(_) => Value::Null,
    }
}

/// Makes structs of [`Field`]s usable in a [`Field`].
macro_rules! object_shape {
    ($($name:ty),* $(,)?) => {$(
        impl $crate::wire::field::Shape for $name {
            const WANTED: &'static str = "an object";
            fn object<'de, A: serde::de::MapAccess<'de>>(
                entries: A,
            ) -> Result<Option<Self>, A::Error> {
                let entries = serde::de::value::MapAccessDeserializer::new(entries);
                serde::Deserialize::deserialize(entries).map(Some)
            }
        }
    )*};
}
pub(crate) use object_shape;

impl<'de, T: Shape> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor(PhantomData))
    }
}

struct FieldVisitor<T>(PhantomData<T>);

fn or_odd<T>(value: Option<T>, shape: &'static str) -> Field<T> {
    value.map_or(Field::Odd(shape), Field::Is)
}

impl<'de, T: Shape> Visitor<'de> for FieldVisitor<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WANTED)
    }

    fn visit_unit<E>(self) -> Result<Field<T>, E> {
        Ok(Field::Absent)
    }

    fn visit_none<E>(self) -> Result<Field<T>, E> {
        Ok(Field::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Field<T>, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Field<T>, E> {
        Ok(or_odd(T::boolean(value), "a boolean"))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field<T>, E> {
        Ok(or_odd(T::integer(number), "an integer"))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Field<T>, E> {
        Ok(match i64::try_from(number) {
            Ok(number) => or_odd(T::integer(number), "an integer"),
            Err(_) => or_odd(T::number(number as f64), "a very large integer"),
        })
    }

    fn visit_f64<E>(self, number: f64) -> Result<Field<T>, E> {
        Ok(or_odd(T::number(number), "a fractional number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field<T>, E> {
        Ok(or_odd(T::text(text), "a string"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Field<T>, A::Error> {
        Ok(or_odd(T::list(items)?, "a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Field<T>, A::Error> {
        Ok(or_odd(T::object(entries)?, "an object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded<T: Shape>(json: &str) -> Field<T> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn odd_shapes_are_remembered_and_cost_nothing_else() {
        assert_eq!(decoded::<String>("\"a\""), Field::Is("a".into()));
        assert_eq!(decoded::<String>("[1,{\"a\":2}]"), Field::Odd("a list"));
        assert_eq!(decoded::<i64>("18446744073709551615"), Field::Odd("a very large integer"));
        assert_eq!(decoded::<bool>("null"), Field::Absent);
        let list = decoded::<List<i64>>("[1,\"x\",null]");
        assert_eq!(list, Field::Is(vec![Field::Is(1), Field::Odd("a string"), Field::Absent]));
    }
}
