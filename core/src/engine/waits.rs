//! Waits of plans: for Permit, for victims to leave, for what PreBind plugins need; and the barrier that
//! holds the binds of a group.
//!
//! Who waits for anything but victims is told so, and the pod says where it will be: autoscalers don't
//! make a node for it then, and a process that comes after this one tries that node first. Where a
//! wait is over as it begins nothing is written. Source: the binding cycle of kube-scheduler 1.37,
//! which writes `nominatedNodeName` wherever a PreBind plugin has something to do.

use crate::framework::plan::{Limit, Progress, Wait};
use crate::framework::{Op, StageDraft};
use crate::snapshot::Cluster;
use crate::types::{PodRef, PodUid, Span, Text, Timestamp};

use super::checks::moved_on;
use super::decision::{Decision, Notice, PlanId, Urgency};
use super::guard::guarded;
use super::input::{WriteResult, Written};
use super::measures::PermitWait;
use super::placing::may_be_placed;
use super::plans::{Failure, Plan};
use super::{Engine, Purpose};

/// What members wait for together: no bind is sent before all that they need is confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    /// Which plugin has set the time.
    pub(super) plugin: &'static str,
    pub(super) within: Span,
    /// Known once places are theirs: victims leave in their own time.
    pub(super) until: Option<Timestamp>,
}

impl Plan {
    /// Returns why the plan is given up, if it comes to its binds too late.
    fn overdue(&mut self, now: Timestamp) -> Option<Failure> {
        let evicting = self.evicting;
        let barrier = self.barrier.as_mut().filter(|_| !evicting)?;
        let until = *barrier.until.get_or_insert(now + barrier.within);
        if now < until || self.stages.is_empty() && self.waiting.is_none() {
            return None;
        }
        let what = self.waiting.as_ref().map_or("writes", |wait| &*wait.on_expiry);
        let message = format!(
            "what the members of the group need was not there within {} s: {what}",
            barrier.within.as_millis() / 1000
        );
        let rejected_by = Some(barrier.plugin);
        Some(Failure { rejected_by, ..Failure::fault(message.into()) })
    }
}

impl Engine {
    pub(super) fn begin_wait(&mut self, id: PlanId) {
        let Some(plan) = self.plans.get_mut(id) else { return };
        let Some(StageDraft::Wait(wait)) = plan.stages.pop_front() else { return };
        plan.waits_until = ends(&wait, &self.cluster, self.now);
        plan.waiting_since = self.now;
        plan.waiting = Some(wait);
        self.plans.waiting.insert(id);
        self.plans.untold.insert(id);
    }

    /// Returns whether the plan goes on, by the condition or by failing.
    pub(super) fn wait_is_over(&mut self, id: PlanId) -> bool {
        let Some(plan) = self.plans.get_mut(id) else { return false };
        let Some(wait) = &plan.waiting else { return true };
        let permit = plan.permits.front().copied();
        let no = |message| Failure { rejected_by: permit, ..Failure::fault(message) };
        let progress = || wait.condition.progress(&self.cluster);
        plan.failed = match moved_on(&self.cluster, plan) {
            Some(moved) => Some(moved),
            None => match guarded("in a wait", progress) {
                Ok(Progress::Reached) => None,
                Ok(Progress::Waiting) if self.now < plan.waits_until => return false,
                Ok(Progress::Waiting) => Some(no(wait.on_expiry.clone())),
                Ok(Progress::Failed(message)) => Some(no(message)),
                Err(fault) => Some(Failure::fault(fault)),
            },
        };
        plan.waiting = None;
        plan.evicting = false;
        if plan.permits.pop_front().is_some() {
            let (waited, allowed) = (self.now.since(plan.waiting_since), plan.failed.is_none());
            self.measures.permit_waits.push(PermitWait { waited, allowed });
        }
        self.plans.waiting.remove(&id);
        true
    }

    /// Returns whether the plan has failed since it is late.
    pub(super) fn gives_up_late(&mut self, id: PlanId) -> bool {
        let Some(plan) = self.plans.get_mut(id) else { return false };
        let Some(overdue) = plan.overdue(self.now) else { return false };
        plan.failed = Some(overdue);
        if plan.waiting.take().is_some() {
            self.plans.waiting.remove(&id);
        }
        true
    }

