//! Names of events and changes, as kube-scheduler's metrics have them.
//!
//! Source: `ClusterEvent.Label` of k8s.io/kube-scheduler 1.37, resource and action in one word.
//! What upstream doesn't watch (services and controllers) is named in the same way.

use crate::types::Pod;
use crate::types::workload::SelectorKind;

use super::cluster::Cluster;
use super::event::{
    Change, ClusterEvent, DeviceChange, DeviceEvent, GroupEvent, NodeAspects, PodAspects,
    StorageKind,
};

impl ClusterEvent {
    /// Returns what the event is to a ledger that has not folded it yet. An update is told without
    /// its aspects, as where upstream handles it.
    pub fn label(&self, cluster: &Cluster) -> &'static str {
        match self {
            ClusterEvent::NodeApplied(node) => {
                let idx = cluster.nodes().index(&node.name);
                let known = idx.is_some_and(|idx| cluster.nodes().node(idx).is_some());
                put(known, "NodeAdd", "NodeUpdate")
            }
            ClusterEvent::NodeDeleted { .. } => "NodeDelete",
            ClusterEvent::PodApplied(pod) => applied_pod(pod, cluster),
            ClusterEvent::PodDeleted { uid } => {
                let known = cluster.pod(uid);
                match known.is_some_and(|record| record.pod.node_name.is_some()) {
                    true => "AssignedPodDelete",
                    false => "UnschedulablePodDelete",
                }
            }
            ClusterEvent::NamespaceApplied(namespace) => {
                let known = cluster.namespace(&namespace.name).is_some();
                put(known, "NamespaceAdd", "NamespaceUpdate")
            }
            ClusterEvent::NamespaceDeleted { .. } => "NamespaceDelete",
            ClusterEvent::SelectorOwnerApplied(owner) => owner_label(owner.kind).0,
            ClusterEvent::SelectorOwnerDeleted { kind, .. } => owner_label(*kind).1,
            ClusterEvent::Devices(event) => device_event(event, cluster),
            ClusterEvent::Groups(event) => group_event(event, cluster),
            ClusterEvent::NumaReportApplied(report) => put(
                cluster.numa_report(&report.node).is_some(),
                "topology.node.k8s.io/NodeResourceTopologyAdd",
                "topology.node.k8s.io/NodeResourceTopologyUpdate",
            ),
            ClusterEvent::NumaReportDeleted { .. } => {
                "topology.node.k8s.io/NodeResourceTopologyDelete"
            }
            storage => storage.storage_label(cluster),
        }
    }

    fn storage_label(&self, cluster: &Cluster) -> &'static str {
        let storage = cluster.storage();
        match self {
            ClusterEvent::ClaimApplied(claim) => {
                let known = storage.claim(&claim.namespace, &claim.name).is_some();
                put(known, "PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate")
            }
            ClusterEvent::ClaimDeleted { .. } => "PersistentVolumeClaimDelete",
            ClusterEvent::VolumeApplied(volume) => {
                let known = storage.volume(&volume.name).is_some();
                put(known, "PersistentVolumeAdd", "PersistentVolumeUpdate")
            }
            ClusterEvent::VolumeDeleted { .. } => "PersistentVolumeDelete",
            ClusterEvent::StorageClassApplied(class) => {
                let known = storage.class(&class.name).is_some();
                put(known, "storage.k8s.io/StorageClassAdd", "storage.k8s.io/StorageClassUpdate")
            }
            ClusterEvent::StorageClassDeleted { .. } => "storage.k8s.io/StorageClassDelete",
            ClusterEvent::CsiNodeApplied(node) => {
                let known = storage.csi_node(&node.name).is_some();
                put(known, "storage.k8s.io/CSINodeAdd", "storage.k8s.io/CSINodeUpdate")
            }
            ClusterEvent::CsiNodeDeleted { .. } => "storage.k8s.io/CSINodeDelete",
            ClusterEvent::AttachmentApplied(attachment) => put(
                storage.attachments.contains_key(&attachment.name),
                "storage.k8s.io/VolumeAttachmentAdd",
                "storage.k8s.io/VolumeAttachmentUpdate",
            ),
            ClusterEvent::AttachmentDeleted { .. } => "storage.k8s.io/VolumeAttachmentDelete",
            _ => "Unknown",
        }
    }
}

/// A pod that gets its node is one more of the assigned ones.
fn applied_pod(pod: &Pod, cluster: &Cluster) -> &'static str {
    let known = cluster.pod(&pod.uid);
    match pod.node_name.is_some() {
        true => {
            let assigned = known.is_some_and(|record| record.pod.node_name.is_some());
            put(assigned, "AssignedPodAdd", "AssignedPodUpdate")
        }
        false => put(known.is_some(), "UnschedulablePodAdd", "UnschedulablePodUpdate"),
    }
}

fn put(known: bool, added: &'static str, updated: &'static str) -> &'static str {
    if known { updated } else { added }
}

/// Applied, deleted. Whether an applied one is new matters to nobody.
fn owner_label(kind: SelectorKind) -> (&'static str, &'static str) {
    match kind {
        SelectorKind::Service => ("ServiceUpdate", "ServiceDelete"),
        SelectorKind::ReplicationController => {
            ("ReplicationControllerUpdate", "ReplicationControllerDelete")
        }
        SelectorKind::ReplicaSet => ("ReplicaSetUpdate", "ReplicaSetDelete"),
        SelectorKind::StatefulSet => ("StatefulSetUpdate", "StatefulSetDelete"),
    }
}

