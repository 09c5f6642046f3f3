//! The election in real time: requests for the Lease, a watch of it, and what follows from winning.
//!
//! Its requests have a client of their own and no rate limit, so they never wait behind others.

pub(in crate::live) mod look;

use std::future;
use std::sync::mpsc::Sender;
use std::time::Duration;

use berth_core::engine::Input;
use k8s_openapi::jiff;
use tokio::sync::{oneshot, watch};
use tracing::{debug, info, warn};

use super::announce;
use super::moment::Moment;
use super::record::{self, Draft, Record};
use super::{Action, Election, Elector, Leadership, Observation, Rules};
use crate::live::client::{Answer, Api, Call, SendError};
use crate::live::complaint::{self, Complaint};
use crate::live::planted;

/// The pseudo-kind that the engine waits for as for a watch: synced while we may write.
pub const KIND: &str = "lease";
const RELEASE_TRIES: u32 = 3;

/// How an election ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We led and no longer do.
    Lost(String),
    /// We were asked to.
    Resigned,
}

/// Runs for the Lease, and keeps it.
pub struct Campaign {
    api: Api,
    rules: Rules,
    leadership: Leadership,
    /// In whose name events are told: the first profile's.
    component: String,
    /// True from when we may write on.
    led: watch::Sender<bool>,
    sink: Sender<Input>,
    /// The holder that was told last.
    holder: Option<String>,
    complaint: Complaint,
}

impl Campaign {
    /// `api` is used for nothing else.
    pub fn new(
        api: Api,
        election: &Election,
        component: String,
        led: watch::Sender<bool>,
        sink: Sender<Input>,
    ) -> Campaign {
        let (rules, leadership) = (election.rules.clone(), election.leadership.clone());
        api.metrics().set_leader(&rules.name, false);
        let complaint = Complaint::default();
        Campaign { api, rules, leadership, component, led, sink, holder: None, complaint }
    }

