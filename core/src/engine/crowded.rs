//! Places that are spoken for: by nominations, and by what is kept for groups. Never cached.

use crate::framework::{Cycle, NodeSet, Point, Profile, Verdict};
use crate::snapshot::{Cluster, Hold, NodeIdx, Overlay};
use crate::types::{Pod, PodUid};

use super::judge::judged_on;
use super::placing::{Placer, may_be_placed};
use super::table::Table;

/// A node, and the plugin that turns it away if the pods nominated to it are counted in.
pub(super) type Crowded = (NodeIdx, &'static str, Verdict);

/// Judges `node` with the pods nominated to it, of this priority or above, in their places, and what
/// is kept there for other groups; the plugin that says so goes with it. `None` if there are no such pods: a verdict without them
/// stands. The overlay is as before.
pub(super) fn judged_with_nominated(
    overlay: &mut Overlay<'_>,
    profile: &Profile,
    pod: &Pod,
    node: NodeIdx,
) -> Option<(&'static str, Verdict)> {
    let counts = |other: &&Pod| other.uid != pod.uid && other.priority >= pod.priority;
    let others = overlay.cluster().nominated_on(node).filter(counts);
    let others: Vec<PodUid> = others.map(|other| other.uid.clone()).collect();
    let cluster = overlay.cluster();
    let group = cluster.groups().membership(pod).key();
    let held = cluster.holds().against(node, pod, group.as_ref());
    let held: Vec<Hold> = held.cloned().collect();
    let mark = overlay.checkpoint();
    let mut assumed = !held.is_empty();
    held.iter().for_each(|hold| overlay.count_held(hold, node));
    for other in &others {
        assumed |= overlay.assume(other, node);
    }
    if !assumed {
        return None;
    }
    let judged = judged_on(profile, Cycle { pod, cluster: overlay.cluster() }, node);
    overlay.rollback(mark);
    Some(judged)
}

impl Placer<'_> {
    /// Returns the candidates that are spoken for by the pod itself: its nomination, or the places of
    /// members that its group has lost.
    pub(super) fn meant_for(&self, cluster: &Cluster, pod: &Pod, candidates: &NodeSet) -> NodeSet {
        if let Some(node) = cluster.nomination(&pod.uid) {
            return [node].into_iter().filter(|node| candidates.contains(*node)).collect();
        }
        if !self.group || cluster.holds().is_empty() {
            return NodeSet::default();
        }
        let Some(group) = cluster.groups().membership(pod).key() else { return NodeSet::default() };
        // Who waits itself was not wanted there.
        let of_lost = |hold: &Hold| !may_be_placed(cluster, &hold.pod.uid);
        let kept = cluster.holds().of(&group).filter(|(_, hold)| of_lost(hold));
        kept.map(|(node, _)| node).filter(|node| candidates.contains(*node)).collect()
    }

    /// Returns the nodes that fit only if pods nominated there, of this priority or above, are
    /// left out of account, with who says so and the verdict that counts them in. Never cached.
    pub(super) fn crowded(
        &self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        table: &Table,
    ) -> Vec<Crowded> {
        let cluster = overlay.cluster();
        let spoken_for = cluster.nominated_nodes().chain(cluster.holds().nodes());
        let nodes: NodeSet = spoken_for.filter(|node| table.fit.contains(*node)).collect();
        if nodes.is_empty() {
            return Vec::new();
        }
        self.timing.turn(Point::Filter);
        let judged = |node| {
            let (plugin, verdict) = judged_with_nominated(overlay, self.profile, pod, node)?;
            (!verdict.fits()).then_some((node, plugin, verdict))
        };
        nodes.iter().filter_map(judged).collect()
    }
}
