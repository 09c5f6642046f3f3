//! Which changes may help a pod that was turned away for its claims.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::{Change, Cluster, DeviceChange, GroupChange};
use berth_core::types::Pod;
use berth_core::types::group::GroupKey;

use super::DynamicResources;
use super::lookup::{claims_of_pod, keeps_back, uses};

impl Interest for DynamicResources {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let ready = || claims_of_pod(cx.pod, cx.cluster).is_ok() || keeps_back(cx.pod, cx.cluster);
        let may_help = match change {
            Change::Devices(change) => devices_help(cx.pod, cx.cluster, change) && ready(),
            // Its status may tell of claims that were made for it.
            Change::Groups(GroupChange::Group { key }) => has_claims_of(cx.pod, key) && ready(),
            Change::NodeAdded { .. } => ready(),
            Change::NodeUpdated { aspects, .. } => {
                (aspects.labels || aspects.allocatable || aspects.taints) && ready()
            }
            Change::PodUpdated { uid, aspects, .. } => {
                *uid == cx.pod.uid && aspects.claims && ready()
            }
            Change::NodeDeleted { .. }
            | Change::PodAdded { .. }
            | Change::PodBound { .. }
            | Change::PodDeleted { .. }
            | Change::PodFreed { .. }
            | Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged
            | Change::Groups(GroupChange::Dialect { .. } | GroupChange::Topology { .. }) => false,
        };
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}

fn has_claims_of(pod: &Pod, group: &GroupKey) -> bool {
    let mut hints = pod.group_hints().iter();
    !pod.spec.claims.is_empty() && hints.any(|hint| hint.key(&pod.namespace) == *group)
}

fn devices_help(pod: &Pod, cluster: &Cluster, change: &DeviceChange) -> bool {
    match change {
        DeviceChange::Slice
        | DeviceChange::SliceGone
        | DeviceChange::Class
        | DeviceChange::TaintRule
        | DeviceChange::ClaimGone { .. } => true,
        // Devices that are free again may help anybody.
        DeviceChange::Claim { deallocated: true, .. } => true,
        DeviceChange::Claim { key, added, status, .. } => {
            (*added || *status) && uses(pod, cluster, key)
        }
        DeviceChange::ClassGone | DeviceChange::Conflict(_) => false,
    }
}
