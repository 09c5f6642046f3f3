//! How attempts end: with a plan, with nothing that fits, with an error; and what comes of a plan that
//! was taken back.

use std::sync::Arc;

use crate::queue::{Entry, EntryId, Rejection};
use crate::types::group::GroupPhase;
use crate::types::{Condition, Pod, PodSpec, PodUid, Text};

use super::Engine;
use super::attempt::Search;
use super::decision::{Decision, Notice};
use super::found::Found;
use super::measures::FailedPlan;
use super::placing::may_be_placed;
use super::plans::{Failure, Plan};
use super::preflight::trial_of;
use super::report::{CycleReport, Outcome};
use super::timing::Timing;
use super::unfit::Unfit;
use super::waits::Barrier;

impl Engine {
    pub(super) fn found(&mut self, search: Search, found: Found) {
        let Some(entry) = self.queue.entry(search.entry).cloned() else { return };
        if found.placements.is_empty() {
            // Nobody of it is left to be placed.
            for uid in &entry.members {
                self.queue.remove_pod(uid);
            }
            return;
        }
        for (at, (placement, placed)) in found.placements.iter().zip(&found.placed).enumerate() {
            let first = at == 0;
            let placements = search.gang.as_ref().filter(|_| first).map(|gang| gang.judged(true));
            let report = CycleReport {
                steps: if first { search.spent } else { 0 },
                placements: placements.unwrap_or_default(),
                chosen: Some(placement.node_name.clone()),
                feasible: placed.feasible,
                best: placed.best.clone(),
                ..self.report(&search, &placement.pod.uid, Outcome::Planned)
            };
            self.out.push_back(Decision::Report(Box::new(report)));
        }
        self.usual_steps(search.entry);
        let mut stages = found.stages;
        if self.tries_first(&entry, &found.placements) {
            stages.insert(found.permits.len(), trial_of(&found.placements));
        }
        let mut plan = Plan::new(search.entry, found.placements, stages)
            .with_permits(found.permits, self.barrier_of(&entry));
        plan.commit = found.commit;
        self.begin_plan(plan);
    }

    /// Returns by when what the members of a group need is to be there.
    fn barrier_of(&self, entry: &Entry) -> Option<Barrier> {
        let (key, rules) = (entry.group.as_ref()?, self.rules_of(entry)?);
        let own = self.cluster.groups().object(key).and_then(|object| object.deadline);
        Some(Barrier { plugin: rules.plugin, within: own.unwrap_or(rules.deadline), until: None })
    }

    /// A group's search took more steps than it may: it is tried again with twice as many, until
    /// that has been done often enough.
    pub(super) fn out_of_steps(&mut self, search: &Search, uid: &PodUid, mut unfit: Unfit) {
        let text = "no placement was found in the steps that a search may take; that there is none is \
                    not proven";
        unfit.error.numbers.insert(0, Text::from(text));
        let (message, texts) = (Text::from(unfit.error.message()), unfit.error.texts());
        let report = CycleReport {
            message: message.clone(),
            rejected: unfit.take_rejected(),
            ..self.report(search, uid, Outcome::Unschedulable)
        };
        self.out.push_back(Decision::Report(Box::new(report)));
        self.tell_members(search.entry, uid, "Unschedulable", &message, &texts);
        match self.more_steps(search.entry) {
            true => self.queue.fail(search.entry, self.now),
            false => self.reject(search.entry, unfit.rejection),
        }
    }

    /// The pod fits nowhere: asks PostFilter for room, tells why it waits, and parks the entry
    /// unless a plan makes room for it.
    pub(super) fn unfit(
        &mut self,
        search: Search,
        uid: &PodUid,
        mut unfit: Unfit,
        timing: Timing<'_>,
    ) {
        let room = match unfit.verdicts.take() {
            Some(verdicts) => self.make_room(search.entry, uid, &verdicts, timing),
            None => Ok(None),
        };
        let plan = room.unwrap_or_else(|(text, plan)| {
            unfit.error.post_filter = Some(text);
            plan.map(|plan| *plan)
        });
        let texts = unfit.error.texts();
        let message = Text::from(unfit.error.message());
        let chosen = plan.as_ref().and_then(|plan| plan.placements.first());
        let report = CycleReport {
            message: message.clone(),
            rejected: unfit.take_rejected(),
            chosen: chosen.map(|placement| placement.node_name.clone()),
            ..self.report(&search, uid, Outcome::Unschedulable)
        };
        self.out.push_back(Decision::Report(Box::new(report)));
        // A nomination that came to nothing is given up. Source: 1.35 and later.
        let given_up = if chosen.is_none() { self.cluster.unnominate(uid) } else { Vec::new() };
        self.tell_members(search.entry, uid, "Unschedulable", &message, &texts);
        match plan {
            Some(plan) => self.begin_plan(plan),
            None => self.reject(search.entry, unfit.rejection),
        }
        self.after_changes(given_up);
    }

