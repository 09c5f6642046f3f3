//! What must be written for placements: stages of PreBind, then the binds.

use std::collections::{BTreeSet, VecDeque};

use crate::framework::plan::NameOf;
use crate::framework::{Op, Point, Profile, StageDraft, WriteDraft};
use crate::snapshot::{Cluster, NodeIdx, Version};
use crate::types::{Pod, PodUid, Text, Timestamp};

use super::guard::guarded;
use super::plans::Placement;
use super::timing::{Code, Timing};

/// Returns PreBind's stages, then all binds in one stage. What the first stages of all members write
/// goes out together, then what the second do, and so on; but of two that write to one object the
/// later member's waits for the next.
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
    let mut of_members: Vec<VecDeque<StageDraft>> = Vec::new();
    let mut binds: Vec<WriteDraft> = Vec::new();
    for (pod, node) in placed {
        let of_pod = |fault: Text| (pod.uid.clone(), fault);
        let mut own = VecDeque::new();
        for (at, entry) in profile.pre_bind.iter().enumerate() {
            let asked = || entry.plugin.pre_bind(pod, cluster, *node, now);
            let answer = timing.call(Point::PreBind, at, || guarded(entry.name, asked));
            if answer.is_err() {
                timing.went(Point::PreBind, Code::Error);
            }
            own.extend(answer.map_err(of_pod)?);
        }
        of_members.push(own);
        binds.push(bind_of(profile, cluster, pod, *node).map_err(of_pod)?);
    }
    let mut stages = side_by_side(of_members);
    stages.push(StageDraft::Writes(binds));
    Ok(stages)
}

fn side_by_side(mut of_members: Vec<VecDeque<StageDraft>>) -> Vec<StageDraft> {
    let mut stages = Vec::new();
    while of_members.iter().any(|own| !own.is_empty()) {
        let begun = stages.len();
        let (mut together, mut touched) = (Vec::new(), BTreeSet::new());
        for own in &mut of_members {
            match own.front() {
                Some(StageDraft::Writes(drafts)) => {
                    let objects: BTreeSet<Object> = drafts.iter().filter_map(object_of).collect();
                    if !touched.is_disjoint(&objects) {
                        continue;
                    }
                    touched.extend(objects);
                    if let Some(StageDraft::Writes(drafts)) = own.pop_front() {
                        together.extend(drafts);
                    }
                }
                Some(StageDraft::Wait(_)) => stages.extend(own.pop_front()),
                None => {}
            }
        }
        if !together.is_empty() {
            stages.insert(begun, StageDraft::Writes(together));
        }
    }
    stages
}

/// Kind, namespace and name.
type Object = (Text, Text, Text);

/// Returns the object that a write is about, if others may write to it too.
fn object_of(draft: &WriteDraft) -> Option<Object> {
    match &draft.op {
        Op::Claim { claim, .. } => {
            Some(("claim".into(), claim.key.namespace.clone(), claim.key.name.clone()))
        }
        Op::Patch { kind, namespace, name: NameOf::Known(name), .. }
        | Op::Delete { kind, namespace, name: NameOf::Known(name) } => {
            Some((kind.clone(), namespace.clone(), name.clone()))
        }
        _ => None,
    }
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
        within: None,
    })
}

/// Returns what a pod with claims depends on besides its node, as it is now.
pub(super) fn devices_of(cluster: &Cluster, pod: &Pod) -> Option<(Version, Version)> {
    let devices = cluster.devices();
    let uses = devices.planned_by(&pod.uid).next().is_some() || !pod.spec.claims.is_empty();
    uses.then(|| (devices.wide_version(), devices.classes_version()))
}
