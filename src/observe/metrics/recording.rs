//! What the engine's thread records: around each input and each poll, and once a second what the
//! engine holds.
//!
//! The engine reads no clock, so times are taken here. A poll makes several attempts; each is
//! given the part of the poll's time that its plugin calls make up. Polls in which a search only
//! went on are added to the one in which it ended.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use berth_core::engine::{
    Bound, Code, CycleReport, Decision, Engine, Eviction, FailedPlan, Input, Outcome, PermitWait,
    PlacementCounts, Poll, WriteId, WriteResult,
};
use berth_core::framework::{Op, Point};
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Pod, PodUid, Timestamp};

use super::Metrics;
use super::handles::NO_LABELS;
use super::resources::{self, Ask, Waker};
use super::stopwatch::point_name;

/// What the engine holds is published so often while something happens.
pub(super) const PUBLISH: Duration = Duration::from_secs(1);
/// What an attempt costs besides its plugin calls on nodes, in steps: as the engine charges it.
const STEPS_AN_ATTEMPT: u64 = 20;
/// One of so many binds counts as its plugin's call too, as the engine samples calls.
const SAMPLE: u64 = 10;

/// The engine thread's notebook.
pub struct Recorder {
    pub(super) metrics: Metrics,
    /// When the search began that placed a pod whose bind is not confirmed yet.
    planned: HashMap<PodUid, Instant>,
    /// Binds that have no outcome yet.
    binds: HashMap<WriteId, (PodUid, Instant)>,
    n_binds: u64,
    /// Time of polls in which a search went on without an end.
    carried: Duration,
    pub(super) published: Option<Instant>,
    /// Something has happened since.
    pub(super) stale: bool,
    /// Labels of gauges that may be gone by the next time: they go to zero.
    pub(super) held: BTreeSet<(usize, &'static str)>,
    pub(super) changes: BTreeSet<&'static str>,
    asks: Receiver<Ask>,
}

/// What an input is, before it is folded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    event: Option<&'static str>,
}

impl Metrics {
    /// Returns the notebook for the engine's thread. `wake` has that thread look up from its sleep,
    /// so that a question about pods is answered soon.
    pub fn recorder(&self, wake: impl Fn() + Send + Sync + 'static) -> Recorder {
        let wake: Waker = Box::new(wake);
        Recorder {
            asks: self.open_desk(wake),
            metrics: self.clone(),
            planned: HashMap::new(),
            binds: HashMap::new(),
            n_binds: 0,
            carried: Duration::ZERO,
            published: None,
            stale: true,
            held: BTreeSet::new(),
            changes: BTreeSet::new(),
        }
    }
}

impl Recorder {
    /// Looks at an input that is about to be folded.
    pub fn sees(&mut self, input: &Input, engine: &Engine) -> Seen {
        if let Input::Outcome { write, result } = input {
            self.bind_answered(*write, result, engine);
        }
        let Input::Cluster(event) = input else { return Seen::default() };
        match event {
            ClusterEvent::PodApplied(pod) => self.count_unscored(pod, engine),
            ClusterEvent::PodDeleted { uid } => drop(self.planned.remove(uid)),
            _ => {}
        }
        Seen { event: Some(event.label(engine.cluster())) }
    }

    /// Bind is the one point whose time is spent outside the engine.
    fn bind_answered(&mut self, write: WriteId, result: &WriteResult, engine: &Engine) {
        let Some((uid, sent)) = self.binds.remove(&write) else { return };
        let Some(record) = engine.cluster().pod(&uid) else { return };
        let name = &record.pod.spec.scheduler_name;
        let profile =
            engine.profiles().iter().find(|profile| profile.names().any(|own| own == name));
        let Some(profile) = profile else { return };
        let seconds = sent.elapsed().as_secs_f64();
        let code = match result {
            WriteResult::Done(_) => Code::Success.name(),
            WriteResult::Stale { .. }
            | WriteResult::Refused { .. }
            | WriteResult::NotSent { .. }
            | WriteResult::Unknown { .. } => Code::Error.name(),
        };
        let (families, point) = (self.metrics.families(), point_name(Point::Bind));
        families.points.with_label_values(&[point, name, code]).observe(seconds);
        let plugin = profile.bind.first().filter(|_| self.n_binds.is_multiple_of(SAMPLE));
        if let Some(plugin) = plugin {
            families.plugins.with_label_values(&[point, plugin.name, code]).observe(seconds);
        }
        self.n_binds += 1;
    }

