//! VolumeZone: turns away nodes outside the zone or region of a bound volume.
//!
//! Source: `volumezone/volume_zone.go` of kube-scheduler 1.37.

use std::sync::Arc;

use berth_core::framework::{
    Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, PreFilter, PreFilterAnswer,
    Reads, Reason, Verdict,
};
use berth_core::snapshot::storage::Storage;
use berth_core::snapshot::{Change, Cluster, NodeIdx, StorageKind};
use berth_core::types::volume::{PersistentVolume, PersistentVolumeClaim};
use berth_core::types::{Labels, Pod, Text};

use crate::shared::claims::{ClaimIdentity, find_claim, named_claims, not_found, reads_of_claims};

const NAME: &str = "VolumeZone";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes outside the zone or region of a bound volume",
    missing: None,
    build: |_args, points| {
        let plugin = Arc::new(VolumeZone);
        points.pre_filter(plugin.clone());
        points.filter(plugin.clone());
        points.interest(plugin);
        points.classify(Arc::new(ClaimIdentity));
    },
};

const ZONE_CONFLICT: &str = "node(s) had no available volume zone";
/// Topology labels with the name that replaced each.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];
/// Stands between the zones of a regional disk in its label.
const ZONE_DELIMITER: &str = "__";

struct VolumeZone;

/// One topology label of one volume of the pod.
struct Topology {
    key: &'static str,
    /// The name to look for on nodes that lack `key`.
    replaced_by: &'static str,
    values: Vec<Text>,
}

impl PreFilter for VolumeZone {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        match topologies(cycle.pod, cycle.cluster.storage()) {
            Err(text) => PreFilterAnswer::Unresolvable(Reason::from(text)),
            Ok(found) if found.is_empty() => PreFilterAnswer::Skip,
            Ok(found) => {
                state.put(NAME, found);
                PreFilterAnswer::Continue
            }
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads_of_claims(cycle.pod)
    }
}

impl Filter for VolumeZone {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        let Some(topologies) = state.kept::<Vec<Topology>>(NAME) else { return Verdict::Fit };
        if reachable(topologies, cycle.cluster, node) {
            Verdict::Fit
        } else {
            Verdict::Unresolvable(ZONE_CONFLICT.into())
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads_of_claims(cycle.pod)
    }
}

impl Interest for VolumeZone {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let known = || topologies(cx.pod, cx.cluster.storage());
        let reached = |node| known().is_ok_and(|t| reachable(&t, cx.cluster, node));
        let may_help = match change {
            Change::Storage { kind: StorageKind::Claim | StorageKind::Volume, .. }
            | Change::Storage { kind: StorageKind::StorageClass, added: true } => known().is_ok(),
            Change::NodeAdded { node } => reached(*node),
            Change::NodeUpdated { node, aspects, .. } => aspects.labels && reached(*node),
            Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NodeDeleted { .. }
            | Change::PodAdded { .. }
            | Change::PodBound { .. }
            | Change::PodUpdated { .. }
            | Change::PodDeleted { .. }
            | Change::PodFreed { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged
            | Change::Devices(_)
            | Change::Groups(_) => false,
        };
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}

/// Returns the topology labels of the volumes that the pod's claims are bound to.
///
/// # Errors
/// What keeps the volumes from being known, in kube-scheduler's words.
fn topologies(pod: &Pod, storage: &Storage) -> Result<Vec<Topology>, Text> {
    let mut found = Vec::new();
    for name in named_claims(pod) {
        let claim = find_claim(pod, name, storage)?;
        if claim.volume_name.is_empty() {
            bound_on_first_use(claim, storage)?;
            continue;
        }
        let missing = || not_found("persistentvolume", &claim.volume_name);
        let volume = storage.volume(&claim.volume_name).ok_or_else(missing)?;
        found.extend(labels_of(volume));
    }
    Ok(found)
}

/// Passes a claim that gets its volume when its pod has a node.
fn bound_on_first_use(claim: &PersistentVolumeClaim, storage: &Storage) -> Result<(), Text> {
    let class_name = match &claim.storage_class {
        Some(name) if !name.is_empty() => name,
        _ => return Err("PersistentVolumeClaim had no pv name and storageClass name".into()),
    };
    let missing = || not_found("storageclass.storage.k8s.io", class_name);
    let class = storage.class(class_name).ok_or_else(missing)?;
    if class.wait_for_first_consumer { Ok(()) } else { Err("PersistentVolume had no name".into()) }
}

fn labels_of(volume: &PersistentVolume) -> impl Iterator<Item = Topology> {
    LABELS.iter().filter_map(|&(key, replaced_by)| {
        let values = zones(volume.labels.value(key)?)?;
        Some(Topology { key, replaced_by, values })
    })
}

/// Returns the values of a topology label; `None` for one with an empty value, which is ignored.
fn zones(label: &str) -> Option<Vec<Text>> {
    let zone = |part: &str| Some(part.trim()).filter(|zone| !zone.is_empty()).map(Text::from);
    label.split(ZONE_DELIMITER).map(zone).collect()
}

/// Tells whether a node is where all volumes are. A node without any topology label is: clusters
/// of one zone don't label theirs.
fn reachable(topologies: &[Topology], cluster: &Cluster, node: NodeIdx) -> bool {
    let Some(node) = cluster.nodes().node(node) else { return false };
    let labels = &node.labels;
    if !LABELS.iter().any(|(key, _)| labels.value(key).is_some()) {
        return true;
    }
    topologies.iter().all(|topology| topology.covers(labels))
}

impl Topology {
    fn covers(&self, node: &Labels) -> bool {
        let value = node.value(self.key).or_else(|| node.value(self.replaced_by));
        value.is_some_and(|value| self.values.contains(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_list_zones_but_no_empty_one() {
        assert_eq!(zones("a__ b "), Some(vec!["a".into(), "b".into()]));
        assert_eq!(zones("a__"), None);
    }

    #[test]
    fn a_beta_label_of_a_volume_is_met_by_the_newer_one_of_a_node() {
        let volume = PersistentVolume {
            labels: Labels::new(vec![(LABELS[0].0.into(), "a".into())]),
            ..PersistentVolume::default()
        };
        let topologies: Vec<Topology> = labels_of(&volume).collect();
        let node = |zone: &str| Labels::new(vec![(LABELS[0].1.into(), zone.into())]);
        assert!(topologies.iter().all(|t| t.covers(&node("a"))));
        assert!(!topologies.iter().all(|t| t.covers(&node("b"))));
    }
}
