//! Plans under way: stages are begun one after the other, each with its check, and undone in
//! reverse order when one fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::framework::plan::Wait;
use crate::framework::{ClaimWrite, Op, StageDraft};
use crate::queue::EntryId;
use crate::snapshot::{Cluster, NodeIdx, NodeSet, Version};
use crate::types::claim::{ClaimKey, ClaimRef, Consumer};
use crate::types::{PlanNote, PodRef, PodUid, Span, Text, Timestamp};

use super::Engine;
use super::decision::{Decision, Notice, PlanId};
use super::input::{WriteResult, Written};
use super::measures::{Bound, Eviction};
use super::readings::RETRY;
use super::waits::Barrier;

#[derive(Debug, Default)]
pub(super) struct Plans {
    running: BTreeMap<PlanId, Plan>,
    /// The plan that places a pod.
    of_pod: BTreeMap<PodUid, PlanId>,
    /// Plans that wait for a condition on the ledger.
    pub(super) waiting: BTreeSet<PlanId>,
    /// Those among them that have begun to, and haven't said so.
    pub(super) untold: BTreeSet<PlanId>,
    /// Pods that may still say that they will be where they will not.
    pub(super) given_up: BTreeSet<PodUid>,
}

/// Placements and what is still to be done for them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) entry: EntryId,
    pub(super) placements: Vec<Placement>,
    pub(super) stages: VecDeque<StageDraft>,
    /// Plugins whose Permit waits come first among the stages; the one under way is the first.
    pub(super) permits: VecDeque<&'static str>,
    pub(super) waiting: Option<Wait>,
    /// Since when it waits, and until when at most.
    pub(super) waiting_since: Timestamp,
    pub(super) waits_until: Timestamp,
    /// By when a group's reservations must be confirmed.
    pub(super) barrier: Option<Barrier>,
    /// Victims hold the place as yet; until they are gone the pod has its nomination only.
    pub(super) evicting: bool,
    /// When its victims were asked to leave; none once all writes about that have their outcomes.
    pub(super) asked_to_leave: Option<Timestamp>,
    /// Writes of the stage under way, or that take back what was done.
    pub(super) sent: BTreeSet<Text>,
    /// What takes back each write, oldest first; only those that may have been done are taken back.
    pub(super) undo: Vec<(Text, Op)>,
    pub(super) done: BTreeSet<Text>,
    pub(super) names: BTreeMap<Text, Text>,
    pub(super) failed: Option<Failure>,
    /// The commit of a group: it goes with each bind.
    pub(super) commit: Option<PlanNote>,
}

#[derive(Clone, Debug)]
pub(super) struct Placement {
    pub(super) pod: PodRef,
    pub(super) node: NodeIdx,
    pub(super) node_name: Text,
    pub(super) node_uid: Text,
    /// The node's version with the pod on it; the check is left out while it stands.
    pub(super) version: Version,
    /// Versions of the devices that don't belong to one node, for pods with claims.
    pub(super) devices: Option<(Version, Version)>,
    /// The pod holds its place by nomination until its victims are gone.
    pub(super) nominated: bool,
    pub(super) bound: bool,
    /// The nodes that counted when the place was found; `None` for all.
    pub(super) within: Option<Arc<NodeSet>>,
}

/// Why a plan ends early.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: Text,
    /// Nothing is wrong with the pod; the world has moved on.
    pub(super) moved_on: bool,
    /// The Permit plugin that said no, or did not say yes in time.
    pub(super) rejected_by: Option<&'static str>,
}

impl Failure {
    /// Something went wrong with a write, or with the pod.
    pub(super) fn fault(message: Text) -> Failure {
        Failure { message, moved_on: false, rejected_by: None }
    }

    pub(super) fn moved_on(message: Text) -> Failure {
        Failure { message, moved_on: true, rejected_by: None }
    }
}

impl Plans {
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    pub(super) fn get_mut(&mut self, id: PlanId) -> Option<&mut Plan> {
        self.running.get_mut(&id)
    }

    /// A write was done, though no answer said so.
    pub(super) fn note_done(&mut self, id: PlanId, label: &Text) {
        if let Some(plan) = self.running.get_mut(&id) {
            plan.done.insert(label.clone());
        }
    }

