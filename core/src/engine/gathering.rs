//! Telling the members of a group what it waits for.
//!
//! The condition is first written when the group has waited for [`PATIENCE`], then when what is
//! missing changes, to at most [`A_SECOND`] members of a group a second, until every member has it
//! (KEP-5501 for the reason). The running count stands on the group's object.

use crate::queue::EntryId;
use crate::snapshot::Lack;
use crate::types::group::GroupPhase;
use crate::types::{Condition, GroupKey, PodUid, Span, Text, Timestamp};

use super::Engine;
use super::folding::{ClosedGate, NOT_READY};

/// Groups that are complete by then tell nothing.
pub(super) const PATIENCE: Span = Span::from_secs(5);
/// So many members of a group are told in one second.
const A_SECOND: u32 = 16;

/// What the members of a group are told of what is missing.
#[derive(Debug)]
pub(super) struct Gathering {
    likeness: Text,
    /// What is missing as it is now: its numbers change while members come.
    message: Text,
    /// When the group began to wait.
    since: Timestamp,
    /// The second in which the next member is told, and how many are told in it already.
    next: Timestamp,
    in_it: u32,
    /// Members that came while the group was looked at: they are told when it waits again.
    untold: Vec<PodUid>,
}

impl Gathering {
    fn slot(&mut self, now: Timestamp) -> Timestamp {
        let earliest = now.max(self.since + PATIENCE);
        if self.next < earliest {
            (self.next, self.in_it) = (earliest, 0);
        }
        if self.in_it == A_SECOND {
            (self.next, self.in_it) = (self.next + Span::from_secs(1), 0);
        }
        self.in_it += 1;
        self.next
    }
}

impl Engine {
    /// Tells what a group lacks: to all members if that is new, else to the one that came.
    pub(super) fn tell_lack(
        &mut self,
        id: EntryId,
        gate: &ClosedGate,
        lack: &Lack,
        newcomer: Option<&PodUid>,
    ) {
        let Some(entry) = self.queue.entry(id) else { return };
        let Some(key) = entry.group.clone() else { return };
        let likeness = lack.likeness();
        let gathering = &mut self.memories.entry(&key).gathering;
        let known = gathering.as_ref().is_some_and(|known| known.likeness == likeness);
        if !known {
            let since = gathering.as_ref().map_or(self.now, |known| known.since);
            let (likeness, message) = (likeness.clone(), gate.message.clone());
            let (next, in_it, untold) = (since, 0, Vec::new());
            *gathering = Some(Gathering { likeness, message, since, next, in_it, untold });
        } else if let Some(gathering) = gathering {
            gathering.message.clone_from(&gate.message);
        }
        let came = gathering.as_mut().map(|it| std::mem::take(&mut it.untold)).unwrap_or_default();
        let members: Vec<PodUid> = match known {
            true => came.into_iter().chain(newcomer.cloned()).collect(),
            false => entry.members.clone(),
        };
        // Of a pod with scheduling gates the API server has said why it waits.
        let gated = |uid: &PodUid| self.cluster.pod(uid).is_some_and(|r| !r.pod.gates.is_empty());
        let members: Vec<PodUid> = members.into_iter().filter(|uid| !gated(uid)).collect();
        for uid in members {
            let Some(gathering) = self.memories.entry(&key).gathering.as_mut() else { return };
            let at = gathering.slot(self.now);
            let early = self.setup.bug("told-unschedulable-unseen");
            let reason = Text::from(if early { "Unschedulable" } else { NOT_READY });
            let condition = Condition { reason, message: gate.message.clone() };
            self.tell_of_group(&uid, condition, likeness.clone(), at);
        }
        let since = self.gathering_since(&key);
        self.tell_group(&key, GroupPhase::Waiting, &gate.message, since + PATIENCE);
    }

    /// A member has come while the group is looked at.
    pub(super) fn tell_later(&mut self, id: EntryId, uid: &PodUid) {
        let key = self.queue.entry(id).and_then(|entry| entry.group.as_ref());
        let memory = key.and_then(|key| self.memories.get_mut(key));
        if let Some(gathering) = memory.and_then(|memory| memory.gathering.as_mut()) {
            gathering.untold.push(uid.clone());
        }
    }

    /// Returns what is missing as it is now, for a pod that is to be told of something alike.
    pub(super) fn lack_of(&self, uid: &PodUid, likeness: &[Text]) -> Option<&Text> {
        let key = self.queue.entry_of(uid)?.group.as_ref()?;
        let gathering = self.memories.get(key)?.gathering.as_ref()?;
        (*likeness == [gathering.likeness.clone()]).then_some(&gathering.message)
    }

    fn gathering_since(&self, key: &GroupKey) -> Timestamp {
        let gathering = self.memories.get(key).and_then(|memory| memory.gathering.as_ref());
        gathering.map_or(self.now, |gathering| gathering.since)
    }

    /// Something else holds the group: what it lacks after that is told anew.
    pub(super) fn forget_gathering(&mut self, id: EntryId) {
        let key = self.queue.entry(id).and_then(|entry| entry.group.as_ref());
        if let Some(memory) = key.and_then(|key| self.memories.get_mut(key)) {
            memory.gathering = None;
        }
    }

    /// The group has what it needs: what has not been told is not told any more.
    pub(super) fn gathered(&mut self, id: EntryId) {
        let Some(entry) = self.queue.entry(id) else { return };
        let Some(key) = &entry.group else { return };
        let Some(memory) = self.memories.get_mut(key) else { return };
        if memory.gathering.take().is_none() {
            return;
        }
        for uid in entry.members.clone() {
            self.tells.drop_untold(&uid, NOT_READY);
        }
    }
}
