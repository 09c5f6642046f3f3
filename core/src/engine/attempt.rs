//! One attempt to place an entry: every member on one overlay, all or none.

use std::sync::Arc;

use crate::framework::plan::PodsGone;
use crate::framework::plan::Wait;
use crate::framework::{Cycle, NodeSet, Op, PostFilterAnswer, StageDraft, Verdict, WriteDraft};
use crate::queue::{EntryId, Rejection};
use crate::snapshot::{NodeIdx, Overlay};
use crate::types::{Condition, Pod, PodUid, Span, Text, Timestamp};

use super::Engine;
use super::budget::Budget;
use super::decision::{Decision, Notice, Question, QuestionId};
use super::guard::guarded;
use super::input::Answer;
use super::placing::{Placed, Placer, Unfit, Unplaced, may_be_placed};
use super::plans::{Failure, Placement, Plan};
use super::report::{CycleReport, Outcome};
use super::table::verdict_on;

/// An entry that is being looked at, over several polls if need be.
#[derive(Debug)]
pub(super) struct Search {
    entry: EntryId,
    pauses: u32,
    spent: u64,
    /// Nodes that a consultant was asked about.
    asked: Option<(Text, Timestamp)>,
    allowed: Option<NodeSet>,
}

impl Search {
    fn of(entry: EntryId) -> Search {
        Search { entry, pauses: 0, spent: 0, asked: None, allowed: None }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.asked.as_ref().map(|(_, deadline)| *deadline)
    }
}

/// Victims hold their places at most so long after they were asked to leave.
const VICTIMS_MAX: Span = Span::from_secs(600);

/// What came of placing the members.
struct Found {
    placements: Vec<Placement>,
    stages: Vec<StageDraft>,
    placed: Vec<Placed>,
}

impl Engine {
    /// Looks at the paused or the next entry. Returns false if there is none.
    pub(super) fn attempt_next(&mut self, budget: &mut Budget) -> bool {
        let search = match self.paused.take() {
            Some(search) => search,
            None => match self.queue.pop(&self.cluster, self.now) {
                Some(id) => Search::of(id),
                None => return false,
            },
        };
        self.attempt(search, budget);
        true
    }

    fn attempt(&mut self, mut search: Search, budget: &mut Budget) {
        let id = search.entry;
        if let Some(gate) = self.closed_gate(id) {
            self.queue.admit(id, Some(gate.plugin), self.now);
            self.tell_gated(id, gate);
            return;
        }
        let before = budget.spent();
        // A search that pauses again gets more each time, so that it ends.
        let mut own = *budget;
        own.extend(u64::from(search.pauses) * self.setup.limits.steps_a_poll);
        let result = self.place_members(&search, &mut own);
        search.spent += own.spent() - before;
        budget.spend(own.spent() - before);
        match result {
            Ok(found) => self.found(search, found),
            Err((_, Unplaced::Paused)) => {
                search.pauses += 1;
                budget.exhaust();
                self.paused = Some(search);
            }
            Err((uid, Unplaced::Ask { consultant, nodes })) => {
                self.ask(search, &uid, consultant, &nodes);
            }
            Err((uid, Unplaced::Unfit(unfit))) => self.unfit(search, &uid, *unfit),
            Err((uid, Unplaced::Error(message))) => self.errored(&search, &uid, message),
        }
    }

    /// Places every member on an overlay; commits it if all have a place.
    fn place_members(
        &mut self,
        search: &Search,
        budget: &mut Budget,
    ) -> Result<Found, (PodUid, Unplaced)> {
        let Some(entry) = self.queue.entry(search.entry).cloned() else {
            return Ok(Found { placements: Vec::new(), stages: Vec::new(), placed: Vec::new() });
        };
        let mut placer = Placer {
            profile: &self.profiles[entry.profile],
            profile_idx: entry.profile,
            classes: &mut self.classes,
            setup: &self.setup,
            attempt: entry.attempts,
            allowed: search.allowed.as_ref(),
        };
        let members = entry.members.iter().filter(|uid| may_be_placed(&self.cluster, uid));
        let pods: Vec<Pod> = members
            .filter_map(|uid| self.cluster.pod(uid).map(|record| record.pod.clone()))
            .collect();
        let mut overlay = Overlay::new(&mut self.cluster);
        let mut placed: Vec<Placed> = Vec::new();
        for pod in &pods {
            let place = placer.place(&mut overlay, pod, budget);
            placed.push(place.map_err(|unplaced| (pod.uid.clone(), unplaced))?);
        }
        let mut waits = Vec::new();
        for (pod, at) in pods.iter().zip(&placed) {
            let permit = placer.permit(overlay.cluster(), pod, at.node, self.now);
            let wait = permit.map_err(|unplaced| (pod.uid.clone(), unplaced))?;
            waits.extend(wait.map(StageDraft::Wait));
        }
        let mut stages = waits;
        let nodes: Vec<(&Pod, NodeIdx)> = pods.iter().zip(placed.iter().map(|p| p.node)).collect();
        stages.extend(stages_of(placer.profile, overlay.cluster(), &nodes, self.now));
        let placements = nodes
            .iter()
            .filter_map(|(pod, node)| placement_of(overlay.cluster(), pod, *node, false))
            .collect();
        overlay.commit();
        Ok(Found { placements, stages, placed })
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
        self.begin_plan(Plan::new(search.entry, found.placements, found.stages));
    }

