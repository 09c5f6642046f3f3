//! Telling users why a pod waits: the condition PodScheduled=False.
//!
//! A condition is written when its reason or its list of reason texts has changed; when only
//! numbers have, at most once in [`Limits::retell`](super::Limits::retell). Each write carries the
//! resourceVersion that it was decided on, so that it can't overwrite a bind's own condition.

use std::collections::{BTreeMap, BTreeSet};

use crate::framework::Op;
use crate::types::{Condition, PodUid, Span, Text, Timestamp};

use super::decision::{Decision, Notice, Urgency};
use super::input::WriteResult;
use super::placing::may_be_placed;
use super::{Engine, Purpose};

/// What makes two conditions alike: reason and reason texts, without counts and numbers.
type Likeness = (Text, Vec<Text>);

#[derive(Debug, Default)]
pub(super) struct Tells {
    pods: BTreeMap<PodUid, Told>,
    /// Pods whose condition is to be written, by the time from when it may be.
    due: BTreeSet<(Timestamp, PodUid)>,
}

#[derive(Debug)]
struct Told {
    wanted: Condition,
    likeness: Likeness,
    /// What was written last, and when.
    written: Option<(Likeness, Timestamp)>,
    in_flight: Option<Likeness>,
    /// When it is due; `None` while nothing is to be written.
    due: Option<Timestamp>,
    failures: u32,
}

const RETRY_MAX: Span = Span::from_secs(60);

impl Tells {
    pub(super) fn next_wakeup(&self, now: Timestamp) -> Option<(Timestamp, &'static str)> {
        self.due.first().map(|(at, _)| ((*at).max(now), "a condition is to be written"))
    }

    /// Nothing is to be told of the pod any more.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        if let Some(told) = self.pods.remove(uid)
            && let Some(at) = told.due
        {
            self.due.remove(&(at, uid.clone()));
        }
    }

    fn set_due(&mut self, uid: &PodUid, at: Option<Timestamp>) {
        let Some(told) = self.pods.get_mut(uid) else { return };
        if let Some(old) = std::mem::replace(&mut told.due, at) {
            self.due.remove(&(old, uid.clone()));
        }
        if let Some(at) = at {
            self.due.insert((at, uid.clone()));
        }
    }
}

impl Engine {
    /// Wants the pod's condition to say this.
    pub(super) fn tell(&mut self, uid: &PodUid, condition: Condition, texts: Vec<Text>) {
        let likeness = (condition.reason.clone(), texts);
        let on_object = self.cluster.pod(uid).and_then(|r| r.pod.unscheduled.clone());
        let now = self.now;
        let told = self.tells.pods.entry(uid.clone()).or_insert_with(|| Told {
            wanted: condition.clone(),
            likeness: likeness.clone(),
            written: None,
            in_flight: None,
            due: None,
            failures: 0,
        });
        told.wanted = condition;
        told.likeness = likeness;
        let at = if told.in_flight.is_some() {
            None
        } else if on_object.as_ref() == Some(&told.wanted) {
            told.written = Some((told.likeness.clone(), now));
            None
        } else {
            match &told.written {
                Some((likeness, at)) if *likeness == told.likeness => {
                    Some(*at + self.setup.limits.retell)
                }
                _ => Some(now),
            }
        };
        self.tells.set_due(uid, at);
    }

    /// Sends the conditions that are due.
    pub(super) fn tell_due(&mut self) {
        while let Some((at, uid)) = self.tells.due.first().cloned() {
            if at > self.now {
                return;
            }
            self.tells.set_due(&uid, None);
            self.tell_now(&uid);
        }
    }

    fn tell_now(&mut self, uid: &PodUid) {
        if !may_be_placed(&self.cluster, uid) || self.planned(uid) {
            return;
        }
        let Some(record) = self.cluster.pod(uid) else { return };
        let Some(told) = self.tells.pods.get_mut(uid) else { return };
        if record.pod.unscheduled.as_ref() == Some(&told.wanted) {
            told.written = Some((told.likeness.clone(), self.now));
            return;
        }
        told.in_flight = Some(told.likeness.clone());
        let op = Op::SetCondition {
            pod: record.pod.reference(),
            resource_version: record.pod.resource_version,
            condition: told.wanted.clone(),
            nominated_node: None,
        };
        self.send(op, Purpose::Tell { uid: uid.clone() }, Urgency::Status);
    }

    pub(super) fn tell_outcome(&mut self, uid: &PodUid, result: WriteResult) {
        let now = self.now;
        let Some(told) = self.tells.pods.get_mut(uid) else { return };
        let Some(sent) = told.in_flight.take() else { return };
        let retry = Span(1000u64.saturating_mul(1 << told.failures.min(6))).min(RETRY_MAX);
        let next = match result {
            WriteResult::Done(_) => {
                told.failures = 0;
                let changed = sent != told.likeness;
                told.written = Some((sent, now));
                changed.then_some(now)
            }
            WriteResult::Refused { code: 404, .. } => None,
            WriteResult::Refused { code, message } => {
                let subject = Text::from("condition");
                let message = Text::from(format!("writing PodScheduled: {message} ({code})"));
                self.out.push_back(Decision::Notice(Notice::Odd { subject, message }));
                Some(now + RETRY_MAX)
            }
            WriteResult::Stale { .. }
            | WriteResult::NotSent { .. }
            | WriteResult::Unknown { .. } => {
                told.failures = told.failures.saturating_add(1);
                Some(now + retry)
            }
        };
        self.tells.set_due(uid, next);
    }

    /// A newer version of the pod was seen: a write that was stale can go out again, and a
    /// condition that somebody overwrote is written again.
    pub(super) fn tell_seen(&mut self, uid: &PodUid) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let Some(told) = self.tells.pods.get_mut(uid) else { return };
        if told.in_flight.is_some() {
            return;
        }
        let same = record.pod.unscheduled.as_ref() == Some(&told.wanted);
        if same {
            self.tells.set_due(uid, None);
        } else if told.failures > 0 {
            told.failures = 0;
            let now = self.now;
            self.tells.set_due(uid, Some(now));
        }
    }
}
