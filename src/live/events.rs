//! Kubernetes events: they trail behind binds, and the same trouble of a pod is one series.
//!
//! Source: client-go's tools/events, and kube-scheduler 1.37's recorder calls.

mod body;
mod series;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_core::types::{PodRef, Text};
use http::Method;
use k8s_openapi::jiff;
use serde::Serialize;
use tokio::sync::{Notify, Semaphore};
use tracing::{debug, warn};

use super::client::{Api, Call, SendError};
use super::dispatch::Outbox;
use super::forbidden::Forbidden;
use super::rate::TokenBucket;
use crate::wire::dialect::tree::TreeObject;
use body::Series;
use series::{Post, SeriesBook};

/// Events that may wait; further ones are dropped and counted.
const WAITING_MAX: usize = 100_000;
/// No event waits longer for binds.
const TRAIL_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether binds are still busy.
const TRAIL_LOOK: Duration = Duration::from_millis(10);
const CONCURRENCY: usize = 16;
const ANSWER: Duration = Duration::from_secs(10);
/// Source: client-go's maxTriesPerEvent; its pause is 10 s.
const TRIES_MAX: u32 = 12;
const PAUSE_MAX: Duration = Duration::from_secs(10);
const FLUSH: Duration = Duration::from_secs(10);

/// What is told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    api_version: &'static str,
    kind: &'static str,
    /// Empty for what has none.
    namespace: Text,
    name: Text,
    uid: Text,
}

impl Subject {
    pub fn node(name: Text, uid: Text) -> Subject {
        Subject::cluster_wide("v1", "Node", name, uid)
    }

    /// An object that describes a topology.
    pub fn tree(kind: TreeObject, name: Text, uid: Text) -> Subject {
        Subject::cluster_wide(kind.api_version(), kind.kind(), name, uid)
    }

    fn cluster_wide(
        api_version: &'static str,
        kind: &'static str,
        name: Text,
        uid: Text,
    ) -> Subject {
        Subject { api_version, kind, namespace: Text::default(), name, uid }
    }
}

impl From<PodRef> for Subject {
    fn from(pod: PodRef) -> Subject {
        let api_version = "v1";
        Subject {
            api_version,
            kind: "Pod",
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid.0,
        }
    }
}

/// Something to tell of an object.
#[derive(Clone, Debug)]
pub struct Happening {
    pub subject: Subject,
    pub scheduler_name: Text,
    pub what: What,
    pub note: Text,
    pub at: jiff::Timestamp,
    pub noted: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Scheduled,
    FailedScheduling,
    /// With its reason.
    Waits(&'static str),
    BelowMinimum,
    InvalidGpuTopology,
    InvalidTopology,
    BoundByAnother,
}

impl Happening {
    pub fn scheduled(pod: PodRef, scheduler_name: Text, node: &Text) -> Happening {
        let note = format!("Successfully assigned {pod} to {node}");
        Happening::new(pod, scheduler_name, What::Scheduled, note.into())
    }

    pub fn failed(pod: PodRef, scheduler_name: Text, message: Text) -> Happening {
        Happening::new(pod, scheduler_name, What::FailedScheduling, message)
    }

    pub fn waits(
        pod: PodRef,
        scheduler_name: Text,
        reason: &'static str,
        message: Text,
    ) -> Happening {
        Happening::new(pod, scheduler_name, What::Waits(reason), message)
    }

    pub fn below_minimum(pod: PodRef, scheduler_name: Text, message: Text) -> Happening {
        Happening::new(pod, scheduler_name, What::BelowMinimum, message)
    }

    /// Somebody else has bound a pod of ours.
    pub fn bound_by_another(pod: PodRef, scheduler_name: Text, node: &Text) -> Happening {
        let note = format!(
            "Bound to {node} by somebody else: is another scheduler of the name {scheduler_name} installed?"
        );
        Happening::new(pod, scheduler_name, What::BoundByAnother, note.into())
    }

    /// What a node says of its GPUs can't be understood.
    pub fn invalid_gpu_topology(node: Subject, scheduler_name: Text, problem: Text) -> Happening {
        Happening::new(node, scheduler_name, What::InvalidGpuTopology, problem)
    }

    /// What an object says of a topology can't be understood, or contradicts others.
    pub fn invalid_topology(tree: Subject, scheduler_name: Text, problem: Text) -> Happening {
        Happening::new(tree, scheduler_name, What::InvalidTopology, problem)
    }

    fn new(subject: impl Into<Subject>, scheduler_name: Text, what: What, note: Text) -> Happening {
        let (at, noted) = (jiff::Timestamp::now(), Instant::now());
        Happening { subject: subject.into(), scheduler_name, what, note, at, noted }
    }
}

/// What waits to be told. The engine's thread and watches put in, one task takes out.
#[derive(Default)]
pub struct EventQueue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Happening>,
    dropped: u64,
    dropped_told: u64,
    under_way: usize,
}

