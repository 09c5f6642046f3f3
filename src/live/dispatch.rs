//! Carries out writes: binds and what belongs to plans first, then conditions.
//!
//! Many are under way at a time, each is sent once, and each gets one outcome.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_core::engine::{Input, Urgency, Write, WriteId, WriteResult};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::types::Text;
use k8s_openapi::jiff;
use tokio::sync::{Notify, Semaphore};
use tracing::{debug, trace};

use super::client::Api;
use super::dialects::Dialects;
use super::forbidden::Forbidden;
use super::outcome::{self, Next};
use super::rate::TokenBucket;
use super::request::{self, About};
use crate::wire::Tables;

/// Connections that writes may use at a time.
const CONCURRENCY: usize = 32;
/// While plans' writes keep coming, every so many-th place is a condition's.
const STATUS_SHARE: u32 = 8;
/// After the server has given a write up, its answer may still be on its way.
const GRACE: Duration = Duration::from_secs(5);
const TRIES_MAX: u32 = 10;
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// A write and what the ledger knew of its pod.
#[derive(Clone, Debug)]
pub struct Job {
    pub write: Write,
    pub about: About,
}

/// What waits to be sent. The engine's thread puts in, one task takes out.
#[derive(Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    /// By their order; those of one order as they came.
    plans: BTreeMap<(u64, WriteId), Job>,
    statuses: VecDeque<Job>,
    /// The nodes of binds that the server was too full for, and that are to be sent again.
    put_off: BTreeMap<WriteId, Text>,
    plans_under_way: usize,
    plans_in_a_row: u32,
}

impl Outbox {
    pub fn push(&self, job: Job) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match job.write.urgency {
            Urgency::Plan => {
                waiting.plans.insert((job.write.order, job.write.id), job);
            }
            Urgency::Status => waiting.statuses.push_back(job),
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Returns how many writes of plans wait, and how many conditions.
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        (waiting.plans.len(), waiting.statuses.len())
    }

    /// Tells whether writes of plans wait or are under way.
    pub fn plans_busy(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.plans_under_way > 0 || !waiting.plans.is_empty()
    }

    /// Tells whether so many writes of plans are under way that one more is nothing to hurry for.
    pub fn crowded(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.plans_under_way >= CONCURRENCY / 2
    }

    /// Tells whether there may be binds to take back.
    pub fn binds_wait(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        !waiting.plans.is_empty() || !waiting.put_off.is_empty()
    }

    /// Takes out the binds to chosen nodes that are still to be sent. They get no outcome.
    pub fn take_back_binds(&self, chosen: impl Fn(&Text) -> bool) -> Vec<WriteId> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = Vec::new();
        waiting.plans.retain(|_, job| {
            let taken = target(&job.write).is_some_and(&chosen);
            ids.extend(taken.then_some(job.write.id));
            !taken
        });
        waiting.put_off.retain(|id, node| {
            let taken = chosen(node);
            ids.extend(taken.then_some(*id));
            !taken
        });
        ids
    }

    /// The server is too full for a write, and it is to be sent again.
    fn put_off(&self, write: &Write) {
        let Some(node) = target(write).cloned() else { return };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.put_off.insert(write.id, node);
    }

    /// Tells whether a write that was put off may be sent: it was not taken back meanwhile.
    fn resume(&self, write: &Write) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        target(write).is_none() || waiting.put_off.remove(&write.id).is_some()
    }

    async fn ready(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn is_empty(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.plans.is_empty() && waiting.statuses.is_empty()
    }

    fn pop(&self) -> Option<Job> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn plan_ended(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.plans_under_way = waiting.plans_under_way.saturating_sub(1);
    }
}

/// Returns the node of a bind.
fn target(write: &Write) -> Option<&Text> {
    match &write.op {
        Op::Bind { node, .. } => Some(node),
        Op::TryBind { .. }
        | Op::SetDisruption { .. }
        | Op::TellGroup { .. }
        | Op::ReadPod { .. }
        | Op::Fence { .. }
        | Op::SetCondition { .. }
        | Op::Nominate { .. }
        | Op::DeletePod { .. }
        | Op::Claim { .. }
        | Op::Create { .. }
        | Op::Patch { .. }
        | Op::Delete { .. } => None,
    }
}

/// Returns what an operation needs a right for; none for conditions, of which the engine tells.
fn wanted(op: &Op) -> Option<&'static str> {
    match op {
        Op::Bind { .. } | Op::TryBind { .. } => Some("bind pods"),
        Op::ReadPod { .. } => Some("read pods"),
        Op::Fence { .. } => Some("make sure that a lost bind stays lost"),
        Op::SetCondition { .. } | Op::TellGroup { .. } | Op::SetDisruption { .. } => None,
        Op::Nominate { .. } => Some("say where pods that wait will be"),
        Op::DeletePod { .. } => Some("delete pods"),
        Op::Claim { write: ClaimWrite::Read, .. } => Some("read resource claims"),
        Op::Claim { .. } => Some("allocate devices to resource claims"),
        Op::Create { .. } | Op::Patch { .. } | Op::Delete { .. } => Some("write for a plugin"),
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Job> {
        if self.plans_in_a_row >= STATUS_SHARE - 1 || self.plans.is_empty() {
            self.plans_in_a_row = 0;
            if let Some(job) = self.statuses.pop_front() {
                return Some(job);
            }
        }
        let (_, job) = self.plans.pop_first()?;
        self.plans_in_a_row += 1;
        self.plans_under_way += 1;
        Some(job)
    }
}

