//! One entry of the queue.

use crate::types::{GroupKey, PodUid, Timestamp};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u64);

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Station {
    Active,
    /// Waits out a rejection; taken early when nobody is active.
    Backoff,
    /// Waits out an error; never taken early.
    ErrorBackoff,
    /// Waits for a change that a rejector's hint finds helpful.
    Unschedulable,
    /// A PreEnqueue plugin holds it.
    Gated {
        plugin: &'static str,
    },
    /// Popped: being looked at, or its plan is being carried out.
    InFlight,
}

/// Who turned an entry away.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejection {
    /// Plugins that said Unschedulable or Unresolvable.
    pub plugins: Vec<&'static str>,
    /// Plugins that said Pending: something is in motion, so no backoff applies.
    pub pending: Vec<&'static str>,
}

impl Rejection {
    pub fn by(plugin: &'static str) -> Rejection {
        Rejection { plugins: vec![plugin], pending: Vec::new() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.plugins.iter().chain(&self.pending).copied()
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: EntryId,
    /// In the order in which they came.
    pub members: Vec<PodUid>,
    /// The group that its members make; none for a pod of its own.
    pub group: Option<GroupKey>,
    /// Index of the profile.
    pub profile: usize,
    pub priority: i32,
    /// Hints are asked once for all entries of a class.
    pub class: u32,
    /// Members on whose behalf hints are asked: one for each that needs something else. Empty: the
    /// first member.
    pub speakers: Vec<PodUid>,
    pub station: Station,
    /// When it was last put into a queue.
    pub enqueued: Timestamp,
    /// When its backoff ends, while it backs off.
    pub backoff_until: Timestamp,
    /// When it was first put into the active queue.
    pub first_active: Option<Timestamp>,
    pub attempts: u32,
    pub unschedulable_count: u32,
    pub consecutive_errors: u32,
    pub rejection: Rejection,
    /// Its last attempt was due because it had waited long, not because of a change.
    pub flushed: bool,
}

impl Entry {
    pub fn new(id: EntryId, leader: PodUid, profile: usize, priority: i32) -> Entry {
        Entry {
            id,
            members: vec![leader],
            group: None,
            profile,
            priority,
            class: 0,
            speakers: Vec::new(),
            station: Station::InFlight,
            enqueued: Timestamp::default(),
            backoff_until: Timestamp::default(),
            first_active: None,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            rejection: Rejection::default(),
            flushed: false,
        }
    }
}
