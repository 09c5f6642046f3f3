//! What-if changes of the ledger: an undo log, so that cost follows the change, not the cluster.

use std::sync::Arc;

use crate::types::claim::{Allocation, ClaimKey, ResourceClaim};
use crate::types::{GpuNumbers, Pod, PodUid};

use super::changes::Version;
use super::cluster::Cluster;
use super::devices::folding::MovedVersions;
use super::holds::Hold;
use super::node_set::NodeSet;
use super::nodes::NodeIdx;
use super::pods::Place;

/// A point of an [`Overlay`] to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

/// A what-if change of the ledger. Dropped without [`Overlay::commit`], it leaves no trace: every
/// node has its old state and version, every index its old counts.
pub struct Overlay<'a> {
    cluster: &'a mut Cluster,
    log: Vec<Undo>,
}

/// What of a planned claim must be done again after a rollback.
type PlannedAgain = (ClaimKey, Option<Arc<ResourceClaim>>, Arc<Allocation>, PodUid);

/// One change, with the node's version before it.
enum Undo {
    Assumed {
        uid: PodUid,
        node: NodeIdx,
        version: Version,
    },
    Evicted {
        pod: Box<Pod>,
        place: Place,
        node: NodeIdx,
        version: Version,
    },
    PlannedClaim(Box<PlannedClaim>),
    /// GPUs were chosen for its share.
    GaveGpus {
        uid: PodUid,
        node: NodeIdx,
        gpus: GpuNumbers,
        before: Option<GpuNumbers>,
        version: Version,
    },
    /// What is kept for a group counts as taken.
    Held {
        pod: Box<Pod>,
        node: NodeIdx,
        version: Version,
    },
}

struct PlannedClaim {
    key: ClaimKey,
    /// The claim itself, if the plan will make it.
    new: Option<Arc<ResourceClaim>>,
    allocation: Arc<Allocation>,
    pod: PodUid,
    version: Version,
    moved: MovedVersions,
}

