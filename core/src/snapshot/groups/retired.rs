//! Members whose work is done and whose objects are gone: they have been there, and nobody comes in
//! their place. They count as long as the group has others, in whatever part of it.

use std::sync::Arc;

use crate::types::{GroupKey, Pod};

use super::Groups;

impl Groups {
    /// A member is gone whose work is done.
    pub(in crate::snapshot) fn retire(&mut self, pod: &Pod) {
        let retired = Arc::new(pod.clone());
        for hint in pod.group_hints() {
            let key = hint.key(&pod.namespace);
            if self.tree(&key).iter().any(|part| self.members.contains_key(part)) {
                self.retired.entry(key).or_default().push(Arc::clone(&retired));
            }
        }
    }

    /// The last member of a part is gone: if no other part has one, the next that come begin anew.
    pub(super) fn end_retirement(&mut self, key: &GroupKey) {
        if self.members.contains_key(key) || self.retired.is_empty() {
            return;
        }
        let tree = self.tree(key);
        if !tree.iter().any(|part| self.members.contains_key(part)) {
            tree.iter().for_each(|part| drop(self.retired.remove(part)));
        }
    }

    /// Returns those that count for the group itself.
    pub(super) fn retired(&self, key: &GroupKey) -> impl Iterator<Item = &Pod> {
        self.retired.get(key).into_iter().flatten().map(AsRef::as_ref)
    }

    /// Returns those of the whole group that the group is in.
    pub fn retired_of_all(&self, key: &GroupKey) -> impl Iterator<Item = &Pod> {
        let parts = if self.retired.is_empty() { Vec::new() } else { self.tree(key) };
        parts.into_iter().flat_map(|part| self.retired(&part).collect::<Vec<_>>())
    }

    /// Returns all parts of the outermost group that the group is in.
    fn tree(&self, key: &GroupKey) -> Vec<GroupKey> {
        let mut parts = vec![self.root(key.clone()).unwrap_or_else(|_| key.clone())];
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            let below: Vec<GroupKey> = self.children(part).cloned().collect();
            parts.extend(below);
            at += 1;
        }
        parts
    }
}
