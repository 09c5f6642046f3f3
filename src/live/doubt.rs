//! Which node an event changes in a way that binds which are still to be sent did not reckon with.
//!
//! A plan is checked when its bind is handed over; behind a slow server it may wait long after that.

use berth_core::snapshot::{Cluster, ClusterEvent, Place};
use berth_core::types::{Node, Pod, Text};

/// Returns the node; none if decisions stand. Asked before the ledger knows of the event.
pub(super) fn node(cluster: &Cluster, event: &ClusterEvent) -> Option<Text> {
    if let ClusterEvent::NodeApplied(new) = event {
        let nodes = cluster.nodes();
        let old = nodes.index(&new.name).and_then(|node| nodes.node(node));
        return (!old.is_some_and(|old| same(old, new))).then(|| new.name.clone());
    }
    if let ClusterEvent::NodeDeleted { name, .. } = event {
        return Some(name.clone());
    }
    if let ClusterEvent::PodApplied(pod) = event
        && let Some(node) = &pod.node_name
        && is_news(cluster, pod)
    {
        return Some(node.clone());
    }
    None
}

/// Tells whether all that filters read is equal.
fn same(old: &Node, new: &Node) -> bool {
    old.uid == new.uid
        && old.unschedulable == new.unschedulable
        && old.pods_max == new.pods_max
        && old.taints == new.taints
        && old.allocatable == new.allocatable
        && old.labels == new.labels
        && old.declared_features == new.declared_features
}

/// Tells whether the pod takes something of its node that the ledger doesn't know of: another has
/// bound it, or it asks for something else than before.
fn is_news(cluster: &Cluster, pod: &Pod) -> bool {
    let Some(record) = cluster.pod(&pod.uid) else { return !pod.finished() };
    match record.place {
        Place::Assumed(_) | Place::Bound(_) => record.pod.spec != pod.spec,
        Place::Nowhere => !pod.finished(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::PodUid;

    fn a_node(uid: &str) -> Node {
        Node { name: "n".into(), uid: uid.into(), ..Node::default() }
    }

    fn a_pod(uid: &str, node: Option<&str>) -> ClusterEvent {
        let uid = PodUid(uid.into());
        let node_name = node.map(Text::from);
        ClusterEvent::PodApplied(Box::new(Pod { uid, node_name, ..Pod::default() }))
    }

    #[test]
    fn what_changes_a_nodes_answer_puts_its_binds_in_doubt() {
        let mut cluster = Cluster::default();
        cluster.fold(ClusterEvent::NodeApplied(a_node("1")));
        let of = |changed: Node| node(&cluster, &ClusterEvent::NodeApplied(changed));
        assert_eq!(of(Node { resource_version: 7, ..a_node("1") }), None);
        for changed in [
            a_node("2"),
            Node { unschedulable: true, ..a_node("1") },
            Node { pods_max: 1, ..a_node("1") },
        ] {
            assert_eq!(of(changed), Some("n".into()));
        }
        let gone = ClusterEvent::NodeDeleted { name: "n".into(), uid: "1".into() };
        assert_eq!(node(&cluster, &gone), Some("n".into()));
    }

    #[test]
    fn so_does_a_pod_that_another_has_bound_and_none_of_ours() {
        let mut cluster = Cluster::default();
        cluster.fold(ClusterEvent::NodeApplied(a_node("1")));
        cluster.fold(a_pod("waits", None));
        cluster.fold(a_pod("bound", Some("n")));
        let of = |event: ClusterEvent| node(&cluster, &event);
        assert_eq!(of(a_pod("waits", None)), None);
        assert_eq!(of(a_pod("bound", Some("n"))), None);
        assert_eq!(of(a_pod("waits", Some("n"))), Some("n".into()));
        assert_eq!(of(a_pod("new", Some("n"))), Some("n".into()));
    }
}
