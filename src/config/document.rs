//! YAML or JSON text as a tree that keeps the order of keys and repeated keys, so that errors can
//! be told in the order of the file.

use std::collections::BTreeSet;
use std::fmt;

use berth_core::framework::args::ArgError;
use berth_core::types::{Text, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;

/// How many values a file may have, and as many again by alias: several hundred profiles. Errors
/// are sorted in the square of it.
const MAX_NODES: usize = 20_000;

/// A value of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Tree {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Parses the documents of `text`; empty ones are left out.
///
/// # Errors
/// The parser's message, on one line.
pub(super) fn parse(text: &str) -> Result<Vec<Tree>, String> {
    // kube-scheduler reads YAML 1.1, hence `yes` as a boolean and `010` as eight.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_NODES },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|e| e.to_string())
}

impl Tree {
    pub(super) fn get(&self, key: &str) -> Option<&Tree> {
        match self {
            Tree::Map(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the tree without its order; the last of repeated keys stays.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Tree::Null => Value::Null,
            Tree::Bool(b) => Value::Bool(*b),
            Tree::Int(i) => Value::Int(*i),
            Tree::Float(x) => whole(*x).map_or(Value::Float(*x), Value::Int),
            Tree::Text(text) => Value::text(text.as_str()),
            Tree::List(items) => Value::List(items.iter().map(Tree::to_value).collect()),
            Tree::Map(entries) => {
                let entry = |(k, v): &(String, Tree)| (Text::from(k.as_str()), v.to_value());
                Value::Map(entries.iter().map(entry).collect())
            }
        }
    }

    /// Notes the keys that an object has twice.
    pub(super) fn repeated_keys(&self, path: &str, errors: &mut Vec<ArgError>) {
        match self {
            Tree::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    item.repeated_keys(&format!("{path}[{at}]"), errors);
                }
            }
            Tree::Map(entries) => {
                let mut seen = BTreeSet::new();
                for (key, value) in entries {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    if !seen.insert(key) {
                        let message = format!("key {key:?} already set in map");
                        errors.push(ArgError { path: path.clone(), message });
                    }
                    value.repeated_keys(&path, errors);
                }
            }
            _ => {}
        }
    }

    /// Sorts errors by where their paths stand in the file and drops repeated ones. What the file
    /// doesn't have follows what its parent has.
    pub(super) fn in_document_order(&self, mut errors: Vec<ArgError>) -> Vec<ArgError> {
        errors.sort_by_cached_key(|e| (self.position(&e.path), e.clone()));
        errors.dedup();
        errors
    }

    /// Returns the index of each step of `path`.
    fn position(&self, path: &str) -> Vec<usize> {
        let mut position = Vec::new();
        let mut tree = Some(self);
        for step in path.split(['.', '[']) {
            let found = match tree {
                Some(Tree::Map(entries)) => entries.iter().position(|(key, _)| key == step),
                Some(Tree::List(_)) => step.trim_end_matches(']').parse().ok(),
                _ => None,
            };
            tree = found.and_then(|at| tree.and_then(|tree| tree.child(at)));
            position.push(found.unwrap_or(usize::MAX));
        }
        position
    }

    fn child(&self, at: usize) -> Option<&Tree> {
        match self {
            Tree::Map(entries) => entries.get(at).map(|(_, value)| value),
            Tree::List(items) => items.get(at),
            _ => None,
        }
    }
}

/// Returns `x` as an integer if it is one: upstream's YAML becomes JSON first, where `16.0` is
/// written `16`.
fn whole(x: f64) -> Option<i64> {
    // 2^53: beyond it a float no longer names one integer.
    (x.fract() == 0.0 && x.abs() <= 9_007_199_254_740_992.0).then_some(x as i64)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E>(self, b: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Tree, E> {
        Ok(Tree::Int(i))
    }

    fn visit_u64<E>(self, u: u64) -> Result<Tree, E> {
        Ok(i64::try_from(u).map_or(Tree::Float(u as f64), Tree::Int))
    }

    fn visit_i128<E>(self, i: i128) -> Result<Tree, E> {
        Ok(i64::try_from(i).map_or(Tree::Float(i as f64), Tree::Int))
    }

    fn visit_u128<E>(self, u: u128) -> Result<Tree, E> {
        Ok(i64::try_from(u).map_or(Tree::Float(u as f64), Tree::Int))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Tree, E> {
        Ok(Tree::Float(x))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
        Tree::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<String, Tree>()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}
