//! The engine's thread: inputs in, decisions out, and sleep until there is something to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use berth_core::engine::{
    Answer, CycleReport, Decision, Engine, Input, Notice, Outcome, QuestionId, Write, WriteResult,
    Written,
};
use berth_core::framework::Op;
use berth_core::snapshot::{Cluster, ClusterEvent, Contradiction};
use berth_core::types::{Pod, Text};
use tracing::{debug, info, warn};

use super::clock::Clock;
use super::compare::camera::Asked;
use super::dispatch::{Job, Outbox};
use super::doubt;
use super::events::{EventQueue, Happening, Subject};
use super::planted;
use super::request::About;
use super::strangers::Strangers;
use crate::observe::metrics::Recorder;
use crate::wire::dialect::DialectDef;

/// Inputs folded between two polls, so that decisions are not put off for ever by a busy watch.
const FOLD_MAX: usize = 4096;
/// A drain ends by then, whatever is still open: the server has given up what was sent before.
const DRAIN_MAX: Duration = Duration::from_secs(10);
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// While the server has plenty to do for us, inputs of so long are taken in together: waking for each
/// costs more than what it says.
const TOGETHER: Duration = Duration::from_millis(1);
/// A wake-up that is due again at once is no reason to spin.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// Runs an engine in real time.
pub struct Driver {
    pub engine: Engine,
    pub inputs: Receiver<Input>,
    pub outbox: Arc<Outbox>,
    pub events: Arc<EventQueue>,
    pub clock: Clock,
    pub told: Told,
    pub strangers: Strangers,
    pub recorder: Recorder,
    pub asked: Asked,
}

/// Makes the engine's thread look up: an answer to a question that was never asked means nothing.
pub fn wake(sink: &Sender<Input>) {
    let (question, answer) = (QuestionId(0), Answer::Allowed(Vec::new()));
    // Nobody listens only while the program ends.
    let _ = sink.send(Input::Answer { question, answer });
}

/// What is told once a profile.
#[derive(Default)]
pub struct Told {
    scheduler_names: BTreeSet<Text>,
    unscored: BTreeSet<Text>,
}

