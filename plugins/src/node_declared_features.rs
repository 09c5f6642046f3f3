//! NodeDeclaredFeatures: turns away nodes that lack a feature which the pod's spec needs.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, Points, PreFilter,
    PreFilterAnswer, Verdict,
};
use berth_core::snapshot::{Change, NodeIdx};

const NAME: &str = "NodeDeclaredFeatures";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes that lack a feature which the pod's spec needs",
    missing: None,
    build,
};

const LACKING: &str = "node(s) didn't match Pod's required features";

fn build(_args: &Args, points: &mut Points) {
    let plugin = Arc::new(NodeDeclaredFeatures);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.interest(plugin);
}

struct NodeDeclaredFeatures;

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(&self, cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        if cycle.pod.spec.required_features.is_empty() {
            return PreFilterAnswer::Skip;
        }
        PreFilterAnswer::Continue
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let Some(node) = cycle.cluster.nodes().node(node) else { return Verdict::Fit };
        let declared = &node.declared_features;
        let wanted = &cycle.pod.spec.required_features;
        if wanted.iter().all(|feature| declared.binary_search(feature).is_ok()) {
            return Verdict::Fit;
        }
        Verdict::Unresolvable(LACKING.into())
    }
}

impl Interest for NodeDeclaredFeatures {
    /// As upstream, any change of a node's features is worth a try.
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let helps = match change {
            Change::NodeAdded { .. } => true,
            Change::NodeUpdated { aspects, .. } => aspects.declared_features,
            Change::PodUpdated { uid, old, .. } => {
                *uid == cx.pod.uid && old.spec.required_features != cx.pod.spec.required_features
            }
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}
