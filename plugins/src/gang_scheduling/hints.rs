//! Which changes may help a group that was held at the barrier: those of its objects, and of pods
//! that say the same.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::{Change, Cluster, GroupChange};
use berth_core::types::group::GroupKind;
use berth_core::types::{GroupKey, Pod, PodUid};

use super::GangScheduling;

impl Interest for GangScheduling {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let HintContext { pod, cluster } = cx;
        let by_uid = |uid: &PodUid| cluster.pod(uid).is_some_and(|it| akin(pod, &it.pod, cluster));
        let may_help = match change {
            Change::Groups(change) => concerns(change, pod, cluster),
            Change::PodAdded { uid } | Change::PodBound { uid, .. } => by_uid(uid),
            Change::PodUpdated { uid, old, .. } => by_uid(uid) || akin(pod, old, cluster),
            Change::PodDeleted { old } | Change::PodFreed { old, .. } => akin(pod, old, cluster),
            Change::NodeAdded { .. }
            | Change::NodeUpdated { .. }
            | Change::NodeDeleted { .. }
            | Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged
            | Change::Devices(_) => false,
        };
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}

/// For a group of groups any group beside it may be one of its parts, or have been.
fn concerns(change: &GroupChange, pod: &Pod, cluster: &Cluster) -> bool {
    match change {
        GroupChange::Dialect { name } => {
            pod.group_hints().iter().any(|hint| hint.dialect.name == *name)
        }
        GroupChange::Topology { .. } => false,
        GroupChange::Group { key } => {
            let own = pod.group_hints().iter().any(|hint| hint.key(&pod.namespace) == *key);
            let root = cluster.groups().membership(pod).key();
            let beside =
                |root: &GroupKey| root.dialect == key.dialect && root.namespace == key.namespace;
            own || root.is_some_and(|root| root.kind == GroupKind::Groups && beside(&root))
        }
    }
}

/// Tells whether two pods are in one group, or are one: its labels may have taken it out of a group
/// that could not be followed.
fn akin(pod: &Pod, other: &Pod, cluster: &Cluster) -> bool {
    let root = |pod: &Pod| cluster.groups().membership(pod).key();
    pod.uid == other.uid || root(pod).is_some_and(|key| root(other) == Some(key))
}
