//! Which changes may even out the domains for a pod that was turned away.
//!
//! Source: `isSchedulableAfter…` of upstream's podtopologyspread/plugin.go (1.37). Berth also looks
//! again when a counted pod begins to terminate, and when derived selectors may have changed.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::{Change, PodAspects};
use berth_core::types::{Labels, Node, Pod, PodUid};

use super::PodTopologySpread;
use super::constraints::{Constraint, Hardness};

impl Interest for PodTopologySpread {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let constraints = self.constraints(cx.pod, cx.cluster, Hardness::Hard);
        let counted =
            |pod: &Pod| pod.namespace == cx.pod.namespace && selected(&constraints, &pod.labels);
        let new = |idx| cx.cluster.nodes().node(idx);
        let helps = match change {
            Change::NodeAdded { node } => {
                new(*node).is_some_and(|node| has_all_keys(&constraints, node))
            }
            Change::NodeUpdated { node, old, .. } => {
                new(*node).is_some_and(|node| node_matters(&constraints, old, node))
            }
            Change::NodeDeleted { old } => has_all_keys(&constraints, old),
            Change::PodBound { uid, .. } => {
                cx.cluster.pod(uid).is_some_and(|record| counted(&record.pod))
            }
            Change::PodFreed { old, .. } => counted(old),
            Change::PodUpdated { uid, old, aspects } => {
                update_matters(cx, &constraints, uid, old, *aspects)
            }
            Change::SelectorOwnerChanged => self.derives_selector(cx.pod, Hardness::Hard),
            Change::Devices(_)
            | Change::Groups(_)
            | Change::PodAdded { .. }
            | Change::PodDeleted { .. }
            | Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NamespaceChanged { .. } => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

fn selected(constraints: &[Constraint], labels: &Labels) -> bool {
    constraints.iter().any(|constraint| constraint.selects(labels))
}

fn has_all_keys(constraints: &[Constraint], node: &Node) -> bool {
    constraints.iter().all(|constraint| node.labels.value(&constraint.topology_key).is_some())
}

/// Tells whether the node began or ceased to count, moved to another domain, or changed its taints
/// while it may count.
fn node_matters(constraints: &[Constraint], old: &Node, new: &Node) -> bool {
    let (had, has) = (has_all_keys(constraints, old), has_all_keys(constraints, new));
    let moved =
        |c: &Constraint| old.labels.value(&c.topology_key) != new.labels.value(&c.topology_key);
    had != has || (has && (constraints.iter().any(moved) || old.taints != new.taints))
}

fn update_matters(
    cx: HintContext<'_>,
    constraints: &[Constraint],
    uid: &PodUid,
    old: &Pod,
    aspects: PodAspects,
) -> bool {
    if *uid == cx.pod.uid {
        return (aspects.tolerations && constraints.iter().any(|c| c.honor_node_taints))
            || (aspects.labels && selection_moved(constraints, &old.labels, &cx.pod.labels));
    }
    let Some(record) = cx.cluster.pod(uid) else { return false };
    if record.place.node().is_none() || record.pod.namespace != cx.pod.namespace {
        return false;
    }
    (aspects.labels && selection_moved(constraints, &old.labels, &record.pod.labels))
        || (aspects.terminating && selected(constraints, &old.labels))
}

/// Tells whether some constraint selects the one labels and not the other.
fn selection_moved(constraints: &[Constraint], old: &Labels, new: &Labels) -> bool {
    constraints.iter().any(|constraint| constraint.selects(old) != constraint.selects(new))
}
