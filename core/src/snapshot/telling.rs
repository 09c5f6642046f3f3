//! The way back from the ledger to facts, for whoever compares it with another source.

use crate::types::Text;

use super::cluster::Cluster;
use super::event::ClusterEvent;
use super::nodes::{Nodes, ResourceId};

impl Cluster {
    /// Returns everything known but nodes and pods, each as the event that tells it.
    pub fn other_facts(&self) -> impl Iterator<Item = ClusterEvent> + '_ {
        let storage = &self.storage;
        let namespaces = self.namespaces.values().cloned().map(ClusterEvent::NamespaceApplied);
        let owners = self.owners.values().cloned().map(ClusterEvent::SelectorOwnerApplied);
        let claims = storage.claims.values().cloned().map(ClusterEvent::ClaimApplied);
        let volumes = storage.volumes.values().cloned().map(ClusterEvent::VolumeApplied);
        let classes = storage.classes.values().cloned().map(ClusterEvent::StorageClassApplied);
        let csi_nodes = storage.csi_nodes.values().cloned().map(ClusterEvent::CsiNodeApplied);
        let attachments =
            storage.attachments.values().cloned().map(ClusterEvent::AttachmentApplied);
        let workload = namespaces.chain(owners);
        workload.chain(claims).chain(volumes).chain(classes).chain(csi_nodes).chain(attachments)
    }
}

impl Nodes {
    /// Returns every resource that some node or pod has had, by name.
    pub fn resources(&self) -> impl Iterator<Item = (&Text, ResourceId)> {
        self.resources.iter().map(|(name, id)| (name, *id))
    }
}
