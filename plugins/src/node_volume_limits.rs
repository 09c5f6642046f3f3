//! NodeVolumeLimits: turns away nodes that can attach no further volume of a CSI driver.
//!
//! Source: `nodevolumelimits/csi.go` of kube-scheduler 1.37. Inline CSI volumes are not attached,
//! so they don't count. Not built: `preventPodSchedulingIfMissing` of CSIDriver objects (gate
//! VolumeLimitScaling), since the ledger has no such objects.

mod attachable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::framework::{
    Cycle, CycleState, Explain, Filter, Hint, HintContext, Interest, PluginDef, PreFilter,
    PreFilterAnswer, Reads, Reason, Verdict,
};
use berth_core::snapshot::storage::Storage;
use berth_core::snapshot::{Change, IndexRef, NodeIdx, StorageKind};
use berth_core::types::{Pod, Text};

use crate::shared::claims::{ClaimIdentity, misses_a_claim};

use attachable::{Attachable, Handle, attachable, may_attach};

const NAME: &str = "NodeVolumeLimits";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes that can attach no further volume of a CSI driver",
    missing: None,
    build: |_args, points| {
        let plugin = Arc::new(NodeVolumeLimits);
        points.pre_filter(plugin.clone());
        points.filter(plugin.clone());
        points.explain(plugin.clone());
        points.interest(plugin);
        points.classify(Arc::new(ClaimIdentity));
    },
};

const TOO_MANY: &str = "node(s) exceed max volume count";

struct NodeVolumeLimits;

/// What the pod needs attached, and what its drivers have attached by VolumeAttachments.
struct Wanted {
    volumes: BTreeSet<Attachable>,
    /// By node name.
    attachments: BTreeMap<Text, Vec<Attachable>>,
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        let storage = cycle.cluster.storage();
        let wanted = wanted(cycle.pod, storage);
        if wanted.as_ref().is_ok_and(|wanted| wanted.volumes.is_empty()) {
            return PreFilterAnswer::Skip;
        }
        // A claim that is missing is told by Filter, of every node, as upstream does.
        state.put(NAME, wanted);
        PreFilterAnswer::Continue
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads(cycle.pod)
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        match state.kept::<Result<Wanted, Text>>(NAME) {
            Some(Ok(wanted)) if shortage(cycle, wanted, node).is_some() => {
                Verdict::Unschedulable(TOO_MANY.into())
            }
            Some(Err(text)) => Verdict::Unresolvable(Reason::from(text.clone())),
            Some(Ok(_)) | None => Verdict::Fit,
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads(cycle.pod)
    }
}

impl Explain for NodeVolumeLimits {
    fn explain(&self, cycle: Cycle<'_>, state: &CycleState) -> Option<Text> {
        let wanted = state.kept::<Result<Wanted, Text>>(NAME)?.as_ref().ok()?;
        let nodes = cycle.cluster.nodes();
        let short = |(node, _)| shortage(cycle, wanted, node).map(|shortage| (shortage, node));
        let lacks = |(shortage, _): &(Shortage, NodeIdx)| shortage.n_new - shortage.n_free;
        let (least, node) = nodes.iter().filter_map(short).min_by_key(lacks)?;
        let Shortage { driver, n_new, n_free } = least;
        let s = if n_new == 1 { "" } else { "s" };
        let needs = format!("needs {n_new} more volume{s} of {driver}");
        let name = &nodes.slot(node).name;
        Some(format!("{needs}, {n_free} can be attached on the closest node ({name})").into())
    }
}

/// A driver that can't attach what the pod adds to a node.
struct Shortage {
    driver: Text,
    n_new: i64,
    /// 0 also where more is attached than the limit allows.
    n_free: i64,
}

