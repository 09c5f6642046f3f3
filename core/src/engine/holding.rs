//! Places that a group has first claim to: those of members that it has lost since it started, and
//! those of a plan that was given up, where nobody of the group may be taken back.

use std::sync::Arc;

use crate::framework::GroupRules;
use crate::snapshot::{Hold, NodeIdx, Place};
use crate::types::claim::Allocation;
use crate::types::{GroupKey, Pod, Span, Timestamp};

use super::Engine;
use super::plans::Plan;
use super::repair::SOON;

/// What a member had, or was to have.
#[derive(Debug)]
pub(super) struct Had {
    pub(super) pod: Pod,
    pub(super) node: NodeIdx,
    pub(super) devices: Vec<Arc<Allocation>>,
}

impl Engine {
    /// Keeps the places of lost members for as many as the group lacks.
    pub(super) fn keep_places(&mut self, key: &GroupKey, rules: &GroupRules) {
        let lost = self.watched.lost(key);
        let Ok(view) = self.cluster.group_as_it_is(key) else { return };
        let placed = view.count(|member| member.placed || member.done)[0];
        let lacks = view.units[0].min_member.saturating_sub(placed) as usize;
        let early = self.setup.bug("releases-hold-early");
        let until = self.now + if early { SOON } else { rules.hold_for };
        for had in lost {
            if rules.hold_for == Span::ZERO {
                break;
            }
            if self.cluster.holds().of(key).count() >= lacks.max(1) {
                self.end_oldest_hold(key);
            }
            self.keep(key, had, until);
        }
        let now = self.now;
        let mut spare = self.cluster.holds().of(key).count().saturating_sub(lacks.max(1));
        self.end_holds_where(|_, hold| {
            let ends = hold.group == *key && (hold.until <= now || spare > 0);
            spare -= usize::from(ends && spare > 0);
            ends
        });
        let next = self.first_end_of_holds(key);
        if next.is_some() {
            self.watched.set_due(key, next);
        }
    }

    /// The one that is kept for longest already gives way.
    fn end_oldest_hold(&mut self, key: &GroupKey) {
        let oldest = self.first_end_of_holds(key);
        let mut first = true;
        self.end_holds_where(|_, hold| {
            let ends = first && hold.group == *key && Some(hold.until) == oldest;
            first &= !ends;
            ends
        });
    }

    /// A plan is given up. Where nobody of its group may be taken back, the places that it gave are
    /// kept: what is bound would run, or wait, for nothing if others took them.
    pub(super) fn keep_planned(&mut self, plan: &Plan) {
        let entry = self.queue.entry(plan.entry);
        let Some(key) = entry.and_then(|entry| entry.group.clone()) else { return };
        if !self.watched.has_first_claim(&key) {
            return;
        }
        let Some(hold_for) = self.rules_for(&key).map(|rules| rules.hold_for) else { return };
        if hold_for == Span::ZERO {
            return;
        }
        let until = self.now + hold_for;
        for placement in plan.placements.iter().filter(|placement| !placement.bound) {
            let Some(record) = self.cluster.pod(&placement.pod.uid) else { continue };
            if !record.pod.finished() && !record.pod.terminating {
                let (pod, node) = (record.pod.clone(), placement.node);
                let devices = self.cluster.devices_of_its_own(&pod);
                self.keep(&key, Had { pod, node, devices }, until);
            }
        }
        self.watched.look_by(&key, until);
    }

    /// Ends what is kept for members that have their places, and what is kept for long enough.
    pub(super) fn end_old_holds(&mut self, key: &GroupKey) {
        let placed = self.cluster.holds().of(key).filter(|(_, hold)| {
            self.cluster.pod(&hold.pod.uid).is_some_and(|record| record.place != Place::Nowhere)
        });
        let placed: Vec<_> = placed.map(|(_, hold)| hold.pod.uid.clone()).collect();
        let now = self.now;
        self.end_holds_where(|_, hold| {
            hold.group == *key && (hold.until <= now || placed.contains(&hold.pod.uid))
        });
        if let Some(next) = self.first_end_of_holds(key) {
            self.watched.look_by(key, next);
        }
    }

    fn keep(&mut self, key: &GroupKey, had: Had, until: Timestamp) {
        let Had { pod, node, devices } = had;
        self.end_holds_where(|on, hold| hold.pod.uid == pod.uid && on != node);
        // It stands for nobody: it is no member.
        let pod = Box::new(Pod { gang: None, ..pod });
        self.cluster.hold(node, Hold { group: key.clone(), pod, devices, until });
    }

    fn first_end_of_holds(&self, key: &GroupKey) -> Option<Timestamp> {
        self.cluster.holds().of(key).map(|(_, hold)| hold.until).min()
    }

    pub(super) fn end_holds(&mut self, key: &GroupKey) {
        self.end_holds_where(|_, hold| hold.group == *key);
    }

    fn end_holds_where(&mut self, ends: impl FnMut(NodeIdx, &Hold) -> bool) {
        if self.cluster.holds().is_empty() {
            return;
        }
        let changes = self.cluster.end_holds(ends);
        for change in &changes {
            self.wake(change);
        }
    }
}