    /// Says of pods where they will be, and of others that they will be there no longer. At the end of a
    /// poll: then what is written names the version of the pod that was seen last.
    pub(super) fn tell_of_places(&mut self) {
        for id in std::mem::take(&mut self.plans.untold) {
            self.tell_of_wait(id);
        }
        for uid in std::mem::take(&mut self.plans.given_up) {
            self.clear_nomination(&uid);
        }
    }

    /// Says that the plan's pods wait, and where they will be. A pod that waits for its victims says so
    /// with its condition.
    fn tell_of_wait(&mut self, id: PlanId) {
        let Some(plan) = self.plans.get_mut(id) else { return };
        let Some(wait) = plan.waiting.as_ref().filter(|_| !plan.evicting) else { return };
        let waits = || wait.condition.progress(&self.cluster) == Progress::Waiting;
        if self.now >= plan.waits_until
            || moved_on(&self.cluster, plan).is_some()
            || guarded("in a wait", waits) != Ok(true)
        {
            return;
        }
        let event = wait.event.clone();
        let unbound = plan.placements.iter().filter(|placement| !placement.bound);
        let places: Vec<(PodRef, Text)> =
            unbound.map(|placement| (placement.pod.clone(), placement.node_name.clone())).collect();
        if let Some(event) = event
            && let Some(record) = self.cluster.pod(&event.pod.uid)
        {
            let scheduler_name = record.pod.spec.scheduler_name.clone();
            let (pod, reason, message) = (event.pod, event.reason, event.note);
            let notice = Notice::Waits { pod, scheduler_name, reason, message };
            self.out.push_back(Decision::Notice(notice));
        }
        for (pod, node) in places {
            self.say_where(id, pod, node);
        }
    }

    /// Nominates the pod on its object, unless that says so already. The plan goes on when that has its
    /// outcome: a bind that overtakes it would come too late.
    fn say_where(&mut self, id: PlanId, pod: PodRef, node: Text) {
        let Some(record) = self.cluster.pod(&pod.uid) else { return };
        let Some(plan) = self.plans.get_mut(id) else { return };
        if record.pod.nominated_node.as_ref() == Some(&node) {
            return;
        }
        let resource_version = record.pod.resource_version;
        let label = Text::from(format!("nominate-{}", pod.uid));
        plan.sent.insert(label.clone());
        let op = Op::Nominate { pod, resource_version, node };
        self.send(op, Purpose::Nominate { plan: id, label }, Urgency::Plan);
    }

    /// A nomination has its outcome. It is a hint to others: the plan goes on without it too.
    pub(super) fn nominated(&mut self, id: PlanId, label: &Text, result: WriteResult) {
        let written = match result {
            WriteResult::Done(written) => written,
            WriteResult::Stale { .. }
            | WriteResult::Refused { .. }
            | WriteResult::NotSent { .. }
            | WriteResult::Unknown { .. } => Written::default(),
        };
        self.stage_done(id, label, written);
        self.advance_plan(id);
    }

    /// Takes a nomination that came to nothing off the object, for a pod that isn't told why: its
    /// condition would do that. Source: kube-scheduler 1.35 and later.
    fn clear_nomination(&mut self, uid: &PodUid) {
        if !may_be_placed(&self.cluster, uid) || self.cluster.nomination(uid).is_some() {
            return;
        }
        let Some(record) = self.cluster.pod(uid) else { return };
        if record.pod.nominated_node.is_some() {
            let (pod, resource_version) = (record.pod.reference(), record.pod.resource_version);
            self.send_aside(Op::Nominate { pod, resource_version, node: Text::default() }, 1);
        }
    }
}

fn ends(wait: &Wait, cluster: &Cluster, begun: Timestamp) -> Timestamp {
    match wait.limit {
        Limit::Until(at) => at,
        Limit::For(span) => {
            let since = guarded("in a wait", || wait.condition.since(cluster)).ok().flatten();
            // A clock that was ahead of this one makes no wait longer.
            since.map_or(begun, |since| since.min(begun)) + span
        }
    }
}
