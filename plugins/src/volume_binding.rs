//! VolumeBinding, for claims that are bound: turns away nodes that can't reach a volume.
//!
//! Unbound and ephemeral claims wait outside the queue ([`crate::unbuilt`]). Nothing is left to
//! score, reserve or write for a bound claim; the plugin serves these points all the same, so that
//! a configuration may name it there.
//!
//! Source: `volumebinding/volume_binding.go`, `binder.go` (`checkBoundClaims`) of kube-scheduler
//! 1.37.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, PreBind, PreFilter,
    PreFilterAnswer, PreScore, PreScoreAnswer, Reads, Reason, Reserve, Score, StageDraft, Verdict,
    Work,
};
use berth_core::framework::{NodeSet, Points};
use berth_core::snapshot::storage::{Storage, claims_of};
use berth_core::snapshot::{Change, Cluster, NodeIdx, Overlay, StorageKind};
use berth_core::types::{NodeSelector, Pod, Text, Timestamp, VolumeSource};

use crate::shared::claims::{
    ClaimIdentity, awaits_volume, not_found, reads_of_claims, unbound_text, uses_claims,
};
use crate::shared::field::{int32, invalid};

const NAME: &str = "VolumeBinding";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "turns away nodes that can't reach a volume which a claim of the pod is bound to",
    missing: None,
    build,
};

const AFFINITY_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const VOLUME_GONE: &str =
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

struct VolumeBinding;

fn build(args: &Args, points: &mut Points) {
    check_args(args);
    let plugin = Arc::new(VolumeBinding);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.pre_score(plugin.clone());
    points.score(plugin.clone());
    points.reserve(plugin.clone());
    points.pre_bind(plugin.clone());
    points.interest(plugin);
    points.classify(Arc::new(ClaimIdentity));
}

/// Checks VolumeBindingArgs. `shape` is read, since the gate StorageCapacityScoring is on in 1.37;
/// it counts only for claims that are not bound. An empty one means the default.
fn check_args(args: &Args) {
    if let Some(seconds) = args.int("bindTimeoutSeconds")
        && seconds < 0
    {
        let why = "invalid BindTimeoutSeconds, should not be a negative value";
        args.error("bindTimeoutSeconds", invalid(seconds, why));
    }
    let mut last: Option<i32> = None;
    let mut sorted = true;
    for point in &args.objects("shape") {
        let utilization = shape_value(point, "utilization", 100);
        if sorted && last.is_some_and(|last| last >= utilization) {
            sorted = false;
            let why = "values must be sorted in increasing order";
            point.error("utilization", invalid(utilization, why));
        }
        last = Some(utilization);
        shape_value(point, "score", 10);
        point.finish();
    }
}

fn shape_value(point: &Args, key: &str, max: i32) -> i32 {
    let value = int32(point, key).unwrap_or(0);
    if !(0..=max).contains(&value) {
        point.error(key, invalid(value, format!("not in valid range [0, {max}]")));
    }
    value
}

