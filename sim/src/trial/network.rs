//! The way of a write: sent, arrived, committed, answered; and what goes wrong on it.

use berth_core::engine::{Write, WriteResult};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::types::{GpuNumbers, PlanNote, PodRef, PodUid, Span, Text, Timestamp};

use crate::auditor::Sender;
use crate::fault::Fault;
use crate::sweep::Phase;
use crate::workload::ELSEWHERE;
use crate::world::Kind;

use super::{Due, Trial};

/// A bind that the server has taken in and not committed yet.
///
/// Until the request's `?timeout` the server looks at the pod again when it has changed; after
/// that only the proposal inside the store is left, which is committed if the pod still has the
/// version it was made for. A fence changes that version.
#[derive(Debug)]
pub(super) struct Proposal {
    fault: Fault,
    by: Sender,
    pod: PodRef,
    node: Text,
    plan: Option<PlanNote>,
    gpus: Option<GpuNumbers>,
    resource_version: u64,
    /// The bind names its version: it is not tried again once the pod has changed.
    versioned: bool,
    given_up: Timestamp,
    commits_at: Timestamp,
}

pub(super) fn unknown(message: &str) -> WriteResult {
    WriteResult::Unknown { message: Text::from(message) }
}

/// 409 as the server words it when its store breaks. Source: facts/observed-1.37/faults.md.
pub(super) fn store_broke() -> WriteResult {
    let message = "rpc error: code = Unavailable desc = error reading from server: EOF";
    WriteResult::Stale { message: Text::from(message) }
}