    /// Runs until the Lease is lost, or until `resign` says so: then it is released if the drain
    /// was clean, which is what `resign` carries.
    pub async fn run(mut self, mut resign: oneshot::Receiver<bool>) -> Ended {
        let identity = self.leadership.identity().to_owned();
        info!(lease = %self.shown(), %identity, "running for the Lease");
        let mut elector = Elector::new(self.rules.clone(), identity);
        let (tell, mut changes) = watch::channel(String::new());
        let look = look::look(self.api.clone(), self.rules.clone(), tell);
        let mut look = std::pin::pin!(look);
        let mut observation = Observation::Time;
        loop {
            let action = elector.step(Moment::now(), observation);
            self.publish(&elector);
            observation = match action {
                Action::Lost(why) => {
                    self.leadership.set_writes(false);
                    planted::lingers().await;
                    return Ended::Lost(why);
                }
                Action::Read => self.read(&elector).await,
                Action::Write(draft) => self.write(&elector, &draft).await,
                Action::Wait(span) => tokio::select! {
                    biased;
                    clean = &mut resign => {
                        self.resign(elector, clean.unwrap_or(false)).await;
                        return Ended::Resigned;
                    }
                    () = tokio::time::sleep(self.pause(&elector, span)) => Observation::Time,
                    () = changed(&mut changes, elector.record()) => Observation::Changed,
                    never = &mut look => match never {},
                },
            };
        }
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.rules.namespace, self.rules.name)
    }

    /// Tells the others how it stands.
    fn publish(&mut self, elector: &Elector) {
        self.leadership.set_renewed(elector.renewed());
        if let Some(record) = elector.record() {
            self.leadership.set_transitions(record.transitions);
            self.tell_holder(record);
        }
        let waits = !elector.fence_left(Moment::now()).is_zero();
        if elector.renewed().is_none() || waits || *self.led.borrow() {
            return;
        }
        info!(lease = %self.shown(), "leading");
        self.leadership.set_writes(true);
        self.led.send_replace(true);
        if let Some(event) = self.event(elector, "became leader") {
            tokio::spawn(announce::tell(self.api.clone(), event));
        }
        self.api.metrics().set_leader(&self.rules.name, true);
        // Nobody listens only while the program ends.
        let _ = self.sink.send(Input::Watch { kind: KIND.into(), synced: true });
    }

    fn event(&self, elector: &Elector, what: &str) -> Option<Call> {
        let message = format!("{} {what}", self.leadership.identity());
        let now = jiff::Timestamp::now();
        let of = |lease| announce::call(&self.rules, lease, &self.component, &message, now);
        elector.record().map(of)
    }

    fn tell_holder(&mut self, record: &Record) {
        if self.holder.as_ref() != Some(&record.holder) {
            info!(lease = %self.shown(), holder = %record.holder, "the Lease has a holder");
            self.holder = Some(record.holder.clone());
        }
    }

    /// A new leader looks up when the fence ends. Standbys are spread a little.
    fn pause(&self, elector: &Elector, span: Duration) -> Duration {
        if elector.renewed().is_none() {
            return span + self.rules.retry_period.mul_f64(look::unit() / 10.0);
        }
        match elector.fence_left(Moment::now()) {
            Duration::ZERO => span,
            left => span.min(left),
        }
    }

    /// Gives the Lease up, unless a write may still be under way: then it must expire by itself.
    async fn resign(&mut self, mut elector: Elector, clean: bool) {
        let wrote = self.leadership.may_write();
        self.leadership.set_writes(false);
        self.api.metrics().set_leader(&self.rules.name, false);
        if elector.renewed().is_none() {
            return;
        }
        if !self.leadership.settled(self.rules.write_timeout()).await || !clean || !wrote {
            warn!(lease = %self.shown(), "writes may be under way: the Lease is left to expire");
            return;
        }
        if let Some(event) = self.event(&elector, "stopped leading") {
            announce::tell(self.api.clone(), event).await;
        }
        let mut draft = elector.release(Moment::now());
        for _ in 0..RELEASE_TRIES {
            let Some(release) = draft else { return };
            if let Observation::Written(_) = self.write(&elector, &release).await {
                info!(lease = %self.shown(), "released");
                return;
            }
            draft = match self.read(&elector).await {
                Observation::Seen(record) if record.holder == self.leadership.identity() => {
                    Some(Draft::release(record))
                }
                _ => None,
            };
        }
    }

    async fn read(&mut self, elector: &Elector) -> Observation {
        let timeout = self.patience(elector);
        match self.send(&record::read_call(&self.rules, timeout), timeout).await {
            Some(answer) if answer.status.as_u16() == 404 => Observation::Absent,
            Some(answer) => self.taken(&answer).map_or(Observation::Failed, Observation::Seen),
            None => Observation::Failed,
        }
    }

    async fn write(&mut self, elector: &Elector, draft: &Draft) -> Observation {
        let timeout = self.patience(elector);
        let call = draft.call(&self.rules, jiff::Timestamp::now(), timeout);
        match self.send(&call, timeout).await {
            Some(answer) => self.taken(&answer).map_or(Observation::Failed, Observation::Written),
            None => Observation::Failed,
        }
    }

    /// Source: kube-scheduler's client for Leases gives a request half the renewDeadline.
    fn patience(&self, elector: &Elector) -> Duration {
        let half = self.rules.renew_deadline / 2;
        elector.time_left(Moment::now()).map_or(half, |left| left.min(half))
    }

    async fn send(&mut self, call: &Call, timeout: Duration) -> Option<Answer> {
        match self.api.call(call, timeout).await {
            Ok(answer) => Some(answer),
            Err(SendError::NotSent(problem) | SendError::Lost(problem)) => {
                self.complain(&problem);
                None
            }
        }
    }

    /// Returns the Lease that an answer brings.
    fn taken(&mut self, answer: &Answer) -> Option<Record> {
        if answer.status.is_success() {
            self.complaint.ended();
            let object = serde_json::from_slice(&answer.body).ok();
            return object.and_then(Record::read);
        }
        let failure = answer.failure();
        match failure.code {
            // Another was faster.
            409 => debug!("Lease not written: {}", failure.message),
            _ => self.complain(&failure.message),
        }
        None
    }

    fn complain(&mut self, problem: &str) {
        if self.complaint.is_due(complaint::TELL_AGAIN) {
            warn!(lease = %self.shown(), "can't read or write the Lease, trying on: {problem}");
        }
    }
}

/// Waits until the Lease has another version than the one known.
async fn changed(changes: &mut watch::Receiver<String>, known: Option<&Record>) {
    let known = known.map(|record| record.version.as_str()).unwrap_or_default();
    while changes.changed().await.is_ok() {
        if *changes.borrow_and_update() != known {
            return;
        }
    }
    future::pending().await
}