impl<'a> Overlay<'a> {
    pub fn new(cluster: &'a mut Cluster) -> Overlay<'a> {
        Overlay { cluster, log: Vec::new() }
    }

    /// The ledger with the changes made so far.
    pub fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// Declares queries on the ledger; an index is no change and stays.
    pub(crate) fn declare_all(&mut self, declare: impl FnOnce(&mut Cluster)) {
        declare(self.cluster);
    }

    /// Has only these nodes count by domains from now on, as long as the overlay lasts; `None` for all.
    pub fn keep_within(&mut self, nodes: Option<Arc<NodeSet>>) {
        self.cluster.keep_within(nodes);
    }

    /// Places a pod that has no place. Returns false, changing nothing, if it is unknown or placed.
    pub fn assume(&mut self, uid: &PodUid, node: NodeIdx) -> bool {
        let version = self.cluster.nodes().slot(node).version;
        if self.cluster.pod(uid).is_none_or(|record| record.place != Place::Nowhere) {
            return false;
        }
        let Some(pod) = self.cluster.set_place(uid, Place::Assumed(node)) else { return false };
        self.cluster.occupy(&pod, node);
        self.log.push(Undo::Assumed { uid: uid.clone(), node, version });
        true
    }

    /// Returns the version that the pod's node had before the pod was placed there; `None` if this
    /// overlay has not placed it.
    pub fn version_before(&self, uid: &PodUid) -> Option<Version> {
        self.log.iter().rev().find_map(|undo| match undo {
            Undo::Assumed { uid: placed, version, .. } if placed == uid => Some(*version),
            Undo::Assumed { .. }
            | Undo::Evicted { .. }
            | Undo::PlannedClaim(_)
            | Undo::GaveGpus { .. }
            | Undo::Held { .. } => None,
        })
    }

    /// Counts what is kept on `node` as taken.
    pub fn count_held(&mut self, hold: &Hold, node: NodeIdx) {
        let version = self.cluster.nodes().slot(node).version;
        self.cluster.occupy(&hold.pod, node);
        self.log.push(Undo::Held { pod: hold.pod.clone(), node, version });
        for (claim, allocation) in hold.claims() {
            self.plan_new_claim(&claim, allocation, &hold.pod.uid);
        }
    }

    /// Takes a placed pod off its node. Returns false, changing nothing, if it has no place.
    pub fn evict(&mut self, uid: &PodUid) -> bool {
        let Some(place) = self.cluster.pod(uid).map(|record| record.place) else { return false };
        let Some(node) = place.node() else { return false };
        let version = self.cluster.nodes().slot(node).version;
        let Some(pod) = self.cluster.set_place(uid, Place::Nowhere) else { return false };
        self.cluster.vacate(&pod, node);
        self.log.push(Undo::Evicted { pod: Box::new(pod), place, node, version });
        true
    }

    /// Holds what `allocation` grants for a claim of `pod` that has no allocation, or joins one
    /// that is planned and grants the same. Returns false, changing nothing, if there is no such
    /// claim, or if it has another allocation.
    pub fn plan_claim(
        &mut self,
        key: &ClaimKey,
        allocation: &Arc<Allocation>,
        pod: &PodUid,
    ) -> bool {
        let Some(noted) = self.cluster.plan_claim(key, allocation, pod) else { return false };
        let Some((version, moved)) = noted else { return true };
        self.log.push(Undo::PlannedClaim(Box::new(PlannedClaim {
            key: key.clone(),
            new: None,
            allocation: allocation.clone(),
            pod: pod.clone(),
            version,
            moved,
        })));
        true
    }

    /// As [`Overlay::plan_claim`], for a claim that the plan will make. Returns false, changing
    /// nothing, if there is a claim of that name.
    pub fn plan_new_claim(
        &mut self,
        claim: &Arc<ResourceClaim>,
        allocation: &Arc<Allocation>,
        pod: &PodUid,
    ) -> bool {
        let Some((version, moved)) = self.cluster.plan_new_claim(claim, allocation, pod) else {
            return false;
        };
        self.log.push(Undo::PlannedClaim(Box::new(PlannedClaim {
            key: claim.key.clone(),
            new: Some(claim.clone()),
            allocation: allocation.clone(),
            pod: pod.clone(),
            version,
            moved,
        })));
        true
    }

    /// Chooses the GPUs of its node that the share of an assumed pod is of. Returns false, changing
    /// nothing, if the pod isn't assumed, or if nobody keeps an index of shares.
    pub fn give_gpus(&mut self, uid: &PodUid, gpus: GpuNumbers) -> bool {
        let place = self.cluster.pod(uid).map(|record| record.place);
        let Some(Place::Assumed(node)) = place.filter(|_| self.cluster.keeps_gpu_shares()) else {
            return false;
        };
        let version = self.cluster.nodes().slot(node).version;
        let before = self.cluster.give_gpus(uid, node, Some(gpus.clone()));
        self.log.push(Undo::GaveGpus { uid: uid.clone(), node, gpus, before, version });
        true
    }

    pub fn checkpoint(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Takes back everything since `mark`, newest first.
    pub fn rollback(&mut self, mark: Mark) {
        while self.log.len() > mark.0 {
            if let Some(undo) = self.log.pop() {
                self.undo(undo);
            }
        }
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Assumed { uid, node, version } => {
                if let Some(pod) = self.cluster.set_place(&uid, Place::Nowhere) {
                    self.cluster.vacate(&pod, node);
                }
                self.cluster.nodes_mut().restore_version(node, version);
            }
            Undo::Evicted { pod, place, node, version } => {
                self.cluster.set_place(&pod.uid, place);
                self.cluster.occupy(&pod, node);
                self.cluster.nodes_mut().restore_version(node, version);
            }
            Undo::Held { pod, node, version } => {
                self.cluster.vacate(&pod, node);
                self.cluster.nodes_mut().restore_version(node, version);
            }
            Undo::GaveGpus { uid, node, before, version, .. } => {
                self.cluster.give_gpus(&uid, node, before);
                self.cluster.nodes_mut().restore_version(node, version);
            }
            Undo::PlannedClaim(planned) => {
                let PlannedClaim { key, pod, version, moved, .. } = *planned;
                self.cluster.undo_plan_claim(&key, &pod, version, &moved);
            }
        }
    }

    /// Makes the placements stay. Evictions are taken back: a victim holds its place until it is
    /// gone. Returns the placements in the order they were made.
    pub fn commit(mut self) -> Vec<(PodUid, NodeIdx)> {
        let placements: Vec<(PodUid, NodeIdx)> =
            self.log.iter().filter_map(Undo::placement).collect();
        if self.log.iter().any(|undo| matches!(undo, Undo::Evicted { .. })) {
            let claims: Vec<_> = self.log.iter().filter_map(Undo::planned_claim).collect();
            let gpus: Vec<_> = self.log.iter().filter_map(Undo::gpus).collect();
            self.rollback(Mark(0));
            for (uid, node) in &placements {
                self.assume(uid, *node);
            }
            for (uid, gpus) in gpus {
                self.give_gpus(&uid, gpus);
            }
            for (key, new, allocation, pod) in &claims {
                match new {
                    Some(claim) => self.plan_new_claim(claim, allocation, pod),
                    None => self.plan_claim(key, allocation, pod),
                };
            }
        }
        self.log.clear();
        placements
    }
}

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        self.rollback(Mark(0));
        self.cluster.keep_within(None);
    }
}

impl Undo {
    fn placement(&self) -> Option<(PodUid, NodeIdx)> {
        match self {
            Undo::Assumed { uid, node, .. } => Some((uid.clone(), *node)),
            Undo::Evicted { .. }
            | Undo::PlannedClaim(_)
            | Undo::GaveGpus { .. }
            | Undo::Held { .. } => None,
        }
    }

    fn gpus(&self) -> Option<(PodUid, GpuNumbers)> {
        match self {
            Undo::GaveGpus { uid, gpus, .. } => Some((uid.clone(), gpus.clone())),
            Undo::Assumed { .. }
            | Undo::Evicted { .. }
            | Undo::PlannedClaim(_)
            | Undo::Held { .. } => None,
        }
    }

    fn planned_claim(&self) -> Option<PlannedAgain> {
        match self {
            Undo::PlannedClaim(planned) => {
                let PlannedClaim { key, new, allocation, pod, .. } = &**planned;
                Some((key.clone(), new.clone(), allocation.clone(), pod.clone()))
            }
            Undo::Assumed { .. }
            | Undo::Evicted { .. }
            | Undo::GaveGpus { .. }
            | Undo::Held { .. } => None,
        }
    }
}
