//! The way back from the ledger to facts, for whoever compares it with another source.

use crate::types::Text;

use super::cluster::Cluster;
use super::event::{ClusterEvent, DeviceEvent, GroupEvent};
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
        let storage = claims.chain(volumes).chain(classes).chain(csi_nodes).chain(attachments);
        let groups = self.groups.objects();
        let groups = groups.map(|group| GroupEvent::Applied(Box::new((**group).clone())));
        let topologies = self.topologies.objects();
        let topologies =
            topologies.map(|object| GroupEvent::TopologyApplied(Box::new((**object).clone())));
        workload
            .chain(storage)
            .chain(self.device_facts().map(ClusterEvent::Devices))
            .chain(groups.chain(topologies).map(ClusterEvent::Groups))
            .chain(
                self.numa
                    .reports()
                    .cloned()
                    .map(|it| ClusterEvent::NumaReportApplied(Box::new(it))),
            )
    }

    fn device_facts(&self) -> impl Iterator<Item = DeviceEvent> + '_ {
        let devices = &self.devices;
        let slices = devices.slices().map(|slice| DeviceEvent::SliceApplied(slice.clone().into()));
        let classes =
            devices.classes().map(|class| DeviceEvent::ClassApplied(class.clone().into()));
        let rules = devices.rules().map(|rule| DeviceEvent::TaintRuleApplied(rule.clone().into()));
        let claims = devices.claims();
        let claims = claims.map(|record| DeviceEvent::ClaimApplied((*record.claim).clone().into()));
        classes.chain(rules).chain(slices).chain(claims)
    }
}

impl Nodes {
    /// Returns every resource that some node or pod has had, by name.
    pub fn resources(&self) -> impl Iterator<Item = (&Text, ResourceId)> {
        self.resources.iter().map(|(name, id)| (name, *id))
    }
}