    /// Members of a group that need different things are asked about each for itself; so are those that
    /// are held for themselves, which the group may do with when they are not.
    fn name_speakers(&mut self, id: EntryId, rejection: &mut Rejection) {
        let Some(entry) = self.queue.entry(id).filter(|entry| entry.group.is_some()) else {
            return;
        };
        let mut specs: Vec<&Arc<PodSpec>> = Vec::new();
        let mut speakers = Vec::new();
        let timing = Timing::new(self.setup.stopwatch.as_ref(), entry.profile, false);
        for uid in &entry.members {
            let Some(record) = self.cluster.pod(uid) else { continue };
            let spec = &record.pod.spec;
            if let Some(gate) = self.own_gate(uid, entry.profile, timing) {
                rejection.plugins.push(gate.plugin);
                speakers.push(uid.clone());
            } else if !specs.iter().any(|known| Arc::ptr_eq(known, spec) || known == &spec) {
                specs.push(spec);
                speakers.push(uid.clone());
            }
        }
        rejection.plugins.sort_unstable();
        rejection.plugins.dedup();
        if speakers.len() > 1 {
            let class = self.classes.own_id();
            self.queue.set_speakers(id, speakers, class);
        } else {
            self.queue.set_speakers(id, Vec::new(), entry.class);
        }
    }

    /// A group that waits, or fails time and again, lets go of what it had before.
    fn watch_what_is_held(&mut self, id: EntryId) {
        if let Some(key) = self.queue.entry(id).and_then(|entry| entry.group.clone()) {
            self.watch_held(&key);
        }
    }

    fn reject(&mut self, id: EntryId, mut rejection: Rejection) {
        self.name_speakers(id, &mut rejection);
        self.watch_what_is_held(id);
        let stopwatch = self.changes_timed.next().then_some(self.setup.stopwatch.as_ref());
        let (cluster, profiles, gates) = (&self.cluster, &self.profiles, &self.setup.gates);
        let mut ask = |entry: &Entry, plugin: &'static str, change: &_| {
            let profile = &profiles[entry.profile];
            super::folding::hint(entry, plugin, change, cluster, profile, gates, stopwatch)
        };
        self.queue.reject(id, rejection, self.now, &mut ask);
    }

    pub(super) fn errored(&mut self, search: &Search, uid: &PodUid, message: Text) {
        let report =
            CycleReport { message: message.clone(), ..self.report(search, uid, Outcome::Error) };
        self.out.push_back(Decision::Report(Box::new(report)));
        self.tell_members(search.entry, uid, "SchedulerError", &message, &[]);
        self.queue.fail(search.entry, self.now);
    }

    /// A plan of this entry was taken back.
    pub(super) fn plan_failed(&mut self, entry: EntryId, failure: &Failure) {
        self.watch_what_is_held(entry);
        let Some(members) = self.queue.entry(entry).map(|entry| entry.members.clone()) else {
            return;
        };
        let gone = |uid: &&PodUid| !may_be_placed(&self.cluster, uid);
        for uid in members.iter().filter(gone).cloned().collect::<Vec<_>>() {
            self.queue.remove_pod(&uid);
        }
        let Some(uid) = self.queue.entry(entry).and_then(|entry| entry.members.first().cloned())
        else {
            return;
        };
        self.measure_failed(&uid, failure);
        let message = &failure.message;
        match failure.rejected_by {
            Some(plugin) => {
                self.tell_members(
                    entry,
                    &uid,
                    "Unschedulable",
                    message,
                    std::slice::from_ref(message),
                );
                self.reject(entry, Rejection::by(plugin));
            }
            None => {
                if !failure.moved_on {
                    self.tell_members(entry, &uid, "SchedulerError", message, &[]);
                }
                self.queue.fail(entry, self.now);
            }
        }
    }

    fn measure_failed(&mut self, uid: &PodUid, failure: &Failure) {
        let Some(record) = self.cluster.pod(uid) else { return };
        self.measures.failed_plans.push(FailedPlan {
            pod: record.pod.reference(),
            scheduler_name: record.pod.spec.scheduler_name.clone(),
            rejected: failure.rejected_by.is_some(),
        });
    }

    fn tell_members(
        &mut self,
        id: EntryId,
        about: &PodUid,
        reason: &str,
        message: &Text,
        texts: &[Text],
    ) {
        let members = self.queue.entry(id).map(|entry| entry.members.clone()).unwrap_or_default();
        if let Some(record) = self.cluster.pod(about) {
            let notice = Notice::FailedScheduling {
                pod: record.pod.reference(),
                scheduler_name: record.pod.spec.scheduler_name.clone(),
                message: message.clone(),
            };
            self.out.push_back(Decision::Notice(notice));
        }
        self.forget_gathering(id);
        if let Some(key) = self.queue.entry(id).and_then(|entry| entry.group.clone()) {
            let phase = match reason {
                "Unschedulable" => GroupPhase::Unschedulable,
                _ => GroupPhase::Error,
            };
            self.tell_group(&key, phase, message, self.now);
        }
        for uid in members {
            let condition = Condition { reason: Text::from(reason), message: message.clone() };
            self.tell(&uid, condition, texts.to_vec());
        }
    }

    fn report(&self, search: &Search, uid: &PodUid, outcome: Outcome) -> CycleReport {
        let pod = self.cluster.pod(uid).map(|record| &record.pod);
        let entry = self.queue.entry(search.entry);
        let group = entry.and_then(|entry| entry.group.as_ref());
        CycleReport {
            group: group.map(|key| key.to_string().into()),
            pod: pod.map(Pod::reference).unwrap_or_default(),
            scheduler_name: pod.map(|p| p.spec.scheduler_name.clone()).unwrap_or_default(),
            attempt: entry.map_or(0, |entry| entry.attempts),
            at: self.now,
            outcome,
            message: Text::default(),
            chosen: None,
            nodes: self.cluster.nodes().len(),
            feasible: 0,
            rejected: Vec::new(),
            best: Vec::new(),
            steps: search.spent,
            placements: search.gang.as_ref().map(|gang| gang.judged(false)).unwrap_or_default(),
            pauses: search.pauses,
        }
    }
}
