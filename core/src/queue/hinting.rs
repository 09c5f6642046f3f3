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
    known: BTreeMap<(u32, &'static str), Hint>,
    ask: &'a mut Ask<'b>,
}

impl<'a, 'b> Answers<'a, 'b> {
    pub(super) fn new(change: &'a Change, ask: &'a mut Ask<'b>) -> Answers<'a, 'b> {
        Answers { change, known: BTreeMap::new(), ask }
    }

    /// Without a rejector (an error, or a bug) every change is worth another attempt.
    pub(super) fn of(&mut self, entry: &Entry) -> Asked {
        let rejection = &entry.rejection;
        if rejection.names().next().is_none() {
            return Asked::AfterBackoff;
        }
        if rejection.pending.iter().any(|name| self.hint(entry, name) == Hint::Queue) {
            return Asked::Now;
        }
        if rejection.plugins.iter().any(|name| self.hint(entry, name) == Hint::Queue) {
            return Asked::AfterBackoff;
        }
        Asked::Skip
    }

    pub(super) fn hint(&mut self, entry: &Entry, plugin: &'static str) -> Hint {
        // A pod's own update concerns that pod, whatever its class.
        let own = match self.change {
            Change::PodUpdated { uid, .. } => entry.members.contains(uid),
            _ => false,
        };
        let key = (entry.class, plugin);
        if !own && let Some(known) = self.known.get(&key) {
            return *known;
        }
        let hint = (self.ask)(entry, plugin, self.change).unwrap_or(Hint::Skip);
        if !own {
            self.known.insert(key, hint);
        }
        hint
    }
}
