//! Plans under way: stages are begun one after the other, each with its check, and undone in
//! reverse order when one fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::framework::plan::{LedgerCondition, NameOf, Progress, Wait};
use crate::framework::{Cycle, Op, Permit, PermitAnswer, StageDraft};
use crate::queue::EntryId;
use crate::snapshot::{Cluster, NodeIdx, Place, Version};
use crate::types::{PodRef, PodUid, Span, Text, Timestamp};

use super::decision::{Decision, Notice, PlanId, Urgency, Write, WriteId};
use super::input::{WriteResult, Written};
use super::table::verdict_on;
use super::{Engine, Purpose};

/// A Permit wait is cut to this. Source: `maxTimeout` of upstream's framework/runtime.
pub(super) const PERMIT_MAX: Span = Span::from_secs(15 * 60);

#[derive(Debug, Default)]
pub(super) struct Plans {
    running: BTreeMap<PlanId, Plan>,
    /// The plan that places a pod.
    of_pod: BTreeMap<PodUid, PlanId>,
    /// Plans that wait for a condition on the ledger.
    waiting: BTreeSet<PlanId>,
}

/// Placements and what is still to be done for them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) entry: EntryId,
    pub(super) placements: Vec<Placement>,
    pub(super) stages: VecDeque<StageDraft>,
    waiting: Option<Wait>,
    /// Writes of the stage under way.
    sent: BTreeSet<Text>,
    /// What takes back each write, oldest first; only those that were done are taken back.
    undo: Vec<(Text, Op)>,
    done: BTreeSet<Text>,
    names: BTreeMap<Text, Text>,
    failed: Option<Failure>,
}

#[derive(Clone, Debug)]
pub(super) struct Placement {
    pub(super) pod: PodRef,
    pub(super) node: NodeIdx,
    pub(super) node_name: Text,
    pub(super) node_uid: Text,
    /// The node's version with the pod on it; the check is left out while it stands.
    pub(super) version: Version,
    /// The pod holds its place by nomination until its victims are gone.
    pub(super) nominated: bool,
    pub(super) bound: bool,
}

/// Why a plan ends early.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: Text,
    /// Nothing is wrong with the pod; the world has moved on.
    pub(super) moved_on: bool,
}

impl Plans {
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    fn remove(&mut self, id: PlanId) -> Option<Plan> {
        let plan = self.running.remove(&id)?;
        self.waiting.remove(&id);
        for placement in &plan.placements {
            self.of_pod.remove(&placement.pod.uid);
        }
        Some(plan)
    }

    pub(super) fn next_wakeup(&self) -> Option<(Timestamp, &'static str)> {
        let plans = self.waiting.iter().filter_map(|id| self.running.get(id));
        plans.filter_map(|plan| plan.waiting.as_ref()).map(|wait| (wait.deadline, "a plan's deadline")).min()
    }
}

impl Plan {
    pub(super) fn new(entry: EntryId, placements: Vec<Placement>, stages: Vec<StageDraft>) -> Plan {
        Plan {
            entry,
            placements,
            stages: stages.into(),
            waiting: None,
            sent: BTreeSet::new(),
            undo: Vec::new(),
            done: BTreeSet::new(),
            names: BTreeMap::new(),
            failed: None,
        }
    }
}

impl Engine {
    pub(super) fn begin_plan(&mut self, plan: Plan) {
        let id = PlanId(self.fresh_id());
        // From here on a failure is an error, whatever happens meanwhile in the cluster.
        self.queue.finish_in_flight(plan.entry);
        for placement in &plan.placements {
            self.plans.of_pod.insert(placement.pod.uid.clone(), id);
        }
        self.plans.running.insert(id, plan);
        self.advance_plan(id);
    }

    /// Looks again at the plans that wait.
    pub(super) fn advance_plans(&mut self) {
        let ids: Vec<PlanId> = self.plans.waiting.iter().copied().collect();
        for id in ids {
            self.advance_plan(id);
        }
    }

    /// Begins whatever stage can be begun.
    fn advance_plan(&mut self, id: PlanId) {
        while let Some(plan) = self.plans.running.get(&id) {
            if !plan.sent.is_empty() {
                return;
            }
            if plan.failed.is_some() {
                self.end_failed(id);
                return;
            }
            if plan.waiting.is_some() {
                if !self.wait_is_over(id) {
                    return;
                }
                continue;
            }
            match plan.stages.front() {
                None => {
                    self.end_done(id);
                    return;
                }
                Some(StageDraft::Wait(_)) => self.begin_wait(id),
                Some(StageDraft::Writes(_)) => self.begin_writes(id),
            }
        }
    }