    /// The pod fits nowhere: asks PostFilter, else tells why and parks the entry.
    fn unfit(&mut self, search: Search, uid: &PodUid, mut unfit: Unfit) {
        let room = self.make_room(&search, uid);
        match room {
            Ok(Some(plan)) => {
                self.begin_plan(plan);
                return;
            }
            Ok(None) => {}
            Err(text) => unfit.error.post_filter = Some(text),
        }
        let texts = unfit.error.texts();
        let message = Text::from(unfit.error.message());
        let report = CycleReport {
            message: message.clone(),
            rejected: unfit.rejected,
            ..self.report(&search, uid, Outcome::Unschedulable)
        };
        self.out.push_back(Decision::Report(Box::new(report)));
        self.tell_members(search.entry, uid, "Unschedulable", &message, &texts);
        self.reject(search.entry, unfit.rejection);
    }

    fn reject(&mut self, id: EntryId, rejection: Rejection) {
        let (cluster, profiles, gates) = (&self.cluster, &self.profiles, &self.setup.gates);
        let mut ask = |entry: &crate::queue::Entry, plugin: &'static str, change: &_| {
            super::folding::hint(entry, plugin, change, cluster, &profiles[entry.profile], gates)
        };
        self.queue.reject(id, rejection, self.now, &mut ask);
    }

    fn errored(&mut self, search: &Search, uid: &PodUid, message: Text) {
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
        if self.queue.entry(entry).is_none() {
            return;
        }
        if let Some(uid) = members.first().filter(|_| !failure.moved_on) {
            let uid = uid.clone();
            self.tell_members(entry, &uid, "SchedulerError", &failure.message, &[]);
        }
        self.queue.fail(entry, self.now);
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

    /// Asks PostFilter for victims. A plan is made only if the pod is proven to fit without them.
    ///
    /// # Errors
    /// What the message is to say after its reasons.
    fn make_room(&mut self, search: &Search, uid: &PodUid) -> Result<Option<Plan>, Text> {
        let Some(profile_idx) = self.profile_of(search.entry) else { return Ok(None) };
        let profile = &self.profiles[profile_idx];
        let Some(pod) = self.cluster.pod(uid).map(|record| record.pod.clone()) else {
            return Ok(None);
        };
        if profile.post_filter.is_empty() || self.queue.entry(search.entry).is_none() {
            return Ok(None);
        }
        let verdicts: Vec<Verdict> = (0..self.cluster.nodes().capacity())
            .map(|at| {
                let cycle = Cycle { pod: &pod, cluster: &self.cluster };
                verdict_on(profile, cycle, NodeIdx(at as u32))
            })
            .collect();
        let of_node = |node: NodeIdx| verdicts[node.at()].clone();
        let fits = |cluster: &crate::snapshot::Cluster, pod: &Pod, node: NodeIdx| {
            verdict_on(profile, Cycle { pod, cluster }, node).fits()
        };
        let mut texts: Vec<Text> = Vec::new();
        let mut overlay = Overlay::new(&mut self.cluster);
        for entry in &profile.post_filter {
            let mark = overlay.checkpoint();
            let answer = guarded(entry.name, || {
                entry.plugin.post_filter(&pod, &mut overlay, &of_node, &fits)
            });
            overlay.rollback(mark);
            match answer {
                Ok(PostFilterAnswer::Evict { node, victims }) => {
                    let plan =
                        eviction_plan(search.entry, &mut overlay, &pod, node, &victims, &fits)
                            .map(|evict| (evict, node));
                    drop(overlay);
                    let Some((mut plan, node)) = plan else { return Ok(None) };
                    let nodes = [(&pod, node)];
                    let rest = stages_of(profile, &self.cluster, &nodes, self.now);
                    plan.stages.extend(rest);
                    plan.stages.iter_mut().for_each(|stage| set_deadline(stage, self.now));
                    self.cluster.nominate(&pod.uid, node);
                    return Ok(Some(plan));
                }
                Ok(PostFilterAnswer::Unschedulable(text)) => texts.push(text),
                Ok(PostFilterAnswer::Unresolvable(text)) => {
                    texts.push(text);
                    break;
                }
                Err(fault) => texts.push(fault),
            }
        }
        drop(overlay);
        if texts.is_empty() { Ok(None) } else { Err(Text::from(texts.join(", "))) }
    }

    fn ask(&mut self, mut search: Search, uid: &PodUid, consultant: usize, nodes: &NodeSet) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let pod = record.pod.reference();
        let consultant = &self.setup.consultants[consultant];
        let (name, deadline) = (consultant.name(), consultant.deadline(self.now));
        let names = nodes.iter().map(|node| self.cluster.nodes().slot(node).name.clone());
        let nodes: Vec<Text> = names.collect();
        let id = QuestionId(self.fresh_id());
        search.asked = Some((Text::from(name), deadline));
        self.asking.insert(id, search);
        let question = Question { id, consultant: name, pod, nodes, deadline };
        self.out.push_back(Decision::Ask(question));
    }

    pub(super) fn answered(&mut self, question: QuestionId, answer: Answer) {
        let Some(mut search) = self.asking.remove(&question) else { return };
        search.asked = None;
        match answer {
            Answer::Allowed(names) => {
                let nodes = names.iter().filter_map(|name| self.cluster.nodes().index(name));
                search.allowed = Some(nodes.collect());
                let mut budget = Budget::new(self.setup.limits.steps_a_poll);
                if self.paused.is_none() {
                    self.attempt(search, &mut budget);
                } else {
                    // One search at a time; this one starts over, after the paused one.
                    self.queue.fail(search.entry, self.now);
                }
            }
            Answer::Failed(message) => self.failed_question(&search, message),
        }
    }

    fn failed_question(&mut self, search: &Search, message: Text) {
        let leader = self.queue.entry(search.entry).and_then(|e| e.members.first().cloned());
        if let Some(uid) = leader {
            self.errored(search, &uid, message);
        }
    }

    pub(super) fn expire_questions(&mut self) {
        let now = self.now;
        let overdue = |search: &Search| search.deadline().is_some_and(|at| at <= now);
        let ids: Vec<QuestionId> =
            self.asking.iter().filter(|(_, s)| overdue(s)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(search) = self.asking.remove(&id) {
                let who = search.asked.as_ref().map(|(name, _)| name.clone()).unwrap_or_default();
                self.failed_question(&search, Text::from(format!("{who} did not answer in time")));
            }
        }
    }

    /// Drops searches of entries that are gone.
    pub(super) fn drop_searches(&mut self) {
        let queue = &self.queue;
        self.asking.retain(|_, search| queue.entry(search.entry).is_some());
        if self.paused.as_ref().is_some_and(|search| queue.entry(search.entry).is_none()) {
            self.paused = None;
        }
    }
}

