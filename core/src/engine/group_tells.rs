//! Telling users on a group's object how the group is.
//!
//! What is told is at most one write a group on its way, and the next [`PERIOD`] after the one
//! before unless the phase has changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::framework::Op;
use crate::types::group::{GroupPhase, GroupTold};
use crate::types::{GroupKey, Span, Text, Timestamp};

use super::decision::Urgency;
use super::input::WriteResult;
use super::{Engine, Purpose};

/// Numbers that change are written at most so often.
const PERIOD: Span = Span::from_secs(10);
/// A write that failed is tried again so much later.
const RETRY: Span = Span::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct GroupTells {
    of: BTreeMap<GroupKey, Told>,
    due: BTreeSet<(Timestamp, GroupKey)>,
}

#[derive(Debug)]
struct Told {
    /// Members that have a place are counted when it is written.
    wanted: (GroupPhase, Text),
    /// What was written last, and when.
    written: Option<(GroupTold, Timestamp)>,
    in_flight: Option<GroupTold>,
    due: Option<Timestamp>,
}

impl GroupTells {
    pub(super) fn next_wakeup(&self, now: Timestamp) -> Option<(Timestamp, &'static str)> {
        self.due.first().map(|(at, _)| ((*at).max(now), "a group's status is to be written"))
    }

    pub(super) fn forget(&mut self, key: &GroupKey) {
        if let Some(at) = self.of.remove(key).and_then(|told| told.due) {
            self.due.remove(&(at, key.clone()));
        }
    }

    fn set_due(&mut self, key: &GroupKey, at: Option<Timestamp>) {
        let Some(told) = self.of.get_mut(key) else { return };
        if let Some(old) = std::mem::replace(&mut told.due, at) {
            self.due.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.due.insert((at, key.clone()));
        }
    }
}

impl Engine {
    /// Wants the group's object, and those of the groups in it, to say this, not before `from`.
    pub(super) fn tell_group(
        &mut self,
        key: &GroupKey,
        phase: GroupPhase,
        message: &Text,
        from: Timestamp,
    ) {
        let below = self.cluster.groups().children(key);
        let keys: Vec<GroupKey> = [key].into_iter().chain(below).cloned().collect();
        for key in keys {
            if self.cluster.groups().object(&key).is_none() {
                continue;
            }
            self.want_told(&key, (phase, message.clone()), from);
        }
    }

    fn want_told(&mut self, key: &GroupKey, wanted: (GroupPhase, Text), from: Timestamp) {
        let now = self.now;
        let told = self.group_tells.of.entry(key.clone()).or_insert_with(|| Told {
            wanted: wanted.clone(),
            written: None,
            in_flight: None,
            due: None,
        });
        told.wanted = wanted;
        let at = match (&told.in_flight, &told.written) {
            (Some(_), _) => None,
            (None, Some((last, _))) if says(last, &told.wanted) => None,
            (None, Some((last, at))) if last.phase == told.wanted.0 => {
                Some(now.max(from).max(*at + PERIOD))
            }
            (None, _) => Some(now.max(from)),
        };
        let at = match (at, told.due) {
            // What is due goes out with the newest words, not later for them.
            (Some(at), Some(due)) => Some(at.min(due)),
            (at, _) => at,
        };
        self.group_tells.set_due(key, at);
    }

    /// Sends what is due.
    pub(super) fn tell_groups_due(&mut self) {
        while let Some((at, key)) = self.group_tells.due.first().cloned() {
            if at > self.now {
                return;
            }
            self.group_tells.set_due(&key, None);
            let Some(object) = self.cluster.groups().object(&key).cloned() else {
                self.group_tells.forget(&key);
                continue;
            };
            let scheduled = self.cluster.groups().n_placed(&key);
            let Some(told) = self.group_tells.of.get_mut(&key) else { continue };
            let (phase, message) = told.wanted.clone();
            let sent = GroupTold { phase, message, scheduled };
            if object.is_told(&sent) {
                told.written = Some((sent, self.now));
                continue;
            }
            let uid = object.uid.clone();
            told.in_flight = Some(sent.clone());
            let op = Op::TellGroup { group: key.clone(), uid, told: sent };
            self.send(op, Purpose::TellGroup { key }, Urgency::Status);
        }
    }

    pub(super) fn group_told(&mut self, key: &GroupKey, result: WriteResult) {
        let now = self.now;
        // What the object says now is looked at before the next words.
        if let WriteResult::Done(written) = &result
            && let Some(event) = &written.event
        {
            self.fold((**event).clone());
        }
        let Some(told) = self.group_tells.of.get_mut(key) else { return };
        let Some(sent) = told.in_flight.take() else { return };
        let next = match result {
            WriteResult::Done(_) => {
                let differs = !says(&sent, &told.wanted);
                let at = if sent.phase == told.wanted.0 { now + PERIOD } else { now };
                told.written = Some((sent, now));
                differs.then_some(at)
            }
            WriteResult::Refused { code: 404, .. } => None,
            WriteResult::Refused { .. }
            | WriteResult::Stale { .. }
            | WriteResult::NotSent { .. }
            | WriteResult::Unknown { .. } => Some(now + RETRY),
        };
        self.group_tells.set_due(key, next);
    }
}

fn says(told: &GroupTold, wanted: &(GroupPhase, Text)) -> bool {
    told.phase == wanted.0 && told.message == wanted.1
}