    fn begin_wait(&mut self, id: PlanId) {
        let Some(plan) = self.plans.running.get_mut(&id) else { return };
        if let Some(StageDraft::Wait(wait)) = plan.stages.pop_front() {
            plan.waiting = Some(wait);
            self.plans.waiting.insert(id);
        }
    }

    /// Returns whether the plan goes on, by the condition or by failing.
    fn wait_is_over(&mut self, id: PlanId) -> bool {
        let Some(plan) = self.plans.running.get_mut(&id) else { return false };
        let Some(wait) = &plan.waiting else { return true };
        if let Some(moved) = moved_on(&self.cluster, plan) {
            plan.failed = Some(moved);
            plan.waiting = None;
            self.plans.waiting.remove(&id);
            return true;
        }
        match wait.condition.progress(&self.cluster) {
            Progress::Reached => {}
            Progress::Failed(message) => plan.failed = Some(Failure { message, moved_on: false }),
            Progress::Waiting if self.now >= wait.deadline => {
                let message = wait.on_expiry.clone();
                plan.failed = Some(Failure { message, moved_on: false });
            }
            Progress::Waiting => return false,
        }
        plan.waiting = None;
        self.plans.waiting.remove(&id);
        true
    }

    fn begin_writes(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.running.remove(&id) else { return };
        if let Err(failure) = self.check(&mut plan) {
            plan.failed = Some(failure);
            self.plans.running.insert(id, plan);
            return;
        }
        let Some(StageDraft::Writes(drafts)) = plan.stages.pop_front() else {
            self.plans.running.insert(id, plan);
            return;
        };
        for draft in drafts {
            let Some(op) = named(&draft.op, &plan.names) else {
                let message = format!("write {} names one that brought back no name", draft.label);
                plan.failed = Some(Failure { message: message.into(), moved_on: false });
                break;
            };
            plan.sent.insert(draft.label.clone());
            if let Some(undo) = draft.undo {
                plan.undo.push((draft.label.clone(), undo));
            }
            let bind = match &op {
                Op::Bind { pod, node } => Some((pod.clone(), node.clone())),
                _ => None,
            };
            let purpose = Purpose::Stage { plan: id, label: draft.label.clone() };
            let write = self.send(op, purpose, Urgency::Plan);
            if let Some((pod, node)) = bind {
                self.settlements.sent(write, id, draft.label, pod, node);
            }
        }
        self.plans.running.insert(id, plan);
    }

    /// Checks the plan against the ledger before its next stage; nominated pods take their place.
    fn check(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        if let Some(moved) = moved_on(&self.cluster, plan) {
            return Err(moved);
        }
        let binds = matches!(plan.stages.front(), Some(StageDraft::Writes(drafts))
            if drafts.iter().any(|draft| matches!(draft.op, Op::Bind { .. })));
        for at in 0..plan.placements.len() {
            let placement = plan.placements[at].clone();
            if placement.bound || (placement.nominated && !binds) {
                continue;
            }
            if placement.nominated {
                self.take_nominated(&placement)?;
            } else if self.cluster.nodes().slot(placement.node).version != placement.version {
                self.fits_still(&placement)?;
            }
            let version = self.cluster.nodes().slot(placement.node).version;
            plan.placements[at] = Placement { nominated: false, version, ..placement };
        }
        Ok(())
    }

    fn take_nominated(&mut self, placement: &Placement) -> Result<(), Failure> {
        self.fits(placement)?;
        self.cluster.unnominate(&placement.pod.uid);
        let mut overlay = crate::snapshot::Overlay::new(&mut self.cluster);
        overlay.assume(&placement.pod.uid, placement.node);
        overlay.commit();
        Ok(())
    }

    /// Asks the filters again, with the pod itself taken off.
    fn fits_still(&mut self, placement: &Placement) -> Result<(), Failure> {
        let mut overlay = crate::snapshot::Overlay::new(&mut self.cluster);
        overlay.evict(&placement.pod.uid);
        let verdict = fits_on(&self.profiles, &self.by_name, overlay.cluster(), placement);
        drop(overlay);
        verdict
    }

