//! NodeAffinity: keeps a pod to the nodes that its selector, its affinity and the profile's
//! `addedAffinity` allow, and prefers those with more weight of preferred terms.

mod added;

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, NodeSet, Normalize, PluginDef,
    Points, PreFilter, PreFilterAnswer, PreScore, PreScoreAnswer, Reads, Score, Verdict,
};
use berth_core::snapshot::{Change, Cluster, IndexRef, NodeIdx};
use berth_core::types::{Node, NodeSelector, NodeTerm, Operator, Pod, PreferredTerm, Text};

use crate::shared::node_matches;

const NAME: &str = "NodeAffinity";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "keeps a pod to the nodes that its node affinity and the profile's allow",
    missing: None,
    build,
};

const UNMATCHED: &str = "node(s) didn't match Pod's node affinity/selector";
const UNMATCHED_ADDED: &str = "node(s) didn't match scheduler-enforced node affinity";
const CONFLICT: &str = "pod affinity terms conflict";

fn build(args: &Args, points: &mut Points) {
    let added = added::read(args);
    let plugin = Arc::new(NodeAffinity { required: added.required, preferred: added.preferred });
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.pre_score(plugin.clone());
    points.score(plugin.clone());
    points.interest(plugin);
}

/// The profile's `addedAffinity`.
struct NodeAffinity {
    required: Option<NodeSelector>,
    preferred: Vec<PreferredTerm>,
}

impl NodeAffinity {
    fn enforced(&self, node: &Node) -> bool {
        self.required.as_ref().is_none_or(|s| s.matches(&node.name, &node.labels))
    }

    fn matches(&self, pod: &Pod, node: &Node) -> bool {
        self.enforced(node) && node_matches(&pod.spec, &node.name, &node.labels)
    }
}

/// Returns the node names to which every term is pinned by `metadata.name In`, sorted; `None` if
/// some term is not pinned. Names in a term must all hold, terms are alternatives.
fn pinned_names(terms: &[NodeTerm]) -> Option<Vec<Text>> {
    let mut names = Vec::new();
    for term in terms {
        let mut pins = term.names.iter().filter(|r| r.operator == Operator::In);
        let first = pins.next()?;
        let mut own = first.values.clone();
        for pin in pins {
            own.retain(|name| pin.values.contains(name));
        }
        names.extend(own);
    }
    names.sort();
    names.dedup();
    if terms.is_empty() { None } else { Some(names) }
}

fn terms_of(pod: &Pod) -> &[NodeTerm] {
    pod.spec.node_affinity.required.as_ref().map_or(&[], |selector| &selector.terms)
}

fn existing(cluster: &Cluster, names: &[Text]) -> Vec<NodeIdx> {
    let nodes = cluster.nodes();
    let known = names.iter().filter_map(|name| nodes.index(name));
    let mut found: Vec<NodeIdx> = known.filter(|node| nodes.node(*node).is_some()).collect();
    found.sort();
    found
}

impl PreFilter for NodeAffinity {
    fn pre_filter(&self, cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        let spec = &cycle.pod.spec;
        let wants = !spec.node_selector.is_empty() || spec.node_affinity.required.is_some();
        if !wants && self.required.is_none() {
            return PreFilterAnswer::Skip;
        }
        match pinned_names(terms_of(cycle.pod)) {
            None => PreFilterAnswer::Continue,
            Some(names) if names.is_empty() => PreFilterAnswer::Unresolvable(CONFLICT.into()),
            Some(names) => PreFilterAnswer::Only(existing(cycle.cluster, &names)),
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        match pinned_names(terms_of(cycle.pod)) {
            Some(_) => Reads { indexes: vec![IndexRef::Topology] },
            None => Reads::NODE,
        }
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let Some(node) = cycle.cluster.nodes().node(node) else { return Verdict::Fit };
        if !self.enforced(node) {
            return Verdict::Unresolvable(UNMATCHED_ADDED.into());
        }
        if !node_matches(&cycle.pod.spec, &node.name, &node.labels) {
            return Verdict::Unresolvable(UNMATCHED.into());
        }
        Verdict::Fit
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(&self, cycle: Cycle<'_>, _: &mut CycleState, _: &NodeSet) -> PreScoreAnswer {
        if cycle.pod.spec.node_affinity.preferred.is_empty() && self.preferred.is_empty() {
            return PreScoreAnswer::Skip;
        }
        PreScoreAnswer::Continue
    }
}

impl Score for NodeAffinity {
    /// Returns the summed weights of the preferred terms, of pod and profile, that match.
    fn score(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> i64 {
        let Some(node) = cycle.cluster.nodes().node(node) else { return 0 };
        let terms = self.preferred.iter().chain(&cycle.pod.spec.node_affinity.preferred);
        let matching = terms.filter(|preferred| preferred.term.matches(&node.name, &node.labels));
        matching.map(|preferred| i64::from(preferred.weight)).sum()
    }

    fn normalizes(&self) -> Normalize {
        Normalize::ToMax
    }
}

impl Interest for NodeAffinity {
    /// Upstream sleeps through an update that changes only whether `addedAffinity` matches; here
    /// both count together.
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let matches = |node| cx.cluster.nodes().node(node).is_some_and(|n| self.matches(cx.pod, n));
        let helps = match change {
            Change::NodeAdded { node } => matches(*node),
            Change::NodeUpdated { node, old, .. } => !self.matches(cx.pod, old) && matches(*node),
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}
