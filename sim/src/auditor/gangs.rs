//! Groups: none starts in part (I4), nobody is deleted who may not be, what is lost is told and
//! kept, and what is told is true.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::engine::{CycleReport, Notice, Outcome};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{
    ClaimKey, GroupKey, Node, PlanNote, Pod, PodRef, PodRequests, PodUid, Span, Text, Timestamp,
};

use super::claims::{Wrong, keys};
use super::roster::{Roster, Standing, bound, done};

/// A group that is bound in part, and has not started, is completed or taken back after 30 s; so
/// much later it is an alarm.
const HALF_MAX: Span = Span::from_secs(60);
/// A group that has started and is below its minimum is told within this.
const TOLD_WITHIN: Span = Span::from_secs(5);
/// How long the place of a lost member is kept, by the profile of the simulation.
pub const HOLD_SLOTS: Span = Span::from_secs(40);

/// The place of a member that a started group has lost.
#[derive(Debug)]
struct Slot {
    group: GroupKey,
    node: Text,
    pod: Box<Pod>,
    since: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Gangs {
    /// By the world's log.
    pub(super) world: Roster,
    /// Groups that are bound in part, and since when.
    half: BTreeMap<GroupKey, Timestamp>,
    /// Of those, the ones that were whole until their minimum was raised.
    raised: BTreeSet<GroupKey>,
    pub(super) faults_ended: Option<Timestamp>,

    // What one process knows and has done.
    pub(super) seen: Roster,
    /// Groups of which it was told since its last turn.
    fresh: BTreeSet<GroupKey>,
    /// Groups that are bound in part, by what it was told.
    half_seen: BTreeMap<GroupKey, Standing>,
    /// Groups that are below their minimum and have started, since when it knows.
    below: BTreeMap<GroupKey, Timestamp>,
    /// Groups of which it has told that.
    told_below: BTreeSet<GroupKey>,
    slots: Vec<Slot>,
    /// Nodes that are gone, and with them the places there.
    gone: BTreeSet<Text>,
    /// Members that it has sent to nodes.
    sent: BTreeSet<PodUid>,
    /// Binds since its last turn, by commit.
    sent_now: BTreeMap<(PlanNote, GroupKey), BTreeSet<PodUid>>,
    /// Number of binds since its last turn that were decided on before it was told that the pod is gone,
    /// by commit.
    sent_gone: BTreeMap<PlanNote, usize>,
    /// Groups for which it has sent a write of a plan.
    begun: BTreeSet<GroupKey>,
    /// Groups that it has looked at against nodes.
    attempted: BTreeSet<GroupKey>,
    /// Members whose binds it has tried, and when.
    tried: BTreeMap<GroupKey, Timestamp>,
    /// Pods that it has told why they go.
    disrupted: BTreeSet<PodUid>,
}

impl Gangs {
    /// Another process begins.
    pub(super) fn restarted(&mut self) {
        let Gangs { world, half, raised, faults_ended, .. } = std::mem::take(self);
        *self = Gangs { world, half, raised, faults_ended, ..Gangs::default() };
    }

    /// Follows the world's log.
    pub(super) fn logged(&mut self, event: &ClusterEvent, now: Timestamp) {
        let was = match event {
            ClusterEvent::Groups(_) => self.half.clone(),
            _ => BTreeMap::new(),
        };
        for key in self.world.fold(event) {
            let standing = self.world.standing(&key);
            if !standing.half() || self.world.outer(&key) != key {
                self.half.remove(&key);
                self.raised.remove(&key);
                continue;
            }
            self.half.entry(key.clone()).or_insert(now);
            if matches!(event, ClusterEvent::Groups(_)) && !was.contains_key(&key) {
                self.raised.insert(key);
            }
        }
    }

    /// The process was told this.
    pub(super) fn delivered(&mut self, event: &ClusterEvent, now: Timestamp) {
        match event {
            ClusterEvent::NodeDeleted { name, .. } => {
                self.slots.retain(|slot| slot.node != *name);
                self.gone.insert(name.clone());
            }
            ClusterEvent::NodeApplied(node) => drop(self.gone.remove(&node.name)),
            _ => {}
        }
        let lost = match event {
            ClusterEvent::PodDeleted { uid } => self.seen.pod(uid).cloned(),
            ClusterEvent::PodApplied(pod) if pod.phase == berth_core::types::Phase::Failed => {
                self.seen.pod(&pod.uid).cloned()
            }
            _ => None,
        };
        let lost = lost.filter(|pod| pod.node_name.is_some() && !pod.finished());
        for key in self.seen.fold(event) {
            let standing = self.seen.standing(&key);
            if standing.whole {
                self.told_below.remove(&key);
            }
            let half = standing.half() && self.seen.outer(&key) == key;
            if half {
                self.half_seen.insert(key.clone(), standing.clone());
            } else {
                self.half_seen.remove(&key);
                self.below.remove(&key);
            }
            if !half {
                self.slots.retain(|slot| slot.group != key);
            } else if let Some(pod) = &lost
                && standing.started(now)
                && let Some(node) = pod.node_name.clone().filter(|node| !self.gone.contains(node))
            {
                let slot =
                    Slot { group: key.clone(), node, pod: Box::new(pod.clone()), since: now };
                self.slots.push(slot);
            }
            self.fresh.insert(key);
        }
    }

