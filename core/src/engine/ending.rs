//! How plans end: done, or taken back.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::framework::plan::{LedgerCondition, NameOf, Progress};
use crate::framework::{ClaimWrite, Op, Point, ReadBack, StageDraft, WriteDraft};
use crate::snapshot::Cluster;
use crate::types::claim::{ClaimKey, ClaimRef, Consumer};
use crate::types::{PodUid, Text};

use super::decision::{Decision, Notice, PlanId, Urgency};
use super::guard::guarded;
use super::input::WriteResult;
use super::plans::{Failure, Placement, Plan};
use super::sending::{named, versioned_claim};
use super::timing::{Code, Timing};
use super::{Engine, Purpose};

/// A write that nobody waits for is sent at most so often.
pub(super) const TRIES_MAX: u32 = 3;

impl Engine {
    pub(super) fn end_done(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.remove(id) else { return };
        if plan.placements.is_empty() {
            // What it wrote may have made room: the pod is looked at again.
            return self.queue.fail(plan.entry, self.now);
        }
        self.queue.finish_in_flight(plan.entry);
        // Whatever write a Bind plugin asked for, it is done.
        plan.placements.iter_mut().for_each(|placement| placement.bound = true);
        self.leave_queue(&plan);
        // Members that came while the plan was under way are next.
        if self.queue.entry(plan.entry).is_some() {
            self.admit(plan.entry, None);
        }
        for placement in &plan.placements {
            self.post_bind(placement);
        }
    }

    /// Takes the bound members out of the queue.
    fn leave_queue(&mut self, plan: &Plan) {
        let bound = plan.placements.iter().filter(|placement| placement.bound);
        for placement in bound {
            self.queue.remove_pod(&placement.pod.uid);
        }
    }

    fn post_bind(&mut self, placement: &Placement) {
        let Some(record) = self.cluster.pod(&placement.pod.uid) else { return };
        let Some(at) = self.by_name.get(&record.pod.spec.scheduler_name) else { return };
        let profile = &self.profiles[*at];
        let timing = Timing::new(self.setup.stopwatch.as_ref(), *at, self.gatings_timed.next());
        let ops = timing.point(Point::PostBind, || {
            let mut ops = Vec::new();
            for (at, entry) in profile.post_bind.iter().enumerate() {
                let asked = || entry.plugin.post_bind(&record.pod, &self.cluster, placement.node);
                let drafts = timing.call(Point::PostBind, at, || guarded(entry.name, asked));
                ops.extend(drafts.unwrap_or_default().into_iter().map(|draft| draft.op));
            }
            (ops, Code::Success)
        });
        for op in ops {
            self.send_aside(op, 1);
        }
    }

    /// Takes back what was done, newest first, then gives back what was held.
    pub(super) fn end_failed(&mut self, id: PlanId) {
        let Some(plan) = self.plans.get_mut(id) else { return };
        let undo = std::mem::take(&mut plan.undo);
        let done = undo.iter().rev().filter(|(label, _)| plan.done.contains(label));
        let named = |(label, op): &(Text, Op)| Some((label.clone(), named(op, &plan.names)?));
        let ops: Vec<(Text, Op)> = done.filter_map(named).collect();
        let (bound, unbound): (Vec<_>, Vec<_>) = plan.placements.iter().partition(|it| it.bound);
        let uids = |of: Vec<&Placement>| of.into_iter().map(|it| it.pod.uid.clone()).collect();
        let (staying, leaving): (BTreeSet<PodUid>, BTreeSet<PodUid>) = (uids(bound), uids(unbound));
        let mut waits = false;
        for (label, op) in ops {
            if self.is_of(&op, &staying) {
                continue;
            }
            match Released::by(&op) {
                // Members that stay use what the group has.
                Some(released) if released.in_use(&self.cluster, &leaving) => {}
                Some(released) => waits |= self.give_claim_back(id, &label, op, released),
                None => self.send_aside(op, 1),
            }
        }
        if !waits || self.setup.bug("release-not-awaited") {
            self.give_up(id);
        }
    }

    /// Tells whether what `op` takes back belongs to one of these pods alone: its reservation, or the
    /// claim that was made for it.
    fn is_of(&self, op: &Op, pods: &BTreeSet<PodUid>) -> bool {
        let owner = match op {
            Op::Claim { write: ClaimWrite::Release { consumer, .. }, .. } => match consumer {
                Consumer::Pod(uid) => Some(uid),
                Consumer::PodGroup { .. } | Consumer::Other { .. } => None,
            },
            Op::Delete { namespace, name: NameOf::Known(name), .. } => {
                let key = ClaimKey { namespace: namespace.clone(), name: name.clone() };
                let record = self.cluster.devices().claim(&key);
                record.and_then(|record| record.claim.owner_pod.as_ref())
            }
            _ => None,
        };
        owner.is_some_and(|uid| pods.contains(uid))
    }

