//! What metrics ask of the queue: pods by station, arrivals by event, who holds how many.

use std::collections::BTreeMap;

use super::entry::{Entry, Station};
use super::in_flight::InFlight;
use super::scheduling_queue::{QueueCounts, SchedulingQueue};

/// Why an entry moves between stations when no change of the cluster moved it.
///
/// Source: the event constants of upstream's pkg/scheduler/framework/events.go.
pub(super) const ATTEMPT_FAILED: &str = "ScheduleAttemptFailure";
pub(super) const BACKOFF_OVER: &str = "BackoffComplete";
pub(super) const TAKEN_EARLY: &str = "PopFromBackoffQ";
pub(super) const WAITED_LONG: &str = "UnschedulableTimeout";

/// Pods that came to a station since the start, by station and event.
#[derive(Debug)]
pub(super) struct Incoming {
    /// What moves entries at this moment.
    pub(super) cause: &'static str,
    counts: BTreeMap<(&'static str, &'static str, bool), (u64, u64)>,
}

/// Arrivals at one station by one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    pub queue: &'static str,
    pub event: &'static str,
    /// Entries of several pods, or that a dialect made.
    pub grouped: bool,
    pub entries: u64,
    pub pods: u64,
}

impl Default for Incoming {
    fn default() -> Incoming {
        Incoming { cause: ATTEMPT_FAILED, counts: BTreeMap::new() }
    }
}

impl Incoming {
    pub(super) fn count(&mut self, entry: &Entry) {
        let queue = match entry.station {
            Station::Active => "active",
            Station::Backoff | Station::ErrorBackoff => "backoff",
            // Upstream keeps gated pods among the unschedulable ones, and counts them there.
            Station::Unschedulable | Station::Gated { .. } => "unschedulable",
            Station::InFlight => return,
        };
        self.add(queue, self.cause, entry);
    }

    pub(super) fn add(&mut self, queue: &'static str, event: &'static str, entry: &Entry) {
        let counts = self.counts.entry((queue, event, entry.group.is_some())).or_default();
        counts.0 += 1;
        counts.1 += entry.members.len() as u64;
    }
}

impl SchedulingQueue {
    /// Says what moves entries from now on: the label of a change.
    pub fn set_cause(&mut self, cause: &'static str) {
        self.incoming.cause = cause;
    }

    /// Returns who came to which station since the start, by event.
    pub fn arrivals(&self) -> impl Iterator<Item = Arrivals> {
        self.incoming.counts.iter().map(|((queue, event, grouped), (entries, pods))| Arrivals {
            queue,
            event,
            grouped: *grouped,
            entries: *entries,
            pods: *pods,
        })
    }

    /// As [`SchedulingQueue::counts`], but pods instead of entries. Cost: O(1) while every
    /// entry is one pod, else O(entries).
    pub fn pod_counts(&self) -> QueueCounts {
        if self.of_pod.len() == self.entries.len() {
            return self.counts();
        }
        self.sum(|entry| entry.members.len())
    }

    /// As [`SchedulingQueue::counts`], of groups only.
    pub fn group_counts(&self) -> QueueCounts {
        if self.of_group.is_empty() {
            return QueueCounts::default();
        }
        self.sum(|entry| usize::from(entry.group.is_some()))
    }

    fn sum(&self, of: impl Fn(&Entry) -> usize) -> QueueCounts {
        let mut counts = QueueCounts::default();
        for entry in self.entries.values() {
            let count = match entry.station {
                Station::Active => &mut counts.active,
                Station::Backoff | Station::ErrorBackoff => &mut counts.backoff,
                Station::Unschedulable => &mut counts.unschedulable,
                Station::Gated { .. } => &mut counts.gated,
                Station::InFlight => &mut counts.in_flight,
            };
            *count += of(entry);
        }
        counts
    }

    /// Counts waiting pods by who turned them away; a pod with two rejectors counts for both.
    /// Shape: (index of the profile, plugin) → pods. Cost: O(waiting entries).
    pub fn held_by(&self) -> BTreeMap<(usize, &'static str), usize> {
        let mut held = BTreeMap::new();
        let mut note = |entry: &Entry, plugin| {
            *held.entry((entry.profile, plugin)).or_default() += entry.members.len();
        };
        for ((_, rejection), ids) in self.unschedulable.groups() {
            for entry in ids.iter().filter_map(|id| self.entries.get(id)) {
                rejection.names().for_each(|plugin| note(entry, plugin));
            }
        }
        for ((_, plugin), ids) in self.gated.groups() {
            ids.iter().filter_map(|id| self.entries.get(id)).for_each(|entry| note(entry, plugin));
        }
        held
    }

    /// Counts what is kept for entries in flight, by the label of the change, and the entries
    /// themselves as `PodPopped`. Cost: O(changes kept).
    pub fn in_flight_events(&self) -> BTreeMap<&'static str, usize> {
        self.in_flight.by_label()
    }
}

impl InFlight {
    fn by_label(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for change in self.changes() {
            *counts.entry(change.label()).or_default() += 1;
        }
        counts.insert("PodPopped", self.len());
        counts
    }
}
