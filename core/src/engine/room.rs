//! Making room: victims that a PostFilter plugin proposes, proven and trimmed before anybody is
//! evicted (promise 4).

use std::sync::Arc;

use crate::framework::plan::{Limit, PodsGone, Wait};
use crate::framework::{
    Cycle, Op, Point, PostFilterAnswer, Profile, StageDraft, Verdict, WriteDraft,
};
use crate::queue::EntryId;
use crate::snapshot::{Cluster, NodeIdx, Overlay};
use crate::types::{Pod, PodRef, PodUid, Span, Text, Timestamp};

use super::Engine;
use super::crowded::judged_with_nominated;
use super::drafting::{placement_of, stages_of};
use super::ending::plan_of_writes;
use super::guard::guarded;
use super::judge::verdict_on;
use super::plans::Plan;
use super::timing::{Code, Timing};

/// What the PostFilter plugins know.
enum Room {
    None,
    /// A node, and the victims proven to be needed there.
    Victims(NodeIdx, Vec<PodUid>),
    /// Writes that make room without victims, and what to say of them.
    Writes(Vec<Op>, Text),
    /// What they say instead.
    Text(Text),
}

/// Victims hold their places at most so long after they were asked to leave.
const VICTIMS_MAX: Span = Span::from_secs(600);

impl Engine {
    /// Asks PostFilter for victims. A plan is made only if the pod is proven to fit without them,
    /// and for a pod of its own only: one member's room is no room for a group.
    ///
    /// # Errors
    /// What the message is to say after its reasons, and what is written for it.
    pub(super) fn make_room(
        &mut self,
        id: EntryId,
        uid: &PodUid,
        verdicts: &[Verdict],
        timing: Timing<'_>,
    ) -> Result<Option<Plan>, (Text, Option<Box<Plan>>)> {
        let Some(entry) = self.queue.entry(id) else { return Ok(None) };
        let Some(pod) = self.cluster.pod(uid).map(|record| record.pod.clone()) else {
            return Ok(None);
        };
        if entry.members.len() > 1 {
            return Ok(None);
        }
        let profile = &self.profiles[entry.profile];
        self.measures.preemption_attempts += 1;
        let mut overlay = Overlay::new(&mut self.cluster);
        timing.turn(Point::PostFilter);
        let found = victims(profile, &mut overlay, &pod, verdicts, timing);
        let code =
            if matches!(found, Room::Victims(..)) { Code::Success } else { Code::Unschedulable };
        timing.went(Point::PostFilter, code);
        timing.rest();
        drop(overlay);
        let (node, victims) = match found {
            Room::None => return Ok(None),
            Room::Text(text) => return Err((text, None)),
            Room::Writes(ops, text) => {
                return Err((text, Some(Box::new(plan_of_writes(id, ops)))));
            }
            Room::Victims(node, victims) => (node, victims),
        };
        let mut stages = eviction(&self.cluster, &victims, self.now + VICTIMS_MAX);
        let binds = stages_of(profile, &self.cluster, &[(&pod, node)], self.now, timing);
        stages.extend(binds.map_err(|(_, fault)| (fault, None))?);
        let Some(placement) = placement_of(&self.cluster, &pod, node, true) else {
            return Ok(None);
        };
        self.measures.victims.push(victims.len());
        let changes = self.cluster.nominate(uid, node);
        self.after_changes(changes);
        Ok(Some(Plan::new(id, vec![placement], stages)))
    }
}

