//! What must be written for placements: stages of PreBind, then the binds.

use crate::framework::{Point, Profile, StageDraft, WriteDraft};
use crate::snapshot::{Cluster, NodeIdx, Version};
use crate::types::{Pod, PodUid, Text, Timestamp};

use super::guard::guarded;
use super::plans::Placement;
use super::timing::{Code, Timing};

/// Returns PreBind's stages of every member, then all binds in one stage.
///
/// # Errors
/// The pod for which a plugin failed, or that no plugin binds: a plan leaves nothing out.
pub(super) fn stages_of(
    profile: &Profile,
    cluster: &Cluster,
    placed: &[(&Pod, NodeIdx)],
    now: Timestamp,
    timing: Timing<'_>,
) -> Result<Vec<StageDraft>, (PodUid, Text)> {
    let mut stages = Vec::new();
    let mut binds: Vec<WriteDraft> = Vec::new();
    for (pod, node) in placed {
        let of_pod = |fault: Text| (pod.uid.clone(), fault);
        for (at, entry) in profile.pre_bind.iter().enumerate() {
            let asked = || entry.plugin.pre_bind(pod, cluster, *node, now);
            let answer = timing.call(Point::PreBind, at, || guarded(entry.name, asked));
            if answer.is_err() {
                timing.went(Point::PreBind, Code::Error);
            }
            stages.extend(answer.map_err(of_pod)?);
        }
        binds.push(bind_of(profile, cluster, pod, *node).map_err(of_pod)?);
    }
    stages.push(StageDraft::Writes(binds));
    Ok(stages)
}

fn bind_of(
    profile: &Profile,
    cluster: &Cluster,
    pod: &Pod,
    node: NodeIdx,
) -> Result<WriteDraft, Text> {
    for entry in &profile.bind {
        if let Some(bind) = guarded(entry.name, || entry.plugin.bind(pod, cluster, node))? {
            return Ok(bind);
        }
    }
    Err(Text::from("no plugin binds the pod"))
}

/// Returns the placement of a pod as the ledger has it; `None` if there is no such node.
pub(super) fn placement_of(
    cluster: &Cluster,
    pod: &Pod,
    node: NodeIdx,
    nominated: bool,
) -> Option<Placement> {
    let slot = cluster.nodes().slot(node);
    Some(Placement {
        pod: pod.reference(),
        node,
        node_name: slot.name.clone(),
        node_uid: slot.node.as_ref()?.uid.clone(),
        version: slot.version,
        devices: devices_of(cluster, pod),
        nominated,
        bound: false,
    })
}

/// Returns what a pod with claims depends on besides its node, as it is now.
pub(super) fn devices_of(cluster: &Cluster, pod: &Pod) -> Option<(Version, Version)> {
    let devices = cluster.devices();
    let uses = devices.planned_by(&pod.uid).next().is_some() || !pod.spec.claims.is_empty();
    uses.then(|| (devices.wide_version(), devices.classes_version()))
}