/// Where a volume of the pod can be reached from.
enum Reach {
    /// From nowhere: there is no such volume.
    Gone,
    Nodes(NodeSelector),
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        if !uses_claims(cycle.pod) {
            return PreFilterAnswer::Skip;
        }
        match reaches(cycle.pod, cycle.cluster.storage()) {
            Err(answer) => answer,
            Ok(reaches) if reaches.is_empty() => PreFilterAnswer::Skip,
            Ok(reaches) => {
                state.put(NAME, reaches);
                PreFilterAnswer::Continue
            }
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads_of_claims(cycle.pod)
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        let Some(reaches) = state.kept::<Vec<Reach>>(NAME) else { return Verdict::Fit };
        match obstacle(reaches, cycle.cluster, node) {
            Some(text) => Verdict::Unresolvable(text.into()),
            None => Verdict::Fit,
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads_of_claims(cycle.pod)
    }
}

/// Returns where the pod's volumes can be reached from, without those reachable from everywhere.
///
/// # Errors
/// What VolumeBinding answers about a pod whose claims are not all bound.
fn reaches(pod: &Pod, storage: &Storage) -> Result<Vec<Reach>, PreFilterAnswer> {
    if let Some(text) = unusable_claim(pod, storage) {
        return Err(PreFilterAnswer::Unresolvable(Reason::from(text)));
    }
    let mut reaches = Vec::new();
    for (namespace, name) in claims_of(pod) {
        let Some(claim) = storage.claim(&namespace, &name) else { continue };
        if awaits_volume(claim) {
            // The gate holds such pods; one can only get here if its claim was made anew since.
            return Err(PreFilterAnswer::Pending(Reason::from(unbound_text(&name))));
        }
        match storage.volume(&claim.volume_name) {
            None => reaches.push(Reach::Gone),
            Some(volume) => reaches.extend(volume.node_affinity.clone().map(Reach::Nodes)),
        }
    }
    Ok(reaches)
}

/// Says which claim of the pod will never serve it, in kube-scheduler's words.
fn unusable_claim(pod: &Pod, storage: &Storage) -> Option<Text> {
    let has_ephemeral =
        pod.spec.volumes.iter().any(|v| matches!(v, VolumeSource::Ephemeral { .. }));
    for (namespace, name) in claims_of(pod) {
        let Some(claim) = storage.claim(&namespace, &name) else {
            let waiting = "waiting for ephemeral volume controller to create the";
            let named = pod.spec.volumes.contains(&VolumeSource::Claim { name: name.clone() });
            return Some(match has_ephemeral && !named {
                true => Text::from(format!("{waiting} persistentvolumeclaim {:?}", &*name)),
                false => not_found("persistentvolumeclaim", &name),
            });
        };
        let claim_name = &*claim.name;
        if claim.lost {
            let lost = format!("bound to non-existent persistentvolume {:?}", &*claim.volume_name);
            return Some(Text::from(format!("persistentvolumeclaim {claim_name:?} {lost}")));
        }
        if claim.terminating {
            let text = format!("persistentvolumeclaim {claim_name:?} is being deleted");
            return Some(Text::from(text));
        }
    }
    None
}

/// Returns what keeps a node from the first volume that it can't reach.
///
/// Only labels are matched, as the kubelet does when it mounts: a term over the node's name would
/// let a pod be placed where its volume is refused.
fn obstacle(reaches: &[Reach], cluster: &Cluster, node: NodeIdx) -> Option<&'static str> {
    let node = cluster.nodes().node(node)?;
    reaches.iter().find_map(|reach| match reach {
        Reach::Gone => Some(VOLUME_GONE),
        Reach::Nodes(selector) if selector.matches("", &node.labels) => None,
        Reach::Nodes(_) => Some(AFFINITY_CONFLICT),
    })
}

impl Interest for VolumeBinding {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let reached = |node: &NodeIdx| {
            reaches(cx.pod, cx.cluster.storage())
                .is_ok_and(|reaches| obstacle(&reaches, cx.cluster, *node).is_none())
        };
        let may_help = match change {
            Change::Storage { kind: StorageKind::Claim | StorageKind::Volume, .. } => {
                reaches(cx.pod, cx.cluster.storage()).is_ok()
            }
            Change::NodeAdded { node } => reached(node),
            Change::NodeUpdated { node, aspects, .. } => aspects.labels && reached(node),
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

impl PreScore for VolumeBinding {
    fn pre_score(&self, _: Cycle<'_>, _: &mut CycleState, _: &NodeSet) -> PreScoreAnswer {
        PreScoreAnswer::Skip
    }
}

impl Score for VolumeBinding {
    fn score(&self, _: Cycle<'_>, _: &CycleState, _: NodeIdx) -> i64 {
        0
    }
}

impl Reserve for VolumeBinding {
    fn reserve(
        &self,
        _: &Pod,
        _: &mut Overlay<'_>,
        _: &CycleState,
        _: NodeIdx,
        _: &mut Work,
    ) -> Result<(), Reason> {
        Ok(())
    }
}

impl PreBind for VolumeBinding {
    fn pre_bind(&self, _: &Pod, _: &Cluster, _: NodeIdx, _: Timestamp) -> Vec<StageDraft> {
        Vec::new()
    }
}
