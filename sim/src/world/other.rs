//! Objects of kinds that scheduling writes but does not watch: trees of values.

use berth_core::types::{Text, Value};

/// Kind, namespace and name.
pub type OtherKey = (Text, Text, Text);

#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    pub resource_version: u64,
    pub body: Value,
}

/// Merges `patch` into `body` as RFC 7386 says: maps by key, null removes, all else replaces.
pub(super) fn merge(body: &mut Value, patch: &Value) {
    let Value::Map(patch) = patch else {
        *body = patch.clone();
        return;
    };
    if !matches!(body, Value::Map(_)) {
        *body = Value::Map(Default::default());
    }
    let Value::Map(fields) = body else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                fields.remove(key);
            }
            value => merge(fields.entry(key.clone()).or_default(), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_replaces_leaves_and_null_removes() {
        let mut body = Value::map([("a", Value::Int(1)), ("b", Value::Int(2))]);
        merge(&mut body, &Value::map([("a", Value::Null), ("c", Value::text("x"))]));
        assert_eq!(body, Value::map([("b", Value::Int(2)), ("c", Value::text("x"))]));
    }
}
