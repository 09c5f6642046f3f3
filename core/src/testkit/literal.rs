//! Plugin arguments in case files: `key: value` pairs with JSON-like values.
//!
//! Strings may stand bare where they have none of `,:{}[]"` and no spaces; commas between entries
//! may be left out at line ends. A key that stands twice is an error.

use std::collections::BTreeMap;

use crate::types::{Text, Value};

/// Parses the pairs of one object, without its braces.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text };
    let map = reader.pairs()?;
    match reader.peek() {
        None => Ok(map),
        Some(c) => Err(format!("{c:?} is left over")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn need(&mut self, wanted: char) -> Result<(), String> {
        let rest = self.rest;
        if self.take(wanted) { Ok(()) } else { Err(format!("{wanted:?} is missing at {rest:?}")) }
    }

    fn pairs(&mut self) -> Result<Value, String> {
        let mut map = BTreeMap::new();
        while !matches!(self.peek(), None | Some('}')) {
            let key = self.word()?;
            self.need(':')?;
            let value = self.value()?;
            if map.insert(Text::from(key.as_str()), value).is_some() {
                return Err(format!("{key:?} stands twice"));
            }
            self.take(',');
        }
        Ok(Value::Map(map))
    }

    fn value(&mut self) -> Result<Value, String> {
        if self.take('{') {
            let map = self.pairs()?;
            self.need('}')?;
            return Ok(map);
        }
        if self.take('[') {
            let mut items = Vec::new();
            while !self.take(']') {
                items.push(self.value()?);
                self.take(',');
            }
            return Ok(Value::List(items));
        }
        if self.peek() == Some('"') {
            return Ok(Value::text(self.word()?));
        }
        Ok(plain(self.word()?))
    }

    fn word(&mut self) -> Result<String, String> {
        if self.take('"') {
            let (word, rest) = self.rest.split_once('"').ok_or("a quote is not closed")?;
            self.rest = rest;
            return Ok(word.to_owned());
        }
        let stop = |c: char| c.is_whitespace() || ",:{}[]\"".contains(c);
        let end = self.rest.find(stop).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("a value is missing at {:?}", self.rest));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word.to_owned())
    }
}

fn plain(word: String) -> Value {
    match word.as_str() {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(i) = word.parse::<i64>() {
        return Value::Int(i);
    }
    match word.parse::<f64>() {
        Ok(x) if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => Value::Float(x),
        _ => Value::text(word),
    }
}
