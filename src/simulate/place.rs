//! Finds the line of a field: the document is parsed a second time, with positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A file is in memory already, so its size bounds what it can cost; only aliases multiply.
const UNBOUNDED: usize = usize::MAX / 2;
/// Deeper than any Kubernetes object, far from the end of the stack.
const DEPTH_MAX: usize = 128;

/// How documents are read: as kubectl does, whatever their size. A pod may be called `y` or `no`.
pub(super) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: UNBOUNDED,
            max_nodes: UNBOUNDED,
            max_total_scalar_bytes: UNBOUNDED,
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
        },
        legacy_octal_numbers: true,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Joins two paths such as `items[3]` and `spec.nodeName`.
pub(super) fn joined(outer: &str, inner: &str) -> String {
    match (outer.is_empty(), inner.is_empty()) {
        (true, _) => inner.to_owned(),
        (_, true) => outer.to_owned(),
        (false, false) => format!("{outer}.{inner}"),
    }
}

/// Returns the line, counted from 1, of the field at `path`, or of the innermost part of the path
/// that the document has.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let tree: Spanned<Tree> = serde_saphyr::from_str_with_options(text, options()).ok()?;
    let (mut at, mut line) = (&tree, tree.referenced.line());
    for step in steps(path) {
        match at.value.child(step) {
            Some((child_line, child)) => (at, line) = (child, child_line),
            None => break,
        }
    }
    usize::try_from(line).ok().filter(|line| *line > 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Takes a path apart. Keys with dots are written `requests[nvidia.com/gpu]`.
fn steps(path: &str) -> Vec<Step<'_>> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = inner.split_once(']').unwrap_or((inner, ""));
            let quoted = key.trim_matches('"');
            steps.push(key.parse().map_or(Step::Key(quoted), Step::Index));
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Key(&rest[..end]));
            rest = &rest[end..];
        }
    }
    steps
}

/// A document with the place of each value; scalars are left out.
enum Tree {
    Scalar,
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl Tree {
    /// Returns the line and the value of a child; an entry's line is that of its key.
    fn child(&self, step: Step<'_>) -> Option<(u64, &Spanned<Tree>)> {
        match (self, step) {
            (Tree::Map(entries), Step::Key(key)) => {
                let entry = entries.iter().find(|(k, _)| k.value == key);
                entry.map(|(k, value)| (k.referenced.line(), value))
            }
            (Tree::List(items), Step::Index(at)) => {
                items.get(at).map(|item| (item.referenced.line(), item))
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

macro_rules! scalars {
    ($($visit:ident: $type:ty),*) => {$(
        fn $visit<E>(self, _: $type) -> Result<Tree, E> {
            Ok(Tree::Scalar)
        }
    )*};
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128);
    scalars!(visit_u128: u128, visit_f64: f64, visit_str: &str, visit_bytes: &[u8]);

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
        Tree::deserialize(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| Tree::Scalar)
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
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_field_or_of_its_nearest_parent() {
        let text = "kind: Pod\nspec:\n  containers:\n  - name: a\n    resources:\n      requests:\n        nvidia.com/gpu: x\n";
        let line = |path| line_of(text, path);
        assert_eq!(line("spec.containers[0].resources.requests[nvidia.com/gpu]"), Some(7));
        assert_eq!(line("spec.containers[0].image"), Some(4));
        assert_eq!(line("spec.containers[7]"), Some(3));
        assert_eq!(line("status.phase"), Some(1));
        assert_eq!(line(""), Some(1));
        assert_eq!(line_of("{", "a"), None);
    }

    #[test]
    fn paths_are_taken_apart() {
        let expected = [Step::Key("a"), Step::Index(0), Step::Key("n/g.u"), Step::Key("b")];
        assert_eq!(steps("a[0][n/g.u].b"), expected);
        assert_eq!(joined("items[1]", "spec"), "items[1].spec");
    }
}
