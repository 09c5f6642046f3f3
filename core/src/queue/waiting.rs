//! Entries that wait for the same thing, so that it is asked about once for all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::EntryId;

/// Waiting entries by what they wait for.
#[derive(Debug)]
pub(super) struct Waiting<K> {
    groups: BTreeMap<K, BTreeSet<EntryId>>,
    len: usize,
}

impl<K: Ord> Waiting<K> {
    pub(super) fn new() -> Waiting<K> {
        Waiting { groups: BTreeMap::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, key: K, id: EntryId) {
        self.len += usize::from(self.groups.entry(key).or_default().insert(id));
    }

    pub(super) fn remove(&mut self, key: &K, id: EntryId) {
        let Some(ids) = self.groups.get_mut(key) else { return };
        self.len -= usize::from(ids.remove(&id));
        if ids.is_empty() {
            self.groups.remove(key);
        }
    }

    /// Returns the groups; none is empty.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&K, &BTreeSet<EntryId>)> {
        self.groups.iter()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.groups.values().flatten().copied()
    }
}