/// Asks the PostFilter plugins in turn.
fn victims(
    profile: &Profile,
    overlay: &mut Overlay<'_>,
    pod: &Pod,
    verdicts: &[Verdict],
    timing: Timing<'_>,
) -> Room {
    let of_node = |node: NodeIdx| verdicts[node.at()].clone();
    let fits = |cluster: &Cluster, pod: &Pod, node: NodeIdx| {
        verdict_on(profile, Cycle { pod, cluster }, node).fits()
    };
    let shares = overlay.cluster().keeps_gpu_shares() && pod.spec.gpu_share.is_some();
    let has_devices = shares || !pod.spec.claims.is_empty();
    let mut texts: Vec<Text> = Vec::new();
    for (at, entry) in profile.post_filter.iter().enumerate() {
        let mark = overlay.checkpoint();
        let ask =
            || guarded(entry.name, || entry.plugin.post_filter(pod, overlay, &of_node, &fits));
        let answer = timing.call(Point::PostFilter, at, ask);
        overlay.rollback(mark);
        match answer {
            // What its claims, or its share of GPUs, would need once the victims are gone is not worked
            // out here.
            Ok(PostFilterAnswer::Evict { .. }) if has_devices => {}
            // Nothing that goes there helps.
            Ok(PostFilterAnswer::Evict { node, .. })
                if matches!(verdicts.get(node.at()), Some(Verdict::Unresolvable(_))) => {}
            Ok(PostFilterAnswer::Write(ops, text)) => return Room::Writes(ops, text),
            Ok(PostFilterAnswer::Evict { node, victims }) => {
                let needed = needed(profile, overlay, pod, node, &victims);
                return needed.map_or(Room::None, |victims| Room::Victims(node, victims));
            }
            Ok(PostFilterAnswer::Unschedulable(text)) => texts.push(text),
            Ok(PostFilterAnswer::Unresolvable(text)) => {
                texts.push(text);
                break;
            }
            Err(fault) => texts.push(fault),
        }
    }
    texts.retain(|text| !text.is_empty());
    if texts.is_empty() { Room::None } else { Room::Text(Text::from(texts.join(", "))) }
}

/// Returns the victims without which the pod does not fit on `node`: each of the proposed ones is
/// put back, the last first, and stays if the pod fits all the same. `None` if the pod does not
/// fit even with all of them gone, or fits without any.
fn needed(
    profile: &Profile,
    overlay: &mut Overlay<'_>,
    pod: &Pod,
    node: NodeIdx,
    victims: &[PodUid],
) -> Option<Vec<PodUid>> {
    let start = overlay.checkpoint();
    let places: Vec<Option<NodeIdx>> = victims
        .iter()
        .map(|uid| overlay.cluster().pod(uid).and_then(|record| record.place.node()))
        .collect();
    let all_off = victims.iter().all(|uid| overlay.evict(uid));
    let mut needed = Vec::new();
    if all_off && fits(profile, overlay, pod, node) {
        for (uid, place) in victims.iter().zip(places).rev() {
            let mark = overlay.checkpoint();
            let back = place.is_some_and(|place| overlay.assume(uid, place));
            if !back || !fits(profile, overlay, pod, node) {
                overlay.rollback(mark);
                needed.push(uid.clone());
            }
        }
    }
    overlay.rollback(start);
    needed.reverse();
    (!needed.is_empty()).then_some(needed)
}

/// Tells whether the pod fits, also next to the pods nominated to the node.
fn fits(profile: &Profile, overlay: &mut Overlay<'_>, pod: &Pod, node: NodeIdx) -> bool {
    let cycle = Cycle { pod, cluster: overlay.cluster() };
    verdict_on(profile, cycle, node).fits()
        && judged_with_nominated(overlay, profile, pod, node)
            .is_none_or(|(_, verdict)| verdict.fits())
}

/// Returns the deletion of every victim, then a wait until all are gone.
fn eviction(cluster: &Cluster, victims: &[PodUid], deadline: Timestamp) -> Vec<StageDraft> {
    let delete =
        |pod: PodRef| WriteDraft::plain(format!("evict {}", pod.uid), Op::DeletePod { pod });
    let refs = victims.iter().filter_map(|uid| cluster.pod(uid)).map(|r| r.pod.reference());
    let wait = Wait {
        condition: Arc::new(PodsGone(victims.to_vec())),
        limit: Limit::Until(deadline),
        on_expiry: Text::from("victims did not leave in time"),
        event: None,
    };
    vec![StageDraft::Writes(refs.map(delete).collect()), StageDraft::Wait(wait)]
}
