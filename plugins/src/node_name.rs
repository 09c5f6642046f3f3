//! NodeName: keeps a pod that names its node on that node.

use std::sync::Arc;

use berth_core::framework::{
    Args, ClassPart, Classify, Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef,
    Points, PreFilter, PreFilterAnswer, Reads, Verdict,
};
use berth_core::snapshot::{Change, Cluster, IndexRef, NodeIdx};
use berth_core::types::Pod;

const NAME: &str = "NodeName";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "keeps a pod that names its node on that node",
    missing: None,
    build,
};

const OTHER_NODE: &str = "node(s) didn't match the requested node name";

fn build(_args: &Args, points: &mut Points) {
    let plugin = Arc::new(NodeName);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.classify(plugin.clone());
    points.interest(plugin);
}

struct NodeName;

impl Classify for NodeName {
    fn class_part(&self, pod: &Pod, _cluster: &Cluster) -> ClassPart {
        // The node's name is the ledger's business (where a pod stands), so the spec lacks it.
        ClassPart { texts: pod.node_name.iter().cloned().collect(), ..ClassPart::default() }
    }
}

impl PreFilter for NodeName {
    fn pre_filter(&self, cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        let Some(name) = &cycle.pod.node_name else { return PreFilterAnswer::Continue };
        let nodes = cycle.cluster.nodes();
        let wanted = nodes.index(name).filter(|node| nodes.node(*node).is_some());
        PreFilterAnswer::Only(wanted.into_iter().collect())
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        match cycle.pod.node_name {
            Some(_) => Reads { indexes: vec![IndexRef::Topology] },
            None => Reads::NODE,
        }
    }
}

impl Filter for NodeName {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let here = &cycle.cluster.nodes().slot(node).name;
        match &cycle.pod.node_name {
            Some(wanted) if wanted != here => Verdict::Unresolvable(OTHER_NODE.into()),
            Some(_) | None => Verdict::Fit,
        }
    }
}

impl Interest for NodeName {
    fn hint(&self, _cx: HintContext<'_>, change: &Change) -> Hint {
        match change {
            Change::NodeAdded { .. } => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::testkit;

    use super::*;

    // A pod that names its node is placed there by the ledger, so no case file can show this.
    #[test]
    fn only_the_named_node_fits() {
        let cluster = testkit::cluster("node a\nnode b\npod p").expect("it is well formed");
        let mut pod = testkit::pod(&cluster, "p").expect("p is there");
        pod.node_name = Some("b".into());
        let cycle = Cycle { pod: &pod, cluster: &cluster };
        let mut state = CycleState::default();
        let only = PreFilterAnswer::Only(vec![NodeIdx(1)]);
        assert_eq!(NodeName.pre_filter(cycle, &mut state), only);
        let verdict = |node| NodeName.filter(cycle, &state, NodeIdx(node));
        assert_eq!(verdict(0), Verdict::Unresolvable(OTHER_NODE.into()));
        assert_eq!(verdict(1), Verdict::Fit);
    }

    #[test]
    fn a_name_that_no_node_has_leaves_none() {
        let cluster = testkit::cluster("node a\npod p").expect("it is well formed");
        let mut pod = testkit::pod(&cluster, "p").expect("p is there");
        pod.node_name = Some("gone".into());
        let cycle = Cycle { pod: &pod, cluster: &cluster };
        let answer = NodeName.pre_filter(cycle, &mut CycleState::default());
        assert_eq!(answer, PreFilterAnswer::Only(Vec::new()));
    }
}