    /// Counts, once a pod, the preferred terms that its score leaves out.
    fn count_unscored(&self, pod: &Pod, engine: &Engine) {
        let (terms, name) = (pod.spec.preferred_pod_terms, &pod.spec.scheduler_name);
        let ours =
            || engine.profiles().iter().flat_map(|profile| profile.names()).any(|own| own == name);
        if terms > 0
            && pod.node_name.is_none()
            && engine.cluster().pod(&pod.uid).is_none()
            && ours()
        {
            let counter =
                self.metrics.families().unscored_terms.with_label_values(&[name.as_str()]);
            counter.inc_by(f64::from(terms));
        }
    }

    /// The input was folded.
    pub fn handled(&mut self, seen: Seen, took: Duration) {
        self.stale = true;
        self.worked(took);
        if let Some(event) = seen.event {
            let histogram = self.metrics.families().handling.with_label_values(&[event]);
            histogram.observe(took.as_secs_f64());
        }
    }

    /// A poll has ended that was begun at `begun`, by the engine's time at `now`.
    pub fn polled(&mut self, poll: &Poll, begun: Instant, took: Duration, now: Timestamp) {
        self.worked(took);
        self.metrics.families().polls.with_label_values(NO_LABELS).inc();
        let reports = poll.decisions.iter().filter_map(|decision| match decision {
            Decision::Report(report) => Some(report.as_ref()),
            Decision::Write(_) | Decision::Ask(_) | Decision::Notice(_) => None,
        });
        let reports: Vec<&CycleReport> = reports.collect();
        if reports.is_empty() {
            self.carried = if poll.working { self.carried + took } else { Duration::ZERO };
        } else {
            let took = took + std::mem::take(&mut self.carried);
            self.reported(&reports, begun, took);
        }
        self.binds_begin(poll);
        let measures = &poll.measures;
        measures.bound.iter().for_each(|bound| self.bound(bound, now));
        measures.failed_plans.iter().for_each(|failed| self.failed(failed));
        measures.permit_waits.iter().for_each(|wait| self.permit_waited(*wait));
        measures.evictions.iter().for_each(|eviction| self.evicted(*eviction));
        let families = self.metrics.families();
        let asked = families.preemption_attempts.with_label_values(NO_LABELS);
        asked.inc_by(measures.preemption_attempts as f64);
        for victims in &measures.victims {
            families.victims.with_label_values(NO_LABELS).observe(*victims as f64);
        }
        self.stale |= !poll.decisions.is_empty();
    }

    fn binds_begin(&mut self, poll: &Poll) {
        let now = Instant::now();
        for decision in &poll.decisions {
            if let Decision::Write(write) = decision
                && let Op::Bind { pod, .. } = &write.op
            {
                self.binds.insert(write.id, (pod.uid.clone(), now));
            }
        }
    }

    fn evicted(&self, eviction: Eviction) {
        let families = self.metrics.families();
        let result = if eviction.agreed { "success" } else { "error" };
        families.executions.with_label_values(&[result]).inc();
        let seconds = eviction.took.as_millis() as f64 / 1000.0;
        families.execution.with_label_values(&["pod", result]).observe(seconds);
    }

    fn worked(&self, took: Duration) {
        let seconds = self.metrics.families().busy_seconds.with_label_values(NO_LABELS);
        seconds.inc_by(took.as_secs_f64());
    }

    fn reported(&mut self, reports: &[&CycleReport], begun: Instant, took: Duration) {
        let steps: u64 = reports.iter().map(|report| report.steps + STEPS_AN_ATTEMPT).sum();
        // A group's members are reported one after the other.
        let mut groups: Vec<(&CycleReport, f64)> = Vec::new();
        for report in reports {
            let part = (report.steps + STEPS_AN_ATTEMPT) as f64 / steps as f64;
            let seconds = took.as_secs_f64() * part;
            self.attempt(report, begun, seconds);
            match groups.last_mut() {
                Some((first, sum)) if first.group == report.group => *sum += seconds,
                _ => groups.push((report, seconds)),
            }
        }
        groups.retain(|(first, _)| first.group.is_some());
        groups.into_iter().for_each(|(first, seconds)| self.group_attempt(first, seconds));
    }

    fn group_attempt(&self, report: &CycleReport, seconds: f64) {
        let result = match report.outcome {
            Outcome::Planned => "scheduled",
            Outcome::Unschedulable => "unschedulable",
            Outcome::Error => "error",
        };
        let families = self.metrics.families();
        let labels = [&*report.scheduler_name, result];
        families.group_algorithm.with_label_values(NO_LABELS).observe(seconds);
        families.group_attempts.with_label_values(&labels).inc();
        families.group_attempt_duration.with_label_values(&labels).observe(seconds);
        self.placements(report, seconds);
    }

