//! NodeUnschedulable: turns away cordoned nodes unless the pod tolerates their taint.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, Points, PreFilter,
    PreFilterAnswer, Verdict,
};
use berth_core::snapshot::{Change, NodeIdx};
use berth_core::types::{Pod, Taint, TaintEffect, Text};

const NAME: &str = "NodeUnschedulable";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away cordoned nodes unless the pod tolerates their taint",
    missing: None,
    build,
};

const CORDONED: &str = "node(s) were unschedulable";

/// The taint that the node controller puts on a cordoned node.
const TAINT_KEY: &str = "node.kubernetes.io/unschedulable";

fn build(_args: &Args, points: &mut Points) {
    let taint =
        Taint { key: TAINT_KEY.into(), value: Text::default(), effect: TaintEffect::NoSchedule };
    let plugin = Arc::new(NodeUnschedulable { taint });
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.interest(plugin);
}

struct NodeUnschedulable {
    taint: Taint,
}

impl NodeUnschedulable {
    fn tolerated_by(&self, pod: &Pod) -> bool {
        pod.spec.tolerations.iter().any(|toleration| toleration.covers(&self.taint))
    }
}

/// Upstream's plugin has this point for deferred resizes (a gate that is off), so a profile may
/// name it here.
impl PreFilter for NodeUnschedulable {
    fn pre_filter(&self, _cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        PreFilterAnswer::Continue
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let cordoned = cycle.cluster.nodes().node(node).is_some_and(|node| node.unschedulable);
        if cordoned && !self.tolerated_by(cycle.pod) {
            return Verdict::Unresolvable(CORDONED.into());
        }
        Verdict::Fit
    }
}

impl Interest for NodeUnschedulable {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let open = |node| cx.cluster.nodes().node(node).is_some_and(|node| !node.unschedulable);
        let helps = match change {
            Change::NodeAdded { node } => open(*node),
            Change::NodeUpdated { node, old, .. } => old.unschedulable && open(*node),
            Change::PodUpdated { uid, aspects, .. } => {
                *uid == cx.pod.uid && aspects.tolerations && self.tolerated_by(cx.pod)
            }
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}