    fn fits(&self, placement: &Placement) -> Result<(), Failure> {
        fits_on(&self.profiles, &self.by_name, &self.cluster, placement)
    }

    pub(super) fn send(&mut self, op: Op, purpose: Purpose, urgency: Urgency) -> WriteId {
        let id = WriteId(self.fresh_id());
        self.purposes.insert(id, purpose);
        let timeout = self.setup.limits.write_timeout;
        self.out.push_back(Decision::Write(Write { id, op, timeout, urgency }));
        id
    }

    /// A write of a stage has its outcome.
    pub(super) fn stage_outcome(&mut self, plan: PlanId, label: &Text, result: WriteResult) {
        match result {
            WriteResult::Done(written) => self.stage_done(plan, label, written),
            WriteResult::Refused { message, code } => {
                let message = Text::from(format!("{message} ({code})"));
                self.stage_failed(plan, label, Failure { message, moved_on: code == 404 });
            }
            WriteResult::Stale { message } => {
                self.stage_failed(plan, label, Failure { message, moved_on: true });
            }
            WriteResult::NotSent { message } | WriteResult::Unknown { message } => {
                self.stage_failed(plan, label, Failure { message, moved_on: false });
            }
        }
        self.advance_plan(plan);
    }

    fn stage_done(&mut self, id: PlanId, label: &Text, written: Written) {
        let Some(plan) = self.plans.running.get_mut(&id) else { return };
        plan.sent.remove(label);
        plan.done.insert(label.clone());
        if let Some(name) = written.name {
            plan.names.insert(label.clone(), name);
        }
    }

    fn stage_failed(&mut self, id: PlanId, label: &Text, failure: Failure) {
        let Some(plan) = self.plans.running.get_mut(&id) else { return };
        plan.sent.remove(label);
        plan.failed.get_or_insert(failure);
    }

    /// A bind of the plan is settled: it was done.
    pub(super) fn bind_done(&mut self, id: PlanId, label: &Text, pod: &PodRef, node: &Text) {
        let Some(plan) = self.plans.running.get_mut(&id) else { return };
        plan.sent.remove(label);
        for placement in plan.placements.iter_mut().filter(|p| p.pod.uid == pod.uid) {
            placement.bound = true;
        }
        self.told_bound(pod, node);
        self.advance_plan(id);
    }

    fn told_bound(&mut self, pod: &PodRef, node: &Text) {
        self.tells.forget(&pod.uid);
        let scheduler_name = self
            .cluster
            .pod(&pod.uid)
            .map(|record| record.pod.spec.scheduler_name.clone())
            .unwrap_or_default();
        let (pod, node) = (pod.clone(), node.clone());
        self.out.push_back(Decision::Notice(Notice::Scheduled { pod, scheduler_name, node }));
    }

    /// A bind of the plan is settled: it was not done, and can't be any more.
    pub(super) fn bind_failed(&mut self, id: PlanId, label: &Text, failure: Failure) {
        self.stage_failed(id, label, failure);
        self.advance_plan(id);
    }

    fn end_done(&mut self, id: PlanId) {
        let Some(plan) = self.plans.remove(id) else { return };
        for placement in &plan.placements {
            self.queue.remove_pod(&placement.pod.uid);
        }
        for placement in &plan.placements {
            self.post_bind(placement);
        }
    }

    fn post_bind(&mut self, placement: &Placement) {
        let Some(record) = self.cluster.pod(&placement.pod.uid) else { return };
        let Some(profile) = self.by_name.get(&record.pod.spec.scheduler_name) else { return };
        let profile = &self.profiles[*profile];
        let mut ops = Vec::new();
        for entry in &profile.post_bind {
            let asked = || entry.plugin.post_bind(&record.pod, &self.cluster, placement.node);
            let drafts = super::guard::guarded(entry.name, asked).unwrap_or_default();
            ops.extend(drafts.into_iter().map(|draft| draft.op));
        }
        for op in ops {
            self.send(op, Purpose::Undo, Urgency::Plan);
        }
    }

