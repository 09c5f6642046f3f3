//! Places that are kept for a group that has lost a member: pods of other groups, of the member's
//! priority or below, see them as taken.

use std::collections::BTreeMap;

use crate::types::{GroupKey, Pod, Timestamp};

use super::cluster::Cluster;
use super::event::Change;
use super::nodes::NodeIdx;

/// A place that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub group: GroupKey,
    /// The member that was lost: its replacement takes as much.
    pub pod: Box<Pod>,
    pub until: Timestamp,
}

/// Holds by node, those of one node in the order in which they were made.
#[derive(Debug, Default)]
pub struct Holds {
    on: BTreeMap<NodeIdx, Vec<Hold>>,
}

impl Holds {
    /// Returns what is kept on `node` that `pod` must leave alone.
    pub(crate) fn against<'a>(
        &'a self,
        node: NodeIdx,
        pod: &'a Pod,
        group: Option<&'a GroupKey>,
    ) -> impl Iterator<Item = &'a Hold> {
        let holds = self.on.get(&node).into_iter().flatten();
        holds.filter(move |hold| hold.pod.priority >= pod.priority && Some(&hold.group) != group)
    }

    pub(super) fn any_on(&self, node: NodeIdx) -> bool {
        self.on.contains_key(&node)
    }

    /// Returns the nodes on which something is kept.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.on.keys().copied()
    }

    /// Returns the nodes that are kept for `group`.
    pub fn of<'a>(&'a self, group: &'a GroupKey) -> impl Iterator<Item = (NodeIdx, &'a Hold)> {
        let all = self.on.iter().flat_map(|(node, holds)| holds.iter().map(move |h| (*node, h)));
        all.filter(move |(_, hold)| hold.group == *group)
    }

    /// Returns when the first of them ends.
    pub fn first_end(&self) -> Option<Timestamp> {
        self.on.values().flatten().map(|hold| hold.until).min()
    }

    pub fn len(&self) -> usize {
        self.on.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.on.is_empty()
    }
}

impl Cluster {
    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    pub(crate) fn hold(&mut self, node: NodeIdx, hold: Hold) {
        self.holds.on.entry(node).or_default().push(hold);
    }

    /// Ends the holds that `ends` names. Returns what it changed: for other pods, the member has
    /// left the node.
    pub(crate) fn end_holds(
        &mut self,
        mut ends: impl FnMut(NodeIdx, &Hold) -> bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (node, holds) in &mut self.holds.on {
            holds.retain(|hold| {
                let ended = ends(*node, hold);
                if ended {
                    changes.push(Change::PodFreed { old: hold.pod.clone(), node: *node });
                }
                !ended
            });
        }
        let done = self.holds.on.iter().filter(|(_, holds)| holds.is_empty());
        let done: Vec<NodeIdx> = done.map(|(node, _)| *node).collect();
        for node in done {
            self.holds.on.remove(&node);
            self.leave(node);
        }
        changes
    }
}
