//! A group with its members, and what it needs: read afresh each time it is looked at.

use std::fmt;

use crate::snapshot::{Cluster, Place};
use crate::types::group::{
    GroupHint, GroupKey, GroupKind, Quorum, Spread, SubGroup, TopologyConstraint,
};
use crate::types::{Phase, Pod, PodUid, Text};

use super::membership::DEPTH_MAX;
use super::parts::Parts;

/// A group whose members are looked at as one. More members than this are refused.
pub const MEMBERS_MAX: usize = 16_384;

/// So many members are asked each what they say of their group while it gathers.
const ASKED_EACH: usize = 256;

/// A group, or a part of one, that needs a number of members or of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub name: Text,
    /// Index of the unit that it is part of, below its own.
    pub parent: Option<usize>,
    pub min_member: u32,
    /// How many of its parts must have what they need; `None` for all.
    pub min_parts: Option<u32>,
    /// The unit that it is part of doesn't need it: it only says who must be near whom.
    pub loose: bool,
    /// Where its members may be.
    pub topology: Vec<TopologyConstraint>,
    /// How many of them may be in one domain.
    pub spread: Vec<Spread>,
}

/// A member that lives: not ended, not on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub uid: PodUid,
    /// It has a node, or a plan gives it one.
    pub placed: bool,
    /// Its work is done. Only in [`Cluster::group_as_it_is`].
    pub done: bool,
    /// Units that it counts for, outermost first.
    pub units: Vec<usize>,
}

/// A group as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    pub key: GroupKey,
    /// Parents before their parts; the first is the group itself.
    pub units: Vec<Unit>,
    /// By age, then name.
    pub members: Vec<Member>,
}

/// What keeps a group from being looked at. Its text is what members are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// There is no object of this name as yet.
    Object(Text),
    /// So many of so many members of what is named.
    Members { have: u32, want: u32, of: Text },
    /// As before, of groups.
    Groups { have: u32, want: u32, of: Text },
    /// It can't be placed as it was told.
    Refused(Text),
}

impl Lack {
    /// Returns what makes two of them alike: everything but the running count.
    pub fn likeness(&self) -> Text {
        match self {
            Lack::Object(name) => format!("object {name}").into(),
            Lack::Members { want, of, .. } => format!("members {want} {of}").into(),
            Lack::Groups { want, of, .. } => format!("groups {want} {of}").into(),
            Lack::Refused(text) => text.clone(),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Object(name) => write!(f, "waiting for pod group {name}"),
            Lack::Members { have, want, of } => {
                write!(f, "waiting for {have} of {want} members of {of}")
            }
            Lack::Groups { have, want, of } => {
                write!(f, "waiting for {have} of {want} groups of {of}")
            }
            Lack::Refused(text) => f.write_str(text),
        }
    }
}

impl GroupView {
    /// Counts members for each unit. Shape: one number a unit.
    pub fn count(&self, counts: impl Fn(&Member) -> bool) -> Vec<u32> {
        let mut numbers = vec![0; self.units.len()];
        for member in self.members.iter().filter(|member| counts(member)) {
            member.units.iter().for_each(|unit| numbers[*unit] += 1);
        }
        numbers
    }

    /// Tells whether so many members for each unit are enough for the group. Cost: O(units).
    pub fn suffices(&self, numbers: &[u32]) -> bool {
        self.enough(numbers).first().copied().unwrap_or(true)
    }

    /// Tells for each unit whether so many members are enough for it.
    pub fn enough(&self, numbers: &[u32]) -> Vec<bool> {
        let mut parts = vec![(0u32, 0u32); self.units.len()];
        let mut enough = vec![false; self.units.len()];
        for at in (0..self.units.len()).rev() {
            let unit = &self.units[at];
            let (good, all) = parts[at];
            enough[at] = numbers[at] >= unit.min_member && good >= unit.min_parts.unwrap_or(all);
            if let Some(parent) = unit.parent.filter(|_| !unit.loose) {
                parts[parent].0 += u32::from(enough[at]);
                parts[parent].1 += 1;
            }
        }
        enough
    }

    /// Returns the first thing that so many members leave open, outermost first.
    pub fn lacks(&self, numbers: &[u32]) -> Option<Lack> {
        let enough = self.enough(numbers);
        if enough.first().copied().unwrap_or(true) {
            // A part may lack what it likes if others do.
            return None;
        }
        let at = (0..self.units.len()).find(|at| !enough[*at])?;
        Some(self.lack_of(at, numbers))
    }