impl Change {
    /// Returns the change's name. Of an update with several aspects, which upstream makes several
    /// events of, it is the first one's.
    pub fn label(&self) -> &'static str {
        match self {
            Change::NodeAdded { .. } => "NodeAdd",
            Change::NodeUpdated { aspects, .. } => node_update(*aspects),
            Change::NodeDeleted { .. } => "NodeDelete",
            Change::PodAdded { .. } => "UnschedulablePodAdd",
            Change::PodBound { .. } => "AssignedPodAdd",
            Change::PodUpdated { old, aspects, .. } => {
                pod_update(*aspects, old.node_name.is_some())
            }
            Change::PodDeleted { .. } => "UnschedulablePodDelete",
            Change::PodFreed { .. } => "AssignedPodDelete",
            Change::Storage { kind, added } => match added {
                true => storage_label(*kind).0,
                false => storage_label(*kind).1,
            },
            Change::StorageDeleted { kind } => storage_label(*kind).2,
            Change::NamespaceChanged { .. } => "NamespaceUpdate",
            Change::SelectorOwnerChanged => "ServiceUpdate",
            Change::Devices(change) => device_change(change),
            Change::Groups(_) => "PodGroupUpdate",
        }
    }
}

fn node_update(aspects: NodeAspects) -> &'static str {
    match aspects {
        NodeAspects { allocatable: true, .. } => "NodeUpdateNodeAllocatable",
        NodeAspects { labels: true, .. } => "NodeUpdateNodeLabel",
        NodeAspects { taints: true, .. } => "NodeUpdateNodeTaint",
        _ => "NodeUpdate",
    }
}

fn pod_update(aspects: PodAspects, assigned: bool) -> &'static str {
    let (of_assigned, of_waiting) = match aspects {
        PodAspects { labels: true, .. } => {
            ("AssignedPodUpdatePodLabel", "UnschedulablePodUpdatePodLabel")
        }
        PodAspects { scaled_down: true, .. } => {
            ("AssignedPodUpdatePodScaleDown", "UnschedulablePodUpdatePodScaleDown")
        }
        PodAspects { gates_gone: true, .. } => (
            "AssignedPodUpdatePodSchedulingGatesEliminated",
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ),
        PodAspects { tolerations: true, .. } => {
            ("AssignedPodUpdatePodToleration", "UnschedulablePodUpdatePodToleration")
        }
        _ => ("AssignedPodUpdate", "UnschedulablePodUpdate"),
    };
    if assigned { of_assigned } else { of_waiting }
}

/// Added, updated, deleted.
fn storage_label(kind: StorageKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        StorageKind::Claim => (
            "PersistentVolumeClaimAdd",
            "PersistentVolumeClaimUpdate",
            "PersistentVolumeClaimDelete",
        ),
        StorageKind::Volume => {
            ("PersistentVolumeAdd", "PersistentVolumeUpdate", "PersistentVolumeDelete")
        }
        StorageKind::StorageClass => (
            "storage.k8s.io/StorageClassAdd",
            "storage.k8s.io/StorageClassUpdate",
            "storage.k8s.io/StorageClassDelete",
        ),
        StorageKind::CsiNode => (
            "storage.k8s.io/CSINodeAdd",
            "storage.k8s.io/CSINodeUpdate",
            "storage.k8s.io/CSINodeDelete",
        ),
        StorageKind::Attachment => (
            "storage.k8s.io/VolumeAttachmentAdd",
            "storage.k8s.io/VolumeAttachmentUpdate",
            "storage.k8s.io/VolumeAttachmentDelete",
        ),
    }
}

fn group_event(event: &GroupEvent, cluster: &Cluster) -> &'static str {
    match event {
        GroupEvent::Applied(group) => {
            put(cluster.groups().object(&group.key).is_some(), "PodGroupAdd", "PodGroupUpdate")
        }
        GroupEvent::Deleted { .. } => "PodGroupDelete",
        GroupEvent::Served { .. }
        | GroupEvent::TopologyApplied(_)
        | GroupEvent::TopologyDeleted { .. } => "PodGroupUpdate",
    }
}

fn device_event(event: &DeviceEvent, cluster: &Cluster) -> &'static str {
    let devices = cluster.devices();
    match event {
        DeviceEvent::SliceApplied(slice) => {
            let known = devices.slice_named(&slice.name).is_some();
            put(known, "ResourceSliceAdd", "ResourceSliceUpdate")
        }
        DeviceEvent::SliceDeleted { .. } => "ResourceSliceDelete",
        DeviceEvent::ClassApplied(class) => {
            let known = devices.class(&class.name).is_some();
            put(known, "DeviceClassAdd", "DeviceClassUpdate")
        }
        DeviceEvent::ClassDeleted { .. } => "DeviceClassDelete",
        // Upstream's tracker tells of them as updates of slices.
        DeviceEvent::TaintRuleApplied(_) | DeviceEvent::TaintRuleDeleted { .. } => {
            "ResourceSliceUpdate"
        }
        DeviceEvent::ClaimApplied(claim) => {
            let known = devices.claim(&claim.key).is_some();
            put(known, "ResourceClaimAdd", "ResourceClaimUpdate")
        }
        DeviceEvent::ClaimDeleted { .. } => "ResourceClaimDelete",
    }
}

fn device_change(change: &DeviceChange) -> &'static str {
    match change {
        DeviceChange::Slice | DeviceChange::TaintRule => "ResourceSliceUpdate",
        DeviceChange::SliceGone => "ResourceSliceDelete",
        DeviceChange::Class => "DeviceClassUpdate",
        DeviceChange::ClassGone => "DeviceClassDelete",
        DeviceChange::Claim { added: true, .. } => "ResourceClaimAdd",
        DeviceChange::Claim { .. } | DeviceChange::Conflict(_) => "ResourceClaimUpdate",
        DeviceChange::ClaimGone { .. } => "ResourceClaimDelete",
    }
}