impl EventQueue {
    /// Puts an event in, or drops it if too many wait.
    pub fn push(&self, happening: Happening) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.waiting.len() < WAITING_MAX {
            inner.waiting.push_back(happening);
        } else {
            inner.dropped += 1;
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Waits until everything is sent, at most for `limit`.
    pub async fn flushed(&self, limit: Duration) {
        let ends = Instant::now() + limit;
        while self.left() > 0 && Instant::now() < ends {
            tokio::time::sleep(TRAIL_LOOK).await;
        }
        let left = self.left();
        if left > 0 {
            warn!(events = left, "ending with events that were not sent");
        }
    }

    fn left(&self) -> usize {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waiting.len() + inner.under_way
    }

    /// Returns how many wait or are being sent, and how many were dropped so far.
    pub fn counts(&self) -> (usize, u64) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.waiting.len() + inner.under_way, inner.dropped)
    }

    async fn next(&self) -> Happening {
        loop {
            let changed = self.changed.notified();
            {
                let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(happening) = inner.waiting.pop_front() {
                    inner.under_way += 1;
                    return happening;
                }
            }
            changed.await;
        }
    }

    fn ended(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.under_way = inner.under_way.saturating_sub(1);
    }

    /// Says how many were dropped, if more were since the last time.
    fn tell_dropped(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.dropped > inner.dropped_told {
            warn!(
                dropped = inner.dropped - inner.dropped_told,
                total = inner.dropped,
                "events dropped: {WAITING_MAX} wait already"
            );
            inner.dropped_told = inner.dropped;
        }
    }
}

/// Sends events, with a rate limit of their own.
#[derive(Clone)]
pub struct EventSender {
    pub api: Api,
    pub rate: Arc<TokenBucket>,
    pub queue: Arc<EventQueue>,
    pub outbox: Arc<Outbox>,
    pub forbidden: Arc<Forbidden>,
    pub hostname: String,
    /// How long the server may work on one.
    pub timeout: Duration,
}

impl EventSender {
    /// Runs until the runtime ends.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(CONCURRENCY));
        let mut book = SeriesBook::default();
        let mut flush = tokio::time::interval(FLUSH);
        loop {
            tokio::select! {
                happening = self.queue.next() => {
                    self.let_binds_go_first(&happening).await;
                    match book.note(&happening, &self.hostname, Instant::now()) {
                        Some(post) => self.send(&places, post, true).await,
                        None => self.queue.ended(),
                    }
                }
                _ = flush.tick() => {
                    self.queue.tell_dropped();
                    for post in book.due(Instant::now()) {
                        self.send(&places, post, false).await;
                    }
                }
            }
        }
    }

    async fn let_binds_go_first(&self, happening: &Happening) {
        while self.outbox.plans_busy() && happening.noted.elapsed() < TRAIL_MAX {
            tokio::time::sleep(TRAIL_LOOK).await;
        }
    }

    /// Sends in the background once there is a place and a token.
    async fn send(&self, places: &Arc<Semaphore>, post: Post, counted: bool) {
        let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
        let waited = self.rate.take().await;
        let sender = self.clone();
        tokio::spawn(async move {
            sender.deliver(post, waited).await;
            if counted {
                sender.queue.ended();
            }
            drop(place);
        });
    }

    async fn deliver(&self, post: Post, mut waited: Duration) {
        let mut creates = post.patch.is_none();
        for tries in 0..TRIES_MAX {
            if tries > 0 {
                let pause = Duration::from_secs(1 << (tries - 1).min(4)).min(PAUSE_MAX);
                tokio::time::sleep(pause).await;
                waited = self.rate.take().await;
            }
            let call = call(&post, creates, self.timeout);
            self.api.rate_limited(&call.method, waited);
            match self.api.call(&call, ANSWER).await {
                Ok(answer) if answer.status.is_success() => return,
                // It has been forgotten since; tell it as a new one.
                Ok(answer) if answer.status.as_u16() == 404 && !creates => creates = true,
                Ok(answer) if matches!(answer.status.as_u16(), 429 | 500..=599) => {
                    debug!(status = %answer.status, "event not taken");
                }
                Ok(answer) => {
                    let failure = answer.failure();
                    // The namesake is the event itself, whose first answer was lost.
                    match failure.code {
                        409 => {}
                        403 => self.forbidden.tell("write events", &failure.message),
                        code => debug!(code, "event refused: {}", failure.message),
                    }
                    return;
                }
                Err(SendError::NotSent(problem) | SendError::Lost(problem)) => {
                    debug!("event not sent: {problem}");
                }
            }
        }
    }
}

fn call(post: &Post, creates: bool, timeout: Duration) -> Call {
    let timeout = format!("timeout={}ms", timeout.as_millis());
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", post.namespace);
    match &post.patch {
        Some(patch) if !creates => Call {
            method: Method::PATCH,
            path: format!("{events}/{}?{timeout}", post.name),
            body: Some(("application/merge-patch+json", written(&Patch { series: patch }))),
        },
        Some(_) | None => Call {
            method: Method::POST,
            path: format!("{events}?{timeout}"),
            body: Some(("application/json", written(&post.body))),
        },
    }
}

#[derive(Serialize)]
struct Patch<'a> {
    series: &'a Series,
}

fn written(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("plain structs of texts and numbers")
}

/// One of each request that is sent.
#[cfg(test)]
pub(super) fn samples() -> Vec<Call> {
    let happening = Happening::failed(PodRef::default(), "s".into(), "m".into());
    let mut book = SeriesBook::default();
    let post = book.note(&happening, "host", Instant::now());
    let post = post.expect("the first of its kind");
    let series = body::series(2, jiff::Timestamp::UNIX_EPOCH);
    let patch = Post { patch: Some(series), ..post.clone() };
    [(post, true), (patch, false)].map(|(post, creates)| call(&post, creates, ANSWER)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_are_dropped_and_counted() {
        let queue = EventQueue::default();
        let happening = Happening::failed(PodRef::default(), "s".into(), "m".into());
        for _ in 0..WAITING_MAX + 7 {
            queue.push(happening.clone());
        }
        assert_eq!(queue.left(), WAITING_MAX);
        assert_eq!(queue.inner.lock().unwrap().dropped, 7);
    }
}
