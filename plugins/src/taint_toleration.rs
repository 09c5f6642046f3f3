//! TaintToleration: turns away nodes with taints that the pod does not tolerate, and prefers those
//! with fewer taints that only ask to be avoided.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, NodeSet, Normalize, PluginDef,
    Points, PreFilter, PreFilterAnswer, PreScore, PreScoreAnswer, Score, Verdict,
};
use berth_core::snapshot::{Change, NodeIdx};
use berth_core::types::{Node, Pod, Taint, TaintEffect};

const NAME: &str = "TaintToleration";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes with untolerated taints and prefers nodes with fewer soft ones",
    missing: None,
    build,
};

const UNTOLERATED: &str = "node(s) had untolerated taint(s)";

fn build(_args: &Args, points: &mut Points) {
    let plugin = Arc::new(TaintToleration);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.pre_score(plugin.clone());
    points.score(plugin.clone());
    points.interest(plugin);
}

struct TaintToleration;

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| toleration.covers(taint))
}

/// Tells whether the pod tolerates every taint of `node` that keeps pods away.
fn tolerates_all(pod: &Pod, node: &Node) -> bool {
    node.taints.iter().all(|taint| match taint.effect {
        TaintEffect::NoSchedule | TaintEffect::NoExecute => tolerated(pod, taint),
        TaintEffect::PreferNoSchedule => true,
    })
}

/// Upstream's plugin has this point for deferred resizes (a gate that is off), so a profile may
/// name it here.
impl PreFilter for TaintToleration {
    fn pre_filter(&self, _cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        PreFilterAnswer::Continue
    }
}

impl Filter for TaintToleration {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let fits = cycle.cluster.nodes().node(node).is_none_or(|n| tolerates_all(cycle.pod, n));
        if fits { Verdict::Fit } else { Verdict::Unresolvable(UNTOLERATED.into()) }
    }
}

/// Upstream gathers tolerations here and never skips: without soft taints every node gets 100.
impl PreScore for TaintToleration {
    fn pre_score(&self, _: Cycle<'_>, _: &mut CycleState, _: &NodeSet) -> PreScoreAnswer {
        PreScoreAnswer::Continue
    }
}

impl Score for TaintToleration {
    /// Returns the number of taints PreferNoSchedule that the pod does not tolerate.
    fn score(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> i64 {
        let Some(node) = cycle.cluster.nodes().node(node) else { return 0 };
        let soft = node.taints.iter().filter(|t| t.effect == TaintEffect::PreferNoSchedule);
        soft.filter(|taint| !tolerated(cycle.pod, taint)).count() as i64
    }

    fn normalizes(&self) -> Normalize {
        Normalize::ToMaxReversed
    }
}

impl Interest for TaintToleration {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let fits = |node| cx.cluster.nodes().node(node).is_some_and(|n| tolerates_all(cx.pod, n));
        let helps = match change {
            Change::NodeAdded { node } => fits(*node),
            Change::NodeUpdated { node, old, .. } => !tolerates_all(cx.pod, old) && fits(*node),
            Change::PodUpdated { uid, aspects, .. } => *uid == cx.pod.uid && aspects.tolerations,
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}
