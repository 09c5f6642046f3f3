//! The queues themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::framework::{QueueOrdering, Ranked};
use crate::snapshot::Cluster;
use crate::types::{GroupKey, PodUid, Span, Timestamp};

use super::backoff::BackoffPolicy;
use super::counting::{ATTEMPT_FAILED, BACKOFF_OVER, Incoming, TAKEN_EARLY, WAITED_LONG};
use super::entry::{Entry, EntryId, Rejection, Station};
use super::hinting::{Answers, Ask, Asked};
use super::in_flight::InFlight;
use super::waiting::Waiting;

/// How many entries stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
    /// Being looked at, or waiting for a permit; not those whose writes have begun.
    pub in_flight: usize,
}

/// Unschedulable entries are looked at again after so long, whatever the hints said.
const LEFTOVER: Span = Span::from_secs(300);
/// How often that is checked.
const LEFTOVER_PERIOD: Span = Span::from_secs(30);

/// Expiry, then the queue's static order within a window.
type BackoffKey = (Timestamp, Reverse<i32>, Timestamp, EntryId);
/// What entries have in common that a change helps or doesn't: class and rejectors.
type WaitKey = (u32, Rejection);
/// Class and gate.
type GateKey = (u32, &'static str);

pub struct SchedulingQueue {
    pub(super) entries: BTreeMap<EntryId, Entry>,
    pub(super) of_pod: BTreeMap<PodUid, EntryId>,
    pub(super) of_group: BTreeMap<GroupKey, EntryId>,
    ordering: Box<dyn QueueOrdering>,
    backoff: BTreeSet<BackoffKey>,
    error_backoff: BTreeSet<BackoffKey>,
    pub(super) unschedulable: Waiting<WaitKey>,
    pub(super) gated: Waiting<GateKey>,
    pub(super) in_flight: InFlight,
    pub(super) incoming: Incoming,
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
            unschedulable: Waiting::new(),
            gated: Waiting::new(),
            in_flight: InFlight::default(),
            incoming: Incoming::default(),
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
    pub fn group(&self, key: &GroupKey) -> Option<EntryId> {
        self.of_group.get(key).copied()
    }

    pub fn name_group(&mut self, id: EntryId, key: &GroupKey) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.group = Some(key.clone());
            self.of_group.insert(key.clone(), id);
        }
    }

    /// Adds a member that arrived late.
    pub fn join(&mut self, id: EntryId, uid: PodUid) {
        if self.of_pod.get(&uid) == Some(&id) {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            self.of_pod.insert(uid.clone(), id);
            entry.members.push(uid);
        }
    }

    pub fn set_class(&mut self, id: EntryId, class: u32) {
        if self.entries.get(&id).is_some_and(|entry| entry.class != class) {
            self.with_stations(id, |entry| entry.class = class);
        }
    }

    /// Names the members on whose behalf hints are asked, not with others of their class.
    pub fn set_speakers(&mut self, id: EntryId, speakers: Vec<PodUid>, class: u32) {
        self.set_class(id, class);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.speakers = speakers;
        }
    }

    pub fn set_priority(&mut self, id: EntryId, priority: i32) {
        if self.entries.get(&id).is_some_and(|entry| entry.priority != priority) {
            self.with_stations(id, |entry| entry.priority = priority);
        }
    }

    /// Changes what an entry's place within its station depends on.
    fn with_stations(&mut self, id: EntryId, change: impl FnOnce(&mut Entry)) {
        self.leave_station(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            change(entry);
        }
        self.enter_station(id);
    }

    /// Takes a pod out; its entry goes with its last member. Returns whether the entry is gone.
    pub fn remove_pod(&mut self, uid: &PodUid) -> bool {
        let Some(id) = self.of_pod.remove(uid) else { return false };
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let led = entry.members.first() == Some(uid);
        entry.members.retain(|member| member != uid);
        if !entry.members.is_empty() {
            if led {
                // Orderings know the entry by its leader.
                self.with_stations(id, |_| {});
            }
            return false;
        }
        self.leave_station(id);
        self.in_flight.finish(id);
        if let Some(group) = self.entries.remove(&id).and_then(|entry| entry.group) {
            self.of_group.remove(&group);
        }
        true
    }

    /// Puts an entry into the active queue, or behind a gate.
    ///
    /// `since`: the time by which it is ranked among others of its priority.
    pub fn admit(
        &mut self,
        id: EntryId,
        gate: Option<&'static str>,
        since: Timestamp,
        now: Timestamp,
    ) {
        self.leave_station(id);
        self.in_flight.finish(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.enqueued = since;
        match gate {
            Some(plugin) => {
                self.put(id, Station::Gated { plugin });
            }
            None => self.activate(id, now),
        }
    }

    fn activate(&mut self, id: EntryId, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.first_active.get_or_insert(now);
        self.put(id, Station::Active);
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
        loop {
            let id = match self.ordering.pop(cluster) {
                Some(id) => EntryId(id),
                None => self.take_early()?,
            };
            // An ordering that hands out what it was told to forget is not to stop the others.
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            entry.station = Station::InFlight;
            entry.attempts = entry.attempts.saturating_add(1);
            entry.first_active.get_or_insert(now);
            entry.rejection = Rejection::default();
            self.in_flight.begin(id);
            return Some(id);
        }
    }

    fn take_early(&mut self) -> Option<EntryId> {
        let id = self.backoff.pop_first()?.3;
        if let Some(entry) = self.entries.get(&id) {
            self.incoming.add("active", TAKEN_EARLY, entry);
        }
        Some(id)
    }

    /// The entry was turned away by plugins. What happened while it was looked at counts.
    pub fn reject(&mut self, id: EntryId, rejection: Rejection, now: Timestamp, ask: &mut Ask<'_>) {
        let missed = self.in_flight.end_with_events(id);
        self.set_cause(ATTEMPT_FAILED);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.flushed = false;
        entry.unschedulable_count = entry.unschedulable_count.saturating_add(1);
        entry.consecutive_errors = 0;
        entry.rejection = rejection;
        entry.enqueued = now;
        let entry = entry.clone();
        let asked = missed.iter().map(|change| Answers::new(change, ask).of(&entry));
        match asked.min() {
            None | Some(Asked::Skip) => self.put(id, Station::Unschedulable),
            Some(asked) => self.requeue(id, asked, now),
        }
    }

    /// Takes an entry from where it waits, for a plan.
    pub fn take(&mut self, id: EntryId) {
        self.leave_station(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.station = Station::InFlight;
            self.in_flight.begin(id);
        }
    }

    /// An error, not a rejection: it waits in the backoff queue that is never taken early.
    pub fn fail(&mut self, id: EntryId, now: Timestamp) {
        self.leave_station(id);
        self.in_flight.finish(id);
        self.set_cause(ATTEMPT_FAILED);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.consecutive_errors = entry.consecutive_errors.saturating_add(1);
        entry.rejection = Rejection::default();
        entry.enqueued = now;
        entry.backoff_until = self.policy.expiry(entry);
        self.put(id, Station::ErrorBackoff);
    }

    /// Puts an entry that stands nowhere to its station.
    fn put(&mut self, id: EntryId, station: Station) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.station = station;
            self.incoming.count(entry);
            self.enter_station(id);
        }
    }

    pub(super) fn requeue(&mut self, id: EntryId, asked: Asked, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.backoff_until = self.policy.expiry(entry);
        let over = self.policy.length(entry) == Span::ZERO
            || BackoffPolicy::over(entry.backoff_until, now);
        if asked == Asked::Now || over {
            entry.enqueued = now;
            self.activate(id, now);
        } else {
            self.put(id, Station::Backoff);
        }
    }

    /// The entry's attempt has come to an end: changes from now on don't concern it.
    pub fn finish_in_flight(&mut self, id: EntryId) {
        self.in_flight.finish(id);
    }

    /// Moves what has backed off, and what has waited longer than [`LEFTOVER`].
    pub fn flush(&mut self, now: Timestamp) {
        self.flush_backoff(now);
        if now.since(self.leftover_checked) < LEFTOVER_PERIOD {
            return;
        }
        self.leftover_checked = now;
        let overdue = |entry: &Entry| now.since(entry.enqueued) > self.leftover;
        let waits_long = |id: &EntryId| self.entries.get(id).is_some_and(overdue);
        let mut ids: Vec<EntryId> = self.unschedulable.ids().filter(waits_long).collect();
        ids.sort_unstable();
        self.set_cause(WAITED_LONG);
        for id in ids {
            self.leave_station(id);
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.flushed = true;
            }
            self.requeue(id, Asked::AfterBackoff, now);
        }
    }

    /// Sets the time after which an unschedulable entry is looked at again whatever the hints
    /// said (upstream's flag `--pod-max-in-unschedulable-pods-duration`).
    pub fn set_leftover(&mut self, leftover: Span) {
        self.leftover = leftover;
    }

    fn flush_backoff(&mut self, now: Timestamp) {
        let due = |queue: &BTreeSet<BackoffKey>| {
            queue.first().is_some_and(|key| BackoffPolicy::over(key.0, now))
        };
        if due(&self.backoff) || due(&self.error_backoff) {
            self.set_cause(BACKOFF_OVER);
        }
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
        let end = |key: &BackoffKey| (BackoffPolicy::end(key.0), "a backoff ends");
        let backoff = self.backoff.first().map(end);
        let errors = self.error_backoff.first().map(end);
        let leftover = (self.unschedulable.len() > 0)
            .then(|| (self.leftover_checked + LEFTOVER_PERIOD, "unschedulable pods are flushed"));
        [backoff, errors, leftover].into_iter().flatten().min()
    }

    fn enter_station(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get(&id) else { return };
        match &entry.station {
            Station::Active => self.push_active(id),
            Station::Backoff => {
                self.backoff.insert(key(entry));
            }
            Station::ErrorBackoff => {
                self.error_backoff.insert(key(entry));
            }
            Station::Unschedulable => {
                self.unschedulable.insert((entry.class, entry.rejection.clone()), id);
            }
            Station::Gated { plugin } => self.gated.insert((entry.class, *plugin), id),
            Station::InFlight => {}
        }
    }

    pub(super) fn leave_station(&mut self, id: EntryId) {
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
                self.unschedulable.remove(&(entry.class, entry.rejection.clone()), id);
            }
            Station::Gated { plugin } => self.gated.remove(&(entry.class, *plugin), id),
            Station::InFlight => {}
        }
    }
}

fn key(entry: &Entry) -> BackoffKey {
    (entry.backoff_until, Reverse(entry.priority), entry.enqueued, entry.id)
}