    pub(super) fn remove(&mut self, id: PlanId) -> Option<Plan> {
        let plan = self.running.remove(&id)?;
        self.waiting.remove(&id);
        for placement in &plan.placements {
            self.of_pod.remove(&placement.pod.uid);
        }
        Some(plan)
    }

    pub(super) fn next_wakeup(&self) -> Option<(Timestamp, &'static str)> {
        let plans = self.waiting.iter().filter_map(|id| self.running.get(id));
        // One whose write is under way is looked at when that has its outcome.
        let idle = plans.filter(|plan| plan.waiting.is_some() && plan.sent.is_empty());
        let until = |plan: &Plan| {
            let barrier = plan.barrier.and_then(|barrier| barrier.until);
            barrier.map_or(plan.waits_until, |barrier| barrier.min(plan.waits_until))
        };
        idle.map(|plan| (until(plan), "a plan's deadline")).min()
    }
}

impl Plan {
    pub(super) fn new(entry: EntryId, placements: Vec<Placement>, stages: Vec<StageDraft>) -> Plan {
        Plan {
            entry,
            evicting: placements.iter().any(|placement| placement.nominated),
            placements,
            stages: stages.into(),
            permits: VecDeque::new(),
            waiting: None,
            barrier: None,
            asked_to_leave: None,
            waiting_since: Timestamp::default(),
            waits_until: Timestamp::default(),
            sent: BTreeSet::new(),
            undo: Vec::new(),
            done: BTreeSet::new(),
            names: BTreeMap::new(),
            failed: None,
            commit: None,
        }
    }

    /// Returns a claim that a pod of the plan was to have, and has no more.
    pub(super) fn taken_back(&self, cluster: &Cluster) -> Option<&ClaimKey> {
        let done = self.undo.iter().filter(|(label, _)| self.done.contains(label));
        let mut had = done.filter_map(|(_, op)| match op {
            Op::Claim { claim, write: ClaimWrite::Release { consumer, .. }, .. } => {
                Some((claim, consumer))
            }
            _ => None,
        });
        let lost = |(claim, consumer): &(&ClaimRef, &Consumer)| {
            let known = cluster.devices().claim(&claim.key).map(|record| &record.claim);
            !known.is_some_and(|known| claim.means(known) && known.is_reserved_for(consumer))
        };
        had.find(lost).map(|(claim, _)| &claim.key)
    }

    /// The first stages are waits for these Permit plugins, and the last the binds, which a group's
    /// barrier holds.
    pub(super) fn with_permits(self, permits: Vec<&'static str>, barrier: Option<Barrier>) -> Plan {
        Plan { permits: permits.into(), barrier, ..self }
    }
}