    /// Sends a release, for which the plan waits: until it is settled the claim could still be
    /// taken from the pod when the pod has been placed with it once more. Returns false if there is
    /// nothing to release.
    fn give_claim_back(&mut self, id: PlanId, label: &Text, op: Op, released: Released) -> bool {
        let mut sent = op.clone();
        if versioned_claim(&self.cluster, &mut sent, self.now).is_err() {
            return false;
        }
        let label = Text::from(format!("undo-{label}"));
        let Some(plan) = self.plans.get_mut(id) else { return false };
        plan.sent.insert(label.clone());
        self.readings.insist(id, &label, &op, released.read_back());
        self.send(sent, Purpose::Stage { plan: id, label, deletes: false }, Urgency::Plan);
        true
    }

    fn give_up(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.remove(id) else { return };
        self.keep_planned(&plan);
        let mut changes = Vec::new();
        for placement in plan.placements.iter().filter(|placement| !placement.bound) {
            changes.extend(self.cluster.forget(&placement.pod.uid));
            changes.extend(self.cluster.unnominate(&placement.pod.uid));
            changes.extend(self.cluster.forget_claims(&placement.pod.uid));
        }
        self.leave_queue(&plan);
        let failure = plan.failed.take().unwrap_or_else(|| Failure::moved_on("".into()));
        self.plan_failed(plan.entry, &failure);
        if failure.moved_on {
            let unbound = plan.placements.iter().filter(|placement| !placement.bound);
            self.plans.given_up.extend(unbound.map(|placement| placement.pod.uid.clone()));
        }
        self.after_changes(changes);
    }

    /// Sends a write that no plan waits for.
    pub(super) fn send_aside(&mut self, op: Op, tries: u32) {
        self.send(op.clone(), Purpose::Aside { op, tries }, Urgency::Plan);
    }

    /// Tells whether a write without an answer is seen to be done.
    fn is_done(&self, op: &Op) -> bool {
        let Op::DeletePod { pod } = op else { return false };
        self.cluster.pod(&pod.uid).is_none_or(|record| record.pod.terminating)
    }

    pub(super) fn aside_outcome(&mut self, op: Op, tries: u32, result: WriteResult) {
        let message = match result {
            WriteResult::Done(written) => {
                if let Some(event) = written.event {
                    self.fold(*event);
                }
                return;
            }
            // Whoever is gone is told gone; a namesake is another.
            WriteResult::Stale { .. } | WriteResult::Refused { code: 404, .. } => return,
            WriteResult::NotSent { .. } | WriteResult::Unknown { .. } if self.is_done(&op) => {
                return;
            }
            WriteResult::NotSent { .. } | WriteResult::Unknown { .. } if tries < TRIES_MAX => {
                return self.send_aside(op, tries + 1);
            }
            WriteResult::Refused { message, .. }
            | WriteResult::NotSent { message }
            | WriteResult::Unknown { message } => message,
        };
        if let Op::DeletePod { pod } = &op {
            self.leaving.remove(&pod.uid);
        }
        let subject = "a write beside the plans".into();
        let message = format!("{op:?} was not carried out: {message}").into();
        self.out.push_back(Decision::Notice(Notice::Odd { subject, message }));
    }
}

/// Makes a plan that places nobody: it writes what PostFilter wants, and the pod waits for that.
pub(super) fn plan_of_writes(entry: crate::queue::EntryId, ops: Vec<Op>) -> Plan {
    let draft = |(at, op): (usize, Op)| {
        let read_back = Released::by(&op).map(Released::read_back);
        WriteDraft { read_back, ..WriteDraft::plain(format!("room-{at}"), op) }
    };
    let drafts = ops.into_iter().enumerate().map(draft).collect();
    Plan::new(entry, Vec::new(), vec![StageDraft::Writes(drafts)])
}

/// Reached when this one doesn't have the claim any more, nor anybody what was allocated for it.
#[derive(Debug)]
struct Released {
    claim: ClaimRef,
    consumer: Consumer,
    deallocate: bool,
}

impl Released {
    fn by(op: &Op) -> Option<Released> {
        let Op::Claim { claim, write: ClaimWrite::Release { consumer, deallocate }, .. } = op
        else {
            return None;
        };
        let (claim, consumer) = (claim.clone(), consumer.clone());
        Some(Released { claim, consumer, deallocate: *deallocate })
    }

    /// Tells whether a pod that isn't `leaving` is on a node with what is to be released.
    fn in_use(&self, cluster: &Cluster, leaving: &BTreeSet<PodUid>) -> bool {
        let namespace = &self.claim.key.namespace;
        cluster.group_runs(namespace, &self.consumer, &|uid| leaving.contains(uid))
    }

    fn read_back(self) -> ReadBack {
        let (claim, write) = (self.claim.clone(), ClaimWrite::Read);
        ReadBack { read: Op::Claim { claim, resource_version: 0, write }, done: Arc::new(self) }
    }
}

impl LedgerCondition for Released {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let known = cluster.devices().claim(&self.claim.key).map(|record| &record.claim);
        let Some(claim) = known.filter(|known| self.claim.means(known)) else {
            return Progress::Reached;
        };
        let reserved = claim.is_reserved_for(&self.consumer);
        let unused = claim.allocation.is_some() && claim.reserved_for.is_empty();
        if reserved || (self.deallocate && unused) { Progress::Waiting } else { Progress::Reached }
    }
}
