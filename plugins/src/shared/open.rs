//! Nodes that a pod may go to at all.

use berth_core::framework::Cycle;
use berth_core::types::{Node, Taint, TaintEffect, Text};

use super::{first_untolerated, node_matches, taints};

/// Tells whether the pod may go to the node as far as labels, taints and cordons say.
///
/// Free resources of nodes that other plugins turn away would make the numbers read as if there
/// were room.
pub(crate) fn is_open(cycle: Cycle<'_>, node: &Node) -> bool {
    let spec = &cycle.pod.spec;
    let cordon = || Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: Text::default(),
        effect: TaintEffect::NoSchedule,
    };
    let cordoned = node.unschedulable
        && first_untolerated(&[cordon()], &spec.tolerations, taints::REPELLING).is_some();
    !cordoned
        && first_untolerated(&node.taints, &spec.tolerations, taints::REPELLING).is_none()
        && node_matches(spec, &node.name, &node.labels)
}