    /// Returns what so many members leave open of a unit that has not enough.
    pub fn lack_of(&self, at: usize, numbers: &[u32]) -> Lack {
        let enough = self.enough(numbers);
        let unit = &self.units[at];
        if numbers[at] < unit.min_member {
            let (have, want) = (numbers[at], unit.min_member);
            return Lack::Members { have, want, of: unit.name.clone() };
        }
        let part = |part: &usize| self.units[*part].parent == Some(at) && !self.units[*part].loose;
        let parts = || (0..self.units.len()).filter(part);
        let have = parts().filter(|part| enough[*part]).count() as u32;
        match (unit.min_parts, parts().find(|part| !enough[*part])) {
            (None, Some(part)) => self.lack_of(part, numbers),
            (want, _) => Lack::Groups { have, want: want.unwrap_or(have), of: unit.name.clone() },
        }
    }
}

impl Cluster {
    /// Reads the group `key` (an outermost one) with its members.
    ///
    /// Cost: O(members) where there are enough of them; O(units) where there are not.
    ///
    /// # Errors
    /// What keeps the group from being looked at, whoever its members are. Missing members are told
    /// as far as they are counted without looking at each; for the rest see [`GroupView::lacks`].
    pub fn group_view(&self, key: &GroupKey) -> Result<GroupView, Lack> {
        self.read_group(key, true)
    }

    /// As [`Cluster::group_view`], also of a group that has too few members to be looked at.
    ///
    /// # Errors
    /// What it is can't be told.
    pub fn group_as_it_is(&self, key: &GroupKey) -> Result<GroupView, Lack> {
        self.read_group(key, false)
    }

    fn read_group(&self, key: &GroupKey, complete: bool) -> Result<GroupView, Lack> {
        let (units, members) = (Vec::new(), Vec::new());
        let mut reading = Reading { cluster: self, complete, units, members };
        reading.group(key, None, 0)?;
        reading.keep_together();
        let Reading { units, mut members, .. } = reading;
        if members.len() > MEMBERS_MAX {
            let text = format!("{} members; at most {MEMBERS_MAX} are supported", members.len());
            return Err(Lack::Refused(format!("pod group {key} has {text}").into()));
        }
        members.sort_by_key(|(pod, _)| (pod.created, &pod.name, &pod.uid));
        if complete {
            self.agree(key, &members)?;
        }
        let members = members.into_iter().map(|(_, member)| member).collect();
        Ok(GroupView { key: key.clone(), units, members })
    }

