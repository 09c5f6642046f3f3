//! Places that are kept for a group that has lost a member, or lacks one: pods of other groups, of the
//! member's priority or below, see them as taken, with the devices that the member had there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::claim::{Allocation, ClaimKey, ResourceClaim};
use crate::types::{GroupKey, Pod, Text, Timestamp};

use super::cluster::Cluster;
use super::devices::entries::PodClaimState;
use super::event::{Change, DeviceChange};
use super::nodes::NodeIdx;

/// A place that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    pub group: GroupKey,
    /// The member that was lost: its replacement takes as much.
    pub pod: Box<Pod>,
    /// What the claims had that were the member's own.
    pub devices: Vec<Arc<Allocation>>,
    pub until: Timestamp,
}

impl Hold {
    /// Returns claims that stand for the devices, which no object has: their names are none that the
    /// API server would take.
    pub(super) fn claims(&self) -> impl Iterator<Item = (Arc<ResourceClaim>, &Arc<Allocation>)> {
        self.devices.iter().enumerate().map(|(nth, allocation)| {
            let name = Text::from(format!("{}/{nth}", self.pod.uid));
            let key = ClaimKey { namespace: self.pod.namespace.clone(), name };
            let uid = key.name.clone();
            (Arc::new(ResourceClaim { key, uid, ..ResourceClaim::default() }), allocation)
        })
    }
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

    /// Keeps a place; one that was kept there in the same pod's name gives way.
    pub(crate) fn hold(&mut self, node: NodeIdx, hold: Hold) {
        let on = self.holds.on.entry(node).or_default();
        on.retain(|known| known.pod.uid != hold.pod.uid);
        on.push(hold);
    }

    /// Returns what the claims have that are the pod's own, on the server or by a plan: those that were
    /// made for it, and go with it.
    pub(crate) fn devices_of_its_own(&self, pod: &Pod) -> Vec<Arc<Allocation>> {
        let entries = pod.spec.claims.iter().filter_map(|entry| match self.claim_of(pod, entry) {
            PodClaimState::Claim(key) => self.devices.claim(&key),
            PodClaimState::NotNeeded | PodClaimState::NotGenerated => None,
        });
        let own = entries.filter(|record| record.claim.owner_pod.as_ref() == Some(&pod.uid));
        let own = own.chain(self.devices.special_claim(&pod.uid));
        own.filter_map(|record| record.allocation().cloned()).collect()
    }

    /// Ends the holds that `ends` names. Returns what it changed: for other pods, the member has
    /// left the node, and its claims have let go of their devices.
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
                    changes.extend(hold.claims().map(|(claim, _)| let_go(&claim)));
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

fn let_go(claim: &ResourceClaim) -> Change {
    let (added, deallocated, status) = (false, true, true);
    Change::Devices(DeviceChange::Claim { key: claim.key.clone(), added, deallocated, status })
}
