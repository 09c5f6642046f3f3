//! Versions, and the log of which nodes changed in which order.

use std::collections::VecDeque;

use super::nodes::NodeIdx;

/// A stamp from one growing counter: no state of the ledger or of an overlay shares one with a
/// different state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

/// The nodes touched lately, oldest first, so that a reader catches up in O(changes).
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    entries: VecDeque<NodeIdx>,
    /// Position of the first kept entry since the beginning of time.
    first: u64,
}

const KEPT: usize = 1 << 16;

impl ChangeLog {
    pub(crate) fn push(&mut self, node: NodeIdx) {
        self.entries.push_back(node);
        if self.entries.len() > KEPT {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// The position after the newest entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns what was touched from position `from` on, `None` if that is no longer known.
    pub(crate) fn since(&self, from: u64) -> Option<impl Iterator<Item = NodeIdx> + '_> {
        let skip = from.checked_sub(self.first)?;
        Some(self.entries.iter().skip(skip as usize).copied())
    }
}