impl Driver {
    /// Runs until a drain has ended, and returns whether it left nothing open.
    pub fn run(mut self) -> bool {
        let mut drain_ends: Option<Instant> = None;
        loop {
            let woken = Instant::now();
            let mut left = FOLD_MAX;
            while left > 0
                && let Ok(input) = self.inputs.try_recv()
            {
                self.fold(input, &mut drain_ends);
                left -= 1;
            }
            let begun = Instant::now();
            let poll = self.engine.poll(self.clock.now());
            self.recorder.polled(&poll, begun, begun.elapsed(), self.clock.now());
            self.recorder.between_polls(&self.engine);
            self.asked.answer(&self.engine);
            for decision in poll.decisions {
                self.act(decision);
            }
            if drain_ends.is_some_and(|ends| self.drained(ends)) {
                return self.engine.under_way() == (0, 0);
            }
            if poll.working || left == 0 {
                continue;
            }
            if self.outbox.crowded() {
                std::thread::sleep(TOGETHER.saturating_sub(woken.elapsed()));
            }
            match self.inputs.recv_timeout(self.sleep(drain_ends)) {
                Ok(input) => self.fold(input, &mut drain_ends),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn sleep(&self, drain_ends: Option<Instant>) -> Duration {
        let wakeup = self.engine.next_wakeup().map(|(at, _)| self.clock.until(at));
        let ends = drain_ends.map(|ends| ends.saturating_duration_since(Instant::now()));
        let sleep = [wakeup, ends].into_iter().flatten().min().unwrap_or(SLEEP_MAX);
        self.recorder.sleep(sleep).clamp(SLEEP_MIN, SLEEP_MAX)
    }

    fn fold(&mut self, input: Input, drain_ends: &mut Option<Instant>) {
        let Some(input) = planted::heard(input) else { return };
        match &input {
            Input::Drain => {
                let (plans, binds) = self.engine.under_way();
                info!(plans, unconfirmed_binds = binds, "taking no new work");
                drain_ends.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
            }
            Input::Watch { kind, synced } => debug!(resource = %kind, synced, "watch"),
            Input::Cluster(ClusterEvent::PodApplied(pod)) => self.told.pod(pod),
            Input::Cluster(_) | Input::Outcome { .. } | Input::Answer { .. } => {}
        }
        self.strangers.see(&input, self.engine.cluster());
        let drains = matches!(input, Input::Drain);
        let mut doubted = None;
        if let Input::Cluster(event) = &input
            && self.outbox.binds_wait()
        {
            doubted = doubt::node(self.engine.cluster(), event);
        }
        let seen = self.recorder.sees(&input, &self.engine);
        let begun = Instant::now();
        self.engine.handle(input, self.clock.now());
        self.recorder.handled(seen, begun.elapsed());
        if drains {
            self.take_back_unsent();
        }
        if let Some(node) = doubted {
            self.decide_again(&node);
        }
    }

    /// A low rate limit may have let many binds wait; those are left to whoever comes next.
    fn take_back_unsent(&mut self) {
        for write in self.outbox.take_back_binds(|_| true) {
            let result = WriteResult::NotSent { message: "the scheduler is ending".into() };
            self.engine.handle(Input::Outcome { write, result }, self.clock.now());
        }
    }

    /// Binds that are still to be sent were decided on another node than there is now. The engine
    /// hears what the server would say of a node that is gone: nothing is wrong with the pods.
    fn decide_again(&mut self, node: &Text) {
        for write in self.outbox.take_back_binds(|target| target == node) {
            let message = Text::from(format!("node {node} has changed since it was chosen"));
            let result = WriteResult::Refused { code: 404, message };
            self.engine.handle(Input::Outcome { write, result }, self.clock.now());
        }
    }

    fn drained(&self, ends: Instant) -> bool {
        let (plans, binds) = self.engine.under_way();
        if plans == 0 && binds == 0 {
            return true;
        }
        let late = Instant::now() >= ends;
        if late {
            warn!(plans, unconfirmed_binds = binds, "ending with binds that were not confirmed");
        }
        late
    }

    fn act(&mut self, decision: Decision) {
        match decision {
            Decision::Write(mut write) => {
                let about = self.about(&write);
                match planted::said(&mut write) {
                    true => self.outbox.push(Job { write, about }),
                    false => {
                        let result = WriteResult::Done(Written::default());
                        let outcome = Input::Outcome { write: write.id, result };
                        self.engine.handle(outcome, self.clock.now());
                    }
                }
            }
            Decision::Notice(Notice::Scheduled { pod, scheduler_name, node }) => {
                debug!(%pod, %node, "scheduled");
                if !exists(self.engine.cluster(), &node) {
                    warn!(%pod, %node, "bound to a node that is gone, where it will never start");
                }
                self.events.push(Happening::scheduled(pod, scheduler_name, &node));
            }
            Decision::Notice(Notice::FailedScheduling { pod, scheduler_name, message }) => {
                self.events.push(Happening::failed(pod, scheduler_name, message));
            }
            Decision::Notice(Notice::Waits { pod, scheduler_name, reason, message }) => {
                self.events.push(Happening::waits(pod, scheduler_name, reason, message));
            }
            Decision::Notice(Notice::BelowMinimum { pod, scheduler_name, message, .. }) => {
                warn!(%pod, "{message}");
                self.events.push(Happening::below_minimum(pod, scheduler_name, message));
            }
            Decision::Notice(Notice::InvalidTopology(Contradiction { key, uid, what })) => {
                warn!(topology = %key, "{what}");
                if let Some(kind) = DialectDef::named(key.dialect).and_then(DialectDef::tree) {
                    let subject = Subject::tree(kind, key.name, uid);
                    let who = self.engine.profiles().first().map(|it| it.scheduler_name.clone());
                    let who = who.unwrap_or_default();
                    self.events.push(Happening::invalid_topology(subject, who, what));
                }
            }
            Decision::Notice(Notice::Odd { subject, message }) => warn!(%subject, "{message}"),
            Decision::Report(report) => log_report(&report),
            // No consultants are configured, so nothing is asked; the engine's deadline would
            // take care of it.
            Decision::Ask(question) => warn!(consultant = question.consultant, "nobody to ask"),
        }
    }

    /// Looks up what the ledger knows of the pod or group whose condition is written: the write was
    /// decided on in the poll that has just ended, so it is what the decision was made on.
    fn about(&self, write: &Write) -> About {
        let cluster = self.engine.cluster();
        match &write.op {
            Op::SetCondition { pod, .. } => {
                let Some(record) = cluster.pod(&pod.uid) else { return About::default() };
                let unscheduled = record.pod.unscheduled.is_some();
                About { generation: record.pod.generation, unscheduled, ..About::default() }
            }
            Op::TellGroup { group, .. } => {
                let Some(object) = cluster.groups().object(group) else { return About::default() };
                let phase = object.told.as_ref().map(|told| told.phase);
                About { phase, resource_version: object.resource_version, ..About::default() }
            }
            _ => About::default(),
        }
    }
}

fn exists(cluster: &Cluster, node: &str) -> bool {
    let nodes = cluster.nodes();
    nodes.index(node).is_some_and(|node| nodes.node(node).is_some())
}

impl Told {
    pub fn new(scheduler_names: BTreeSet<Text>) -> Told {
        Told { scheduler_names, unscored: BTreeSet::new() }
    }

    /// Says once a profile that preferred terms don't count yet.
    fn pod(&mut self, pod: &Pod) {
        let name = &pod.spec.scheduler_name;
        if pod.spec.preferred_pod_terms == 0
            || pod.node_name.is_some()
            || !self.scheduler_names.contains(name)
            || !self.unscored.insert(name.clone())
        {
            return;
        }
        warn!(
            scheduler_name = %name, pod = %pod.reference(),
            "preferred inter-pod affinity is not supported yet: it is left out of the score"
        );
    }
}

fn log_report(report: &CycleReport) {
    let (pod, nodes, feasible, steps) = (&report.pod, report.nodes, report.feasible, report.steps);
    match report.outcome {
        Outcome::Planned => {
            let node = report.chosen.as_deref().unwrap_or_default();
            debug!(%pod, node, nodes, feasible, steps, "planned");
        }
        Outcome::Unschedulable => {
            debug!(%pod, nodes, steps, "unschedulable: {}", report.message);
        }
        Outcome::Error => warn!(%pod, nodes, "not scheduled: {}", report.message),
    }
}
