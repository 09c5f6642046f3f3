//! Which objects are known to be gone.

use std::collections::{BTreeSet, VecDeque};

use crate::types::Text;

/// UIDs of objects deleted lately. A UID is never used twice, so an event that brings one back is
/// late or repeated and must not bring back the object.
#[derive(Debug, Default)]
pub(super) struct Gone {
    order: VecDeque<Text>,
    uids: BTreeSet<Text>,
}

const GONE_MAX: usize = 1 << 14;

impl Gone {
    pub(super) fn insert(&mut self, uid: &Text) {
        if uid.is_empty() || !self.uids.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid.clone());
        if self.order.len() > GONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, uid: &Text) -> bool {
        self.uids.contains(uid)
    }
}
