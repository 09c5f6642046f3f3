//! Groups: what pods and objects say of them, joined in whatever order it arrives.
//!
//! Reading order: this file (the index), [`membership`] (which group a pod is in), [`view`] (a group
//! with its members, and what it lacks), `parts` (its object's sub-groups), `together` (which of them must be near each other), `retired`.

pub mod membership;
mod parts;
mod retired;
mod together;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::group::{GroupKey, PodGroup};
use crate::types::{Pod, PodUid, Text};

use super::event::{Change, GroupChange, GroupEvent, older};
use super::sets::leave;

pub use membership::Membership;
pub use view::{GroupView, Lack, Unit};

/// What is known of groups.
#[derive(Debug, Default)]
pub struct Groups {
    objects: BTreeMap<GroupKey, Arc<PodGroup>>,
    /// Pods by what each of their hints names, whether their profile honours it or not.
    members: BTreeMap<GroupKey, BTreeSet<PodUid>>,
    /// Number of live members that have a place, by what each of their hints names.
    placed: BTreeMap<GroupKey, u32>,
    /// Members whose work is done and whose objects are gone, while others of the outermost group are
    /// left.
    retired: BTreeMap<GroupKey, Vec<Arc<Pod>>>,
    /// Groups by the group of groups that they say they are in.
    children: BTreeMap<GroupKey, BTreeSet<GroupKey>>,
    /// Dialects whose objects the server doesn't have.
    off: BTreeSet<&'static str>,
    /// Dialects that each scheduler name honours.
    honoured: BTreeMap<Text, BTreeSet<Text>>,
}

impl Groups {
    /// Returns the object of a group, if there is one.
    pub fn object(&self, key: &GroupKey) -> Option<&Arc<PodGroup>> {
        self.objects.get(key)
    }

    /// Returns all objects, in order of their keys.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<PodGroup>> {
        self.objects.values()
    }

    /// Returns the pods that name the group, in order of UID.
    pub fn members(&self, key: &GroupKey) -> impl Iterator<Item = &PodUid> {
        self.members.get(key).into_iter().flatten()
    }

    /// Number of pods that name the group.
    pub fn n_members(&self, key: &GroupKey) -> usize {
        self.members.get(key).map_or(0, BTreeSet::len)
    }

    /// Number of pods that name the group, have a place and are not on their way out.
    pub fn n_placed(&self, key: &GroupKey) -> u32 {
        self.placed.get(key).copied().unwrap_or(0)
    }

    /// Returns the groups that say they are in `key`.
    pub fn children(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.children.get(key).into_iter().flatten()
    }

    /// Says which dialects the profile of a scheduler name honours.
    pub(crate) fn honour(&mut self, scheduler_name: Text, dialects: BTreeSet<Text>) {
        self.honoured.insert(scheduler_name, dialects);
    }

    pub(super) fn fold(&mut self, event: GroupEvent) -> Vec<Change> {
        match event {
            GroupEvent::Applied(group) => self.apply(*group),
            GroupEvent::Deleted { key, uid } => self.delete(&key, &uid),
            GroupEvent::Served { dialect, served } => {
                let changed =
                    if served { self.off.remove(dialect) } else { self.off.insert(dialect) };
                let change = Change::Groups(GroupChange::Dialect { name: dialect });
                changed.then_some(change).into_iter().collect()
            }
            // They are an index of their own.
            GroupEvent::TopologyApplied(_) | GroupEvent::TopologyDeleted { .. } => Vec::new(),
        }
    }

    fn apply(&mut self, group: PodGroup) -> Vec<Change> {
        let key = group.key.clone();
        let known = self.objects.get(&key);
        if let Some(known) = known
            && known.uid == group.uid
            && older(group.resource_version, known.resource_version)
        {
            return Vec::new();
        }
        let same = known.is_some_and(|known| reads_the_same(known, &group));
        self.adopt(known.and_then(|known| known.parent_key()), group.parent_key(), &key);
        self.objects.insert(key.clone(), Arc::new(group));
        if same { Vec::new() } else { vec![Change::Groups(GroupChange::Group { key })] }
    }

    fn delete(&mut self, key: &GroupKey, uid: &Text) -> Vec<Change> {
        let known = self.objects.get(key);
        let Some(known) = known.filter(|known| uid.is_empty() || known.uid == *uid) else {
            return Vec::new();
        };
        self.adopt(known.parent_key(), None, key);
        self.objects.remove(key);
        vec![Change::Groups(GroupChange::Group { key: key.clone() })]
    }

    fn adopt(&mut self, from: Option<GroupKey>, to: Option<GroupKey>, child: &GroupKey) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            leave(&mut self.children, &from, child);
        }
        if let Some(to) = to {
            self.children.entry(to).or_default().insert(child.clone());
        }
    }

    /// A pod takes its place (1) or leaves it (-1).
    pub(super) fn count_placed(&mut self, pod: &Pod, sign: i32) {
        if pod.terminating {
            return;
        }
        for hint in pod.group_hints() {
            let key = hint.key(&pod.namespace);
            let count = self.placed.entry(key.clone()).or_default();
            *count = count.saturating_add_signed(sign);
            if *count == 0 {
                self.placed.remove(&key);
            }
        }
    }

    pub(super) fn join(&mut self, pod: &Pod) {
        for hint in pod.group_hints() {
            self.members.entry(hint.key(&pod.namespace)).or_default().insert(pod.uid.clone());
        }
    }

    pub(super) fn part(&mut self, pod: &Pod) {
        for hint in pod.group_hints() {
            let key = hint.key(&pod.namespace);
            leave(&mut self.members, &key, &pod.uid);
            self.end_retirement(&key);
        }
    }
}

/// Tells whether nothing that decisions depend on differs: the object's version and what Berth wrote
/// there are no reason to look again.
fn reads_the_same(known: &PodGroup, new: &PodGroup) -> bool {
    let PodGroup { resource_version, told, settled, .. } = known.clone();
    *known == PodGroup { resource_version, told, settled, ..new.clone() }
}