/// PreBind's stages of every member, then all binds in one stage.
fn stages_of(
    profile: &crate::framework::Profile,
    cluster: &crate::snapshot::Cluster,
    placed: &[(&Pod, NodeIdx)],
    now: Timestamp,
) -> Vec<StageDraft> {
    let mut stages = Vec::new();
    let mut binds: Vec<WriteDraft> = Vec::new();
    for (pod, node) in placed {
        for entry in &profile.pre_bind {
            let asked = || entry.plugin.pre_bind(pod, cluster, *node, now);
            stages.extend(guarded(entry.name, asked).unwrap_or_default());
        }
        let bind = profile.bind.iter().find_map(|entry| {
            guarded(entry.name, || entry.plugin.bind(pod, cluster, *node)).ok().flatten()
        });
        binds.extend(bind);
    }
    stages.push(StageDraft::Writes(binds));
    stages
}

fn placement_of(
    cluster: &crate::snapshot::Cluster,
    pod: &Pod,
    node: NodeIdx,
    nominated: bool,
) -> Option<Placement> {
    let slot = cluster.nodes().slot(node);
    Some(Placement {
        pod: pod.reference(),
        node,
        node_name: slot.name.clone(),
        node_uid: slot.node.as_ref()?.uid.clone(),
        version: slot.version,
        nominated,
        bound: false,
    })
}

/// Evictions, then a wait until the victims are gone. `None` if the pod does not fit without them.
fn eviction_plan(
    entry: EntryId,
    overlay: &mut Overlay<'_>,
    pod: &Pod,
    node: NodeIdx,
    victims: &[PodUid],
    fits: &dyn Fn(&crate::snapshot::Cluster, &Pod, NodeIdx) -> bool,
) -> Option<Plan> {
    let mark = overlay.checkpoint();
    let refs: Vec<_> = victims
        .iter()
        .filter_map(|uid| overlay.cluster().pod(uid).map(|record| record.pod.reference()))
        .collect();
    let all_off = victims.iter().all(|uid| overlay.evict(uid));
    let proven = all_off && fits(overlay.cluster(), pod, node);
    overlay.rollback(mark);
    if !proven {
        return None;
    }
    let delete = |pod: &crate::types::PodRef| WriteDraft {
        label: Text::from(format!("evict {pod}")),
        op: Op::DeletePod { pod: pod.clone() },
        undo: None,
    };
    let wait = Wait {
        condition: Arc::new(PodsGone(victims.to_vec())),
        deadline: Timestamp::default(),
        on_expiry: Text::from("victims did not leave in time"),
    };
    let stages =
        vec![StageDraft::Writes(refs.iter().map(delete).collect()), StageDraft::Wait(wait)];
    let placement = placement_of(overlay.cluster(), pod, node, true)?;
    Some(Plan::new(entry, vec![placement], stages))
}

fn set_deadline(stage: &mut StageDraft, now: Timestamp) {
    if let StageDraft::Wait(wait) = stage
        && wait.deadline == Timestamp::default()
    {
        wait.deadline = now + VICTIMS_MAX;
    }
}
