//! Sending the writes of a stage, each completed with what the ledger knows at that moment: versions,
//! finalizers, names that earlier writes brought back, the commit of a group, the GPUs of a share.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::framework::plan::NameOf;
use crate::framework::{ClaimWrite, Op, StageDraft};
use crate::snapshot::Cluster;
use crate::types::claim::{Allocation, CLAIM_FINALIZER};
use crate::types::{PlanNote, Text, Timestamp};

use super::decision::{Decision, PlanId, Urgency, Write, WriteId};
use super::plans::{Failure, Plan};
use super::settle::BindTarget;
use super::{Engine, Purpose};

impl Engine {
    pub(super) fn send_stage(&mut self, id: PlanId, plan: &mut Plan) {
        let Some(StageDraft::Writes(drafts)) = plan.stages.pop_front() else { return };
        plan.asked_to_leave = plan.evicting.then_some(self.now);
        for draft in drafts {
            let Some(mut op) = named(&draft.op, &plan.names) else {
                let message = format!("write {} names one that brought back no name", draft.label);
                plan.failed = Some(Failure::fault(message.into()));
                return;
            };
            plan.sent.insert(draft.label.clone());
            plan.undo.extend(draft.undo.map(|undo| (draft.label.clone(), undo)));
            if let Some(read_back) = draft.read_back {
                // Sent again, it is made up anew from what is known then.
                self.readings.expect(id, &draft.label, &op, read_back);
            }
            if let Err(failure) = versioned_claim(&self.cluster, &mut op, self.now) {
                plan.sent.remove(&draft.label);
                plan.failed = Some(failure);
                self.readings.forget(id, &draft.label);
                return;
            }
            let bind = self.versioned_bind(&mut op, plan.commit.as_ref());
            let deletes = matches!(op, Op::DeletePod { .. } | Op::Delete { .. });
            let label = draft.label.clone();
            let purpose = match &op {
                Op::TryBind { pod, node } => {
                    Purpose::Try { plan: id, label, pod: pod.clone(), node: node.clone() }
                }
                _ => Purpose::Stage { plan: id, label, deletes },
            };
            let write = self.send(op, purpose, Urgency::Plan);
            if let Some(target) = bind {
                self.settlements.sent(write, id, draft.label, target);
            }
        }
    }

    /// Puts the pod's version as it is known now into a bind; none while a condition of ours is on
    /// its way, which would make every such bind come too late.
    fn versioned_bind(&self, op: &mut Op, commit: Option<&PlanNote>) -> Option<BindTarget> {
        let Op::Bind { pod, node, resource_version, plan, gpus } = op else { return None };
        *plan = commit.filter(|_| !self.setup.bug("forgets-note")).cloned();
        *gpus = self.cluster.gpus_given(&pod.uid).cloned();
        let known = self.cluster.pod(&pod.uid).filter(|_| !self.tells.in_flight(&pod.uid));
        *resource_version = known.map_or(0, |record| record.pod.resource_version);
        let (pod, node) = (pod.clone(), node.clone());
        Some(BindTarget { pod, node, resource_version: *resource_version })
    }

    pub(super) fn send(&mut self, op: Op, purpose: Purpose, urgency: Urgency) -> WriteId {
        let id = WriteId(self.fresh_id());
        let order = purpose.plan().map_or(id.0, |plan| plan.0);
        self.purposes.insert(id, purpose);
        let timeout = self.setup.limits.write_timeout;
        let op = self.with_planted_bug(op);
        self.out.push_back(Decision::Write(Write { id, op, timeout, urgency, order }));
        id
    }

    fn with_planted_bug(&self, mut op: Op) -> Op {
        if let Op::Claim { resource_version, .. } = &mut op
            && self.setup.bug("claim-without-version")
        {
            *resource_version = 0;
        }
        op
    }
}

/// Puts in the names that earlier writes brought back; `None` if one is missing.
pub(super) fn named(op: &Op, names: &BTreeMap<Text, Text>) -> Option<Op> {
    let mut op = op.clone();
    match &mut op {
        Op::Create { name, .. } | Op::Patch { name, .. } | Op::Delete { name, .. } => {
            if let NameOf::FromWrite(label) = name {
                *name = NameOf::Known(names.get(label)?.clone());
            }
        }
        Op::Bind { .. }
        | Op::TryBind { .. }
        | Op::SetDisruption { .. }
        | Op::TellGroup { .. }
        | Op::ReadPod { .. }
        | Op::Fence { .. }
        | Op::SetCondition { .. }
        | Op::Nominate { .. }
        | Op::DeletePod { .. }
        | Op::Claim { .. } => {}
    }
    Some(op)
}

/// Puts what is known now into a write to a claim: its version, its finalizers, its UID where the plan
/// has made it, and when it is allocated.
///
/// # Errors
/// The claim is gone, or is another.
pub(super) fn versioned_claim(
    cluster: &Cluster,
    op: &mut Op,
    now: Timestamp,
) -> Result<(), Failure> {
    let Op::Claim { claim, resource_version, write } = op else { return Ok(()) };
    let record = cluster.devices().claim(&claim.key).filter(|record| !record.unborn);
    let known = record.map(|record| &record.claim);
    let Some(known) = known.filter(|known| claim.uid.is_empty() || known.uid == claim.uid) else {
        return Err(Failure::moved_on(format!("resource claim {} is gone", claim.key).into()));
    };
    claim.uid = known.uid.clone();
    *resource_version = known.resource_version;
    if let ClaimWrite::Release { consumer, deallocate } = write {
        *deallocate &= known.reserved_for.iter().all(|other| other == consumer);
    }
    if let ClaimWrite::Allocate { allocation, .. } = write {
        // What the server has is not written again.
        let same = |ours: &Arc<Allocation>| {
            known.allocation.as_ref().is_some_and(|real| real.grants_as(ours))
        };
        *allocation = allocation.take().filter(|ours| !same(ours));
        // By the clock that waits are measured with.
        if let Some(ours) = allocation {
            Arc::make_mut(ours).timestamp = Some(now);
        }
    }
    if let ClaimWrite::Protect { finalizers } = write {
        *finalizers = known.finalizers.clone();
        let ours = Text::from(CLAIM_FINALIZER);
        if !finalizers.contains(&ours) {
            finalizers.push(ours);
        }
    }
    Ok(())
}