    /// Placements are counted together, so each has an equal part of the attempt's time.
    fn placements(&self, report: &CycleReport, seconds: f64) {
        let PlacementCounts { generated, feasible, infeasible } = report.placements;
        if generated == 0 {
            return;
        }
        let (families, profile) = (self.metrics.families(), &*report.scheduler_name);
        families.placements.with_label_values(&[profile]).inc_by(f64::from(generated));
        let each = seconds / f64::from((feasible + infeasible).max(1));
        for (result, count) in [("feasible", feasible), ("infeasible", infeasible)] {
            let labels = [profile, result];
            let evaluations = families.placement_evaluations.with_label_values(&labels);
            evaluations.inc_by(f64::from(count));
            let duration = families.placement_evaluation.with_label_values(&labels);
            (0..count).for_each(|_| duration.observe(each));
        }
    }

    fn attempt(&mut self, report: &CycleReport, begun: Instant, seconds: f64) {
        let families = self.metrics.families();
        families.algorithm.with_label_values(NO_LABELS).observe(seconds);
        families.steps.with_label_values(NO_LABELS).inc_by(report.steps as f64);
        let outcome = match report.outcome {
            Outcome::Planned => "planned",
            Outcome::Unschedulable => "unschedulable",
            Outcome::Error => "error",
        };
        families.decisions.with_label_values(&[outcome]).inc();
        match report.outcome {
            // It ends with its bind.
            Outcome::Planned => drop(self.planned.insert(report.pod.uid.clone(), begun)),
            Outcome::Unschedulable | Outcome::Error => {
                self.ended(&report.scheduler_name, outcome, Some(seconds));
            }
        }
    }

    fn ended(&self, profile: &str, result: &str, seconds: Option<f64>) {
        let (families, labels) = (self.metrics.families(), [profile, result]);
        families.attempts.with_label_values(&labels).inc();
        if let Some(seconds) = seconds {
            families.attempt_duration.with_label_values(&labels).observe(seconds);
        }
    }

    /// A pod that waited for its victims was not placed by the attempt that found them, as
    /// kube-scheduler counts it: its bind has no duration.
    fn bound(&mut self, bound: &Bound, now: Timestamp) {
        let seconds = self.planned.remove(&bound.pod.uid).map(|at| at.elapsed().as_secs_f64());
        self.ended(&bound.scheduler_name, "scheduled", seconds);
        let families = self.metrics.families();
        families.decisions.with_label_values(&["bound"]).inc();
        families.pod_attempts.with_label_values(NO_LABELS).observe(f64::from(bound.attempts));
        let waited = now.since(bound.first_active).as_millis() as f64 / 1000.0;
        let attempts = match bound.attempts {
            attempts @ ..15 => attempts.to_string(),
            15.. => "15+".to_owned(),
        };
        families.sli.with_label_values(&[attempts.as_str()]).observe(waited);
        if bound.flushed {
            families.after_flush.with_label_values(NO_LABELS).inc();
        }
    }

    fn failed(&mut self, failed: &FailedPlan) {
        let seconds = self.planned.remove(&failed.pod.uid).map(|at| at.elapsed().as_secs_f64());
        let (result, outcome) = match failed.rejected {
            true => ("unschedulable", "plan_rejected"),
            false => ("error", "plan_failed"),
        };
        self.ended(&failed.scheduler_name, result, seconds);
        self.metrics.families().decisions.with_label_values(&[outcome]).inc();
    }

    fn permit_waited(&self, wait: PermitWait) {
        // Codes of upstream's framework.Status.
        let result = if wait.allowed { "Success" } else { "Unschedulable" };
        let histogram = self.metrics.families().permit_wait.with_label_values(&[result]);
        histogram.observe(wait.waited.as_millis() as f64 / 1000.0);
    }

    /// Answers one question about pods, and publishes what the engine holds if that is due. Called
    /// between polls.
    pub fn between_polls(&mut self, engine: &Engine) {
        if let Ok(ask) = self.asks.try_recv() {
            resources::answer(&ask, engine.cluster());
        }
        let due = self.published.is_none_or(|at| at.elapsed() >= PUBLISH);
        if self.stale && due {
            self.publish(engine);
            self.stale = false;
            self.published = Some(Instant::now());
        }
    }

    /// Cuts a sleep short if there is something to publish during it.
    pub fn sleep(&self, sleep: Duration) -> Duration {
        match self.published {
            Some(at) if self.stale => sleep.min(PUBLISH.saturating_sub(at.elapsed())),
            Some(_) | None => sleep,
        }
    }
}
