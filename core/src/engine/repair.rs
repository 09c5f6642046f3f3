//! Groups that are bound in part: completed, or taken back; groups that have started: what they have
//! lost is told, and kept for them.
//!
//! All of it is read from objects, so a successor goes on where its predecessor died: who is bound,
//! which commit each belongs to ([`crate::types::group::PlanNote`]), since when it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::framework::{GroupRules, Op};
use crate::snapshot::{Change, GroupView, Membership, Place};
use crate::types::group::GroupPhase;
use crate::types::pod::Phase;
use crate::types::{GroupKey, PlanNote, Pod, PodRef, PodUid, Span, Text, Timestamp};

use crate::queue::Station;

use super::decision::{Decision, Notice, Urgency};
use super::ending::TRIES_MAX;
use super::gathering::PATIENCE;
use super::holding::Had;
use super::input::WriteResult;
use super::letting_go::LettingGo;
use super::{Engine, Purpose};

/// A group counts as started once a member has run for so long.
const STARTED_AFTER: Span = Span::from_secs(60);
/// A group of n members is looked at again at most every n of these: events of large groups come
/// in thousands.
const A_MEMBER: Span = Span(1);
/// A group that should have been taken back, and could not be, is tried again so much later.
const AGAIN: Span = Span::from_secs(10);
/// A process that finds a group in part completes it within this, if its time is over.
const OWN_TIME: Span = Span::from_secs(5);
/// What is under way is waited for.
pub(super) const SOON: Span = Span::from_secs(1);

/// Groups whose members have places.
#[derive(Debug, Default)]
pub(super) struct Watched {
    of: BTreeMap<GroupKey, Standing>,
    due: BTreeSet<(Timestamp, GroupKey)>,
}

/// How a group stands.
#[derive(Debug, Default)]
struct Standing {
    looked: Timestamp,
    due: Option<Timestamp>,
    /// Since when it is bound in part and has not started.
    partial_since: Option<Timestamp>,
    /// When it was taken back last, in this time in part.
    taken_back: Option<Timestamp>,
    /// It was told that it is below its minimum, with so many members, since the last one came.
    told_below: Option<u32>,
    complete: bool,
    /// It can't be taken back: the places that it lacks are kept for it when a plan is given up.
    has_first_claim: bool,
    /// What members that have lost their places had, since it was last looked at.
    lost: Vec<Had>,
}

impl Standing {
    fn is_not_in_part(&mut self) {
        self.partial_since = None;
        self.taken_back = None;
        self.has_first_claim = false;
    }
}

impl Watched {
    pub(super) fn next_wakeup(&self, now: Timestamp) -> Option<(Timestamp, &'static str)> {
        self.due.first().map(|(at, _)| ((*at).max(now), "a group is looked at"))
    }

    /// Number of groups that have started and are below their minimum.
    pub(super) fn below_minimum(&self) -> usize {
        self.of.values().filter(|standing| standing.told_below.is_some()).count()
    }

    /// Returns what lost members had, once.
    pub(super) fn lost(&mut self, key: &GroupKey) -> Vec<Had> {
        self.of.get_mut(key).map(|standing| std::mem::take(&mut standing.lost)).unwrap_or_default()
    }

    /// Tells whether the group stays as it is, in part, and is to be completed before others get
    /// what it lacks.
    pub(super) fn has_first_claim(&self, key: &GroupKey) -> bool {
        self.of.get(key).is_some_and(|standing| standing.has_first_claim)
    }

    pub(super) fn set_due(&mut self, key: &GroupKey, at: Option<Timestamp>) {
        let standing = self.of.entry(key.clone()).or_default();
        if let Some(old) = std::mem::replace(&mut standing.due, at) {
            self.due.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.due.insert((at, key.clone()));
        }
    }

    /// Looks at the group at `at` at the latest.
    pub(super) fn look_by(&mut self, key: &GroupKey, at: Timestamp) {
        let due = self.of.get(key).and_then(|standing| standing.due);
        self.set_due(key, Some(due.map_or(at, |due| due.min(at))));
    }

    fn forget(&mut self, key: &GroupKey) {
        if let Some(at) = self.of.remove(key).and_then(|standing| standing.due) {
            self.due.remove(&(at, key.clone()));
        }
    }
}

/// What the members' objects say.
struct Facts {
    /// Members that are bound on the server, and live.
    bound: BTreeSet<PodUid>,
    /// A commit of the group is known of which some members are not bound.
    incomplete: bool,
    /// Bound members of such commits.
    of_incomplete: Vec<PodUid>,
    /// When the first of them was bound.
    bound_since: Option<Timestamp>,
    started: bool,
    /// When a member that runs will have run long enough.
    starts: Option<Timestamp>,
    enough: bool,
}

