//! Groups of pods that start together, as dialects tell of them.
//!
//! A dialect is a convention by which pods and objects say what belongs together: Kubernetes' own
//! PodGroups, the labels and annotations of other schedulers. Each object is read on its own; the
//! ledger joins them.

use std::fmt;

use super::{LabelSelector, PreemptionPolicy, Span, Text, Timestamp, TopologyKey};

/// How strongly a dialect says it. A pod that several dialects put into groups is in that of the
/// first rank; two of one rank must name the same group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// A field of the pod's spec.
    Native,
    /// A label or annotation that names the group.
    Explicit,
    /// A label or annotation that also says how many there are.
    Counted,
}

/// A convention for groups. Order: precedence, then name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dialect {
    pub rank: Rank,
    /// As a profile lists it.
    pub name: &'static str,
}

/// Kubernetes' own groups: `spec.schedulingGroup` and objects of scheduling.k8s.io.
pub const NATIVE: Dialect = Dialect { rank: Rank::Native, name: "native" };

/// What a key names: pods, or groups of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    #[default]
    Pods,
    /// Its members are groups (CompositePodGroup).
    Groups,
}

/// A group, whether there is an object for it or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    pub dialect: Dialect,
    pub kind: GroupKind,
    pub namespace: Text,
    pub name: Text,
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a pod says in one dialect. The group is in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupHint {
    pub dialect: Dialect,
    pub name: Text,
    /// How many members make the group, where pods say so themselves.
    pub min_member: Option<u32>,
    /// The group has an object, and nobody starts without it.
    pub needs_object: bool,
    /// The pod's part in the group, such as `master`.
    pub role: Option<Text>,
    /// What the pod itself says of where the group may be.
    pub topology: Vec<TopologyConstraint>,
    pub spread: Vec<Spread>,
    /// Why what the pod says can't be understood.
    pub problem: Option<Text>,
}

impl GroupHint {
    /// A group that has an object.
    pub fn of_object(dialect: Dialect, name: Text) -> GroupHint {
        GroupHint {
            dialect,
            name,
            min_member: None,
            needs_object: true,
            role: None,
            topology: Vec::new(),
            spread: Vec::new(),
            problem: None,
        }
    }

    pub fn key(&self, namespace: &Text) -> GroupKey {
        GroupKey {
            dialect: self.dialect,
            kind: GroupKind::Pods,
            namespace: namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// What a group needs to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quorum {
    /// Nothing: members are placed as they fit.
    #[default]
    None,
    /// So many members; for groups of groups, so many groups that have what they need.
    AtLeast(u32),
    /// So many sub-groups that have what they need.
    SubGroups(u32),
}

/// Which members belong to a sub-group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubGroupMembers {
    /// Those with this [`GroupHint::role`].
    Role(Text),
    /// Those that the selector selects; one sub-group for each combination of the keys' values.
    Labels { selector: Option<LabelSelector>, keys: Vec<Text> },
}

/// A part of a group with a minimum of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroup {
    pub name: Text,
    /// The sub-group that it is part of, if it isn't one of the group itself.
    pub parent: Option<Text>,
    pub members: SubGroupMembers,
    /// Members that each needs.
    pub min_member: u32,
    /// Where the keys make several, or others are part of it: how many of them are needed; `None` needs
    /// all.
    pub min_groups: Option<u32>,
    /// Where each may be.
    pub topology: Vec<TopologyConstraint>,
}

impl SubGroup {
    /// The members of this role, of which it needs so many.
    pub fn of_role(role: Text, min_member: u32) -> SubGroup {
        SubGroup {
            name: role.clone(),
            parent: None,
            members: SubGroupMembers::Role(role),
            min_member,
            min_groups: None,
            topology: Vec::new(),
        }
    }
}

/// Members stay together in one domain of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyConstraint {
    pub level: TopologyLevel,
    /// Else the members are only better there.
    pub required: bool,
    /// It holds for every so many members, in order of their index, instead of for all of them.
    pub slice: Option<u32>,
    /// It holds for all pods of the namespace that are selected, whichever group they are in: where
    /// some of them run the others go.
    pub span: Option<LabelSelector>,
}