    /// Members must be able to start together.
    fn agree(&self, of: &GroupKey, members: &[(&Pod, Member)]) -> Result<(), Lack> {
        let pods = || members.iter().map(|(pod, _)| *pod);
        let Some(first) = pods().next() else { return Ok(()) };
        let named = |what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display| {
            let text = format!("members of pod group {of} have different {what}: {a} and {b}");
            Err(Lack::Refused(text.into()))
        };
        if let Some(other) = pods().find(|p| p.spec.scheduler_name != first.spec.scheduler_name) {
            let (a, b) = (&first.spec.scheduler_name, &other.spec.scheduler_name);
            return named("schedulers", a, b);
        }
        let object = self.groups.object(of);
        if object.is_some_and(|object| object.uneven_priorities) {
            return Ok(());
        }
        if let Some(other) = pods().find(|pod| pod.priority != first.priority) {
            return named("priorities", &first.priority, &other.priority);
        }
        match object.and_then(|object| object.priority) {
            Some(priority) if priority != first.priority => {
                let text = format!(
                    "pod group {of} has priority {priority}, its members have priority {}",
                    first.priority
                );
                Err(Lack::Refused(text.into()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

pub(super) struct Reading<'a> {
    pub(super) cluster: &'a Cluster,
    /// A group that has not enough members is not read to its end.
    complete: bool,
    pub(super) units: Vec<Unit>,
    pub(super) members: Vec<(&'a Pod, Member)>,
}

impl<'r> Reading<'r> {
    fn group(&mut self, key: &GroupKey, parent: Option<usize>, depth: usize) -> Result<(), Lack> {
        if depth > DEPTH_MAX {
            let text =
                format!("pod group {key} is in itself, or more than {DEPTH_MAX} levels down");
            return Err(Lack::Refused(text.into()));
        }
        let groups = &self.cluster.groups;
        let Some(object) = groups.object(key).cloned() else {
            return self.without_object(key, parent);
        };
        if let Some(problem) = &object.problem {
            return Err(Lack::Refused(format!("pod group {key}: {problem}").into()));
        }
        let children: Vec<GroupKey> = groups.children(key).cloned().collect();
        let of_groups = key.kind == GroupKind::Groups;
        let (min_member, min_parts) = match (object.quorum, of_groups) {
            (Quorum::None, true) => (0, Some(0)),
            (Quorum::AtLeast(n), true) | (Quorum::SubGroups(n), _) => (0, Some(n)),
            (Quorum::None, false) => (0, None),
            (Quorum::AtLeast(n), false) => (n, None),
        };
        let at = self.unit(key.name.clone(), parent, min_member, min_parts);
        self.units[at].topology.clone_from(&object.topology);
        self.units[at].spread.clone_from(&object.spread);
        if of_groups {
            let too_few = |want: &u32| self.complete && children.len() < *want as usize;
            if let Some(want) = min_parts.filter(too_few) {
                let have = children.len() as u32;
                return Err(Lack::Groups { have, want, of: key.name.clone() });
            }
            return children.iter().try_for_each(|child| self.group(child, Some(at), depth + 1));
        }
        if parent.is_none() {
            // Of parts some may do.
            self.enough_known(key, min_member)?;
        }
        self.pods(key, at, &object.sub_groups)
    }

    /// Where pods say all that there is to say.
    fn without_object(&mut self, key: &GroupKey, parent: Option<usize>) -> Result<(), Lack> {
        // Of many the first speaks for all until there are enough.
        let first = self.hints(key).next().map(|hint| (hint.needs_object, hint.min_member));
        let many = self.cluster.groups.n_members(key) > ASKED_EACH;
        match first {
            None | Some((true, _)) => return Err(Lack::Object(key.name.clone())),
            Some((false, want)) if many => self.enough_known(key, want.unwrap_or(0))?,
            Some((false, _)) => {}
        }
        let hints: Vec<&GroupHint> = self.hints(key).collect();
        if hints.iter().any(|hint| hint.needs_object) {
            return Err(Lack::Object(key.name.clone()));
        }
        let mins: std::collections::BTreeSet<u32> =
            hints.iter().filter_map(|hint| hint.min_member).collect();
        if let (Some(least), Some(most)) = (mins.first(), mins.last())
            && least != most
        {
            let text = format!("members of pod group {key} disagree on how many there are");
            return Err(Lack::Refused(format!("{text}: {least} and {most}").into()));
        }
        let min_member = mins.first().copied().unwrap_or(0);
        let at = self.unit(key.name.clone(), parent, min_member, None);
        self.enough_known(key, min_member)?;
        self.pods(key, at, &[])
    }

    fn hints<'a>(&'a self, key: &'a GroupKey) -> impl Iterator<Item = &'a GroupHint> {
        let pods = self.cluster.groups.members(key).filter_map(|uid| self.cluster.pod(uid));
        pods.flat_map(|record| record.pod.group_hints())
            .filter(|hint| hint.dialect == key.dialect && hint.name == key.name)
    }

    /// So that a large group costs nothing while it gathers.
    fn enough_known(&self, key: &GroupKey, want: u32) -> Result<(), Lack> {
        let have = self.cluster.groups.n_members(key);
        if self.complete && have < want as usize {
            return Err(Lack::Members { have: have as u32, want, of: key.name.clone() });
        }
        Ok(())
    }

    pub(super) fn unit(
        &mut self,
        name: Text,
        parent: Option<usize>,
        min_member: u32,
        min_parts: Option<u32>,
    ) -> usize {
        let (loose, topology, spread) = (false, Vec::new(), Vec::new());
        self.add(Unit { name, parent, min_member, min_parts, loose, topology, spread })
    }

    pub(super) fn add(&mut self, unit: Unit) -> usize {
        self.units.push(unit);
        self.units.len() - 1
    }

    fn pods(&mut self, key: &GroupKey, at: usize, sub_groups: &[SubGroup]) -> Result<(), Lack> {
        let mut parts = Parts::of(self, key, at, sub_groups)?;
        let cluster = self.cluster;
        let live = cluster.groups.members(key).filter_map(|uid| cluster.pod(uid));
        let live = live.map(|record| (&record.pod, record.place != Place::Nowhere));
        let retired = cluster.groups.retired(key).map(|pod| (pod, false));
        let complete = self.complete;
        for (pod, placed) in live.chain(retired.filter(|_| !complete)) {
            let done = pod.phase == Phase::Succeeded;
            let gone = pod.finished() && (self.complete || !done);
            if gone || pod.terminating || !belongs(cluster, pod, key) {
                continue;
            }
            let hint = cluster.groups.first_hint(pod);
            if let Some(problem) = hint.and_then(|hint| hint.problem.as_ref()) {
                return Err(Lack::Refused(format!("pod group {key}: {problem}").into()));
            }
            let role = hint.and_then(|hint| hint.role.as_ref());
            let mut units = self.path(at);
            units.extend(parts.units_of(self, pod, role));
            self.members.push((pod, Member { uid: pod.uid.clone(), placed, done, units }));
        }
        Ok(())
    }

    fn path(&self, mut at: usize) -> Vec<usize> {
        let mut path = vec![at];
        while let Some(parent) = self.units[at].parent {
            path.push(parent);
            at = parent;
        }
        path.reverse();
        path
    }
}

/// Tells whether the group is the pod's own, and not just named by a hint that others override. A
/// pod of a scheduler name that honours no dialect counts all the same: it shows what is wrong.
fn belongs(cluster: &Cluster, pod: &Pod, key: &GroupKey) -> bool {
    match cluster.groups.first_hint(pod) {
        Some(hint) => hint.dialect == key.dialect && hint.name == key.name,
        None => true,
    }
}
