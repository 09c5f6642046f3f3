//! Entries that are being looked at, and what has happened since each was taken.

use std::collections::{BTreeMap, VecDeque};

use crate::snapshot::Change;

use super::entry::EntryId;

/// Changes are kept from the oldest entry on; with nobody in flight none are.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Position in `events` at which an entry was taken.
    taken: BTreeMap<EntryId, u64>,
    events: VecDeque<Change>,
    /// Position of the first kept event since the beginning of time.
    first: u64,
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.events.iter()
    }

    pub(super) fn begin(&mut self, id: EntryId) {
        self.taken.insert(id, self.end());
    }

    pub(super) fn record(&mut self, change: &Change) {
        if !self.taken.is_empty() {
            self.events.push_back(change.clone());
        }
    }

    /// Ends the flight of an entry. Returns what has happened during it.
    pub(super) fn end_with_events(&mut self, id: EntryId) -> Vec<Change> {
        let Some(from) = self.taken.get(&id) else { return Vec::new() };
        let skip = from.saturating_sub(self.first) as usize;
        let missed = self.events.iter().skip(skip).cloned().collect();
        self.finish(id);
        missed
    }

    pub(super) fn finish(&mut self, id: EntryId) {
        if self.taken.remove(&id).is_none() {
            return;
        }
        let keep_from = self.taken.values().min().copied().unwrap_or(self.end());
        while self.first < keep_from && self.events.pop_front().is_some() {
            self.first += 1;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}
