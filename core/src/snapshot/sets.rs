//! Indexes that keep a set for each key.

use std::collections::{BTreeMap, BTreeSet};

/// Takes a value out of the set of a key, which goes with its last value.
pub(super) fn leave<K: Ord, V: Ord>(map: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    let Some(values) = map.get_mut(key) else { return };
    values.remove(value);
    if values.is_empty() {
        map.remove(key);
    }
}
