//! Groups as the scheduler knows them, with their members: what is shown of them.

use std::collections::BTreeMap;

use berth_core::engine::Engine;
use berth_core::snapshot::Cluster;
use berth_core::types::group::{GroupKind, Quorum};
use berth_core::types::{GroupKey, Pod, PodUid, Text};

/// An outermost group.
#[derive(Clone, Debug)]
pub struct Group {
    pub key: GroupKey,
    /// How many members it needs, or groups; `None` for one whose members are on their own.
    pub needs: Option<u32>,
    /// Those that have not ended, by age, then name.
    pub members: Vec<PodUid>,
    pub n_placed: usize,
    pub state: GroupStage,
    /// What it waits for, or why it fits nowhere; empty where nobody waits.
    pub message: Text,
}

/// How far a group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStage {
    /// Members or an object are missing, or it can't be placed as it was told.
    Waiting,
    /// Looked at, and fits nowhere.
    Unschedulable,
    /// Something went wrong.
    Error,
    /// What it needs to start has places.
    Scheduled,
}

impl GroupStage {
    pub fn name(self) -> &'static str {
        match self {
            GroupStage::Waiting => "Waiting",
            GroupStage::Unschedulable => "Unschedulable",
            GroupStage::Error => "Error",
            GroupStage::Scheduled => "Scheduled",
        }
    }
}

/// Returns the groups that some profile honours, by dialect and name.
pub(super) fn groups(engine: &Engine) -> Vec<Group> {
    let cluster = engine.cluster();
    let rules = || engine.profiles().iter().filter_map(|profile| profile.groups.as_ref());
    let honoured = |key: &GroupKey| rules().any(|it| it.dialects.contains(key.dialect.name));
    let objects = cluster.groups().objects().filter(|object| object.parent.is_none());
    let mut members: BTreeMap<GroupKey, Vec<&Pod>> = BTreeMap::new();
    for key in objects.map(|object| &object.key).filter(|key| honoured(key)) {
        members.entry(key.clone()).or_default();
    }
    let pods = cluster.pods().map(|record| &record.pod).filter(|pod| !pod.finished());
    for pod in pods {
        if let Some(key) = cluster.groups().membership(pod).key() {
            members.entry(key).or_default().push(pod);
        }
    }
    members.into_iter().map(|(key, members)| group(key, members, cluster)).collect()
}

fn group(key: GroupKey, mut members: Vec<&Pod>, cluster: &Cluster) -> Group {
    members.sort_by_key(|pod| (pod.created, &pod.name, &pod.uid));
    let n_placed = members.iter().filter(|pod| pod.node_name.is_some()).count();
    let (state, message) = stage(&key, &members, cluster);
    Group {
        needs: needs(&key, &members, cluster),
        members: members.iter().map(|pod| pod.uid.clone()).collect(),
        n_placed,
        state,
        message,
        key,
    }
}

fn needs(key: &GroupKey, members: &[&Pod], cluster: &Cluster) -> Option<u32> {
    if let Some(object) = cluster.groups().object(key) {
        return match object.quorum {
            Quorum::None | Quorum::SubGroups(_) => None,
            Quorum::AtLeast(n) => Some(n),
        };
    }
    let hints = members.iter().flat_map(|pod| pod.group_hints());
    let own = hints.filter(|hint| hint.dialect == key.dialect && hint.name == key.name);
    own.filter_map(|hint| hint.min_member).max()
}

/// Returns how far the group has come, and what is told of those that wait.
fn stage(key: &GroupKey, members: &[&Pod], cluster: &Cluster) -> (GroupStage, Text) {
    let view = match cluster.group_view(key) {
        Ok(view) => view,
        Err(lack) => return (GroupStage::Waiting, lack.to_string().into()),
    };
    let condition = members
        .iter()
        .filter(|pod| pod.node_name.is_none())
        .find_map(|pod| pod.unscheduled.as_ref());
    let said = condition.map_or_else(Text::default, |condition| condition.message.clone());
    if view.suffices(&view.count(|member| member.placed)) {
        return (GroupStage::Scheduled, said);
    }
    if let Some(lack) = view.lacks(&view.count(|_| true)) {
        return (GroupStage::Waiting, lack.to_string().into());
    }
    let stage = match condition.map(|condition| condition.reason.as_str()) {
        Some("Unschedulable") => GroupStage::Unschedulable,
        Some("SchedulerError") => GroupStage::Error,
        Some(_) | None => GroupStage::Waiting,
    };
    (stage, said)
}

impl Group {
    /// Returns what it needs in words, such as `needs 8` or `needs 2 groups`.
    pub fn needs_in_words(&self) -> Option<String> {
        let n = self.needs?;
        Some(match (self.key.kind, n) {
            (GroupKind::Pods, n) => format!("needs {n}"),
            (GroupKind::Groups, 1) => "needs 1 group".to_owned(),
            (GroupKind::Groups, n) => format!("needs {n} groups"),
        })
    }
}
