//! Groups as somebody knows them: the world's log, or a process. Written from what the objects'
//! documents say, not from the ledger.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKey, GroupKind, PodGroup, Quorum, SubGroupMembers};
use berth_core::types::{Phase, Pod, PodUid, Span, Text, Timestamp};

use crate::workload::ELSEWHERE;

/// A group has started when a member has run for so long.
pub(super) const STARTED_AFTER: Span = Span::from_secs(60);
/// Groups of groups are not deeper.
const DEPTH_MAX: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Roster {
    objects: BTreeMap<GroupKey, PodGroup>,
    /// UIDs of objects that are gone.
    gone: BTreeSet<Text>,
    /// Members of groups; `None`: gone.
    pods: BTreeMap<PodUid, Option<Box<Pod>>>,
    members: BTreeMap<GroupKey, BTreeSet<PodUid>>,
    /// Since when a member has run, as it was first told: containers that are started anew in place
    /// don't undo that.
    running: BTreeMap<PodUid, Timestamp>,
}

/// How a group stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Members that are on a node, not on their way out.
    pub(super) bound: usize,
    /// Those, and members that have ended well, are what the group needs.
    pub(super) whole: bool,
    /// When a member that runs will have run long enough.
    pub(super) starts: Option<Timestamp>,
    /// Somebody else has bound a member.
    pub(super) foreign: bool,
    /// A member that is on a node has no controller.
    pub(super) unowned: bool,
}

impl Standing {
    pub(super) fn started(&self, now: Timestamp) -> bool {
        self.starts.is_some_and(|at| at <= now)
    }

    pub(super) fn half(&self) -> bool {
        self.bound > 0 && !self.whole && !self.foreign
    }
}

/// What a group lacks, by the members that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Object(Text),
    Members { want: u32, of: Text },
    Groups { want: u32, of: Text },
}

pub(super) fn leaf(pod: &Pod) -> Option<GroupKey> {
    pod.group_hints().first().map(|hint| hint.key(&pod.namespace))
}

/// Tells whether the pod is on a node and means to stay.
pub(super) fn bound(pod: &Pod) -> bool {
    pod.node_name.is_some() && !pod.terminating && !pod.finished()
}

/// Tells whether the pod's work is done: it has had its place.
pub(super) fn done(pod: &Pod) -> bool {
    pod.node_name.is_some() && pod.phase == Phase::Succeeded
}

fn counts(pod: &Pod) -> bool {
    bound(pod) || done(pod)
}

impl Roster {
    /// Follows an event. Returns the outermost groups that it touches.
    pub(super) fn fold(&mut self, event: &ClusterEvent) -> Vec<GroupKey> {
        match event {
            ClusterEvent::PodApplied(pod) => {
                let Some(key) = leaf(pod) else { return Vec::new() };
                let newer = match self.pods.get(&pod.uid) {
                    None => true,
                    Some(None) => false,
                    Some(Some(known)) => pod.resource_version > known.resource_version,
                };
                if let Some(since) = pod.gang.as_ref().and_then(|gang| gang.running) {
                    let known = self.running.entry(pod.uid.clone()).or_insert(since);
                    *known = since.min(*known);
                }
                if newer {
                    self.members.entry(key.clone()).or_default().insert(pod.uid.clone());
                    self.pods.insert(pod.uid.clone(), Some(pod.clone()));
                }
                vec![self.outer(&key)]
            }
            ClusterEvent::PodDeleted { uid } => {
                if self.pod(uid).is_some_and(done) {
                    // Its work counts though its object is gone.
                    return Vec::new();
                }
                let known = self.pods.insert(uid.clone(), None).flatten();
                let Some(key) = known.and_then(|pod| leaf(&pod)) else { return Vec::new() };
                if let Some(members) = self.members.get_mut(&key) {
                    members.remove(uid);
                }
                vec![self.outer(&key)]
            }
            ClusterEvent::Groups(event) => self.fold_object(event),
            _ => Vec::new(),
        }
    }

    fn fold_object(&mut self, event: &GroupEvent) -> Vec<GroupKey> {
        let (GroupEvent::Applied(_) | GroupEvent::Deleted { .. }) = event else {
            return Vec::new();
        };
        let key = match event {
            GroupEvent::Applied(group) => &group.key,
            GroupEvent::Deleted { key, .. } => key,
            GroupEvent::Served { .. }
            | GroupEvent::TopologyApplied(_)
            | GroupEvent::TopologyDeleted { .. } => return Vec::new(),
        };
        let before = self.outer(key);
        match event {
            GroupEvent::Applied(group) => {
                let known = self.objects.get(key).map_or(0, |known| known.resource_version);
                if group.resource_version > known && !self.gone.contains(&group.uid) {
                    self.objects.insert(key.clone(), (**group).clone());
                }
            }
            GroupEvent::Deleted { uid, .. } => {
                self.gone.insert(uid.clone());
                if self.objects.get(key).is_some_and(|known| known.uid == *uid) {
                    self.objects.remove(key);
                }
            }
            GroupEvent::Served { .. }
            | GroupEvent::TopologyApplied(_)
            | GroupEvent::TopologyDeleted { .. } => {}
        }
        let after = self.outer(key);
        if before == after { vec![after] } else { vec![before, after] }
    }