/// Sends what waits in the outbox.
#[derive(Clone)]
pub struct Dispatcher {
    pub api: Api,
    pub rate: Arc<TokenBucket>,
    pub outbox: Arc<Outbox>,
    pub sink: Sender<Input>,
    pub forbidden: Arc<Forbidden>,
    /// Those of the watches: claims come by both ways.
    pub tables: Arc<Mutex<Tables>>,
    /// Where the status of groups is written.
    pub dialects: Dialects,
}

impl Dispatcher {
    /// Runs until the runtime ends.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(CONCURRENCY));
        loop {
            self.outbox.ready().await;
            // Both before choosing, so that a bind that comes meanwhile goes first.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let waited = self.rate.take().await;
            let Some(job) = self.outbox.pop() else { continue };
            let dispatcher = self.clone();
            tokio::spawn(async move {
                dispatcher.carry_out(job, waited).await;
                drop(place);
            });
        }
    }

    async fn carry_out(&self, job: Job, waited: Duration) {
        let (id, urgency) = (job.write.id, job.write.urgency);
        if let Some(result) = self.result(&job, waited).await {
            self.api.metrics().written(&job.write.op, &result);
            trace!(write = id.0, ?result, "outcome");
            if let WriteResult::Refused { code: 403, message } = &result
                && let Some(wanted) = wanted(&job.write.op)
            {
                self.forbidden.tell(wanted, message);
            }
            self.report(id, result);
        }
        if urgency == Urgency::Plan {
            self.outbox.plan_ended();
        }
    }

    fn report(&self, write: WriteId, result: WriteResult) {
        // Nobody listens only while the program ends.
        let _ = self.sink.send(Input::Outcome { write, result });
    }

    /// None if it was taken back.
    async fn result(&self, job: &Job, mut waited: Duration) -> Option<WriteResult> {
        let write = &job.write;
        let limit = Duration::from_millis(write.timeout.as_millis()) + GRACE;
        let mut tries = 0;
        loop {
            let now = jiff::Timestamp::now();
            let call = request::call(&write.op, write.timeout, job.about, now, &self.dialects);
            let call = match call {
                Ok(call) => call,
                Err(message) => return Some(WriteResult::NotSent { message: message.into() }),
            };
            self.api.rate_limited(&call.method, waited);
            let answer = self.api.call(&call, limit).await;
            match outcome::judge(&write.op, answer, &self.tables) {
                Next::Report(result) => return Some(result),
                Next::Again(after, message) => {
                    tries += 1;
                    if tries == TRIES_MAX {
                        return Some(WriteResult::NotSent { message: message.into() });
                    }
                    debug!(write = write.id.0, %message, ?after, "the server is full");
                    self.outbox.put_off(write);
                    tokio::time::sleep(after.min(RETRY_AFTER_MAX)).await;
                    waited = self.rate.take().await;
                    if !self.outbox.resume(write) {
                        return None;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::{PodRef, Span};

    fn job(id: u64, urgency: Urgency) -> Job {
        let op = Op::ReadPod { pod: PodRef::default() };
        let (timeout, order) = (Span::from_secs(5), id);
        let write = Write { id: WriteId(id), op, timeout, urgency, order };
        Job { write, about: About::default() }
    }

    #[test]
    fn plans_go_first_and_conditions_are_not_forgotten() {
        let outbox = Outbox::default();
        for id in 0..10 {
            outbox.push(job(100 + id, Urgency::Status));
        }
        for id in 0..16 {
            outbox.push(job(id, Urgency::Plan));
        }
        assert!(outbox.plans_busy());
        let order: Vec<u64> =
            std::iter::from_fn(|| outbox.pop()).map(|job| job.write.id.0).collect();
        let early = order.iter().take(16).filter(|id| **id >= 100).count();
        assert_eq!((order.len(), early, order[0]), (26, 2, 0));
        (0..16).for_each(|_| outbox.plan_ended());
        assert!(!outbox.plans_busy());
    }

    #[test]
    fn what_was_begun_is_ended_before_more_is_begun() {
        let outbox = Outbox::default();
        let of_plan = |id: u64, order: u64| {
            let Job { write, about } = job(id, Urgency::Plan);
            Job { write: Write { order, ..write }, about }
        };
        for (id, plan) in [(2, 1), (4, 3), (6, 5)] {
            outbox.push(of_plan(id, plan));
        }
        let mut sent = Vec::from([outbox.pop().map(|job| job.write.id.0)]);
        outbox.push(of_plan(7, 1));
        sent.extend((0..3).map(|_| outbox.pop().map(|job| job.write.id.0)));
        assert_eq!(sent, [Some(2), Some(7), Some(4), Some(6)]);
    }

    #[test]
    fn binds_that_wait_or_were_put_off_are_taken_back_by_their_node() {
        let outbox = Outbox::default();
        let bind = |id: u64, node: &str| {
            let op = Op::Bind {
                pod: PodRef::default(),
                node: node.into(),
                resource_version: 0,
                plan: None,
                gpus: None,
            };
            let Job { write, about } = job(id, Urgency::Plan);
            Job { write: Write { op, ..write }, about }
        };
        for (id, node) in [(1, "a"), (2, "b"), (3, "a"), (4, "a")] {
            outbox.push(bind(id, node));
        }
        outbox.push(job(5, Urgency::Plan));
        let (first, second) = (outbox.pop().unwrap(), outbox.pop().unwrap());
        outbox.put_off(&first.write);
        outbox.put_off(&second.write);
        let taken = outbox.take_back_binds(|node| node.as_str() == "a");
        assert_eq!(taken, [3, 4, 1].map(WriteId));
        assert!(!outbox.resume(&first.write) && outbox.resume(&second.write));
        assert_eq!(outbox.pop().map(|job| job.write.id), Some(WriteId(5)));
        assert!(!outbox.binds_wait());
    }
}
