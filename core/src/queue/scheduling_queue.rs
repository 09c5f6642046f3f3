//! The queues themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::framework::{Hint, QueueOrdering, Ranked};
use crate::snapshot::{Change, Cluster};
use crate::types::{PodUid, Span, Text, Timestamp};

use super::backoff::BackoffPolicy;
use super::entry::{Entry, EntryId, Rejection, Station};
use super::hinting::{Answers, Ask, Asked};

/// How many entries stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
    pub in_flight: usize,
}

/// Unschedulable entries are looked at again after so long, whatever the hints said.
const LEFTOVER: Span = Span::from_secs(300);
/// How often that is checked.
const LEFTOVER_PERIOD: Span = Span::from_secs(30);

/// Expiry, then the queue's static order within a window.
type BackoffKey = (Timestamp, Reverse<i32>, Timestamp, EntryId);

pub struct SchedulingQueue {
    entries: BTreeMap<EntryId, Entry>,
    of_pod: BTreeMap<PodUid, EntryId>,
    of_group: BTreeMap<Text, EntryId>,
    ordering: Box<dyn QueueOrdering>,
    backoff: BTreeSet<BackoffKey>,
    error_backoff: BTreeSet<BackoffKey>,
    unschedulable: BTreeSet<EntryId>,
    gated: BTreeSet<EntryId>,
    /// Position in `events` at which an entry was popped.
    in_flight: BTreeMap<EntryId, u64>,
    events: VecDeque<Change>,
    first_event: u64,
    policy: BackoffPolicy,
    leftover: Span,
    leftover_checked: Timestamp,
    next_id: u64,
}

