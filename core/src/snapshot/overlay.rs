//! What-if changes of the ledger: an undo log, so that cost follows the change, not the cluster.

use crate::types::{Pod, PodUid};

use super::changes::Version;
use super::cluster::Cluster;
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

/// One change, with the node's version before it.
enum Undo {
    Assumed { uid: PodUid, node: NodeIdx, version: Version },
    Evicted { pod: Box<Pod>, place: Place, node: NodeIdx, version: Version },
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
        }
    }

    /// Makes the placements stay. Evictions are taken back: a victim holds its place until it is
    /// gone. Returns the placements in the order they were made.
    pub fn commit(mut self) -> Vec<(PodUid, NodeIdx)> {
        let placements: Vec<(PodUid, NodeIdx)> =
            self.log.iter().filter_map(Undo::placement).collect();
        let evicted = self.log.len() != placements.len();
        if evicted {
            self.rollback(Mark(0));
            for (uid, node) in &placements {
                self.assume(uid, *node);
            }
        }
        self.log.clear();
        placements
    }
}

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        self.rollback(Mark(0));
    }
}

impl Undo {
    fn placement(&self) -> Option<(PodUid, NodeIdx)> {
        match self {
            Undo::Assumed { uid, node, .. } => Some((uid.clone(), *node)),
            Undo::Evicted { .. } => None,
        }
    }
}
