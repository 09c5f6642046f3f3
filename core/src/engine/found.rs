//! What an attempt has found: members with their places, and what is to be written for them.

use crate::framework::{Point, Profile, StageDraft};
use crate::queue::Entry;
use crate::snapshot::{NodeIdx, Overlay};
use crate::types::{PlanNote, Pod, Timestamp};

use super::budget::Budget;
use super::drafting::{placement_of, stages_of};
use super::gang::{Gang, Stopped};
use super::permits::permit;
use super::placing::{Placed, Placer, may_be_placed};
use super::plans::Placement;
use super::timing::Timing;
use super::unfit::Unplaced;

/// What came of placing the members.
#[derive(Default)]
pub(super) struct Found {
    pub(super) placements: Vec<Placement>,
    /// Plugins whose Permit waits come first among the stages.
    pub(super) permits: Vec<&'static str>,
    pub(super) stages: Vec<StageDraft>,
    pub(super) placed: Vec<Placed>,
    /// The commit of a group.
    pub(super) commit: Option<PlanNote>,
}

/// Pods with what was found for them.
pub(super) type PlacedPods = Vec<(Pod, Placed)>;

pub(super) fn place_gang(
    gang: &mut Gang,
    placer: &mut Placer<'_>,
    overlay: &mut Overlay<'_>,
    budget: &mut Budget,
) -> Result<PlacedPods, Stopped> {
    gang.search(placer, overlay, budget)?;
    let placed = gang.placed().filter_map(|(uid, placed)| {
        Some((overlay.cluster().pod(uid)?.pod.clone(), placed.clone()))
    });
    Ok(placed.collect())
}

pub(super) fn place_single(
    entry: &Entry,
    placer: &mut Placer<'_>,
    overlay: &mut Overlay<'_>,
    budget: &mut Budget,
) -> Result<PlacedPods, Stopped> {
    let mut open = entry.members.iter().filter(|uid| may_be_placed(overlay.cluster(), uid));
    let Some(pod) = open.next().and_then(|uid| overlay.cluster().pod(uid)).map(|r| r.pod.clone())
    else {
        return Ok(Vec::new());
    };
    let stopped = |unplaced| Stopped::At(pod.uid.clone(), unplaced);
    let placed = placer.place(overlay, &pod, budget).map_err(stopped)?;
    Ok(vec![(pod, placed)])
}

/// Asks Permit and PreBind about all that have a place.
pub(super) fn drafted(
    profile: &Profile,
    overlay: &Overlay<'_>,
    pods: PlacedPods,
    now: Timestamp,
    timing: Timing<'_>,
) -> Result<Found, Stopped> {
    let mut found = Found::default();
    let cluster = overlay.cluster();
    timing.turn(Point::Permit);
    for (pod, at) in &pods {
        let stopped = |unplaced| Stopped::At(pod.uid.clone(), unplaced);
        let wait = permit(profile, cluster, pod, at.node, now, timing).map_err(stopped)?;
        if let Some((plugin, wait)) = wait {
            found.permits.push(plugin);
            found.stages.push(StageDraft::Wait(wait));
        }
    }
    let nodes: Vec<(&Pod, NodeIdx)> = pods.iter().map(|(pod, at)| (pod, at.node)).collect();
    timing.turn(Point::PreBind);
    let rest = stages_of(profile, cluster, &nodes, now, timing);
    timing.rest();
    found.stages.extend(rest.map_err(|(uid, fault)| Stopped::At(uid, Unplaced::Error(fault)))?);
    let placement = |(pod, at): &(Pod, Placed)| {
        let placement = placement_of(cluster, pod, at.node, false)?;
        Some(Placement { within: at.within.clone(), ..placement })
    };
    found.placements = pods.iter().filter_map(placement).collect();
    found.placed = pods.into_iter().map(|(_, placed)| placed).collect();
    Ok(found)
}