    pub(super) fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(uid)?.as_deref()
    }

    pub(super) fn object(&self, key: &GroupKey) -> Option<&PodGroup> {
        self.objects.get(key)
    }

    /// Returns the outermost group of a group.
    pub(super) fn outer(&self, key: &GroupKey) -> GroupKey {
        let mut key = key.clone();
        for _ in 0..DEPTH_MAX {
            let Some(parent) = self.objects.get(&key).and_then(PodGroup::parent_key) else { break };
            key = parent;
        }
        key
    }

    pub(super) fn outer_of(&self, pod: &Pod) -> Option<GroupKey> {
        leaf(pod).map(|key| self.outer(&key))
    }

    fn children<'a>(&'a self, key: &'a GroupKey) -> impl Iterator<Item = &'a GroupKey> {
        let objects = self.objects.iter();
        objects.filter(|(_, object)| object.parent_key().as_ref() == Some(key)).map(|(key, _)| key)
    }

    /// Returns the members of a group, and of the groups in it.
    pub(super) fn members(&self, key: &GroupKey) -> Vec<&Pod> {
        match key.kind {
            GroupKind::Pods => {
                let uids = self.members.get(key).into_iter().flatten();
                uids.filter_map(|uid| self.pod(uid)).collect()
            }
            GroupKind::Groups => self.children(key).flat_map(|key| self.members(key)).collect(),
        }
    }

    /// Returns every outermost group that has members.
    pub(super) fn outermost(&self) -> BTreeSet<GroupKey> {
        let named = self.members.iter().filter(|(_, uids)| !uids.is_empty());
        named.map(|(key, _)| self.outer(key)).collect()
    }

    /// Tells whether those members that count are what the group needs. Of a group that can't be
    /// judged, since its object isn't there, any number will do.
    pub(super) fn suffices(&self, key: &GroupKey, counts: &dyn Fn(&Pod) -> bool) -> bool {
        match self.missing(key, counts) {
            None | Some(Missing::Object(_)) => true,
            Some(Missing::Members { .. } | Missing::Groups { .. }) => false,
        }
    }

    /// Returns the first thing that the group lacks, the outermost first.
    pub(super) fn missing(&self, key: &GroupKey, counts: &dyn Fn(&Pod) -> bool) -> Option<Missing> {
        let object = self.objects.get(key);
        if key.kind == GroupKind::Groups {
            let Some(object) = object else { return Some(Missing::Object(key.name.clone())) };
            let good = self.children(key).filter(|key| self.missing(key, counts).is_none()).count();
            let want = at_least(object.quorum);
            return (good < want as usize).then(|| Missing::Groups { want, of: key.name.clone() });
        }
        let members = self.members(key);
        let needs_object =
            members.iter().flat_map(|pod| pod.group_hints()).any(|hint| hint.needs_object);
        if object.is_none() && needs_object {
            return Some(Missing::Object(key.name.clone()));
        }
        let told = members.iter().flat_map(|pod| pod.group_hints()).find_map(|h| h.min_member);
        let want = object.map_or(told.unwrap_or(0), |object| at_least(object.quorum));
        let have = members.iter().filter(|pod| counts(pod)).count();
        if have < want as usize {
            return Some(Missing::Members { want, of: key.name.clone() });
        }
        let parts = object.map_or(&[][..], |object| &object.sub_groups);
        parts.iter().find_map(|part| {
            let SubGroupMembers::Role(role) = &part.members else { return None };
            let of = |pod: &&&Pod| pod.group_hints().iter().any(|h| h.role.as_ref() == Some(role));
            let have = members.iter().filter(of).filter(|pod| counts(pod)).count();
            let want = part.min_member;
            (have < want as usize).then(|| Missing::Members { want, of: part.name.clone() })
        })
    }

    pub(super) fn standing(&self, key: &GroupKey) -> Standing {
        let members = self.members(key);
        let on_nodes = || members.iter().filter(|pod| bound(pod));
        let starts = on_nodes()
            .filter(|pod| pod.phase == Phase::Running)
            .filter_map(|pod| Some(*self.running.get(&pod.uid)? + STARTED_AFTER));
        Standing {
            bound: on_nodes().count(),
            whole: self.suffices(key, &counts),
            starts: starts.min(),
            foreign: on_nodes().any(|pod| pod.node_name.as_ref().is_some_and(|n| n == ELSEWHERE)),
            unowned: on_nodes().any(|pod| pod.owner.is_none()),
        }
    }
}

fn at_least(quorum: Quorum) -> u32 {
    match quorum {
        // No load has such a group.
        Quorum::None | Quorum::SubGroups(_) => 0,
        Quorum::AtLeast(n) => n,
    }
}