/// Of a group's members at most so many are in one domain of a level, and none outside of all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread {
    pub level: TopologyLevel,
    pub at_most: u32,
}

/// A level of a topology, in the words of whoever names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyLevel {
    /// A node label, or a name that a profile has for a level.
    Named(Text),
    /// Counted from below, 1 for the smallest domains above a node.
    Tier(u32),
    /// A level of the topology that an object of this name describes, if there is one.
    Of { topology: TopologyKey, level: Text },
}

impl fmt::Display for TopologyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyLevel::Named(name) => f.write_str(name),
            TopologyLevel::Tier(tier) => write!(f, "tier {tier}"),
            TopologyLevel::Of { level, .. } => f.write_str(level),
        }
    }
}

impl TopologyConstraint {
    /// All members in one domain of this level.
    pub fn required(level: Text) -> TopologyConstraint {
        let (level, required) = (TopologyLevel::Named(level), true);
        TopologyConstraint { level, required, slice: None, span: None }
    }

    /// All members in one domain of this level, if they fit there.
    pub fn preferred(level: Text) -> TopologyConstraint {
        TopologyConstraint { required: false, ..TopologyConstraint::required(level) }
    }
}

/// How victims are taken from the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisruptionMode {
    /// One pod at a time.
    #[default]
    Single,
    /// All or none.
    All,
}

/// A claim that the members of a group share (KEP-5729).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupClaim {
    pub name: Text,
    /// The claim's own name, or that of the template it is made from.
    pub source: Text,
    pub from_template: bool,
}

/// What stands on a group's object, or is to stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupPhase {
    /// Members or an object are missing.
    Waiting,
    /// Looked at, and fits nowhere.
    Unschedulable,
    /// Something went wrong.
    Error,
    /// What it needs to start is bound.
    Scheduled,
}

/// What users read on a group's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTold {
    pub phase: GroupPhase,
    pub message: Text,
    /// Members that have a node.
    pub scheduled: u32,
}

/// What of a [`GroupTold`] an object has words for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupWords {
    /// Why it isn't scheduled; without, all such phases read as [`GroupPhase::Waiting`].
    pub why: bool,
    /// Without, the message is empty.
    pub message: bool,
    /// Without, the number of members that have a node is 0.
    pub scheduled: bool,
}

impl GroupWords {
    pub const ALL: GroupWords = GroupWords { why: true, message: true, scheduled: true };

    /// Returns what is left of `told` in these words.
    pub fn of(self, told: &GroupTold) -> GroupTold {
        let phase = match told.phase {
            GroupPhase::Unschedulable | GroupPhase::Error if !self.why => GroupPhase::Waiting,
            phase => phase,
        };
        GroupTold {
            phase,
            message: if self.message { told.message.clone() } else { Text::default() },
            scheduled: if self.scheduled { told.scheduled } else { 0 },
        }
    }
}

/// An object that makes a group, or a group of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    pub key: GroupKey,
    pub uid: Text,
    pub resource_version: u64,
    pub created: Timestamp,
    pub quorum: Quorum,
    pub sub_groups: Vec<SubGroup>,
    /// The group of groups that it is in, by name.
    pub parent: Option<Text>,
    pub priority: Option<i32>,
    pub preemption_policy: Option<PreemptionPolicy>,
    /// Members may have priorities of their own.
    pub uneven_priorities: bool,
    pub disruption: DisruptionMode,
    /// How long a wait at the barrier may take.
    pub deadline: Option<Span>,
    pub topology: Vec<TopologyConstraint>,
    pub spread: Vec<Spread>,
    pub claims: Vec<GroupClaim>,
    /// `status.resourceClaimStatuses`: entry and the claim made for it, none if it needs none.
    pub claim_statuses: Vec<(Text, Option<Text>)>,
    /// What the object says now, as far as Berth would have written it: see
    /// [`PodGroup::is_told`].
    pub told: Option<GroupTold>,
    pub words: GroupWords,
    /// It has got to where a scheduler says nothing more, whatever becomes of its members.
    pub settled: bool,
    /// Why the object can't be understood; its members wait.
    pub problem: Option<Text>,
}

