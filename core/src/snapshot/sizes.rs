//! How much the ledger holds, for metrics.

use crate::types::PodUid;
use crate::types::workload::SelectorKind;

use super::cluster::Cluster;
use super::pods::Place;

/// Numbers of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerSizes {
    pub nodes: usize,
    /// All pods that have not ended, with or without a node.
    pub pods: usize,
    /// Those that hold resources of a node, the assumed ones among them.
    pub placed_pods: usize,
    /// Those whose place was decided here and is not yet on the object.
    pub assumed_pods: usize,
    pub nominated_pods: usize,
    pub namespaces: usize,
    pub services: usize,
    pub controllers: usize,
    pub claims: usize,
    pub volumes: usize,
    pub storage_classes: usize,
    pub csi_nodes: usize,
    pub attachments: usize,
    pub resource_slices: usize,
    /// In all slices together.
    pub devices: usize,
    pub resource_claims: usize,
    pub device_classes: usize,
}

impl Cluster {
    /// Counts what is known. Cost: O(nodes + services and controllers + resource slices).
    pub fn sizes(&self) -> LedgerSizes {
        let slots = self.nodes.slots();
        let services = self.owners.keys().filter(|(_, kind, _)| *kind == SelectorKind::Service);
        let services = services.count();
        let (resource_slices, devices, resource_claims, device_classes) = self.devices.sizes();
        LedgerSizes {
            nodes: self.nodes.len(),
            pods: self.pods.len(),
            placed_pods: slots.iter().map(|slot| slot.pods.len()).sum(),
            assumed_pods: self.assumed,
            nominated_pods: self.nominated.len(),
            namespaces: self.namespaces.len(),
            services,
            controllers: self.owners.len() - services,
            claims: self.storage.claims.len(),
            volumes: self.storage.volumes.len(),
            storage_classes: self.storage.classes.len(),
            csi_nodes: self.storage.csi_nodes.len(),
            attachments: self.storage.attachments.len(),
            resource_slices,
            devices,
            resource_claims,
            device_classes,
        }
    }

    /// Returns at most `limit` pods whose UID is after `after`, in order of UID: a reader that
    /// comes again with the last one sees every pod that stays, and holds nobody up.
    pub fn pods_after(&self, after: Option<&PodUid>, limit: usize) -> Vec<&crate::types::Pod> {
        use std::ops::Bound;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let pods = self.pods.range::<PodUid, _>((start, Bound::Unbounded));
        pods.take(limit).map(|(_, record)| &record.pod).collect()
    }

    /// Keeps the number of assumed pods in step with a pod that moves.
    pub(super) fn count_assumed(&mut self, was: Place, is: Place) {
        let assumed = |place| usize::from(matches!(place, Place::Assumed(_)));
        self.assumed += assumed(is);
        self.assumed -= assumed(was);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{ClusterEvent, NodeIdx, Overlay};
    use crate::types::{Node, Pod};

    fn pod(name: &str, node: Option<&str>) -> ClusterEvent {
        let node_name = node.map(Into::into);
        let (uid, name) = (PodUid(name.into()), name.into());
        ClusterEvent::PodApplied(Box::new(Pod { uid, name, node_name, ..Pod::default() }))
    }

    #[test]
    fn assumed_pods_are_counted_until_the_watch_shows_them() {
        let mut cluster = Cluster::default();
        let (name, uid) = ("n".into(), "u".into());
        cluster.fold(ClusterEvent::NodeApplied(Node { name, uid, ..Node::default() }));
        for name in ["a", "b", "c", "d"] {
            cluster.fold(pod(name, None));
        }
        let assume = |cluster: &mut Cluster, name: &str| {
            let mut overlay = Overlay::new(cluster);
            assert!(overlay.assume(&PodUid(name.into()), NodeIdx(0)));
            overlay.commit();
        };
        ["a", "b", "c"].iter().for_each(|name| assume(&mut cluster, name));
        let mut tried = Overlay::new(&mut cluster);
        assert!(tried.assume(&PodUid("d".into()), NodeIdx(0)));
        drop(tried);
        assert_eq!((cluster.sizes().assumed_pods, cluster.sizes().placed_pods), (3, 3));
        cluster.fold(pod("a", Some("n")));
        cluster.fold(ClusterEvent::PodDeleted { uid: PodUid("b".into()) });
        cluster.forget(&PodUid("c".into()));
        let sizes = cluster.sizes();
        assert_eq!((sizes.assumed_pods, sizes.placed_pods, sizes.pods), (0, 1, 3));
    }

    #[test]
    fn pods_come_in_parts() {
        let mut cluster = Cluster::default();
        ["a", "b", "c"].iter().for_each(|name| drop(cluster.fold(pod(name, None))));
        let names = |pods: Vec<&Pod>| pods.iter().map(|p| p.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(cluster.pods_after(None, 2)), ["a", "b"]);
        assert_eq!(names(cluster.pods_after(Some(&PodUid("b".into())), 2)), ["c"]);
    }
}
