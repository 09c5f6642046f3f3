//! Asking plugins which changes help whom, once per class.

use std::collections::BTreeMap;

use crate::framework::Hint;
use crate::snapshot::Change;

use super::entry::Entry;

/// Asks the plugin `name` whether `change` may help `entry`; `None` if it registered for nothing.
pub(super) type Ask<'a> = dyn FnMut(&Entry, &'static str, &Change) -> Option<Hint> + 'a;

/// What the rejectors of an entry think of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// Something that was in motion has moved: at once.
    Now,
    /// Worth another attempt after the backoff.
    AfterBackoff,
    Skip,
}

/// The answers to one change, by class and plugin.
pub(super) struct Answers<'a, 'b> {
    change: &'a Change,
    known: BTreeMap<(u32, &'static str), Option<Hint>>,
    ask: &'a mut Ask<'b>,
}

impl<'a, 'b> Answers<'a, 'b> {
    pub(super) fn new(change: &'a Change, ask: &'a mut Ask<'b>) -> Answers<'a, 'b> {
        Answers { change, known: BTreeMap::new(), ask }
    }

    /// Returns what `change` means to an entry that was turned away. Without a rejector (an error,
    /// or a bug) every change is worth another attempt; so it is with one that registered for
    /// nothing, since nobody knows what would help it.
    pub(super) fn of(&mut self, entry: &Entry) -> Asked {
        let rejection = &entry.rejection;
        if matches!(self.change, Change::PodFreed { old, .. } if entry.members.contains(&old.uid)) {
            // It gave back what it held itself: nothing is gained.
            return Asked::Skip;
        }
        if rejection.names().next().is_none() {
            return Asked::AfterBackoff;
        }
        if rejection.pending.iter().any(|name| self.may_help(entry, name)) {
            return Asked::Now;
        }
        if rejection.plugins.iter().any(|name| self.may_help(entry, name)) {
            return Asked::AfterBackoff;
        }
        Asked::Skip
    }

    /// Tells whether `change` may open the gate `plugin`. One that registered for nothing opens
    /// only when its pod changes.
    pub(super) fn opens(&mut self, entry: &Entry, plugin: &'static str) -> bool {
        self.hint(entry, plugin) == Some(Hint::Queue)
    }

    fn may_help(&mut self, entry: &Entry, plugin: &'static str) -> bool {
        self.hint(entry, plugin) != Some(Hint::Skip)
    }

    fn hint(&mut self, entry: &Entry, plugin: &'static str) -> Option<Hint> {
        if concerns(self.change, entry) {
            return (self.ask)(entry, plugin, self.change);
        }
        if let Some(known) = self.known.get(&(entry.class, plugin)) {
            return *known;
        }
        let hint = (self.ask)(entry, plugin, self.change);
        self.known.insert((entry.class, plugin), hint);
        hint
    }
}

/// Tells whether a change is an update of a pod of the entry: it concerns that pod, whatever its
/// class.
fn concerns(change: &Change, entry: &Entry) -> bool {
    match change {
        Change::PodUpdated { uid, .. } => entry.members.contains(uid),
        _ => false,
    }
}