impl PodGroup {
    /// A group that needs so many members and says nothing else.
    pub fn gang(key: GroupKey, uid: impl Into<Text>, min_member: u32) -> PodGroup {
        PodGroup {
            key,
            uid: uid.into(),
            resource_version: 0,
            created: Timestamp::default(),
            quorum: Quorum::AtLeast(min_member),
            sub_groups: Vec::new(),
            parent: None,
            priority: None,
            preemption_policy: None,
            uneven_priorities: false,
            disruption: DisruptionMode::default(),
            deadline: None,
            topology: Vec::new(),
            spread: Vec::new(),
            claims: Vec::new(),
            claim_statuses: Vec::new(),
            told: None,
            words: GroupWords::ALL,
            settled: false,
            problem: None,
        }
    }

    /// Tells whether nothing is left to be written: the object says `told` already, as far as it has
    /// words for it, or says nothing more.
    pub fn is_told(&self, told: &GroupTold) -> bool {
        self.settled || self.told.as_ref() == Some(&self.words.of(told))
    }

    /// Returns the key of the group of groups that it is in.
    pub fn parent_key(&self) -> Option<GroupKey> {
        let name = self.parent.clone()?;
        Some(GroupKey { kind: GroupKind::Groups, name, ..self.key.clone() })
    }
}

/// The commit that a bound pod was part of, as its annotation says. A successor reads from any
/// member how many belong to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanNote {
    /// UID of the group's object, else dialect and name.
    pub group: Text,
    pub attempt: u32,
    /// How many members were bound together.
    pub members: u32,
}

/// Annotation of a member's Binding, which the server stores with the node's name.
pub const PLAN_ANNOTATION: &str = "berth.dev/plan";

impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.attempt, self.members)
    }
}

impl PlanNote {
    /// Reads the annotation's value; `None` if it is none of ours.
    pub fn parse(text: &str) -> Option<PlanNote> {
        let (rest, members) = text.rsplit_once('/')?;
        let (group, attempt) = rest.rsplit_once('/')?;
        let (attempt, members) = (attempt.parse().ok()?, members.parse().ok()?);
        (!group.is_empty()).then(|| PlanNote { group: group.into(), attempt, members })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_told_once_in_the_words_it_has() {
        let key = GroupKey {
            dialect: NATIVE,
            kind: GroupKind::Pods,
            namespace: "ns".into(),
            name: "g".into(),
        };
        let told =
            |phase, message: &str| GroupTold { phase, message: message.into(), scheduled: 3 };
        let waiting = told(GroupPhase::Waiting, "m");
        let mut group = PodGroup::gang(key, "u", 8);
        assert!(!group.is_told(&waiting));
        group.told = Some(waiting.clone());
        assert!(group.is_told(&waiting) && !group.is_told(&told(GroupPhase::Waiting, "n")));
        group.words = GroupWords { why: false, message: false, scheduled: false };
        group.told = Some(group.words.of(&waiting));
        assert!(group.is_told(&told(GroupPhase::Unschedulable, "n")));
        assert!(!group.is_told(&told(GroupPhase::Scheduled, "n")));
        group.settled = true;
        assert!(group.is_told(&told(GroupPhase::Waiting, "n")));
    }

    #[test]
    fn a_plan_note_is_read_as_it_was_written() {
        let note = PlanNote { group: "kueue/train/a".into(), attempt: 3, members: 8 };
        assert_eq!(note.to_string(), "kueue/train/a/3/8");
        assert_eq!(PlanNote::parse("kueue/train/a/3/8"), Some(note));
        for text in ["", "a/3", "a/b/c", "/3/8", "a/-1/8"] {
            assert_eq!(PlanNote::parse(text), None, "{text}");
        }
    }
}
