//! VolumeRestrictions: turns away pods whose disk, or ReadWriteOncePod claim, another pod uses.
//!
//! Source: `volumerestrictions/volume_restrictions.go` of kube-scheduler 1.37. Differences: users
//! of a claim are read from the ledger in Filter, so that what-if changes count without AddPod and
//! RemovePod; a freed disk wakes pods of every namespace, since disks have none.

use std::sync::Arc;

use berth_core::framework::{
    Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, PreFilter, PreFilterAnswer,
    Reads, Reason, Verdict,
};
use berth_core::snapshot::storage::Storage;
use berth_core::snapshot::{Change, NodeIdx, StorageKind};
use berth_core::types::{Pod, Text, VolumeSource};

use crate::shared::claims::{
    ClaimIdentity, find_claim, misses_a_claim, named_claims, reads_of_claims,
};

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "VolumeRestrictions",
    summary: "turns away pods whose disk, or ReadWriteOncePod claim, another pod uses",
    missing: None,
    build: |_args, points| {
        let plugin = Arc::new(VolumeRestrictions);
        points.pre_filter(plugin.clone());
        points.filter(plugin.clone());
        points.interest(plugin);
        points.classify(Arc::new(ClaimIdentity));
    },
};

const DISK_CONFLICT: &str = "node(s) had no available disk";
const CLAIM_IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with \
                            ReadWriteOncePod access mode already in-use by another pod";

struct VolumeRestrictions;

impl PreFilter for VolumeRestrictions {
    fn pre_filter(&self, cycle: Cycle<'_>, _state: &mut CycleState) -> PreFilterAnswer {
        let mut restricted = cycle.pod.spec.volumes.iter().any(is_disk);
        for name in named_claims(cycle.pod) {
            match find_claim(cycle.pod, name, cycle.cluster.storage()) {
                Ok(claim) => restricted |= claim.read_write_once_pod,
                Err(text) => return PreFilterAnswer::Unresolvable(Reason::from(text)),
            }
        }
        if restricted { PreFilterAnswer::Continue } else { PreFilterAnswer::Skip }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads_of_claims(cycle.pod)
    }
}

impl Filter for VolumeRestrictions {
    fn filter(&self, cycle: Cycle<'_>, _state: &CycleState, node: NodeIdx) -> Verdict {
        if cycle.cluster.pods_on(node).any(|other| disks_conflict(cycle.pod, other)) {
            return Verdict::Unschedulable(DISK_CONFLICT.into());
        }
        if claim_in_use(cycle.pod, cycle.cluster.storage()) {
            return Verdict::Unschedulable(CLAIM_IN_USE.into());
        }
        Verdict::Fit
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads_of_claims(cycle.pod)
    }
}

impl Interest for VolumeRestrictions {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let storage = cx.cluster.storage();
        let may_help = match change {
            Change::PodFreed { old, .. } => {
                disks_conflict(cx.pod, old) || shares_claim(cx.pod, old)
            }
            Change::NodeAdded { .. } => !claim_in_use(cx.pod, storage),
            Change::Storage { kind: StorageKind::Claim, added: true } => {
                !misses_a_claim(cx.pod, storage) && !claim_in_use(cx.pod, storage)
            }
            Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NodeUpdated { .. }
            | Change::NodeDeleted { .. }
            | Change::PodAdded { .. }
            | Change::PodBound { .. }
            | Change::PodUpdated { .. }
            | Change::PodDeleted { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged
            | Change::Devices(_)
            | Change::Groups(_) => false,
        };
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}

/// Tells whether a ReadWriteOncePod claim of `pod` is used by another pod, anywhere.
fn claim_in_use(pod: &Pod, storage: &Storage) -> bool {
    let exclusive = |name: &Text| {
        storage.claim(&pod.namespace, name).is_some_and(|claim| claim.read_write_once_pod)
    };
    let used = |name: &Text| storage.users(&pod.namespace, name).any(|user| *user != pod.uid);
    named_claims(pod).any(|name| exclusive(name) && used(name))
}

fn shares_claim(pod: &Pod, other: &Pod) -> bool {
    pod.namespace == other.namespace
        && named_claims(pod).any(|name| named_claims(other).any(|theirs| theirs == name))
}

/// Tells whether one pod's disks keep the other's off the node.
fn disks_conflict(pod: &Pod, other: &Pod) -> bool {
    let disks = pod.spec.volumes.iter().filter(|v| is_disk(v));
    disks.into_iter().any(|disk| other.spec.volumes.iter().any(|theirs| conflict(disk, theirs)))
}

fn is_disk(volume: &VolumeSource) -> bool {
    match volume {
        VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. }
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. } => true,
        VolumeSource::Claim { .. }
        | VolumeSource::Ephemeral { .. }
        | VolumeSource::InlineCsi { .. } => false,
    }
}

/// Tells whether two volumes are one disk that can't serve both: it can if both only read, except
/// an EBS volume, which serves one pod whatever the mode.
fn conflict(a: &VolumeSource, b: &VolumeSource) -> bool {
    use VolumeSource::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    match (a, b) {
        (
            GcePersistentDisk { name: a, read_only: a_reads },
            GcePersistentDisk { name: b, read_only: b_reads },
        ) => a == b && !(*a_reads && *b_reads),
        (AwsElasticBlockStore { volume_id: a }, AwsElasticBlockStore { volume_id: b }) => a == b,
        (Iscsi { iqn: a, read_only: a_reads }, Iscsi { iqn: b, read_only: b_reads }) => {
            a == b && !(*a_reads && *b_reads)
        }
        (
            Rbd { monitors: a, pool: a_pool, image: a_image, read_only: a_reads },
            Rbd { monitors: b, pool: b_pool, image: b_image, read_only: b_reads },
        ) => {
            let same = a_pool == b_pool && a_image == b_image && a.iter().any(|m| b.contains(m));
            same && !(*a_reads && *b_reads)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gce(name: &str, read_only: bool) -> VolumeSource {
        VolumeSource::GcePersistentDisk { name: name.into(), read_only }
    }

    fn rbd(monitors: &[&str], image: &str) -> VolumeSource {
        let monitors = monitors.iter().map(|m| Text::from(*m)).collect();
        VolumeSource::Rbd { monitors, pool: "p".into(), image: image.into(), read_only: false }
    }

    #[test]
    fn disks_conflict_unless_both_read() {
        assert!(conflict(&gce("d", true), &gce("d", false)));
        assert!(!conflict(&gce("d", true), &gce("d", true)));
        assert!(!conflict(&gce("d", false), &gce("e", false)));
        assert!(conflict(&rbd(&["a", "b"], "i"), &rbd(&["b"], "i")));
        assert!(!conflict(&rbd(&["a"], "i"), &rbd(&["b"], "i")));
        assert!(!conflict(&rbd(&["a"], "i"), &rbd(&["a"], "j")));
        let ebs = |id: &str| VolumeSource::AwsElasticBlockStore { volume_id: id.into() };
        assert!(conflict(&ebs("v"), &ebs("v")));
        assert!(!conflict(&ebs("v"), &gce("v", false)));
    }
}
