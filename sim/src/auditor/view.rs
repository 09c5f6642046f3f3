//! What a process was told: the newest version of each object.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Node, Pod, PodUid, Text};

#[derive(Debug, Default)]
pub(super) struct View {
    /// None: told that it is gone.
    pods: BTreeMap<PodUid, Option<Box<Pod>>>,
    nodes: BTreeMap<Text, Arc<Node>>,
    /// The newest version of each node name.
    node_versions: BTreeMap<Text, u64>,
}

impl View {
    pub(super) fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(uid)?.as_deref()
    }

    pub(super) fn node(&self, name: &Text) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    pub(super) fn fold(&mut self, event: &ClusterEvent) {
        match event {
            ClusterEvent::PodApplied(pod) => {
                let newer = match self.pods.get(&pod.uid) {
                    None => true,
                    Some(None) => false,
                    Some(Some(known)) => pod.resource_version > known.resource_version,
                };
                if newer {
                    self.pods.insert(pod.uid.clone(), Some(pod.clone()));
                }
            }
            ClusterEvent::PodDeleted { uid } => {
                self.pods.insert(uid.clone(), None);
            }
            ClusterEvent::NodeApplied(node) => {
                let newest = self.node_versions.entry(node.name.clone()).or_default();
                if node.resource_version >= *newest {
                    *newest = node.resource_version;
                    self.nodes.insert(node.name.clone(), Arc::new(node.clone()));
                }
            }
            ClusterEvent::NodeDeleted { name, uid }
                if self.nodes.get(name).is_some_and(|node| node.uid == *uid) =>
            {
                self.nodes.remove(name);
            }
            _ => {}
        }
    }
}
