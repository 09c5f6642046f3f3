//! Binds whose answer was lost, settled in three steps (promise 2).
//!
//! 1. Wait until the bind's `?timeout` has passed: the server has given it up by then.
//! 2. Read the pod without resourceVersion.
//! 3. If it is unbound, patch its status at the version read, so that an older proposal still
//!    inside the store can no longer commit.
//!
//! Only then is the capacity released. A 409 is no answer either: the server says it also when its
//! store breaks in mid-commit. A bind names the version that it was decided on: if the pod read has
//! another, it can't be committed any more, wherever it is, and the rest is left out.

use std::collections::BTreeMap;

use crate::framework::Op;
use crate::types::{PodRef, PodUid, Span, Text, Timestamp};

use super::decision::{PlanId, Urgency, WriteId};
use super::input::{PodRead, WriteResult};
use super::plans::Failure;
use super::{Engine, Purpose};

/// A read or fence that failed is tried again so much later.
const RETRY: Span = Span::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Settlements {
    /// Binds that are sent and have no outcome yet.
    sent: BTreeMap<WriteId, Bind>,
    open: BTreeMap<WriteId, Settlement>,
    /// The bind of a pod, sent or open.
    of_pod: BTreeMap<PodUid, WriteId>,
}

/// What a bind was sent with.
#[derive(Clone, Debug)]
pub(super) struct BindTarget {
    pub(super) pod: PodRef,
    pub(super) node: Text,
    pub(super) resource_version: u64,
}

#[derive(Clone, Debug)]
struct Bind {
    plan: PlanId,
    label: Text,
    pod: PodRef,
    node: Text,
    /// 0: it may be committed at any version.
    resource_version: u64,
}

impl Bind {
    /// Tells whether the pod has changed since, so that the bind can't be committed any more.
    fn overtaken(&self, by: u64) -> bool {
        self.resource_version != 0 && by != self.resource_version
    }
}

#[derive(Debug)]
struct Settlement {
    bind: Bind,
    /// Before this the bind may still be under way inside the server.
    given_up: Timestamp,
    step: Step,
    why: Text,
}

#[derive(Debug, PartialEq)]
enum Step {
    Wait(Timestamp),
    Read,
    Fence,
}

impl Settlements {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn sent(&mut self, id: WriteId, plan: PlanId, label: Text, target: BindTarget) {
        let BindTarget { pod, node, resource_version } = target;
        self.of_pod.insert(pod.uid.clone(), id);
        self.sent.insert(id, Bind { plan, label, pod, node, resource_version });
    }

    fn take_sent(&mut self, id: WriteId) -> Option<Bind> {
        let bind = self.sent.remove(&id)?;
        self.of_pod.remove(&bind.pod.uid);
        Some(bind)
    }

    fn take_open(&mut self, id: WriteId) -> Option<Settlement> {
        let settlement = self.open.remove(&id)?;
        self.of_pod.remove(&settlement.bind.pod.uid);
        Some(settlement)
    }

    pub(super) fn next_wakeup(&self) -> Option<(Timestamp, &'static str)> {
        let waits = self.open.values().filter_map(|settlement| match settlement.step {
            Step::Wait(until) => Some((until, "an unconfirmed bind is looked up")),
            Step::Read | Step::Fence => None,
        });
        waits.min()
    }
}

impl Engine {
    /// A bind has its first outcome. Returns the result if the write is no bind.
    pub(super) fn bind_outcome(
        &mut self,
        write: WriteId,
        result: WriteResult,
    ) -> Result<(), WriteResult> {
        let Some(bind) = self.settlements.take_sent(write) else { return Err(result) };
        match result {
            WriteResult::Done(_) => {
                self.bind_done(bind.plan, &bind.label, &bind.pod, &bind.node);
            }
            WriteResult::NotSent { message } => {
                self.bind_failed(bind.plan, &bind.label, Failure::fault(message));
            }
            WriteResult::Refused { code, message } => {
                if code != 404 {
                    self.note_refused(&bind.pod.uid, &bind.node);
                }
                let message = Text::from(format!("binding rejected: {message}"));
                let failure = Failure { moved_on: code == 404, ..Failure::fault(message) };
                self.bind_failed(bind.plan, &bind.label, failure);
            }
            WriteResult::Stale { message } if self.setup.bug("stale-is-no") => {
                self.bind_failed(bind.plan, &bind.label, Failure::fault(message));
            }
            WriteResult::Unknown { message } if self.setup.bug("forget-unknown-bind") => {
                self.bind_failed(bind.plan, &bind.label, Failure::fault(message));
            }
            WriteResult::Stale { message } => self.settle(write, bind, message, Step::Read),
            WriteResult::Unknown { message } => {
                let until = self.now + self.setup.limits.write_timeout;
                self.settle(write, bind, message, Step::Wait(until));
            }
        }
        Ok(())
    }

    fn settle(&mut self, write: WriteId, bind: Bind, why: Text, step: Step) {
        let given_up = self.now + self.setup.limits.write_timeout;
        let reads = step == Step::Read;
        self.settlements.of_pod.insert(bind.pod.uid.clone(), write);
        self.settlements.open.insert(write, Settlement { bind, given_up, step, why });
        if reads {
            self.read(write);
        }
    }