impl SchedulingQueue {
    pub fn new(ordering: Box<dyn QueueOrdering>, policy: BackoffPolicy) -> SchedulingQueue {
        SchedulingQueue {
            entries: BTreeMap::new(),
            of_pod: BTreeMap::new(),
            of_group: BTreeMap::new(),
            ordering,
            backoff: BTreeSet::new(),
            error_backoff: BTreeSet::new(),
            unschedulable: BTreeSet::new(),
            gated: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            events: VecDeque::new(),
            first_event: 0,
            policy,
            leftover: LEFTOVER,
            leftover_checked: Timestamp::default(),
            next_id: 0,
        }
    }

    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub fn entry_of(&self, uid: &PodUid) -> Option<&Entry> {
        self.entries.get(self.of_pod.get(uid)?)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub fn counts(&self) -> QueueCounts {
        QueueCounts {
            active: self.ordering.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len(),
            gated: self.gated.len(),
            in_flight: self.in_flight.len(),
        }
    }

    /// Makes an entry of one pod, not in any queue yet; [`SchedulingQueue::admit`] puts it into one.
    pub fn create(&mut self, leader: PodUid, profile: usize, priority: i32) -> EntryId {
        self.next_id += 1;
        let id = EntryId(self.next_id);
        self.of_pod.insert(leader.clone(), id);
        self.entries.insert(id, Entry::new(id, leader, profile, priority));
        id
    }

    /// Returns the entry of a group, if it has members.
    pub fn group(&self, key: &Text) -> Option<EntryId> {
        self.of_group.get(key).copied()
    }

    pub fn name_group(&mut self, id: EntryId, key: &Text, min_member: usize) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.group = Some(key.clone());
            entry.min_member = min_member;
            self.of_group.insert(key.clone(), id);
        }
    }

    /// Adds a member that arrived late.
    pub fn join(&mut self, id: EntryId, uid: PodUid) {
        if let Some(entry) = self.entries.get_mut(&id)
            && !entry.members.contains(&uid)
        {
            self.of_pod.insert(uid.clone(), id);
            entry.members.push(uid);
        }
    }

    pub fn set_class(&mut self, id: EntryId, class: u32) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.class = class;
        }
    }

    pub fn set_priority(&mut self, id: EntryId, priority: i32) {
        self.with_queues(id, |entry| entry.priority = priority);
    }

    fn with_queues(&mut self, id: EntryId, change: impl FnOnce(&mut Entry)) {
        let Some(station) = self.entries.get(&id).map(|entry| entry.station.clone()) else {
            return;
        };
        self.leave_station(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        change(entry);
        let key = key(entry);
        match station {
            Station::Active => self.push_active(id),
            Station::Backoff => {
                self.backoff.insert(key);
            }
            Station::ErrorBackoff => {
                self.error_backoff.insert(key);
            }
            Station::Unschedulable => {
                self.unschedulable.insert(id);
            }
            Station::Gated { .. } => {
                self.gated.insert(id);
            }
            Station::InFlight => {}
        }
    }

    /// Takes a pod out; its entry goes with its last member. Returns whether the entry is gone.
    pub fn remove_pod(&mut self, uid: &PodUid) -> bool {
        let Some(id) = self.of_pod.remove(uid) else { return false };
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.members.retain(|member| member != uid);
        if !entry.members.is_empty() {
            return false;
        }
        self.leave_station(id);
        self.finish_in_flight(id);
        if let Some(entry) = self.entries.remove(&id)
            && let Some(group) = entry.group
        {
            self.of_group.remove(&group);
        }
        true
    }

    /// Puts an entry into the active queue, or behind a gate.
    pub fn admit(&mut self, id: EntryId, gate: Option<&'static str>, now: Timestamp) {
        self.leave_station(id);
        self.finish_in_flight(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.enqueued = now;
        match gate {
            Some(plugin) => {
                entry.station = Station::Gated { plugin };
                self.gated.insert(id);
            }
            None => self.activate(id, now),
        }
    }

    fn activate(&mut self, id: EntryId, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.station = Station::Active;
        entry.first_active.get_or_insert(now);
        self.push_active(id);
    }

    fn push_active(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get(&id) {
            self.ordering.push(Ranked {
                entry: id.0,
                priority: entry.priority,
                enqueued: entry.enqueued,
                leader: entry.members.first().cloned().unwrap_or_default(),
            });
        }
    }

    /// Takes the next entry to look at. With nobody active, the first that backs off after a
    /// rejection is taken early.
    pub fn pop(&mut self, cluster: &Cluster, now: Timestamp) -> Option<EntryId> {
        self.flush_backoff(now);
        let id = match self.ordering.pop(cluster) {
            Some(id) => EntryId(id),
            None => self.backoff.pop_first()?.3,
        };
        let entry = self.entries.get_mut(&id)?;
        entry.station = Station::InFlight;
        entry.attempts = entry.attempts.saturating_add(1);
        entry.first_active.get_or_insert(now);
        entry.rejection = Rejection::default();
        self.in_flight.insert(id, self.first_event + self.events.len() as u64);
        Some(id)
    }

    /// The entry was turned away by plugins. What happened while it was looked at counts.
    pub fn reject(&mut self, id: EntryId, rejection: Rejection, now: Timestamp, ask: &mut Ask<'_>) {
        let missed = self.missed(id);
        self.finish_in_flight(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.unschedulable_count = entry.unschedulable_count.saturating_add(1);
        entry.consecutive_errors = 0;
        entry.rejection = rejection;
        entry.enqueued = now;
        let entry = entry.clone();
        let asked = missed.iter().map(|change| Answers::new(change, ask).of(&entry));
        match asked.min() {
            None | Some(Asked::Skip) => self.park(id),
            Some(asked) => self.requeue(id, asked, now),
        }
    }

    /// An error, not a rejection: it waits in the backoff queue that is never taken early.
    pub fn fail(&mut self, id: EntryId, now: Timestamp) {
        self.finish_in_flight(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.consecutive_errors = entry.consecutive_errors.saturating_add(1);
        entry.rejection = Rejection::default();
        entry.enqueued = now;
        entry.station = Station::ErrorBackoff;
        entry.backoff_until = self.policy.expiry(entry);
        let key = key(entry);
        self.error_backoff.insert(key);
    }

    fn park(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.station = Station::Unschedulable;
            self.unschedulable.insert(id);
        }
    }

    fn requeue(&mut self, id: EntryId, asked: Asked, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.backoff_until = self.policy.expiry(entry);
        let key = key(entry);
        if asked == Asked::Now || key.0 <= now {
            entry.enqueued = now;
            self.activate(id, now);
        } else {
            entry.station = Station::Backoff;
            self.backoff.insert(key);
        }
    }

    fn missed(&self, id: EntryId) -> Vec<Change> {
        let Some(from) = self.in_flight.get(&id) else { return Vec::new() };
        let skip = from.saturating_sub(self.first_event) as usize;
        self.events.iter().skip(skip).cloned().collect()
    }

    /// The entry is no longer looked at: changes from now on don't concern its last attempt.
    pub fn finish_in_flight(&mut self, id: EntryId) {
        self.in_flight.remove(&id);
        let oldest = self.in_flight.values().min().copied();
        let end = self.first_event + self.events.len() as u64;
        let keep_from = oldest.unwrap_or(end);
        while self.first_event < keep_from && self.events.pop_front().is_some() {
            self.first_event += 1;
        }
    }

    /// Wakes whom `change` may help. Returns the gated entries whose gate should be asked again.
    pub fn on_change(
        &mut self,
        change: &Change,
        now: Timestamp,
        ask: &mut Ask<'_>,
    ) -> Vec<EntryId> {
        if !self.in_flight.is_empty() {
            self.events.push_back(change.clone());
        }
        let mut answers = Answers::new(change, ask);
        let mut woken = Vec::new();
        for id in &self.unschedulable {
            if let Some(entry) = self.entries.get(id) {
                match answers.of(entry) {
                    Asked::Skip => {}
                    asked => woken.push((*id, asked)),
                }
            }
        }
        let mut reopened = Vec::new();
        for id in &self.gated {
            if let Some(entry) = self.entries.get(id)
                && let Station::Gated { plugin } = entry.station
                && answers.hint(entry, plugin) == Hint::Queue
            {
                reopened.push(*id);
            }
        }
        for (id, asked) in woken {
            self.unschedulable.remove(&id);
            self.requeue(id, asked, now);
        }
        reopened
    }

    /// Moves what has backed off, and what has waited longer than [`LEFTOVER`].
    pub fn flush(&mut self, now: Timestamp) {
        self.flush_backoff(now);
        if now.since(self.leftover_checked) < LEFTOVER_PERIOD {
            return;
        }
        self.leftover_checked = now;
        let overdue = |entry: &Entry| now.since(entry.enqueued) > self.leftover;
        let ids: Vec<EntryId> = self
            .unschedulable
            .iter()
            .copied()
            .filter(|id| self.entries.get(id).is_some_and(overdue))
            .collect();
        for id in ids {
            self.unschedulable.remove(&id);
            self.requeue(id, Asked::AfterBackoff, now);
        }
    }

    /// Sets the time after which an unschedulable entry is looked at again whatever the hints
    /// said (upstream's flag `--pod-max-in-unschedulable-pods-duration`).
    pub fn set_leftover(&mut self, leftover: Span) {
        self.leftover = leftover;
    }

    fn flush_backoff(&mut self, now: Timestamp) {
        let due = |queue: &BTreeSet<BackoffKey>| queue.first().is_some_and(|key| key.0 < now);
        while due(&self.backoff) {
            if let Some(key) = self.backoff.pop_first() {
                self.activate(key.3, now);
            }
        }
        while due(&self.error_backoff) {
            if let Some(key) = self.error_backoff.pop_first() {
                self.activate(key.3, now);
            }
        }
    }

    /// Returns when [`SchedulingQueue::flush`] has something to do next.
    pub fn next_wakeup(&self) -> Option<(Timestamp, &'static str)> {
        let after = |key: &BackoffKey| key.0 + Span(1);
        let backoff = self.backoff.first().map(|key| (after(key), "a backoff ends"));
        let errors = self.error_backoff.first().map(|key| (after(key), "a backoff ends"));
        let leftover = (!self.unschedulable.is_empty())
            .then(|| (self.leftover_checked + LEFTOVER_PERIOD, "unschedulable pods are flushed"));
        [backoff, errors, leftover].into_iter().flatten().min()
    }

    fn leave_station(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get(&id) else { return };
        match &entry.station {
            Station::Active => {
                self.ordering.remove(id.0);
            }
            Station::Backoff => {
                self.backoff.remove(&key(entry));
            }
            Station::ErrorBackoff => {
                self.error_backoff.remove(&key(entry));
            }
            Station::Unschedulable => {
                self.unschedulable.remove(&id);
            }
            Station::Gated { .. } => {
                self.gated.remove(&id);
            }
            Station::InFlight => {}
        }
    }
}

fn key(entry: &Entry) -> BackoffKey {
    (entry.backoff_until, Reverse(entry.priority), entry.enqueued, entry.id)
}