impl Engine {
    /// Something has happened to members of the group: it is looked at soon.
    pub(super) fn watch_group(&mut self, key: &GroupKey) {
        let members = self.cluster.groups().n_members(key) as u64;
        let standing = self.watched.of.entry(key.clone()).or_default();
        let earliest = standing.looked + Span(A_MEMBER.0 * members);
        if standing.due.is_none_or(|due| due > earliest.max(self.now)) {
            self.watched.set_due(key, Some(earliest.max(self.now)));
        }
    }

    /// A pod has its place, or changed: its group is looked at.
    pub(super) fn member_moved(&mut self, uid: &PodUid) {
        let Some(record) = self.cluster.pod(uid) else { return };
        if record.pod.group_hints().is_empty() {
            return;
        }
        let Membership::In(key) = self.cluster.groups().membership(&record.pod) else { return };
        if record.place != Place::Nowhere {
            self.watch_group(&key);
        }
        self.ask_gates_of(&key);
    }

    /// What holds the group may be something else now.
    fn ask_gates_of(&mut self, key: &GroupKey) {
        let waits = self.queue.group(key).and_then(|id| self.queue.entry(id));
        if let Some(entry) = waits
            && matches!(entry.station, Station::Gated { .. })
        {
            self.admit(entry.id, None);
        }
    }

    /// A pod has its node: what its group was told it lacks is told anew if it lacks something still.
    pub(super) fn member_came(&mut self, uid: &PodUid) {
        let Some(record) = self.cluster.pod(uid) else { return };
        if record.pod.group_hints().is_empty() {
            return;
        }
        let key = self.cluster.groups().membership(&record.pod).key();
        if let Some(standing) = key.and_then(|key| self.watched.of.get_mut(&key)) {
            standing.told_below = None;
        }
    }

    /// A pod is gone, or has lost its place.
    pub(super) fn member_lost(&mut self, change: &Change) {
        let (old, node) = match change {
            Change::PodFreed { old, node } => (old, Some(*node)),
            Change::PodDeleted { old } => (old, None),
            _ => return,
        };
        if old.group_hints().is_empty() {
            return;
        }
        self.seen_running.remove(&old.uid);
        let membership = self.cluster.groups().membership(old);
        self.forget_group(old);
        let Membership::In(key) = membership else { return };
        self.watch_group(&key);
        let was_bound = old.node_name.is_some();
        let ended_well =
            self.cluster.pod(&old.uid).is_some_and(|record| record.pod.phase == Phase::Succeeded);
        if let Some(node) = node.filter(|_| was_bound && !ended_well)
            && let Some(standing) = self.watched.of.get_mut(&key)
        {
            let devices = self.cluster.devices_of_its_own(old);
            standing.lost.push(Had { pod: (**old).clone(), node, devices });
            // Though another may have come in the meantime.
            standing.told_below = None;
            // Its place is kept before anybody else looks at it.
            self.watched.set_due(&key, Some(self.now));
        }
        self.ask_gates_of(&key);
    }

    /// Looks at the groups that are due.
    pub(super) fn advance_groups(&mut self) {
        while let Some((at, key)) = self.watched.due.first().cloned() {
            if at > self.now {
                return;
            }
            self.watched.set_due(&key, None);
            self.look_at_group(&key);
        }
    }

    /// A group waits: it lets go of what it has, unless that ends soon.
    pub(super) fn watch_held(&mut self, key: &GroupKey) {
        let due = self.watched.of.get(key).and_then(|standing| standing.due);
        if due.is_none() {
            self.watched.set_due(key, Some(self.now + PATIENCE));
        }
    }

    fn look_at_group(&mut self, key: &GroupKey) {
        if let Some(standing) = self.watched.of.get_mut(key) {
            standing.looked = self.now;
        }
        if let Ok(root) = self.cluster.groups().root(key.clone())
            && root != *key
        {
            // It is looked at as a whole, since when that is known.
            self.watched.forget(key);
            return self.watch_group(&root);
        }
        let letting_go = self.lets_go(key);
        self.look_at_bound(key);
        if letting_go != LettingGo::Nothing {
            self.watched.look_by(key, self.now + AGAIN);
        }
    }