    /// Takes back what was done, newest first, and gives back what was held.
    fn end_failed(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.remove(id) else { return };
        while let Some((label, undo)) = plan.undo.pop() {
            if plan.done.contains(&label)
                && let Some(op) = named(&undo, &plan.names)
            {
                self.send(op, Purpose::Undo, Urgency::Plan);
            }
        }
        let mut changes = Vec::new();
        for placement in plan.placements.iter().filter(|placement| !placement.bound) {
            self.cluster.unnominate(&placement.pod.uid);
            changes.extend(self.cluster.forget(&placement.pod.uid));
        }
        for placement in plan.placements.iter().filter(|placement| placement.bound) {
            self.queue.remove_pod(&placement.pod.uid);
        }
        let failure =
            plan.failed.take().unwrap_or(Failure { message: Text::default(), moved_on: true });
        self.plan_failed(plan.entry, &failure);
        self.after_changes(changes);
    }

    /// A pod of the plan got its place by the watch, or is gone: nothing more is sent for it.
    pub(super) fn plans_see(&mut self, uid: &PodUid) {
        if let Some(id) = self.plans.of_pod.get(uid) {
            self.advance_plan(*id);
        }
    }

    /// Tells whether a plan places `uid`.
    pub(super) fn planned(&self, uid: &PodUid) -> bool {
        self.plans.of_pod.contains_key(uid)
    }
}

/// Tells whether something a plan stands on is no longer so.
fn moved_on(cluster: &Cluster, plan: &Plan) -> Option<Failure> {
    let failure = |message: String| Some(Failure { message: message.into(), moved_on: true });
    for placement in plan.placements.iter().filter(|placement| !placement.bound) {
        let pod = &placement.pod;
        let Some(record) = cluster.pod(&pod.uid) else {
            return failure(format!("pod {pod} is gone"));
        };
        if record.pod.terminating {
            return failure(format!("pod {pod} is being deleted"));
        }
        let expected = match record.place {
            Place::Nowhere => placement.nominated,
            Place::Assumed(node) => node == placement.node,
            Place::Bound(node) => node == placement.node,
        };
        if !expected {
            return failure(format!("pod {pod} has another place"));
        }
        let uid = cluster.nodes().node(placement.node).map(|node| &node.uid);
        if uid != Some(&placement.node_uid) {
            return failure(format!("node {} is gone", placement.node_name));
        }
    }
    None
}

fn fits_on(
    profiles: &[crate::framework::Profile],
    by_name: &BTreeMap<Text, usize>,
    cluster: &Cluster,
    placement: &Placement,
) -> Result<(), Failure> {
    let Some(record) = cluster.pod(&placement.pod.uid) else { return Ok(()) };
    let Some(profile) = by_name.get(&record.pod.spec.scheduler_name) else { return Ok(()) };
    let cycle = Cycle { pod: &record.pod, cluster };
    let verdict = verdict_on(&profiles[*profile], cycle, placement.node);
    if verdict.fits() {
        return Ok(());
    }
    let message = format!("pod {} no longer fits on node {}", placement.pod, placement.node_name);
    Err(Failure { message: message.into(), moved_on: true })
}

/// Puts in the names that earlier writes brought back; `None` if one is missing.
fn named(op: &Op, names: &BTreeMap<Text, Text>) -> Option<Op> {
    let mut op = op.clone();
    match &mut op {
        Op::Create { name, .. } | Op::Patch { name, .. } | Op::Delete { name, .. } => {
            if let NameOf::FromWrite(label) = name {
                *name = NameOf::Known(names.get(label)?.clone());
            }
        }
        Op::Bind { .. }
        | Op::ReadPod { .. }
        | Op::Fence { .. }
        | Op::SetCondition { .. }
        | Op::DeletePod { .. } => {}
    }
    Some(op)
}

/// Reached when every Permit plugin allows the placement.
pub(super) struct Permitted {
    pub(super) permits: Vec<Arc<dyn Permit>>,
    pub(super) pod: PodUid,
    pub(super) node: NodeIdx,
    pub(super) asked: Timestamp,
}

impl std::fmt::Debug for Permitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permitted({}, {:?})", self.pod, self.node)
    }
}

impl LedgerCondition for Permitted {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let Some(record) = cluster.pod(&self.pod) else {
            return Progress::Failed(Text::from("the pod is gone"));
        };
        for permit in &self.permits {
            match permit.permit(&record.pod, cluster, self.node, self.asked) {
                PermitAnswer::Allow => {}
                PermitAnswer::Wait { .. } => return Progress::Waiting,
                PermitAnswer::Reject(reason) => {
                    return Progress::Failed(Text::from(reason.texts.join(", ")));
                }
            }
        }
        Progress::Reached
    }
}