/// Returns the first driver that lacks room on a node.
///
/// Cost: O(pods on the node), with look-ups of their claims only where the node may be full.
fn shortage(cycle: Cycle<'_>, wanted: &Wanted, node: NodeIdx) -> Option<Shortage> {
    let cluster = cycle.cluster;
    let csi_node = cluster.storage().csi_node(&cluster.nodes().slot(node).name)?;
    csi_node.drivers.iter().find_map(|(driver, limit)| {
        let limit = (*limit)?;
        let wants = |v: &&Attachable| v.0 == *driver;
        let n_wanted = wanted.volumes.iter().filter(wants).count();
        if n_wanted == 0 || count(n_wanted + volumes_max(cycle, wanted, node)) <= limit {
            return None;
        }
        let (by_pods, n_others) = attached(driver, cycle, wanted, node);
        let new = wanted.volumes.iter().filter(wants).filter(|v| !by_pods.contains(*v));
        let (n_new, n_there) = (count(new.count()), count(by_pods.len() + n_others));
        let n_free = limit.saturating_sub(n_there).max(0);
        (n_new > n_free).then(|| Shortage { driver: driver.clone(), n_new, n_free })
    })
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns an upper bound of what is attached to a node, of whatever driver.
fn volumes_max(cycle: Cycle<'_>, wanted: &Wanted, node: NodeIdx) -> usize {
    let of_pods: usize = cycle.cluster.pods_on(node).map(|pod| pod.spec.volumes.len()).sum();
    of_pods + wanted.attachments_on(cycle, node).count()
}

/// Returns the volumes of a driver that the pods on a node use, and how many more are attached:
/// on their way in or out.
fn attached(
    driver: &Text,
    cycle: Cycle<'_>,
    wanted: &Wanted,
    node: NodeIdx,
) -> (BTreeSet<Attachable>, usize) {
    let storage = cycle.cluster.storage();
    let mut by_pods = BTreeSet::new();
    for pod in cycle.cluster.pods_on(node) {
        // A placed pod whose claim is gone holds no volume that could be named.
        let volumes = pod.spec.volumes.iter().filter_map(|v| attachable(v, pod, storage).ok()?);
        by_pods.extend(volumes.filter(|(theirs, _)| theirs == driver));
    }
    let attachments = wanted.attachments_on(cycle, node).filter(|v| v.0 == *driver);
    let others: BTreeSet<&Attachable> = attachments.filter(|v| !by_pods.contains(*v)).collect();
    let n_others = others.len();
    (by_pods, n_others)
}

impl Wanted {
    fn attachments_on<'a>(
        &'a self,
        cycle: Cycle<'a>,
        node: NodeIdx,
    ) -> impl Iterator<Item = &'a Attachable> {
        let name = &cycle.cluster.nodes().slot(node).name;
        self.attachments.get(name).into_iter().flatten()
    }
}

/// Returns what `pod` needs attached.
///
/// # Errors
/// A claim of it does not exist.
fn wanted(pod: &Pod, storage: &Storage) -> Result<Wanted, Text> {
    let mut volumes = BTreeSet::new();
    for volume in &pod.spec.volumes {
        volumes.extend(attachable(volume, pod, storage)?);
    }
    let attachments = attachments_of(&volumes, storage);
    Ok(Wanted { volumes, attachments })
}

/// Returns the VolumeAttachments of the drivers that are wanted, by node.
fn attachments_of(
    volumes: &BTreeSet<Attachable>,
    storage: &Storage,
) -> BTreeMap<Text, Vec<Attachable>> {
    let mut by_node: BTreeMap<Text, Vec<Attachable>> = BTreeMap::new();
    for attachment in storage.attachments() {
        if !volumes.iter().any(|(driver, _)| *driver == attachment.driver) {
            continue;
        }
        let volume = storage.volume(&attachment.volume_name).and_then(|v| v.csi.as_ref());
        let Some((_, handle)) = volume else { continue };
        let entry = (attachment.driver.clone(), Handle::Known(handle.clone()));
        by_node.entry(attachment.node_name.clone()).or_default().push(entry);
    }
    by_node
}

fn reads(pod: &Pod) -> Reads {
    match may_attach(pod) {
        true => Reads { indexes: vec![IndexRef::Storage] },
        false => Reads::NODE,
    }
}

impl Interest for NodeVolumeLimits {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let may_help = match change {
            Change::PodFreed { old, .. } => may_attach(old),
            Change::Storage { kind: StorageKind::Claim, added: true } => {
                !misses_a_claim(cx.pod, cx.cluster.storage())
            }
            // A limit rose, or a node that had none yet got its first; a node without is unlimited.
            Change::Storage { kind: StorageKind::CsiNode, .. } | Change::NodeAdded { .. } => true,
            Change::StorageDeleted { kind } => match kind {
                StorageKind::CsiNode | StorageKind::Attachment => true,
                // What is gone no longer counts.
                StorageKind::Claim | StorageKind::Volume => true,
                StorageKind::StorageClass => false,
            },
            Change::Storage { .. }
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