    fn look_at_bound(&mut self, key: &GroupKey) {
        let facts = self.cluster.group_as_it_is(key).ok().map(|view| self.facts(&view));
        let Some(facts) = facts.filter(|facts| !facts.bound.is_empty()) else {
            self.end_holds(key);
            return self.watched.forget(key);
        };
        if facts.enough {
            return self.group_complete(key);
        }
        let entry = self.queue.group(key).and_then(|id| self.queue.entry(id));
        let under_way = entry.is_some_and(|entry| entry.station == Station::InFlight);
        let Some(rules) = self.rules_for(key).cloned() else { return };
        let standing = self.watched.of.entry(key.clone()).or_default();
        standing.complete = false;
        if facts.started {
            standing.is_not_in_part();
            self.keep_places(key, &rules);
            return self.tell_below(key, &facts);
        }
        if !facts.incomplete {
            standing.is_not_in_part();
            // That a member runs is no event.
            let due = facts.starts.unwrap_or(self.now + AGAIN);
            return self.watched.set_due(key, Some(due));
        }
        let Some(after) = rules.take_back_after else { return self.stays_below(key, &facts) };
        // Who takes over late has a little time of its own.
        let latest = Timestamp((self.now + OWN_TIME).0.saturating_sub(after.0)).min(self.now);
        let begun = facts.bound_since.map_or(self.now, |since| since.min(self.now).max(latest));
        let since = *standing.partial_since.get_or_insert(begun);
        if self.now < since + after {
            // It may start before that: then it is told at once.
            let due = facts.starts.map_or(since + after, |starts| starts.min(since + after));
            return self.watched.set_due(key, Some(due));
        }
        if under_way {
            // It may just be completed. Who fails time and again gains no time by it.
            return self.watched.set_due(key, Some(self.now + SOON));
        }
        // What its members are told and lose is heard of before they are gone.
        if let Some(again) = standing.taken_back.map(|at| at + AGAIN).filter(|at| *at > self.now) {
            self.watched.set_due(key, facts.starts);
            return self.watched.look_by(key, again);
        }
        if !self.unsynced.is_empty() {
            // Nobody is taken back by half of the news.
            return self.watched.set_due(key, Some(self.now + SOON));
        }
        if !self.setup.bug("no-take-back") {
            self.take_back(key, &facts, &rules);
        }
    }

    pub(super) fn rules_for(&self, key: &GroupKey) -> Option<&GroupRules> {
        let of_pod = |uid: &PodUid| {
            let name = &self.cluster.pod(uid)?.pod.spec.scheduler_name;
            self.profiles[*self.by_name.get(name)?].groups.as_ref()
        };
        let below = self.cluster.groups().children(key);
        let keys = [key].into_iter().chain(below);
        keys.flat_map(|key| self.cluster.groups().members(key)).find_map(of_pod)
    }

    fn facts(&self, view: &GroupView) -> Facts {
        let mut by_note: BTreeMap<_, Vec<PodUid>> = BTreeMap::new();
        let mut done_of_note: BTreeMap<&PlanNote, u32> = BTreeMap::new();
        let (mut bound, mut starts) = (BTreeSet::new(), None::<Timestamp>);
        for note in self.cluster.groups().retired_of_all(&view.key).filter_map(Pod::plan_note) {
            *done_of_note.entry(note).or_default() += 1;
        }
        for member in &view.members {
            let Some(record) = self.cluster.pod(&member.uid) else { continue };
            if let Some(note) = record.pod.plan_note().filter(|_| member.done) {
                *done_of_note.entry(note).or_default() += 1;
            }
            if !matches!(record.place, Place::Bound(_)) {
                continue;
            }
            bound.insert(member.uid.clone());
            if let Some(note) = record.pod.plan_note() {
                by_note.entry(note.clone()).or_default().push(member.uid.clone());
            }
            if let Some(at) = running_since(&record.pod, self.seen_running.get(&member.uid)) {
                let at = at + STARTED_AFTER;
                starts = Some(starts.map_or(at, |known| known.min(at)));
            }
        }
        // Whose work is done has been there.
        let open = |(note, of): &(&PlanNote, &Vec<PodUid>)| {
            let done = done_of_note.get(note).copied().unwrap_or(0);
            of.len() as u32 + done < note.members
        };
        let of_incomplete: Vec<PodUid> =
            by_note.iter().filter(open).flat_map(|(_, of)| of.clone()).collect();
        let starts = starts.filter(|_| !self.setup.bug("takes-back-started"));
        let numbers = view.count(|member| member.done || bound.contains(&member.uid));
        let bound_at = |uid: &PodUid| self.cluster.pod(uid)?.pod.gang.as_ref()?.scheduled;
        Facts {
            incomplete: !of_incomplete.is_empty(),
            bound_since: of_incomplete.iter().filter_map(bound_at).min(),
            of_incomplete,
            started: starts.is_some_and(|at| at <= self.now),
            starts,
            enough: view.suffices(&numbers),
            bound,
        }
    }

    fn group_complete(&mut self, key: &GroupKey) {
        let standing = self.watched.of.entry(key.clone()).or_default();
        let was_complete = std::mem::replace(&mut standing.complete, true);
        standing.is_not_in_part();
        standing.told_below = None;
        standing.lost.clear();
        self.end_holds(key);
        if !was_complete {
            let text = Text::from("all members that the group needs are bound");
            self.tell_group(key, GroupPhase::Scheduled, &text, self.now);
        }
    }

