//! Which group a pod is in: the first hint by rank that its profile honours, and the groups of
//! groups above it.

use std::collections::BTreeSet;

use crate::types::group::{GroupHint, GroupKey};
use crate::types::{Pod, Text};

use super::Groups;

/// Groups of groups may be so deep. Source: KEP-6012, Workload API.
pub(super) const DEPTH_MAX: usize = 4;

/// What a pod is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    Alone,
    /// The outermost group that is known of.
    In(GroupKey),
    /// What it says can't be followed; it waits, told why.
    Refused(Text),
}

impl Membership {
    pub fn key(self) -> Option<GroupKey> {
        match self {
            Membership::In(key) => Some(key),
            Membership::Alone | Membership::Refused(_) => None,
        }
    }
}

impl Groups {
    /// Returns what `pod` is part of, by the dialects that its profile honours and the server has.
    ///
    /// Source of the precedence: the native field, then labels and annotations that name a group,
    /// then those that count. Two of one rank must agree.
    pub fn membership(&self, pod: &Pod) -> Membership {
        let Some(hint) = self.first_hint(pod) else { return Membership::Alone };
        let rank = hint.dialect.rank;
        let disagrees = |other: &&GroupHint| other.dialect.rank == rank && other.name != hint.name;
        if let Some(other) = self.honoured_hints(pod).find(disagrees) {
            let (a, b) = (hint.dialect.name, other.dialect.name);
            let text = format!(
                "the pod is in two groups: {a} says {:?}, {b} says {:?}; remove one of the two",
                &*hint.name, &*other.name
            );
            return Membership::Refused(text.into());
        }
        match self.root(hint.key(&pod.namespace)) {
            Ok(root) => Membership::In(root),
            Err(text) => Membership::Refused(text),
        }
    }

    /// Returns the hint that decides for a pod.
    pub(super) fn first_hint<'a>(&self, pod: &'a Pod) -> Option<&'a GroupHint> {
        self.honoured_hints(pod).min_by_key(|hint| hint.dialect)
    }

    fn honoured_hints<'a>(&self, pod: &'a Pod) -> impl Iterator<Item = &'a GroupHint> {
        let honoured = self.honoured.get(&pod.spec.scheduler_name);
        let off = &self.off;
        pod.group_hints().iter().filter(move |hint| {
            let name = hint.dialect.name;
            let served = !hint.needs_object || !off.contains(name);
            served && honoured.is_some_and(|dialects| dialects.contains(name))
        })
    }

    /// Climbs to the outermost group, as far as objects say where to go.
    ///
    /// # Errors
    /// Groups are in each other, or too deep.
    pub(crate) fn root(&self, leaf: GroupKey) -> Result<GroupKey, Text> {
        let mut seen = BTreeSet::from([leaf.clone()]);
        let mut key = leaf;
        while let Some(parent) = self.object(&key).and_then(|group| group.parent_key()) {
            if !seen.insert(parent.clone()) {
                return Err(format!("pod groups are in a circle: {key} and {parent}").into());
            }
            if seen.len() > DEPTH_MAX + 1 {
                let text = format!("pod group {parent} is more than {DEPTH_MAX} levels up");
                return Err(text.into());
            }
            key = parent;
        }
        Ok(key)
    }
}
