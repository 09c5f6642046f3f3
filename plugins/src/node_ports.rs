//! NodePorts: turns away nodes where a host port that the pod wants is taken.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, Points, PreFilter,
    PreFilterAnswer, Verdict,
};
use berth_core::snapshot::{Change, NodeIdx};
use berth_core::types::HostPort;

const NAME: &str = "NodePorts";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes where a host port that the pod wants is taken",
    missing: None,
    build,
};

const TAKEN: &str = "node(s) didn't have free ports for the requested pod ports";

/// Stands for every address of the node. Upstream does not treat `::` so.
const ANY_ADDRESS: &str = "0.0.0.0";

fn build(_args: &Args, points: &mut Points) {
    let plugin = Arc::new(NodePorts);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.interest(plugin);
}

struct NodePorts;

/// Source: `HostPortInfo.CheckConflict` of k8s.io/kube-scheduler/framework.
fn conflict(wanted: &HostPort, used: &HostPort) -> bool {
    let everywhere = wanted.ip == ANY_ADDRESS || used.ip == ANY_ADDRESS;
    wanted.port == used.port
        && wanted.protocol == used.protocol
        && (everywhere || wanted.ip == used.ip)
}

fn any_conflict(wanted: &[HostPort], used: &[HostPort]) -> bool {
    wanted.iter().any(|port| used.iter().any(|other| conflict(port, other)))
}

impl PreFilter for NodePorts {
    fn pre_filter(&self, cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        if cycle.pod.spec.host_ports.is_empty() {
            return PreFilterAnswer::Skip;
        }
        PreFilterAnswer::Continue
    }
}

impl Filter for NodePorts {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        let used = &cycle.cluster.nodes().slot(node).ports;
        if any_conflict(&cycle.pod.spec.host_ports, used) {
            return Verdict::Unschedulable(TAKEN.into());
        }
        Verdict::Fit
    }
}

impl Interest for NodePorts {
    /// A pod without a node counts too: it may have been nominated to one, which the ledger can
    /// know before the object does.
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let helps = match change {
            Change::NodeAdded { .. } => true,
            Change::PodFreed { old, .. } | Change::PodDeleted { old } => {
                any_conflict(&cx.pod.spec.host_ports, &old.spec.host_ports)
            }
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}
