//! One attempt to place an entry: every member on one overlay, all or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::framework::{Point, Profile, StageDraft};
use crate::queue::{Entry, EntryId, Rejection};
use crate::snapshot::{NodeIdx, Overlay};
use crate::types::{Condition, PlanNote, Pod, PodUid, Text, Timestamp};

use super::Engine;
use super::asking::Asked;
use super::budget::Budget;
use super::decision::{Decision, Notice};
use super::drafting::{placement_of, stages_of};
use super::gang::{Gang, Stopped};
use super::guard::guarded;
use super::measures::FailedPlan;
use super::permits::permit;
use super::placing::{Placed, Placer, Unfit, Unplaced, may_be_placed};
use super::plans::{Failure, Placement, Plan};
use super::preflight::trial_of;
use super::report::{CycleReport, Outcome};
use super::timing::Timing;

/// An entry that is being looked at, over several polls if need be.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) entry: EntryId,
    pauses: u32,
    /// How often a class's table was begun anew on its behalf.
    laid_out: u32,
    spent: u64,
    /// The question that it waits for.
    pub(super) asked: Option<Asked>,
    /// Nodes that consultants allowed, by member and index of the consultant. Names, since an
    /// index may be another node's by the time it is read.
    pub(super) allowed: BTreeMap<(PodUid, usize), BTreeSet<Text>>,
    /// How far the search of a group is.
    pub(super) gang: Option<Box<Gang>>,
}

impl Search {
    fn of(entry: EntryId) -> Search {
        Search {
            entry,
            pauses: 0,
            laid_out: 0,
            spent: 0,
            asked: None,
            allowed: BTreeMap::new(),
            gang: None,
        }
    }
}

/// A search of one pod gets overtime when its table was begun anew more often than this.
const LAID_OUT_PATIENTLY: u32 = 2;
/// Searches that are paused at a time; with more, nobody new is begun with.
const PAUSED_MAX: usize = 16;

/// An attempt costs this besides its plugin calls on nodes: gates, PreFilter, Reserve, reports.
const STEPS_AN_ATTEMPT: u64 = 20;

/// What came of placing the members.
#[derive(Default)]
struct Found {
    placements: Vec<Placement>,
    /// Plugins whose Permit waits come first among the stages.
    permits: Vec<&'static str>,
    stages: Vec<StageDraft>,
    placed: Vec<Placed>,
    /// The commit of a group.
    commit: Option<PlanNote>,
}

/// Pods with what was found for them.
type PlacedPods = Vec<(Pod, Placed)>;

fn place_gang(
    gang: &mut Gang,
    placer: &mut Placer<'_>,
    overlay: &mut Overlay<'_>,
    budget: &mut Budget,
) -> Result<PlacedPods, Stopped> {
    gang.search(placer, overlay, budget)?;
    let placed = gang.placed().filter_map(|(uid, placed)| {
        Some((overlay.cluster().pod(uid)?.pod.clone(), placed.clone()))
    });
    Ok(placed.collect())
}

fn place_single(
    entry: &Entry,
    placer: &mut Placer<'_>,
    overlay: &mut Overlay<'_>,
    budget: &mut Budget,
) -> Result<PlacedPods, Stopped> {
    let mut open = entry.members.iter().filter(|uid| may_be_placed(overlay.cluster(), uid));
    let Some(pod) = open.next().and_then(|uid| overlay.cluster().pod(uid)).map(|r| r.pod.clone())
    else {
        return Ok(Vec::new());
    };
    let stopped = |unplaced| Stopped::At(pod.uid.clone(), unplaced);
    let placed = placer.place(overlay, &pod, budget).map_err(stopped)?;
    Ok(vec![(pod, placed)])
}

/// Asks Permit and PreBind about all that have a place.
fn drafted(
    profile: &Profile,
    overlay: &Overlay<'_>,
    pods: PlacedPods,
    now: Timestamp,
    timing: Timing<'_>,
) -> Result<Found, Stopped> {
    let mut found = Found::default();
    let cluster = overlay.cluster();
    timing.turn(Point::Permit);
    for (pod, at) in &pods {
        let stopped = |unplaced| Stopped::At(pod.uid.clone(), unplaced);
        let wait = permit(profile, cluster, pod, at.node, now, timing).map_err(stopped)?;
        if let Some((plugin, wait)) = wait {
            found.permits.push(plugin);
            found.stages.push(StageDraft::Wait(wait));
        }
    }
    let nodes: Vec<(&Pod, NodeIdx)> = pods.iter().map(|(pod, at)| (pod, at.node)).collect();
    timing.turn(Point::PreBind);
    let rest = stages_of(profile, cluster, &nodes, now, timing);
    timing.rest();
    found.stages.extend(rest.map_err(|(uid, fault)| Stopped::At(uid, Unplaced::Error(fault)))?);
    found.placements =
        nodes.iter().filter_map(|(pod, node)| placement_of(cluster, pod, *node, false)).collect();
    found.placed = pods.into_iter().map(|(_, placed)| placed).collect();
    Ok(found)
}