    pub(super) fn noticed(&mut self, notice: &Notice) {
        if let Notice::BelowMinimum { group, .. } = notice {
            self.told_below.insert(group.clone());
        }
    }

    pub(super) fn reported(&mut self, report: &CycleReport) {
        let Some(pod) = self.seen.pod(&report.pod.uid) else { return };
        let looked = match report.outcome {
            Outcome::Unschedulable | Outcome::Planned => true,
            Outcome::Error => false,
        };
        if let Some(key) = self.seen.outer_of(pod).filter(|_| looked) {
            self.attempted.insert(key);
        }
    }

    /// The process sends `op`.
    pub(super) fn sends(&mut self, op: &Op, now: Timestamp) -> Option<Wrong> {
        match op {
            Op::Bind { pod, plan, .. } => self.sends_bind(pod, plan.as_ref()),
            Op::TryBind { pod, .. } => {
                let key = self.seen.pod(&pod.uid).and_then(|pod| self.seen.outer_of(pod));
                self.begun.extend(key.clone());
                self.tried.extend(key.map(|key| (key, now)));
                None
            }
            Op::Claim { write: ClaimWrite::Allocate { pod, .. }, .. } => {
                let key = self.seen.pod(&pod.uid).and_then(|pod| self.seen.outer_of(pod));
                self.begun.extend(key);
                None
            }
            Op::SetDisruption { pod, .. } => {
                self.disrupted.insert(pod.uid.clone());
                self.takes_back(pod, now)
            }
            Op::DeletePod { pod } if !self.disrupted.contains(&pod.uid) => {
                Some(("I4", format!("{pod} is deleted and was not told why")))
            }
            Op::DeletePod { pod } => self.takes_back(pod, now),
            Op::SetCondition { pod, condition, .. } if condition.reason == "Unschedulable" => {
                let key = self.seen.pod(&pod.uid).and_then(|pod| self.seen.outer_of(pod))?;
                (!self.attempted.contains(&key)).then(|| {
                    let said = &condition.message;
                    ("I15", format!("{pod} is told {said:?}, and nobody has looked at its group"))
                })
            }
            _ => None,
        }
    }

    fn sends_bind(&mut self, pod: &PodRef, plan: Option<&PlanNote>) -> Option<Wrong> {
        let Some(known) = self.seen.pod(&pod.uid) else {
            *self.sent_gone.entry(plan?.clone()).or_default() += 1;
            return None;
        };
        let key = self.seen.outer_of(known)?;
        let Some(note) = plan else {
            return Some(("I4", format!("{pod} of group {key} is bound without a note")));
        };
        self.sent.insert(pod.uid.clone());
        self.begun.insert(key.clone());
        self.sent_now.entry((note.clone(), key)).or_default().insert(pod.uid.clone());
        None
    }

    /// Tells whether a plan of the pod's group was under way.
    pub(super) fn begun(&self, uid: &PodUid) -> bool {
        let key = self.seen.pod(uid).and_then(|pod| self.seen.outer_of(pod));
        key.is_some_and(|key| self.begun.contains(&key))
    }

    /// Tells whether a plan was under way of a group whose members use the claim.
    pub(super) fn begun_with(&self, claim: &ClaimKey) -> bool {
        let uses = |pod: &&Pod| keys(pod).iter().any(|(_, key)| key.as_ref() == Some(claim));
        let groups = self.begun.iter();
        groups.into_iter().any(|key| self.seen.members(key).iter().any(uses))
    }

    /// Never deleted: a member without a controller, of a group that is whole, or of one that has
    /// started.
    fn takes_back(&self, pod: &PodRef, now: Timestamp) -> Option<Wrong> {
        let wrong = |what: &str| Some(("I4", format!("{pod} is taken back: {what}")));
        let known = self.seen.pod(&pod.uid)?;
        let Some(key) = self.seen.outer_of(known) else { return wrong("it is in no group") };
        let standing = self.seen.standing(&key);
        if known.owner.is_none() {
            wrong("nobody makes it anew")
        } else if standing.whole {
            wrong("its group is whole")
        } else if standing.started(now) {
            wrong("its group has started")
        } else {
            None
        }
    }

    /// The process has had its turn.
    pub(super) fn polled(&mut self, now: Timestamp) -> Option<Wrong> {
        let sent = std::mem::take(&mut self.sent_now);
        let half = sent.iter().find_map(|((note, key), sent)| self.sent_half(note, key, sent));
        self.fresh.clear();
        self.sent_gone.clear();
        half.or_else(|| self.untold(now)).or_else(|| self.stays_half(now))
    }

