//! Which changes may help a pod that was turned away for its claims.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::devices::claims::{PodClaimState, claim_of};
use berth_core::snapshot::{Change, DeviceChange};
use berth_core::types::Pod;
use berth_core::types::claim::ClaimKey;

use super::DynamicResources;
use super::lookup::{claims_of_pod, keeps_back};

impl Interest for DynamicResources {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let ready = || claims_of_pod(cx.pod, cx.cluster).is_ok() || keeps_back(cx.pod, cx.cluster);
        let may_help = match change {
            Change::Devices(change) => devices_help(cx.pod, change) && ready(),
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
            | Change::Groups(_) => false,
        };
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}

fn devices_help(pod: &Pod, change: &DeviceChange) -> bool {
    match change {
        DeviceChange::Slice
        | DeviceChange::SliceGone
        | DeviceChange::Class
        | DeviceChange::TaintRule
        | DeviceChange::ClaimGone { .. } => true,
        // Devices that are free again may help anybody.
        DeviceChange::Claim { deallocated: true, .. } => true,
        DeviceChange::Claim { key, added, status, .. } => (*added || *status) && uses(pod, key),
        DeviceChange::ClassGone | DeviceChange::Conflict(_) => false,
    }
}

fn uses(pod: &Pod, key: &ClaimKey) -> bool {
    let mut entries = pod.spec.claims.iter();
    entries.any(|entry| claim_of(pod, entry) == PodClaimState::Claim(key.clone()))
}