impl Engine {
    /// Looks at a paused search, at one that has its answer, or at the next entry. Returns false if
    /// there is none.
    pub(super) fn attempt_next(&mut self, budget: &mut Budget) -> bool {
        let begun = match self.gives_way() {
            true => None,
            false => self.paused.pop_front().or_else(|| self.answered.pop_front()),
        };
        let search = match begun {
            Some(search) => search,
            None => match self.queue.pop(&self.cluster, self.now) {
                Some(id) => Search::of(id),
                None => return false,
            },
        };
        self.attempt(search, budget);
        budget.spend(STEPS_AN_ATTEMPT);
        true
    }

    /// Tells whether the paused search waits while others have their turn: one that has taken more
    /// polls than its nodes explain gets every other poll only, so that nobody waits behind a hard
    /// problem.
    fn gives_way(&self) -> bool {
        let hard = |search: &Search| u64::from(search.pauses) > self.patience(search);
        let waits = self.queue.counts().active > 0 || !self.answered.is_empty();
        !self.paused_first
            && waits
            && self.paused.len() < PAUSED_MAX
            && self.paused.front().is_some_and(hard)
    }

    fn attempt(&mut self, search: Search, budget: &mut Budget) {
        let sampled = self.attempts_timed.next();
        let profile = self.queue.entry(search.entry).map_or(0, |entry| entry.profile);
        let stopwatch = Arc::clone(&self.setup.stopwatch);
        let timing = Timing::new(stopwatch.as_ref(), profile, sampled);
        let paused = self.search(search, budget, timing);
        timing.rest();
        // What a search has taken that goes on with a later poll counts when it ends.
        if !paused {
            timing.end();
        }
    }

    /// Returns whether the search goes on with a later poll.
    fn search(&mut self, mut search: Search, budget: &mut Budget, timing: Timing<'_>) -> bool {
        let id = search.entry;
        if let Some(gate) = self.closed_gate(id, timing.unsampled()) {
            self.queue.admit(id, Some(gate.plugin), self.now);
            self.tell_gated(id, gate, None);
            return false;
        }
        let mut own = *budget;
        own.extend(self.overtime(&search));
        // Points without a guard of their own (reads, explanations of a class) are caught here; the
        // overlay is taken back on the way.
        let place = || self.place_members(&mut search, &mut own, timing);
        let result = guarded("in its cycle", place);
        let result = result.unwrap_or_else(|fault| {
            let leader = self.queue.entry(id).and_then(|entry| entry.members.first().cloned());
            Err(Stopped::At(leader.unwrap_or_default(), Unplaced::Error(fault)))
        });
        let spent = own.spent() - budget.spent();
        search.spent += spent;
        budget.spend(spent);
        match result {
            Ok(found) => self.found(search, found),
            Err(Stopped::At(_, Unplaced::Paused)) => {
                search.pauses += 1;
                budget.exhaust();
                self.paused.push_back(search);
                return true;
            }
            Err(Stopped::At(uid, Unplaced::Ask { consultant, nodes })) => {
                self.ask(search, &uid, consultant, &nodes);
            }
            Err(Stopped::OutOfSteps(uid, Unplaced::Unfit(unfit))) => {
                self.out_of_steps(&search, &uid, *unfit);
            }
            Err(
                Stopped::At(uid, Unplaced::Unfit(unfit))
                | Stopped::Infeasible(uid, Unplaced::Unfit(unfit)),
            ) => self.unfit(search, &uid, *unfit, timing),
            Err(
                Stopped::At(uid, unplaced)
                | Stopped::Infeasible(uid, unplaced)
                | Stopped::OutOfSteps(uid, unplaced),
            ) => {
                self.errored(&search, &uid, unplaced.fault());
            }
        }
        false
    }