    /// All binds of a commit go out at once, and make the group whole.
    fn sent_half(&self, note: &PlanNote, key: &GroupKey, sent: &BTreeSet<PodUid>) -> Option<Wrong> {
        let all = sent.len() + self.sent_gone.get(note).copied().unwrap_or(0);
        if all != note.members as usize {
            return Some(("I4", format!("{all} binds of {note} are sent")));
        }
        if self.fresh.contains(key) {
            return None;
        }
        // Binds of earlier commits that are not seen yet count as well.
        let on_its_way = |pod: &Pod| self.sent.contains(&pod.uid) && !pod.finished();
        let counts = |pod: &Pod| bound(pod) || done(pod) || on_its_way(pod);
        (!self.seen.suffices(key, &counts)).then(|| {
            let missing = self.seen.missing(key, &counts);
            ("I4", format!("half of group {key} is sent by {note}: {missing:?}"))
        })
    }

    fn untold(&mut self, now: Timestamp) -> Option<Wrong> {
        for (key, standing) in &self.half_seen {
            if !standing.started(now) {
                self.below.remove(key);
                continue;
            }
            let since = *self.below.entry(key.clone()).or_insert(now);
            if now > since + TOLD_WITHIN && !self.told_below.contains(key) {
                let text = format!("group {key} is below its minimum since {since:?}, not told");
                return Some(("I4", text));
            }
        }
        None
    }

    /// I4 itself, after faults have ended.
    fn stays_half(&self, now: Timestamp) -> Option<Wrong> {
        let ended = self.faults_ended?;
        let late = |since: &Timestamp| now > ended.max(*since) + HALF_MAX;
        for (key, since) in self.half.iter().filter(|(_, since)| late(since)) {
            let standing = self.world.standing(key);
            let told = standing.unowned && self.told_below.contains(key);
            if standing.started(now) || self.raised.contains(key) || told {
                continue;
            }
            let text = format!(
                "group {key} is bound in part since {} ms: {} members",
                since.0, standing.bound
            );
            return Some(("I4", text));
        }
        None
    }

    /// A bind of `pod` takes the place that is kept for a group that has lost a member: nothing of
    /// the member's size is left on the node.
    ///
    /// `taken`: what else is on the node.
    pub(super) fn takes_kept(
        &self,
        pod: &Pod,
        node: &Node,
        taken: &[&PodRequests],
        now: Timestamp,
    ) -> Option<Wrong> {
        let own = self.seen.outer_of(pod);
        let counts = |slot: &&Slot| {
            now < slot.since + HOLD_SLOTS
                && slot.pod.priority >= pod.priority
                && Some(&slot.group) != own.as_ref()
        };
        let mut here = self.slots.iter().filter(|slot| slot.node == node.name).filter(counts);
        let slot = here.next()?;
        let others = self.slots.iter().filter(|other| other.group == slot.group).count();
        if here.next().is_some() || self.filled(&slot.group, others, now) {
            return None;
        }
        let size = &slot.pod.usage;
        let mut with = taken.to_vec();
        with.push(&pod.usage);
        (has_room(node, taken, size) && !has_room(node, &with, size)).then(|| {
            let of = format!("{} of group {}", slot.pod.name, slot.group);
            ("I4", format!("{} takes the place on {} kept for {of}", pod.name, node.name))
        })
    }

    /// Tells whether the group may have given up places: it lacks fewer members than it has lost, or
    /// is being completed.
    fn filled(&self, key: &GroupKey, lost: usize, now: Timestamp) -> bool {
        let standing = self.seen.standing(key);
        if !standing.half() || !standing.started(now) {
            return true;
        }
        let tried = self.tried.get(key).is_some_and(|at| now.since(*at) < HOLD_SLOTS);
        let claims = self.seen.members(key).iter().any(|pod| !pod.spec.claims.is_empty());
        let sent = |pod: &Pod| self.sent.contains(&pod.uid) && pod.node_name.is_none();
        let with_sent = |pod: &Pod| bound(pod) || sent(pod);
        let want = self.seen.object(key).map(|object| object.quorum);
        let missing = match want {
            Some(berth_core::types::group::Quorum::AtLeast(want)) => {
                let have = self.seen.members(key).iter().filter(|pod| with_sent(pod)).count();
                (want as usize).saturating_sub(have)
            }
            _ => 0,
        };
        tried || claims || missing < lost
    }
}

fn has_room(node: &Node, taken: &[&PodRequests], size: &PodRequests) -> bool {
    let sum = |name: &str| taken.iter().map(|usage| usage.real.amount(name)).sum::<i64>();
    let pods = (taken.len() as i64) < node.pods_max;
    pods && size
        .real
        .iter()
        .all(|(name, amount)| sum(name) + amount <= node.allocatable.amount(name))
}
