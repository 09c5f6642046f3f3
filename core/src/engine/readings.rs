//! Writes whose answer was lost, or that found another version than they named: the object is read
//! into the ledger, and the ledger tells whether they were done.
//!
//! Such a write names the version that it was decided on, and sending it twice does no more than
//! sending it once. So whatever became of the first one, the plan goes on when the object shows it.

use std::collections::BTreeMap;

use crate::framework::plan::Progress;
use crate::framework::{ClaimWrite, Op, ReadBack};
use crate::snapshot::Cluster;
use crate::types::{Span, Text, Timestamp};

use super::decision::{PlanId, Urgency};
use super::guard::guarded;
use super::input::{WriteResult, Written};
use super::plans::Failure;
use super::sending::versioned_claim;
use super::{Engine, Purpose};

/// A read that failed is tried again so much later.
pub(super) const RETRY: Span = Span::from_secs(1);
/// A write that keeps finding another version is sent at most so often. Source: `DefaultRetry` of
/// client-go.
const TRIES_MAX: u32 = 5;

type Key = (PlanId, Text);

#[derive(Debug, Default)]
pub(super) struct Readings {
    /// Writes that are sent and can be read back.
    expected: BTreeMap<Key, Expected>,
    /// When they are to be read.
    due: BTreeMap<Key, Timestamp>,
}

#[derive(Debug)]
struct Expected {
    op: Op,
    read_back: ReadBack,
    tries: u32,
    /// A try whose answer was lost may still be committed: the claim has the version it named.
    open: bool,
    /// It is tried until it is known what became of it.
    insists: bool,
    why: Text,
}

/// Tells whether the claim shows the reservation that the write makes: it was done then, whatever
/// else is so of the claim, and is to be taken back if the plan fails.
fn holds(cluster: &Cluster, op: &Op) -> bool {
    let Op::Claim { claim, write: ClaimWrite::Allocate { consumer, .. }, .. } = op else {
        return false;
    };
    let known = cluster.devices().claim(&claim.key).map(|record| &record.claim);
    known.is_some_and(|known| claim.means(known) && known.is_reserved_for(consumer))
}

impl Readings {
    pub(super) fn expect(&mut self, plan: PlanId, label: &Text, op: &Op, read_back: ReadBack) {
        let (op, open, insists) = (op.clone(), false, false);
        let expected = Expected { op, read_back, tries: 1, open, insists, why: Text::default() };
        self.expected.insert((plan, label.clone()), expected);
    }

    /// As [`Readings::expect`], for a write that isn't given up because it could not be sent.
    pub(super) fn insist(&mut self, plan: PlanId, label: &Text, op: &Op, read_back: ReadBack) {
        self.expect(plan, label, op, read_back);
        if let Some(expected) = self.expected.get_mut(&(plan, label.clone())) {
            expected.insists = true;
        }
    }

    /// Notes whether some try may still be committed: after a lost answer it may be, after a
    /// version that was found to be another none can be.
    pub(super) fn leave_open(&mut self, plan: PlanId, label: &Text, open: bool) {
        if let Some(expected) = self.expected.get_mut(&(plan, label.clone())) {
            expected.open = open;
        }
    }

    pub(super) fn open(&self, plan: PlanId, label: &Text) -> bool {
        self.expected.get(&(plan, label.clone())).is_some_and(|expected| expected.open)
    }

    pub(super) fn insists(&self, plan: PlanId, label: &Text) -> bool {
        let expected = self.expected.get(&(plan, label.clone()));
        expected.is_some_and(|expected| expected.open || expected.insists)
    }

    fn creates(&self, plan: PlanId, label: &Text) -> bool {
        let expected = self.expected.get(&(plan, label.clone()));
        expected.is_some_and(|expected| matches!(expected.op, Op::Create { .. }))
    }

    pub(super) fn expected(&self, plan: PlanId, label: &Text) -> bool {
        self.expected.contains_key(&(plan, label.clone()))
    }

    pub(super) fn forget(&mut self, plan: PlanId, label: &Text) {
        self.expected.remove(&(plan, label.clone()));
        self.due.remove(&(plan, label.clone()));
    }

    pub(super) fn next_wakeup(&self) -> Option<(Timestamp, &'static str)> {
        self.due.values().min().map(|at| (*at, "an unconfirmed write is looked up"))
    }
}

impl Engine {
    pub(super) fn read_after(&mut self, plan: PlanId, label: &Text, wait: Span, why: Text) {
        let key = (plan, label.clone());
        if let Some(expected) = self.readings.expected.get_mut(&key) {
            expected.why = why;
            self.readings.due.insert(key, self.now + wait);
            self.advance_readings();
        }
    }

    pub(super) fn advance_readings(&mut self) {
        let now = self.now;
        let due = self.readings.due.iter().filter(|(_, at)| **at <= now);
        let keys: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.readings.due.remove(&key);
            let Some(expected) = self.readings.expected.get(&key) else { continue };
            let (op, (plan, label)) = (expected.read_back.read.clone(), key);
            self.send(op, Purpose::ReadBack { plan, label }, Urgency::Plan);
        }
    }

    /// A read has its outcome.
    pub(super) fn read_back(&mut self, plan: PlanId, label: &Text, result: WriteResult) {
        match result {
            WriteResult::Done(written) => {
                if let Some(event) = written.event {
                    self.fold(*event);
                }
                self.judge_read(plan, label);
            }
            // What was to be made isn't there: it was not made.
            WriteResult::Refused { code: 404, .. } if self.readings.creates(plan, label) => {
                self.judge_read(plan, label);
            }
            WriteResult::Refused { code: 404, message } => {
                self.stage_failed(plan, label, Failure::moved_on(message));
            }
            WriteResult::Stale { message }
            | WriteResult::Refused { message, .. }
            | WriteResult::NotSent { message }
            | WriteResult::Unknown { message } => self.read_after(plan, label, RETRY, message),
        }
        self.advance_plan(plan);
    }

    fn judge_read(&mut self, plan: PlanId, label: &Text) {
        let key = (plan, label.clone());
        let Some(expected) = self.readings.expected.get_mut(&key) else { return };
        if holds(&self.cluster, &expected.op) {
            self.plans.note_done(plan, label);
        }
        let progress = guarded("in a read", || expected.read_back.done.progress(&self.cluster));
        match progress {
            Ok(Progress::Reached) => self.stage_done(plan, label, Written::default()),
            Ok(Progress::Waiting) if expected.open || expected.tries < TRIES_MAX => {
                expected.tries += u32::from(!expected.open);
                let (mut op, open) = (expected.op.clone(), expected.open);
                let right = if open { Ok(()) } else { self.check_again(plan) };
                match right.and_then(|()| versioned_claim(&self.cluster, &mut op, self.now)) {
                    Ok(()) => {
                        let (label, deletes) = (label.clone(), false);
                        let purpose = Purpose::Stage { plan, label, deletes };
                        self.send(op, purpose, Urgency::Plan);
                    }
                    Err(failure) => self.stage_failed(plan, label, failure),
                }
            }
            Ok(Progress::Waiting) => {
                let failure = Failure::fault(expected.why.clone());
                self.stage_failed(plan, label, failure);
            }
            Ok(Progress::Failed(message)) => {
                self.stage_failed(plan, label, Failure::moved_on(message));
            }
            Err(fault) => self.stage_failed(plan, label, Failure::fault(fault)),
        }
    }
}
