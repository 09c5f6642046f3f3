//! How plans end: done, or taken back.

use crate::framework::{Op, Point};

use super::decision::{Decision, Notice, PlanId, Urgency};
use super::guard::guarded;
use super::input::WriteResult;
use super::plans::{Failure, Placement, Plan, named};
use super::timing::{Code, Timing};
use super::{Engine, Purpose};

/// A write that nobody waits for is sent at most so often.
const TRIES_MAX: u32 = 3;

impl Engine {
    pub(super) fn end_done(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.remove(id) else { return };
        self.queue.finish_in_flight(plan.entry);
        // Whatever write a Bind plugin asked for, it is done.
        plan.placements.iter_mut().for_each(|placement| placement.bound = true);
        self.leave_queue(&plan);
        // Members that came while the plan was under way are next.
        if self.queue.entry(plan.entry).is_some() {
            self.admit(plan.entry);
        }
        for placement in &plan.placements {
            self.post_bind(placement);
        }
    }

    /// Takes the bound members out of the queue.
    fn leave_queue(&mut self, plan: &Plan) {
        let bound = plan.placements.iter().filter(|placement| placement.bound);
        let mut n_bound = 0;
        for placement in bound {
            self.queue.remove_pod(&placement.pod.uid);
            n_bound += 1;
        }
        self.queue.lower_min_member(plan.entry, n_bound);
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

    /// Takes back what was done, newest first, and gives back what was held.
    pub(super) fn end_failed(&mut self, id: PlanId) {
        let Some(mut plan) = self.plans.remove(id) else { return };
        while let Some((label, undo)) = plan.undo.pop() {
            if plan.done.contains(&label)
                && let Some(op) = named(&undo, &plan.names)
            {
                self.send_aside(op, 1);
            }
        }
        let mut changes = Vec::new();
        for placement in plan.placements.iter().filter(|placement| !placement.bound) {
            changes.extend(self.cluster.forget(&placement.pod.uid));
            changes.extend(self.cluster.unnominate(&placement.pod.uid));
        }
        self.leave_queue(&plan);
        let failure = plan.failed.take().unwrap_or_else(|| Failure::moved_on("".into()));
        self.plan_failed(plan.entry, &failure);
        self.after_changes(changes);
    }

    /// Sends a write that no plan waits for.
    fn send_aside(&mut self, op: Op, tries: u32) {
        self.send(op.clone(), Purpose::Aside { op, tries }, Urgency::Plan);
    }

    pub(super) fn aside_outcome(&mut self, op: Op, tries: u32, result: WriteResult) {
        let message = match result {
            WriteResult::Done(_)
            | WriteResult::Stale { .. }
            | WriteResult::Refused { code: 404, .. } => return,
            WriteResult::NotSent { .. } | WriteResult::Unknown { .. } if tries < TRIES_MAX => {
                return self.send_aside(op, tries + 1);
            }
            WriteResult::Refused { message, .. }
            | WriteResult::NotSent { message }
            | WriteResult::Unknown { message } => message,
        };
        let subject = "a write beside the plans".into();
        let message = format!("{op:?} was not carried out: {message}").into();
        self.out.push_back(Decision::Notice(Notice::Odd { subject, message }));
    }
}