    pub(super) fn advance_settlements(&mut self) {
        let now = self.now;
        let due = |s: &Settlement| matches!(s.step, Step::Wait(until) if until <= now);
        let open = self.settlements.open.iter();
        let ids: Vec<WriteId> = open.filter(|(_, s)| due(s)).map(|(id, _)| *id).collect();
        for id in ids {
            self.read(id);
        }
    }

    fn read(&mut self, id: WriteId) {
        let Some(settlement) = self.settlements.open.get_mut(&id) else { return };
        settlement.step = Step::Read;
        let pod = settlement.bind.pod.clone();
        self.send(Op::ReadPod { pod }, Purpose::Settle { bind: id }, Urgency::Plan);
    }

    fn read_later(&mut self, id: WriteId, at: Timestamp) {
        if let Some(settlement) = self.settlements.open.get_mut(&id) {
            settlement.step = Step::Wait(at);
        }
    }

    /// A read or fence of a settlement has its outcome.
    pub(super) fn settle_outcome(&mut self, id: WriteId, result: WriteResult) {
        let Some(settlement) = self.settlements.open.get(&id) else { return };
        let later = self.now + RETRY;
        match (&settlement.step, result) {
            (Step::Read, WriteResult::Done(written)) => match written.pod {
                Some(read) => self.settle_read(id, read),
                None => self.read_later(id, later),
            },
            (Step::Fence, WriteResult::Done(_)) => self.unbound(id),
            // The pod has moved on between read and fence: perhaps by the bind itself.
            (Step::Fence, WriteResult::Stale { .. }) => self.read(id),
            (_, WriteResult::Refused { code: 404, .. }) => self.settled_gone(id),
            (Step::Wait(_), _) => {}
            (
                Step::Read | Step::Fence,
                WriteResult::Stale { .. }
                | WriteResult::Refused { .. }
                | WriteResult::NotSent { .. }
                | WriteResult::Unknown { .. },
            ) => self.read_later(id, later),
        }
    }

    fn settle_read(&mut self, id: WriteId, read: PodRead) {
        let Some(settlement) = self.settlements.open.get_mut(&id) else { return };
        match read {
            PodRead::Gone => self.settled_gone(id),
            PodRead::BoundTo { node } => self.settled_bound(id, &node),
            PodRead::Unbound { resource_version }
                if settlement.bind.overtaken(resource_version) =>
            {
                self.unbound(id);
            }
            PodRead::Unbound { .. } if self.now < settlement.given_up => {
                settlement.step = Step::Wait(settlement.given_up);
            }
            PodRead::Unbound { .. } if self.setup.bug("no-fence") => self.unbound(id),
            PodRead::Unbound { resource_version } => {
                settlement.step = Step::Fence;
                let (pod, node) = (settlement.bind.pod.clone(), settlement.bind.node.clone());
                let op = Op::Fence { pod, resource_version, node };
                self.send(op, Purpose::Settle { bind: id }, Urgency::Plan);
            }
        }
    }

    fn settled_bound(&mut self, id: WriteId, node: &Text) {
        let Some(Settlement { bind, .. }) = self.settlements.take_open(id) else { return };
        if bind.node == *node {
            self.bind_done(bind.plan, &bind.label, &bind.pod, &bind.node);
        } else {
            let message = Text::from(format!("pod {} is bound to {node} by another", bind.pod));
            self.bind_failed(bind.plan, &bind.label, Failure::moved_on(message));
        }
    }

    fn settled_gone(&mut self, id: WriteId) {
        let Some(Settlement { bind, .. }) = self.settlements.take_open(id) else { return };
        let message = Text::from(format!("pod {} is gone", bind.pod));
        self.bind_failed(bind.plan, &bind.label, Failure::moved_on(message));
    }

    fn unbound(&mut self, id: WriteId) {
        let Some(Settlement { bind, why, .. }) = self.settlements.take_open(id) else { return };
        let message = Text::from(format!("the bind to {} was lost: {why}", bind.node));
        self.bind_failed(bind.plan, &bind.label, Failure::fault(message));
    }

    /// The watch says where a pod is: whatever was open about its bind is settled.
    pub(super) fn settle_seen(&mut self, uid: &PodUid, node: Option<&Text>) {
        let Some(id) = self.settlements.of_pod.get(uid).copied() else { return };
        if self.settlements.open.contains_key(&id) {
            match node {
                Some(node) => self.settled_bound(id, node),
                None => self.settled_gone(id),
            }
        } else if let Some(bind) = self.settlements.take_sent(id) {
            self.purposes.remove(&id);
            self.seen_before_answer(bind, node);
        }
    }

    fn seen_before_answer(&mut self, bind: Bind, node: Option<&Text>) {
        if node == Some(&bind.node) {
            self.bind_done(bind.plan, &bind.label, &bind.pod, &bind.node);
        } else {
            let message = Text::from(format!("pod {} has moved on", bind.pod));
            self.bind_failed(bind.plan, &bind.label, Failure::moved_on(message));
        }
    }
}
