//! Index of refusals: nodes whose kubelet has turned a pod away after it was bound, and until when pods
//! of that spec aren't put there again.
//!
//! A kubelet that aligns CPUs and devices to NUMA cells refuses a pod whose parts it can't align, and
//! only it knows. The controller makes the pod anew, and it would come to the same node for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::{PodSpec, PodUid, Span, Text, Timestamp};

use super::cluster::Cluster;
use super::event::{Change, NodeAspects};
use super::nodes::NodeIdx;

/// The first is for so long, each further one twice as long.
const FIRST: Span = Span::from_secs(30);
const LAST: Span = Span::from_secs(15 * 60);
/// One that has ended is forgotten after as long as the longest lasts.
const KEPT: Span = LAST;
/// Specs remembered a node; of more the one that ends first is forgotten.
const SPECS_MAX: usize = 16;

#[derive(Clone, Debug)]
struct Refusal {
    spec: Arc<PodSpec>,
    reason: Text,
    times: u32,
    until: Timestamp,
    /// It has not ended.
    holds: bool,
}

#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_node: BTreeMap<NodeIdx, Vec<Refusal>>,
}

impl Refusals {
    fn note(&mut self, node: NodeIdx, spec: &Arc<PodSpec>, reason: &Text, now: Timestamp) {
        let of_node = self.by_node.entry(node).or_default();
        let known = of_node.iter().position(|refusal| refusal.spec == *spec);
        let before = known.map_or(0, |at| of_node.swap_remove(at).times);
        if of_node.len() >= SPECS_MAX
            && let Some(at) = (0..of_node.len()).min_by_key(|at| of_node[*at].until)
        {
            of_node.swap_remove(at);
        }
        let until = now + backoff(before);
        let (spec, reason, times) = (Arc::clone(spec), reason.clone(), before.saturating_add(1));
        of_node.push(Refusal { spec, reason, times, until, holds: true });
    }

    pub(super) fn forget(&mut self, node: NodeIdx) {
        self.by_node.remove(&node);
    }

    /// Returns the nodes on which one has ended.
    fn end(&mut self, now: Timestamp) -> Vec<NodeIdx> {
        let mut ended = Vec::new();
        for (node, of_node) in &mut self.by_node {
            let due = of_node.iter_mut().filter(|refusal| refusal.holds && refusal.until <= now);
            let n_due = due.map(|refusal| refusal.holds = false).count();
            ended.extend((n_due > 0).then_some(*node));
            of_node.retain(|refusal| refusal.holds || now < refusal.until + KEPT);
        }
        self.by_node.retain(|_, of_node| !of_node.is_empty());
        ended
    }

    fn next_end(&self) -> Option<Timestamp> {
        let all = self.by_node.values().flatten();
        all.filter(|refusal| refusal.holds).map(|refusal| refusal.until).min()
    }
}

fn backoff(before: u32) -> Span {
    let doubled = FIRST.as_millis().saturating_mul(1 << before.min(16));
    Span(doubled.min(LAST.as_millis()))
}

impl Cluster {
    /// Returns why the kubelet of a node has refused pods of this spec, if none is to be put there for
    /// now. It depends on the node's version.
    pub fn refusal(&self, spec: &Arc<PodSpec>, node: NodeIdx) -> Option<&Text> {
        let of_node = self.refusals.by_node.get(&node)?;
        let same = |refusal: &&Refusal| refusal.holds && refusal.spec == *spec;
        of_node.iter().find(same).map(|refusal| &refusal.reason)
    }

    /// Notes that its node has refused a pod.
    pub(crate) fn note_refusal(&mut self, uid: &PodUid, now: Timestamp) {
        let Some(pod) = self.pods.get(uid).map(|record| &record.pod) else { return };
        let node = pod.node_name.as_ref().and_then(|name| self.nodes.index(name));
        let (Some(node), Some(reason)) = (node, &pod.refused) else { return };
        self.refusals.note(node, &pod.spec, reason, now);
        self.nodes.touch(node);
    }

    /// Ends refusals whose time is over. Returns what that changed.
    pub(crate) fn end_refusals(&mut self, now: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        for node in self.refusals.end(now) {
            self.nodes.touch(node);
            let aspects = NodeAspects { admission: true, ..NodeAspects::default() };
            let old = self.nodes.node(node).cloned();
            changes.extend(old.map(|old| Change::NodeUpdated { node, old, aspects }));
        }
        changes
    }

    /// Returns when the next refusal ends.
    pub(crate) fn next_refusal_end(&self) -> Option<Timestamp> {
        self.refusals.next_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_lasts_longer_each_time_and_is_forgotten_in_the_end() {
        let (mut refusals, spec) = (Refusals::default(), Arc::new(PodSpec::default()));
        let (node, reason) = (NodeIdx(3), Text::from("TopologyAffinityError"));
        let at = |secs: u64| Timestamp(secs * 1000);
        refusals.note(node, &spec, &reason, at(0));
        assert_eq!(refusals.next_end(), Some(at(30)));
        assert!(refusals.end(at(29)).is_empty());
        assert_eq!(refusals.end(at(30)), [node]);
        assert_eq!(refusals.next_end(), None);
        refusals.note(node, &spec, &reason, at(40));
        assert_eq!(refusals.next_end(), Some(at(100)));
        (0..20).for_each(|_| refusals.note(node, &spec, &reason, at(200)));
        assert_eq!(refusals.next_end(), Some(at(200 + 15 * 60)));
        assert_eq!(refusals.end(at(200 + 15 * 60)), [node]);
        refusals.end(at(200 + 31 * 60));
        assert!(refusals.by_node.is_empty());
    }

    #[test]
    fn specs_without_end_are_bounded() {
        let mut refusals = Refusals::default();
        for at in 0..100 {
            let mut spec = PodSpec::default();
            spec.node_selector.push((format!("k{at}").into(), "v".into()));
            refusals.note(NodeIdx(0), &Arc::new(spec), &"x".into(), Timestamp(at));
        }
        assert_eq!(refusals.by_node[&NodeIdx(0)].len(), SPECS_MAX);
        assert_eq!(refusals.next_end(), Some(Timestamp(30_000 + 100 - SPECS_MAX as u64)));
    }
}
