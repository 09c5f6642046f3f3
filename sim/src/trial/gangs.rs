//! Groups: what users do to them, and the faults that strike them.

use berth_core::engine::{CycleReport, Outcome, WriteResult};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::claim::{CLAIM_FINALIZER, ClaimRef, Consumer};
use berth_core::types::group::{GroupKey, Quorum};
use berth_core::types::{Phase, Pod, PodUid, Span, Text};

use crate::fault::Fault;
use crate::kubelet;
use crate::workload::{Action, GangAction};
use crate::world::Denial;

use super::{Due, Trial};

/// A group has started when a member has run for so long.
const STARTED: Span = Span::from_secs(60);

impl Trial<'_> {
    pub(super) fn act_on_gangs(&mut self, action: GangAction) {
        let now = self.now;
        match action {
            GangAction::Create(group) => {
                self.world.apply(ClusterEvent::Groups(GroupEvent::Applied(group)), now);
            }
            GangAction::Delete(key) => self.world.remove_group(&key, now),
            GangAction::SetMin { group, min } => {
                self.world.change_group(&group, now, |group| group.quorum = Quorum::AtLeast(min));
            }
            GangAction::Start(job) => self.jobs.start(*job, now),
            GangAction::Scale { job, replicas } => self.jobs.scale(&job, replicas, now),
            GangAction::End(job) => self.jobs.end(&job, &mut self.world, now),
            GangAction::DeleteOne(prefix) => {
                let of = |pod: &&Pod| pod.name.starts_with(&*prefix) && !pod.finished();
                let uids = self.uids(of);
                let at = self.latency.below(uids.len().max(1) as u64) as usize;
                if let Some(uid) = uids.get(at) {
                    self.world.delete_pod(uid, now);
                }
            }
            GangAction::Rivals(one, other) => self.rivals.push((one, other)),
            GangAction::Allow(prefix) => self.world.allow(&prefix),
            GangAction::GiveBack { claim, by } => {
                self.world.change_claim(&claim, now, |claim| {
                    let ours =
                        |consumer: &Consumer| *consumer != Consumer::Other { uid: by.clone() };
                    claim.reserved_for.retain(ours);
                    if claim.reserved_for.is_empty() {
                        // As the resource claim controller does with what nobody uses any more.
                        claim.allocation = None;
                    }
                });
            }
        }
    }

    fn uids(&self, of: impl Fn(&&Pod) -> bool) -> Vec<PodUid> {
        self.world.pods().filter(of).map(|pod| pod.uid.clone()).collect()
    }

    /// Returns the member that a write of a plan is for.
    fn member_of(&self, op: &Op) -> Option<&Pod> {
        let pod = match op {
            Op::Bind { pod, .. } | Op::TryBind { pod, .. } => pod,
            Op::Claim { write: ClaimWrite::Allocate { pod, .. }, .. } => pod,
            _ => return None,
        };
        let known = self.world.pod_by_uid(&pod.uid)?;
        (!known.group_hints().is_empty()).then_some(known)
    }

    /// F19, F25, F26: returns whether the process is gone before it could send the write.
    pub(super) fn dies_in_commit(&mut self, op: &Op, between_claims: bool) -> bool {
        let earlier = self.count_bind(op);
        let member = self.member_of(op).is_some();
        let fault = if earlier > 0 && self.plan.strikes(Fault::GangKilled) {
            Fault::GangKilled
        } else if member && between_claims && self.plan.strikes(Fault::GangClaimKilled) {
            Fault::GangClaimKilled
        } else if member && (earlier > 0 || between_claims) && self.plan.strikes(Fault::LeaseLost) {
            Fault::LeaseLost
        } else {
            return false;
        };
        self.plan.took_effect(fault);
        self.killed();
        true
    }

    /// Returns how many binds of the same commit were sent before.
    fn count_bind(&mut self, op: &Op) -> u32 {
        let Op::Bind { plan: Some(note), .. } = op else { return 0 };
        match &mut self.commit {
            Some((known, sent)) if known == note => {
                *sent += 1;
                *sent - 1
            }
            commit => {
                *commit = Some((note.clone(), 1));
                0
            }
        }
    }

    /// Chances that a write for a member brings, before it arrives.
    pub(super) fn trouble_for_commit(&mut self, op: &Op) {
        let Some(member) = self.member_of(op).cloned() else { return };
        self.deny(&member, op);
        let keys: Vec<GroupKey> =
            member.group_hints().iter().map(|hint| hint.key(&member.namespace)).collect();
        if self.plan.strikes(Fault::MemberDeleted) {
            let open = |pod: &&Pod| {
                let of =
                    pod.group_hints().iter().any(|hint| keys.contains(&hint.key(&pod.namespace)));
                of && pod.node_name.is_none() && !pod.terminating
            };
            self.delete_one_of(self.uids(open));
        }
        for key in keys {
            if self.world.group(&key).is_some() && self.plan.strikes(Fault::GangResized) {
                self.plan.took_effect(Fault::GangResized);
                let up = self.plan.draw(Fault::GangResized, 2) == 0;
                self.world.change_group(&key, self.now, |group| {
                    if let Quorum::AtLeast(min) = &mut group.quorum {
                        *min = if up { *min + 1 } else { (*min - 1).max(1) };
                    }
                });
            }
        }
        if let Op::Claim {
            claim, write: ClaimWrite::Allocate { allocation: Some(_), .. }, ..
        } = op
        {
            self.shared_taken(claim);
        }
    }

    fn delete_one_of(&mut self, uids: Vec<PodUid>) {
        let at = self.plan.draw(Fault::MemberDeleted, uids.len().max(1) as u64) as usize;
        if let Some(uid) = uids.get(at) {
            self.plan.took_effect(Fault::MemberDeleted);
            self.world.delete_pod(uid, self.now);
        }
    }

    /// F17: a policy against the member, or those made in its place, comes into force.
    fn deny(&mut self, member: &Pod, op: &Op) {
        let (Op::Bind { node, .. } | Op::TryBind { node, .. }) = op else { return };
        let (fault, node) = if self.plan.strikes(Fault::BindDenied) {
            (Fault::BindDenied, Some(node.clone()))
        } else if self.plan.strikes(Fault::MemberDenied) {
            (Fault::MemberDenied, None)
        } else {
            return;
        };
        let made = member.name.len() - 4;
        let pods: Text = match &member.owner {
            Some(_) => member.name[..made].into(),
            None => member.name.clone(),
        };
        let code = if self.plan.draw(fault, 2) == 0 { 403 } else { 422 };
        let dry = self.plan.draw(fault, 4) > 0;
        self.world.deny(Denial { pods: pods.clone(), node, code, dry });
        if self.plan.draw(fault, 2) == 0 {
            let at = self.now + Span(5000 + self.plan.draw(fault, 90_000));
            self.enter(at, Due::Act(Action::Gangs(GangAction::Allow(pods))));
        }
    }

    /// F23: another scheduler gets the same devices for its own pod by the claim that members share.
    fn shared_taken(&mut self, claim: &ClaimRef) {
        let Some(known) = self.world.claim(&claim.key) else { return };
        let shared = known.owner_pod.is_none() && known.allocation.is_none();
        let planned = || {
            let devices = self.process.as_ref()?.engine.cluster().devices();
            Some(devices.claim(&claim.key)?.planned.as_ref()?.allocation.clone())
        };
        let Some(allocation) = planned().filter(|_| shared) else { return };
        if !self.plan.strikes(Fault::SharedTaken) {
            return;
        }
        self.plan.took_effect(Fault::SharedTaken);
        self.entered += 1;
        let by = Text::from(format!("other-{}", self.entered));
        self.world.change_claim(&claim.key, self.now, |claim| {
            claim.allocation = Some(allocation);
            claim.reserved_for.push(Consumer::Other { uid: by.clone() });
            if !claim.finalizers.iter().any(|finalizer| *finalizer == CLAIM_FINALIZER) {
                claim.finalizers.push(CLAIM_FINALIZER.into());
            }
        });
        let at = self.now + Span(2000 + self.plan.draw(Fault::SharedTaken, 30_000));
        let give_back = GangAction::GiveBack { claim: claim.key.clone(), by };
        self.enter(at, Due::Act(Action::Gangs(give_back)));
    }

    /// Chances that every second brings.
    pub(super) fn trouble_for_gangs(&mut self) {
        if self.plan.strikes(Fault::MemberDeleted) {
            let waits = |pod: &&Pod| pod.node_name.is_none() && !pod.group_hints().is_empty();
            self.delete_one_of(self.uids(waits));
        }
        if self.plan.strikes(Fault::MemberNodeGone) {
            let started = |pod: &&Pod| {
                let since = pod.gang.as_ref().and_then(|gang| gang.running);
                let runs = pod.phase == Phase::Running && !pod.group_hints().is_empty();
                runs && since.is_some_and(|since| since + STARTED <= self.now)
            };
            let nodes: Vec<Text> =
                self.world.pods().filter(started).filter_map(|pod| pod.node_name.clone()).collect();
            let at = self.plan.draw(Fault::MemberNodeGone, nodes.len().max(1) as u64) as usize;
            if let Some(node) = nodes.get(at) {
                self.node_goes(node, Fault::MemberNodeGone);
            }
        }
        self.restart_one();
    }

    fn restart_one(&mut self) {
        if !self.plan.strikes(Fault::MemberRestarted) {
            return;
        }
        let runs = |pod: &&Pod| {
            pod.phase == Phase::Running && !pod.terminating && !pod.group_hints().is_empty()
        };
        let uids = self.uids(runs);
        let at = self.plan.draw(Fault::MemberRestarted, uids.len().max(1) as u64) as usize;
        let sandbox = self.plan.draw(Fault::MemberRestarted, 3) == 0;
        if let Some(uid) = uids.get(at) {
            self.plan.took_effect(Fault::MemberRestarted);
            kubelet::restart(&mut self.world, uid, sandbox, self.now);
        }
    }

    /// F30 took effect when a group is turned away while one that asks for the same has its places:
    /// without that one it would fit there.
    pub(super) fn rival_reported(&mut self, report: &CycleReport) {
        let (Some(group), Some(process)) = (&report.group, &self.process) else { return };
        if report.outcome != Outcome::Unschedulable {
            return;
        }
        let groups = process.engine.cluster().groups();
        let is = |key: &GroupKey| key.to_string() == **group;
        let meets = |(one, other): &(GroupKey, GroupKey)| {
            (is(one) && groups.n_placed(other) > 0) || (is(other) && groups.n_placed(one) > 0)
        };
        if let Some(at) = self.rivals.iter().position(meets) {
            self.rivals.swap_remove(at);
            self.plan.took_effect(Fault::Rivals);
        }
    }

    /// What a bind's answer means to the faults of groups.
    pub(super) fn answers_gang(&mut self, op: &Op, result: &WriteResult) {
        let (Op::Bind { pod, node, .. } | Op::TryBind { pod, node }) = op else { return };
        match result {
            WriteResult::Refused { code: 403 | 422, .. } => {
                let fault = match self.world.denies(&pod.name, &Text::default()) {
                    true => Fault::MemberDenied,
                    false => Fault::BindDenied,
                };
                debug_assert!(self.world.denies(&pod.name, node));
                self.plan.took_effect(fault);
            }
            WriteResult::Done(_) if matches!(op, Op::Bind { .. }) => {
                let member = self.member_of(op).is_some();
                if member && self.plan.strikes(Fault::MemberRejected) {
                    self.plan.took_effect(Fault::MemberRejected);
                    self.kubelet.reject_at_start(pod.uid.clone());
                }
            }
            _ => {}
        }
    }
}