impl Trial<'_> {
    /// Some milliseconds, now and then most of a write's `?timeout`.
    fn hop(&mut self) -> Span {
        match self.latency.below(50) {
            0 => Span(1 + self.latency.below(4000)),
            _ => Span(1 + self.latency.below(8)),
        }
    }

    pub(super) fn send(&mut self, write: Write) {
        let Some(process) = &mut self.process else { return };
        process.in_flight.insert(write.id);
        let by: Sender = (process.generation, write.id);
        if let Op::Bind { pod, .. } = &write.op {
            self.bury(pod);
        }
        let version = match &write.op {
            Op::Bind { pod, .. } => self.world.pod_by_uid(&pod.uid).map(|p| p.resource_version),
            _ => None,
        };
        self.auditor.sends(by, &write.op, version.unwrap_or_default(), self.now);
        let line = || format!("sends     {} {:?}", write.id.0, write.op);
        self.history.note(self.now, &[6, write.id.0], "", line);
        if self.now < self.down_until {
            self.plan.took_effect(Fault::ServerDown);
            let message = Text::from("connection refused");
            self.lost(by, &write.op);
            return self.answer(by, self.now + Span(1), WriteResult::NotSent { message });
        }
        self.trouble_for(&write);
        if self.plan.strikes(Fault::SendLost) {
            self.plan.took_effect(Fault::SendLost);
            self.lost(by, &write.op);
            let at = self.gives_up(Fault::SendLost, self.now);
            return self.answer(by, at, unknown("connection reset"));
        }
        let sent = self.now;
        let mut at = self.now + self.hop();
        if let Some(fault) = self.comes_late(&write.op) {
            self.plan.took_effect(fault);
            if let Op::Bind { pod, .. } = &write.op {
                self.late_arrivals.push((by, pod.uid.clone()));
            }
            at = sent + self.write_timeout() + Span(self.plan.draw(fault, 20_000));
            let gives_up = self.gives_up(fault, sent);
            self.answer(by, gives_up, unknown("timeout"));
        }
        self.enter(at, Due::Arrives { process: by.0, write: Box::new(write), sent });
    }

    /// Says by which fault the write is read long after it was given up. Only a bind that names a
    /// version may be: any other could be committed whatever its sender has found out by then.
    /// Writes to claims always have to name one.
    fn comes_late(&mut self, op: &Op) -> Option<Fault> {
        let (version, fault) = match op {
            Op::Bind { resource_version, .. } => (*resource_version, Fault::LateArrival),
            Op::Claim { write: ClaimWrite::Read, .. } => return None,
            Op::Claim { .. } => (1, Fault::ClaimLate),
            Op::TryBind { .. }
            | Op::SetDisruption { .. }
            | Op::TellGroup { .. }
            | Op::ReadPod { .. }
            | Op::Fence { .. }
            | Op::SetCondition { .. }
            | Op::Nominate { .. }
            | Op::DeletePod { .. }
            | Op::Create { .. }
            | Op::Patch { .. }
            | Op::Delete { .. } => return None,
        };
        (version != 0 && self.plan.strikes(fault)).then_some(fault)
    }

    /// A bind can't be committed any more.
    fn lost(&mut self, by: Sender, op: &Op) {
        if let Op::Bind { pod, .. } = op {
            self.auditor.dead(&pod.uid, by);
        }
    }

    /// When a client sees that no answer comes: at once, or by its own timeout.
    fn gives_up(&mut self, fault: Fault, sent: Timestamp) -> Timestamp {
        match self.plan.draw(fault, 2) {
            0 => self.now + Span(2),
            _ => sent + self.write_timeout() + Span(50),
        }
    }

    fn answer(&mut self, by: Sender, at: Timestamp, result: WriteResult) {
        self.enter(at, Due::Answers { process: by.0, write: by.1, result });
    }

    pub(super) fn arrives(&mut self, process: u64, write: &Write, sent: Timestamp) {
        let by: Sender = (process, write.id);
        let lives = self.process.as_ref().is_some_and(|process| process.generation == by.0);
        self.late_arrivals.retain(|(sender, _)| *sender != by);
        if !lives && self.now > sent + self.write_timeout() {
            // The connection died with its process, and the server dropped the request.
            return self.lost(by, &write.op);
        }
        if self.now < self.down_until {
            self.plan.took_effect(Fault::ServerDown);
            self.lost(by, &write.op);
            let at = self.now + Span(1);
            return self.answer(by, at, unknown("EOF"));
        }
        if let Op::Bind { pod, node, resource_version, .. } = &write.op {
            if self.plan.strikes(Fault::BoundElsewhere) {
                self.bind_elsewhere(pod);
            }
            let admitted =
                self.admits(pod, *resource_version) && !self.world.denies(&pod.name, node);
            if admitted && self.astray(by, &write.op, pod, sent) {
                return;
            }
        }
        let result = self.carry_out(&write.op);
        self.answers_gang(&write.op, &result);
        if let Op::ReadPod { pod } = &write.op {
            self.hasten(pod);
        }
        if !matches!(result, WriteResult::Done(_)) {
            self.lost(by, &write.op);
        }
        if self.crashes_on(process, write.id, Phase::Committed) {
            return;
        }
        self.reply(by, write, sent, result);
    }

    /// The server's answer goes back, or is lost.
    fn reply(&mut self, by: Sender, write: &Write, sent: Timestamp, result: WriteResult) {
        let done = matches!(result, WriteResult::Done(_));
        if done && self.loses_claim_answer(&write.op) {
            let at = self.gives_up(Fault::ClaimAnswerLost, sent);
            return self.answer(by, at, unknown("EOF"));
        }
        if self.plan.strikes(Fault::AnswerLost) {
            if done && !matches!(write.op, Op::ReadPod { .. }) {
                self.plan.took_effect(Fault::AnswerLost);
            }
            if self.plan.draw(Fault::AnswerLost, 2) == 0 {
                let until = self.now + Span::from_secs(3);
                self.watches.hold(Kind::Pods, until, Fault::WatchLate);
            }
            let at = self.gives_up(Fault::AnswerLost, sent);
            return self.answer(by, at, unknown("EOF"));
        }
        let at = self.now + self.hop();
        let given_up = sent + self.write_timeout() + Span(50);
        if at > given_up {
            return self.answer(by, given_up, unknown("context deadline exceeded"));
        }
        self.answer(by, at, result);
    }

    fn unbound(&self, pod: &PodRef) -> bool {
        self.world
            .pod_by_uid(&pod.uid)
            .is_some_and(|pod| pod.node_name.is_none() && !pod.terminating && pod.gates.is_empty())
    }

    fn bind_elsewhere(&mut self, pod: &PodRef) {
        if self.unbound(pod) {
            self.plan.took_effect(Fault::BoundElsewhere);
            self.world.change_pod(&pod.uid, self.now, |pod| {
                pod.node_name = Some(ELSEWHERE.into());
                pod.unscheduled = None;
            });
        }
    }

    /// Lets a bind that would be committed go another way. Returns whether it did.
    fn astray(&mut self, by: Sender, op: &Op, pod: &PodRef, sent: Timestamp) -> bool {
        if self.plan.strikes(Fault::ConflictNever) {
            self.plan.took_effect(Fault::ConflictNever);
            self.auditor.dead(&pod.uid, by);
        } else if self.plan.strikes(Fault::ConflictCommitted) {
            self.plan.took_effect(Fault::ConflictCommitted);
            self.world.carry_out(op, self.now);
        } else if self.plan.strikes(Fault::ConflictLate) {
            self.propose(Fault::ConflictLate, by, op, sent);
        } else if self.plan.strikes(Fault::LateCommit) {
            self.propose(Fault::LateCommit, by, op, sent);
            let at = self.gives_up(Fault::LateCommit, sent);
            self.answer(by, at, unknown("EOF"));
            return true;
        } else {
            return false;
        }
        let at = self.now + self.hop();
        self.answer(by, at, store_broke());
        true
    }

    /// Half of the proposals are committed within the request's time, half long after.
    fn propose(&mut self, fault: Fault, by: Sender, op: &Op, sent: Timestamp) {
        let Op::Bind { pod, node, resource_version: version, plan, gpus } = op else { return };
        let versioned = *version != 0;
        let Some(known) = self.world.pod_by_uid(&pod.uid) else { return };
        let resource_version = known.resource_version;
        let given_up = sent + self.write_timeout();
        let lives = self.process.as_ref().is_some_and(|process| process.generation == by.0);
        let commits_at = match self.plan.draw(fault, 2) {
            _ if !lives => self.now + Span(1),
            0 => self.now + Span(self.plan.draw(fault, given_up.since(self.now).0)),
            _ => given_up + Span(self.plan.draw(fault, 20_000)),
        };
        let proposal = Proposal {
            fault,
            by,
            pod: pod.clone(),
            node: node.clone(),
            plan: plan.clone(),
            gpus: gpus.clone(),
            resource_version,
            versioned,
            given_up,
            commits_at,
        };
        self.entered += 1;
        let id = self.entered;
        self.proposals.insert(id, proposal);
        self.enter(commits_at, Due::Commits { proposal: id });
    }

    /// Tells whether the proposal can still be committed when its time comes.
    fn alive(&self, proposal: &Proposal) -> bool {
        let Some(pod) = self.world.pod_by_uid(&proposal.pod.uid) else { return false };
        let untouched = pod.resource_version == proposal.resource_version;
        // The server tries a bind without a version again until its `?timeout` has passed.
        let again = !proposal.versioned && proposal.commits_at <= proposal.given_up;
        self.unbound(&proposal.pod) && (untouched || again)
    }

    /// Tells whether the server would carry out a bind now.
    fn admits(&self, pod: &PodRef, resource_version: u64) -> bool {
        let version = self.world.pod_by_uid(&pod.uid).map(|known| known.resource_version);
        self.unbound(pod) && (resource_version == 0 || version == Some(resource_version))
    }

    pub(super) fn commits(&mut self, id: u64) {
        let Some(proposal) = self.proposals.remove(&id) else { return };
        if !self.alive(&proposal) {
            self.auditor.dead(&proposal.pod.uid, proposal.by);
            return;
        }
        self.plan.took_effect(proposal.fault);
        let Proposal { pod, node, plan, gpus, .. } = proposal;
        self.world.store_bind(&pod.uid, &node, (plan.as_ref(), gpus.as_ref()), self.now);
    }

    /// A read has seen the pod unbound: now and then its late bind is committed right after that,
    /// before a fence can be there.
    fn hasten(&mut self, pod: &PodRef) {
        let soon = self.now + Span(1 + self.plan.draw(Fault::LateCommit, 5));
        let mut late = self.proposals.iter_mut();
        let Some((id, proposal)) = late.find(|(_, p)| p.pod.uid == pod.uid) else {
            return;
        };
        if proposal.commits_at > soon && self.plan.draw(Fault::LateCommit, 3) == 0 {
            proposal.commits_at = soon;
            let id = *id;
            // The entry for its old time finds nothing any more.
            self.enter(soon, Due::Commits { proposal: id });
        }
    }

    /// Notes which proposals for the pod can't be committed any more.
    fn bury(&mut self, pod: &PodRef) {
        let dead: Vec<u64> = self
            .proposals
            .iter()
            .filter(|(_, proposal)| proposal.pod.uid == pod.uid && !self.alive(proposal))
            .map(|(id, _)| *id)
            .collect();
        for id in dead {
            if let Some(proposal) = self.proposals.remove(&id) {
                self.auditor.dead(&proposal.pod.uid, proposal.by);
            }
        }
    }

    /// A process is gone that would have fenced: its proposals are not committed later than their
    /// `?timeout`. (A proposal that outlives it by more than the lease is beyond any scheduler.)
    pub(super) fn drop_late(&mut self, generation: u64) {
        let gone = |(by, _): &(Sender, PodUid)| by.0 == generation;
        for (by, uid) in self.late_arrivals.iter().filter(|late| gone(late)) {
            self.auditor.dead(uid, *by);
        }
        self.late_arrivals.retain(|late| !gone(late));
        let late = |p: &Proposal| p.by.0 == generation && p.commits_at > p.given_up;
        let ids: Vec<u64> =
            self.proposals.iter().filter(|(_, p)| late(p)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(proposal) = self.proposals.remove(&id) {
                self.auditor.dead(&proposal.pod.uid, proposal.by);
            }
        }
    }

    /// The server dies: answers under way are lost, and what was asked may be done or not.
    pub(super) fn lose_answers(&mut self) {
        let mut lost = 0;
        for due in self.agenda.values_mut() {
            if let Due::Answers { result, .. } = due
                && matches!(result, WriteResult::Done(_))
            {
                *result = unknown("EOF");
                lost += 1;
            }
        }
        for _ in 0..lost {
            self.plan.took_effect(Fault::ServerDown);
        }
    }
}
