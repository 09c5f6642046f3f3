//! Which changes may make room for a pod that lacked resources.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::nodes::Nodes;
use berth_core::snapshot::{Change, DeviceChange, NodeIdx, PodAspects};
use berth_core::types::{Node, Pod, PodUid};

use super::Fit;
use super::needs::{Need, Needs, free_slots};

impl Interest for Fit {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let nodes = cx.cluster.nodes();
        let needs = Needs::of(&cx.pod.spec.requests.real, &self.ignored, cx.cluster);
        let helps = match change {
            Change::NodeAdded { node } => fits_empty(&needs, nodes, *node),
            Change::NodeUpdated { node, old, aspects } => {
                aspects.allocatable
                    && fits_empty(&needs, nodes, *node)
                    && nodes.node(*node).is_some_and(|new| grew(&needs, old, new))
            }
            Change::PodFreed { old, node } => freed_something(&needs, nodes, *node, old),
            Change::PodUpdated { uid, old, aspects } => shrank(cx, &needs, uid, old, *aspects),
            Change::NodeDeleted { .. }
            | Change::PodAdded { .. }
            | Change::PodBound { .. }
            | Change::PodDeleted { .. }
            | Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged
            | Change::Groups(_) => false,
            // Devices may stand in for what no device plugin has.
            Change::Devices(change) => {
                matches!(change, DeviceChange::Class) && !cx.pod.spec.extended.is_empty()
            }
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

fn fits_empty(needs: &Needs, nodes: &Nodes, node: NodeIdx) -> bool {
    nodes.node(node).is_some_and(|node| needs.fits_empty(node))
}

/// Tells whether the node has more pod slots or more of something the pod requests, or leaves
/// something to devices.
fn grew(needs: &Needs, old: &Node, new: &Node) -> bool {
    let more = |need: &Need| {
        let (old, new) = (old.allocatable.amount(&need.name), new.allocatable.amount(&need.name));
        new > old || need.by_devices && new == 0 && old > 0
    };
    new.pods_max > old.pods_max || needs.entries.iter().any(more)
}

/// Tells whether a pod that left took something that the node was short of for the pod that waits.
///
/// Upstream wakes everybody here; a pod that waits for GPUs need not look again because a CPU pod
/// left. If the pod fits by now it is woken whatever left, since several changes may have been
/// folded before the hint is asked.
fn freed_something(needs: &Needs, nodes: &Nodes, node: NodeIdx, old: &Pod) -> bool {
    if !fits_empty(needs, nodes, node) {
        return false;
    }
    let was_short = |name: &str, amount: i64, free: i64| {
        let freed = old.usage.real.amount(name);
        freed > 0 && amount > free.saturating_sub(freed)
    };
    needs.verdict(nodes, node).fits()
        || free_slots(nodes, node) <= 1
        || needs
            .entries
            .iter()
            .any(|need| was_short(&need.name, need.amount, need.stock(nodes, node).free()))
}

/// Tells whether the pod that waits asks for less, or one on a node takes less of what it needs.
fn shrank(
    cx: HintContext<'_>,
    needs: &Needs,
    uid: &PodUid,
    old: &Pod,
    aspects: PodAspects,
) -> bool {
    if *uid == cx.pod.uid {
        return aspects.scaled_down || old.spec.requests != cx.pod.spec.requests;
    }
    let Some(record) = cx.cluster.pod(uid) else { return false };
    let (was, is) = (&old.usage.real, &record.pod.usage.real);
    aspects.scaled_down
        && record.place.node().is_some()
        && needs.entries.iter().any(|need| is.amount(&need.name) < was.amount(&need.name))
}
