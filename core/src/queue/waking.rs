//! Waking: whom a change may help.

use std::collections::BTreeSet;

use crate::snapshot::Change;
use crate::types::Timestamp;

use super::entry::{Entry, EntryId, Station};
use super::hinting::{Answers, Ask, Asked};
use super::scheduling_queue::SchedulingQueue;

impl SchedulingQueue {
    /// Wakes whom `change` may help. Returns the gated entries whose gate should be asked again.
    /// Cost: one question for each class that waits, then for each entry that is woken.
    pub fn on_change(
        &mut self,
        change: &Change,
        now: Timestamp,
        ask: &mut Ask<'_>,
    ) -> Vec<EntryId> {
        self.in_flight.record(change);
        self.set_cause(change.label());
        let mut answers = Answers::new(change, ask);
        let own = match change {
            Change::PodUpdated { uid, .. } => self.of_pod.get(uid).copied(),
            Change::PodFreed { old, .. } => self.of_pod.get(&old.uid).copied(),
            _ => None,
        };
        for (id, asked) in self.woken(&mut answers, own) {
            self.leave_station(id);
            self.requeue(id, asked, now);
        }
        self.reopened(&mut answers, own)
    }

    fn woken(&self, answers: &mut Answers<'_, '_>, own: Option<EntryId>) -> Vec<(EntryId, Asked)> {
        let mut woken = Vec::new();
        for (_, ids) in self.unschedulable.groups() {
            let Some(entry) = self.speaker(ids, own) else { continue };
            let asked = answers.of(entry);
            if asked != Asked::Skip {
                woken.extend(ids.iter().filter(|id| Some(**id) != own).map(|id| (*id, asked)));
            }
        }
        if let Some(entry) = own.and_then(|id| self.entries.get(&id))
            && entry.station == Station::Unschedulable
        {
            let asked = answers.of(entry);
            woken.extend((asked != Asked::Skip).then_some((entry.id, asked)));
        }
        woken.sort_unstable();
        woken
    }

    fn reopened(&self, answers: &mut Answers<'_, '_>, own: Option<EntryId>) -> Vec<EntryId> {
        let mut reopened = Vec::new();
        for ((_, plugin), ids) in self.gated.groups() {
            if self.speaker(ids, own).is_some_and(|entry| answers.opens(entry, plugin)) {
                reopened.extend(ids.iter().copied().filter(|id| Some(*id) != own));
            }
        }
        if let Some(entry) = own.and_then(|id| self.entries.get(&id))
            && let Station::Gated { plugin } = entry.station
            && answers.opens(entry, plugin)
        {
            reopened.push(entry.id);
        }
        reopened.sort_unstable();
        reopened
    }

    /// Returns an entry to ask on behalf of a group, not the one that changed itself.
    fn speaker(&self, ids: &BTreeSet<EntryId>, own: Option<EntryId>) -> Option<&Entry> {
        let id = ids.iter().find(|id| Some(**id) != own)?;
        self.entries.get(id)
    }
}