    /// Returns the steps that a search may take beyond its poll's budget, so that it ends.
    ///
    /// A single pod's search keeps what it has worked out, so it gets none until that was begun anew
    /// time and again (an index that moves at each poll does that). A group starts over with its
    /// first member: it gets more each time.
    fn overtime(&self, search: &Search) -> u64 {
        let steps = self.setup.limits.steps_a_poll.max(1);
        let group = self.queue.entry(search.entry).is_some_and(|entry| entry.members.len() > 1);
        let begun_anew = match group {
            true => search.pauses,
            false => search.laid_out.saturating_sub(LAID_OUT_PATIENTLY),
        };
        u64::from(begun_anew).saturating_mul(steps)
    }

    /// Returns how often a search may pause before it has taken more than its nodes explain.
    fn patience(&self, search: &Search) -> u64 {
        let steps = self.setup.limits.steps_a_poll.max(1);
        let Some(entry) = self.queue.entry(search.entry) else { return 0 };
        let profile = &self.profiles[entry.profile];
        let calls = (profile.filter.len() + profile.score.len()) * self.cluster.nodes().capacity();
        2 * (calls as u64 / steps + 1)
    }

    /// Places every member on an overlay; commits it if all that are needed have a place.
    fn place_members(
        &mut self,
        search: &mut Search,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) -> Result<Found, Stopped> {
        let Some(entry) = self.queue.entry(search.entry).cloned() else {
            return Ok(Found::default());
        };
        self.begin_gang(search, &entry, timing.unsampled())?;
        let nodes = self.cluster.nodes();
        let allowed = search.allowed.iter().map(|(about, names)| {
            (about.clone(), names.iter().filter_map(|name| nodes.index(name)).collect())
        });
        let mut placer = Placer {
            profile: &self.profiles[entry.profile],
            profile_idx: entry.profile,
            classes: &mut self.classes,
            setup: &self.setup,
            timing,
            attempt: entry.attempts,
            group: search.gang.is_some(),
            laid_out: 0,
            allowed: allowed.collect(),
            last_class: (0, false),
            unproven: false,
        };
        let mut overlay = Overlay::new(&mut self.cluster);
        let placed = match &mut search.gang {
            Some(gang) => place_gang(gang, &mut placer, &mut overlay, budget),
            None => place_single(&entry, &mut placer, &mut overlay, budget),
        };
        search.laid_out += placer.laid_out;
        let placed = placed?;
        let mut found = drafted(placer.profile, &overlay, placed, self.now, timing)?;
        overlay.commit();
        found.commit = self.commit_note(&entry, found.placements.len());
        Ok(found)
    }

    fn found(&mut self, search: Search, found: Found) {
        let Some(entry) = self.queue.entry(search.entry).cloned() else { return };
        if found.placements.is_empty() {
            // Nobody of it is left to be placed.
            for uid in &entry.members {
                self.queue.remove_pod(uid);
            }
            return;
        }
        for (placement, placed) in found.placements.iter().zip(&found.placed) {
            let report = CycleReport {
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
        let mut plan =
            Plan::new(search.entry, found.placements, stages).with_permits(found.permits);
        plan.commit = found.commit;
        self.begin_plan(plan);
    }

    /// A group's search took more steps than it may: it is tried again with twice as many, until
    /// that has been done often enough.
    fn out_of_steps(&mut self, search: &Search, uid: &PodUid, mut unfit: Unfit) {
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
    fn unfit(&mut self, search: Search, uid: &PodUid, mut unfit: Unfit, timing: Timing<'_>) {
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

    fn reject(&mut self, id: EntryId, rejection: Rejection) {
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
        for uid in members {
            let condition = Condition { reason: Text::from(reason), message: message.clone() };
            self.tell(&uid, condition, texts.to_vec());
        }
    }

    fn report(&self, search: &Search, uid: &PodUid, outcome: Outcome) -> CycleReport {
        let pod = self.cluster.pod(uid).map(|record| &record.pod);
        CycleReport {
            pod: pod.map(Pod::reference).unwrap_or_default(),
            scheduler_name: pod.map(|p| p.spec.scheduler_name.clone()).unwrap_or_default(),
            attempt: self.queue.entry(search.entry).map_or(0, |entry| entry.attempts),
            at: self.now,
            outcome,
            message: Text::default(),
            chosen: None,
            nodes: self.cluster.nodes().len(),
            feasible: 0,
            rejected: Vec::new(),
            best: Vec::new(),
            steps: search.spent,
            pauses: search.pauses,
        }
    }
}
