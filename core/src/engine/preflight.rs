//! Trying a group's binds before they are sent: a member that the server refuses for good is found
//! before anything is bound.

use crate::framework::{Op, Preflight, StageDraft, WriteDraft};
use crate::queue::Entry;
use crate::types::{PodRef, Text};

use super::Engine;
use super::decision::PlanId;
use super::input::{WriteResult, Written};
use super::plans::{Failure, Placement};

/// The server's answer where a webhook can't say without storing anything.
const BAD_REQUEST: u16 = 400;

impl Engine {
    /// Tells whether the binds of a plan are tried first: by default where somebody would not be made
    /// anew if the group had to be taken back, and after a refusal.
    pub(super) fn tries_first(&self, entry: &Entry, placements: &[Placement]) -> bool {
        let (Some(key), Some(rules)) = (&entry.group, self.rules_of(entry)) else { return false };
        match rules.preflight {
            Preflight::Always => true,
            Preflight::Never => false,
            Preflight::WhereNeeded if placements.len() < 2 => false,
            Preflight::WhereNeeded => {
                let refused = self.memories.get(key).is_some_and(|memory| memory.was_refused);
                let unowned = |placement: &Placement| {
                    let record = self.cluster.pod(&placement.pod.uid);
                    record.is_some_and(|record| record.pod.owner.is_none())
                };
                refused || placements.iter().any(unowned)
            }
        }
    }

    /// A bind was tried. No answer is no refusal: the bind itself will tell.
    pub(super) fn tried(
        &mut self,
        plan: PlanId,
        label: &Text,
        pod: &PodRef,
        node: &Text,
        result: WriteResult,
    ) {
        match result {
            WriteResult::Done(_) => {
                self.note_allowed(&pod.uid);
                self.stage_done(plan, label, Written::default());
            }
            WriteResult::Unknown { .. }
            | WriteResult::NotSent { .. }
            | WriteResult::Refused { code: BAD_REQUEST, .. } => {
                self.stage_done(plan, label, Written::default());
            }
            WriteResult::Refused { code: 404, message } | WriteResult::Stale { message } => {
                self.stage_failed(plan, label, Failure::moved_on(message));
            }
            WriteResult::Refused { code, message } => {
                self.note_refused(&pod.uid, node);
                // Without the node's name: it is another each time.
                let text = format!("binding {} would be rejected: {message} ({code})", pod.name);
                self.stage_failed(plan, label, Failure::fault(text.into()));
            }
        }
        self.advance_plan(plan);
    }
}

/// Returns the stage in which every bind is tried.
pub(super) fn trial_of(placements: &[Placement]) -> StageDraft {
    let trial = |placement: &Placement| {
        let (pod, node) = (placement.pod.clone(), placement.node_name.clone());
        WriteDraft::plain(format!("try-{}", pod.uid), Op::TryBind { pod, node })
    };
    StageDraft::Writes(placements.iter().map(trial).collect())
}