    /// Nobody of the group may be taken back, so it stays in part: it has first claim to what it
    /// lacks.
    fn stays_below(&mut self, key: &GroupKey, facts: &Facts) {
        self.watched.of.entry(key.clone()).or_default().has_first_claim = true;
        self.end_old_holds(key);
        self.tell_below(key, facts);
    }

    /// A group that runs, or may not be taken back, has too few members.
    fn tell_below(&mut self, key: &GroupKey, facts: &Facts) {
        let n_bound = facts.bound.len() as u32;
        let standing = self.watched.of.entry(key.clone()).or_default();
        if standing.told_below.replace(n_bound) == Some(n_bound) {
            return;
        }
        let lack = self.cluster.group_as_it_is(key).ok().and_then(|view| {
            let numbers = view.count(|member| facts.bound.contains(&member.uid));
            view.lacks(&numbers)
        });
        let missing = lack.map_or_else(String::new, |lack| format!(": {lack}"));
        let message = Text::from(format!("pod group {key} is below its minimum{missing}"));
        let Some(record) = facts.bound.first().and_then(|uid| self.cluster.pod(uid)) else {
            return;
        };
        let notice = Notice::BelowMinimum {
            group: key.clone(),
            pod: record.pod.reference(),
            scheduler_name: record.pod.spec.scheduler_name.clone(),
            message,
        };
        self.out.push_back(Decision::Notice(notice));
    }

    /// Deletes the members of a commit that did not come to its end, each told why first. Only those
    /// that somebody makes anew, unless the profile says otherwise.
    fn take_back(&mut self, key: &GroupKey, facts: &Facts, rules: &GroupRules) {
        let unowned = rules.take_back_unowned || self.setup.bug("takes-back-unowned");
        let made_anew = |uid: &&PodUid| {
            let record = self.cluster.pod(uid);
            record.is_some_and(|r| r.pod.owner.is_some() || unowned)
        };
        let victims: Vec<PodRef> = facts
            .of_incomplete
            .iter()
            .filter(made_anew)
            .filter_map(|uid| self.cluster.pod(uid))
            .map(|record| record.pod.reference())
            .collect();
        if victims.is_empty() {
            return self.stays_below(key, facts);
        }
        self.measures.groups_taken_back += 1;
        self.watched.of.entry(key.clone()).or_default().taken_back = Some(self.now);
        let of = self.cluster.groups().members(key).count().max(facts.bound.len());
        let message = Text::from(format!(
            "pod group {key} could not be completed: {} of {of} members are bound and it has not started",
            facts.bound.len()
        ));
        for pod in victims {
            let op = Op::SetDisruption {
                pod: pod.clone(),
                reason: Text::from("GangIncomplete"),
                message: message.clone(),
            };
            let purpose = Purpose::TakeBack { key: key.clone(), pod };
            self.send(op, purpose, Urgency::Plan);
        }
        // Who starts before they are gone is told of.
        self.watched.set_due(key, facts.starts);
        self.watched.look_by(key, self.now + AGAIN);
    }

    /// The pod was told why it goes: it is deleted, unless the group has been completed meanwhile.
    /// Nobody is deleted who was not told: the group is looked at again.
    pub(super) fn told_why(&mut self, key: &GroupKey, pod: PodRef, result: WriteResult) {
        if !matches!(result, WriteResult::Done(_)) {
            return self.watched.look_by(key, self.now + AGAIN);
        }
        let facts = self.cluster.group_as_it_is(key).ok().map(|view| self.facts(&view));
        let still = facts.is_some_and(|facts| {
            facts.incomplete && !facts.enough && !facts.started && facts.bound.contains(&pod.uid)
        });
        if still {
            self.leaving.insert(pod.uid.clone());
            // Sent once: whether it is still right is looked at before it is sent again.
            self.send_aside(Op::DeletePod { pod }, TRIES_MAX);
        }
    }

    /// Notes since when a member runs, as it was first told, or seen where the object doesn't say: a
    /// container that is started anew in place sets no clock back.
    pub(super) fn note_running(&mut self, uid: &PodUid) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let Some(gang) = &record.pod.gang else { return };
        if record.pod.phase == Phase::Running && !gang.hints.is_empty() {
            let since = gang.running.unwrap_or(self.now);
            let known = self.seen_running.entry(uid.clone()).or_insert(since);
            if since < *known {
                // Its group may have started sooner than was thought.
                *known = since;
                self.member_moved(uid);
            }
        }
    }
}

fn running_since(pod: &Pod, seen: Option<&Timestamp>) -> Option<Timestamp> {
    let gang = pod.gang.as_ref()?;
    if pod.phase != Phase::Running {
        return None;
    }
    gang.running.into_iter().chain(seen.copied()).min()
}