impl Engine {
    pub(super) fn begin_plan(&mut self, plan: Plan) {
        let id = PlanId(self.fresh_id());
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
    pub(super) fn advance_plan(&mut self, id: PlanId) {
        while let Some(plan) = self.plans.running.get(&id) {
            if !plan.sent.is_empty() && !self.hurries(id, plan) {
                return;
            }
            self.measure_eviction(id);
            let Some(plan) = self.plans.running.get(&id) else { return };
            if plan.failed.is_some() {
                self.end_failed(id);
                return;
            }
            if self.gives_up_late(id) {
                continue;
            }
            let Some(plan) = self.plans.running.get(&id) else { return };
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

    /// A planted bug: the next stage doesn't wait for writes to claims.
    fn hurries(&self, id: PlanId, plan: &Plan) -> bool {
        self.setup.bug("bind-before-claim")
            && plan.failed.is_none()
            && plan.sent.iter().all(|label| self.readings.expected(id, label))
            && !plan.stages.is_empty()
    }

    fn measure_eviction(&mut self, id: PlanId) {
        let Some(plan) = self.plans.running.get_mut(&id) else { return };
        if let Some(since) = plan.asked_to_leave.take() {
            let (took, agreed) = (self.now.since(since), plan.failed.is_none());
            self.measures.evictions.push(Eviction { took, agreed });
        }
    }

    fn begin_writes(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.running.remove(&id) else { return };
        // From the first write on a failure is an error, whatever happens in the cluster.
        self.queue.finish_in_flight(plan.entry);
        match self.check(&mut plan) {
            Err(failure) => plan.failed = Some(failure),
            Ok(()) => self.send_stage(id, &mut plan),
        }
        self.plans.running.insert(id, plan);
    }

    /// Checks the plan before a write that was not done is sent again: its devices may be another's
    /// by now. A plan that is being taken back goes on with that.
    pub(super) fn check_again(&mut self, id: PlanId) -> Result<(), Failure> {
        let Some(mut plan) = self.plans.running.remove(&id) else { return Ok(()) };
        let right = if plan.failed.is_none() { self.check(&mut plan) } else { Ok(()) };
        self.plans.running.insert(id, plan);
        right
    }

    /// A write of a stage has its outcome.
    pub(super) fn stage_outcome(
        &mut self,
        plan: PlanId,
        label: &Text,
        deletes: bool,
        result: WriteResult,
    ) {
        match result {
            WriteResult::Done(written) => self.stage_done(plan, label, written),
            WriteResult::Unknown { message } if self.setup.bug("forget-unknown-claim") => {
                self.stage_failed(plan, label, Failure::fault(message));
            }
            WriteResult::Unknown { message } if self.readings.expected(plan, label) => {
                self.readings.leave_open(plan, label, true);
                self.read_after(plan, label, self.setup.limits.write_timeout, message);
            }
            WriteResult::Stale { message } if self.readings.expected(plan, label) => {
                self.readings.leave_open(plan, label, false);
                self.read_after(plan, label, Span::ZERO, message);
            }
            // An earlier try may still be committed: this one's failure doesn't say that none was,
            // unless the write itself is wrong (422).
            WriteResult::NotSent { message } if self.readings.insists(plan, label) => {
                self.read_after(plan, label, RETRY, message);
            }
            WriteResult::Refused { code, message }
                if !matches!(code, 404 | 422) && self.readings.open(plan, label) =>
            {
                self.read_after(plan, label, RETRY, message);
            }
            // What was to go is gone, or another has its name.
            WriteResult::Refused { code: 404, .. } | WriteResult::Stale { .. } if deletes => {
                self.stage_done(plan, label, Written::default());
            }
            WriteResult::Refused { message, code } => {
                let message = Text::from(format!("{message} ({code})"));
                let failure = Failure { moved_on: code == 404, ..Failure::fault(message) };
                self.stage_failed(plan, label, failure);
            }
            WriteResult::Stale { message } => {
                self.stage_failed(plan, label, Failure::moved_on(message));
            }
            WriteResult::NotSent { message } => {
                self.stage_failed(plan, label, Failure::fault(message));
            }
            WriteResult::Unknown { message } => {
                if let Some(plan) = self.plans.running.get_mut(&plan) {
                    // It may have been done, so it is taken back with the others.
                    plan.done.insert(label.clone());
                }
                self.stage_failed(plan, label, Failure::fault(message));
            }
        }
        self.advance_plan(plan);
    }

    pub(super) fn stage_done(&mut self, id: PlanId, label: &Text, written: Written) {
        self.readings.forget(id, label);
        if let Some(event) = written.event {
            self.fold(*event);
        }
        let Some(plan) = self.plans.running.get_mut(&id) else { return };
        plan.sent.remove(label);
        plan.done.insert(label.clone());
        if let Some(name) = written.name {
            plan.names.insert(label.clone(), name);
        }
    }

    pub(super) fn stage_failed(&mut self, id: PlanId, label: &Text, failure: Failure) {
        self.readings.forget(id, label);
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
        if let Some(entry) = self.queue.entry_of(&pod.uid) {
            self.measures.bound.push(Bound {
                pod: pod.clone(),
                scheduler_name: scheduler_name.clone(),
                attempts: entry.attempts,
                first_active: entry.first_active.unwrap_or(self.now),
                flushed: entry.flushed,
            });
        }
        let (pod, node) = (pod.clone(), node.clone());
        self.out.push_back(Decision::Notice(Notice::Scheduled { pod, scheduler_name, node }));
    }

    /// A bind of the plan is settled: it was not done, and can't be any more.
    pub(super) fn bind_failed(&mut self, id: PlanId, label: &Text, failure: Failure) {
        self.stage_failed(id, label, failure);
        self.advance_plan(id);
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
