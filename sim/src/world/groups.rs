//! Groups' objects and what schedulers tell on them; what admission says to binds.

use berth_core::engine::WriteResult;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKey, GroupPhase, GroupTold, NATIVE, PodGroup};
use berth_core::types::{PodUid, Text, Timestamp};

use super::World;
use super::carry::{not_found, stale};

/// A rule by which the server refuses binds, as a policy or a webhook has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// How the names of the pods begin.
    pub pods: Text,
    /// None: wherever they are to go.
    pub node: Option<Text>,
    /// 403 or 422.
    pub code: u16,
    /// Whether it answers to `dryRun=All`; else 400, as for a webhook with side effects.
    pub dry: bool,
}

impl World {
    /// Returns the objects that make groups, by namespace, dialect, kind and name.
    pub fn groups(&self) -> impl Iterator<Item = &PodGroup> {
        self.rest.values().filter_map(group_in)
    }

    pub fn group(&self, key: &GroupKey) -> Option<&PodGroup> {
        self.groups().find(|group| group.key == *key)
    }

    /// Changes the object of a group, as its user or controller does. Returns false if there is none.
    pub fn change_group(
        &mut self,
        key: &GroupKey,
        now: Timestamp,
        change: impl FnOnce(&mut PodGroup),
    ) -> bool {
        let Some(mut group) = self.group(key).cloned() else { return false };
        change(&mut group);
        let event = GroupEvent::Applied(Box::new(group));
        self.apply_rest(ClusterEvent::Groups(event), now);
        true
    }

    /// Deletes the object of a group; the pods stay.
    pub fn remove_group(&mut self, key: &GroupKey, now: Timestamp) {
        if let Some(group) = self.group(key) {
            let (key, uid) = (group.key.clone(), group.uid.clone());
            self.apply_rest(ClusterEvent::Groups(GroupEvent::Deleted { key, uid }), now);
        }
    }

    pub(super) fn apply_group(&mut self, mut group: PodGroup, now: Timestamp) {
        if group.uid.is_empty() {
            let known = self.group(&group.key).map(|known| known.uid.clone());
            group.uid = known.unwrap_or_else(|| {
                let number = self.fresh_number();
                format!("{}-uid-{number:04}", group.key.name).into()
            });
        }
        let event = GroupEvent::Applied(Box::new(group));
        self.apply_rest(ClusterEvent::Groups(event), now);
    }

    /// Kubernetes' own object says once and for all that its group has been scheduled.
    pub(super) fn tell_group(
        &mut self,
        key: &GroupKey,
        uid: &Text,
        told: &GroupTold,
        now: Timestamp,
    ) -> WriteResult {
        let Some(known) = self.group(key) else {
            return not_found(&format!("podgroups {:?}", &*key.name));
        };
        if known.uid != *uid {
            return stale(format!("podgroups {:?} has another UID", &*key.name));
        }
        let told = Some(known.words.of(told));
        if known.told != told {
            self.change_group(key, now, |group| {
                let scheduled = told.as_ref().is_some_and(|t| t.phase == GroupPhase::Scheduled);
                group.settled |= scheduled && group.key.dialect == NATIVE;
                group.told = told;
            });
        }
        self.done()
    }

    /// From now on such binds are refused.
    pub fn deny(&mut self, denial: Denial) {
        self.denials.push(denial);
    }

    /// The rules about these pods are gone.
    pub fn allow(&mut self, pods: &Text) {
        self.denials.retain(|denial| denial.pods != *pods);
    }

    /// Rules go that don't answer to `dryRun=All`: by them a group is bound in part time and again.
    pub fn allow_untried(&mut self) {
        self.denials.retain(|denial| denial.dry);
    }

    /// Tells whether admission says no to anything.
    pub fn denies_some(&self) -> bool {
        !self.denials.is_empty()
    }

    /// Tells whether a bind of the pod of this name to the node would be refused.
    pub fn denies(&self, pod: &Text, node: &Text) -> bool {
        self.denial(pod, node).is_some()
    }

    fn denial(&self, pod: &Text, node: &Text) -> Option<&Denial> {
        let concerns = |denial: &&Denial| {
            let here = denial.node.as_ref().is_none_or(|of| of == node);
            here && pod.starts_with(&*denial.pods)
        };
        self.denials.iter().find(concerns)
    }

    pub(super) fn denied(&self, pod: &Text, node: &Text, dry: bool) -> Option<WriteResult> {
        let denial = self.denial(pod, node)?;
        let code = if dry && !denial.dry { 400 } else { denial.code };
        let message = format!("pods {:?} is forbidden: denied by a policy", &**pod).into();
        Some(WriteResult::Refused { code, message })
    }

    pub fn is_disrupted(&self, uid: &PodUid) -> bool {
        self.disrupted.contains(uid)
    }

    /// Returns false if it has the condition already.
    pub(super) fn disrupt(&mut self, uid: &PodUid) -> bool {
        self.disrupted.insert(uid.clone())
    }
}

fn group_in(event: &ClusterEvent) -> Option<&PodGroup> {
    match event {
        ClusterEvent::Groups(GroupEvent::Applied(group)) => Some(group),
        _ => None,
    }
}
