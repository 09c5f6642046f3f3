//! Telling users why a pod waits: the condition PodScheduled=False.
//!
//! A condition is written when its reason or its list of reason texts has changed; when only
//! numbers have, at most once in [`Limits::retell`](super::Limits::retell). Each write carries the
//! resourceVersion that it was decided on, so that it can't overwrite a bind's own condition. The
//! pod's nomination goes with it.

use std::collections::{BTreeMap, BTreeSet};

use crate::framework::Op;
use crate::snapshot::Cluster;
use crate::types::{Condition, Pod, PodUid, Span, Text, Timestamp};

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
    in_flight: Option<Sent>,
    /// When it is due; `None` while nothing is to be written.
    due: Option<Timestamp>,
    failures: u32,
}

/// A write that has no outcome yet.
#[derive(Debug)]
struct Sent {
    likeness: Likeness,
    condition: Condition,
    resource_version: u64,
}

const RETRY_MAX: Span = Span::from_secs(60);

impl Tells {
    pub(super) fn next_wakeup(&self, now: Timestamp) -> Option<(Timestamp, &'static str)> {
        self.due.first().map(|(at, _)| ((*at).max(now), "a condition is to be written"))
    }

    /// Tells whether a condition of the pod is sent and has no outcome yet.
    pub(super) fn in_flight(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|told| told.in_flight.is_some())
    }

    /// Nothing is to be told of the pod any more.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        if let Some(told) = self.pods.remove(uid)
            && let Some(at) = told.due
        {
            self.due.remove(&(at, uid.clone()));
        }
    }

    /// What was to be told for this reason, and was not, is not told any more.
    pub(super) fn drop_untold(&mut self, uid: &PodUid, reason: &str) {
        let Some(told) = self.pods.get(uid) else { return };
        if &*told.wanted.reason != reason || told.in_flight.is_some() {
            return;
        }
        match told.written.is_some() {
            true => self.set_due(uid, None),
            false => self.forget(uid),
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
        self.tell_from(uid, condition, texts, self.now);
    }

    /// As [`Engine::tell`], for what is told of a group: not before `from`, not again while it is
    /// alike, and else at most once in [`Limits::retell`](super::Limits::retell).
    pub(super) fn tell_of_group(
        &mut self,
        uid: &PodUid,
        condition: Condition,
        likeness: Text,
        from: Timestamp,
    ) {
        let alike = (condition.reason.clone(), vec![likeness.clone()]);
        let known = self.tells.pods.get(uid);
        let told_already = |told: &Told| {
            let written = told.written.as_ref().is_some_and(|(likeness, _)| *likeness == alike);
            // What was to be told, and was dropped, is not told.
            told.likeness == alike && (written || told.due.is_some() || told.in_flight.is_some())
        };
        if known.is_some_and(told_already) {
            return;
        }
        let written = known.and_then(|told| told.written.as_ref()).map(|(_, at)| *at);
        let from = written.map_or(from, |at| from.max(at + self.setup.limits.retell));
        self.tell_from(uid, condition, vec![likeness], from);
    }

    fn tell_from(&mut self, uid: &PodUid, condition: Condition, texts: Vec<Text>, from: Timestamp) {
        let likeness = (condition.reason.clone(), texts);
        let Some(record) = self.cluster.pod(uid) else { return };
        let nominated = nomination_to_write(&self.cluster, &record.pod).is_some();
        let on_object = &record.pod.unscheduled;
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
        } else if nominated {
            Some(now)
        } else if on_object.as_ref() == Some(&told.wanted) {
            told.written = Some((told.likeness.clone(), now));
            None
        } else {
            match &told.written {
                Some((likeness, at)) if *likeness == told.likeness => {
                    Some(*at + self.setup.limits.retell)
                }
                _ => Some(now.max(from)),
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
        // A pod with a place isn't told; one that waits for its victims is.
        if !may_be_placed(&self.cluster, uid) {
            return;
        }
        let Some(record) = self.cluster.pod(uid) else { return };
        let nominated_node = nomination_to_write(&self.cluster, &record.pod);
        let newest = self.tells.pods.get(uid).and_then(|told| self.lack_of(uid, &told.likeness.1));
        let newest = newest.cloned();
        let Some(told) = self.tells.pods.get_mut(uid) else { return };
        if let Some(message) = newest {
            told.wanted.message = message;
        }
        if nominated_node.is_none() && record.pod.unscheduled.as_ref() == Some(&told.wanted) {
            told.written = Some((told.likeness.clone(), self.now));
            return;
        }
        let (condition, resource_version) = (told.wanted.clone(), record.pod.resource_version);
        told.in_flight = Some(Sent {
            likeness: told.likeness.clone(),
            condition: condition.clone(),
            resource_version,
        });
        let pod = record.pod.reference();
        let op = Op::SetCondition { pod, resource_version, condition, nominated_node };
        self.send(op, Purpose::Tell { uid: uid.clone() }, Urgency::Status);
    }

    pub(super) fn tell_outcome(&mut self, uid: &PodUid, result: WriteResult) {
        let now = self.now;
        let seen = self.cluster.pod(uid).map(|record| record.pod.resource_version);
        let Some(told) = self.tells.pods.get_mut(uid) else { return };
        let Some(sent) = told.in_flight.take() else { return };
        let retry = Span(1000u64.saturating_mul(1 << told.failures.min(6))).min(RETRY_MAX);
        let next = match result {
            WriteResult::Done(written) => {
                self.cluster.saw_version(uid, written.resource_version);
                told.failures = 0;
                let (likeness, condition) = (sent.likeness, sent.condition);
                let next = if likeness != told.likeness {
                    Some(now)
                } else {
                    (condition != told.wanted).then_some(now + self.setup.limits.retell)
                };
                told.written = Some((likeness, now));
                next
            }
            WriteResult::Refused { code: 404, .. } => None,
            WriteResult::Refused { code, message } => {
                let subject = Text::from("condition");
                let message = Text::from(format!("writing PodScheduled: {message} ({code})"));
                self.out.push_back(Decision::Notice(Notice::Odd { subject, message }));
                Some(now + RETRY_MAX)
            }
            WriteResult::Stale { .. } => {
                told.failures = told.failures.saturating_add(1);
                // The newer object is on its way, if it isn't here already.
                let newer = seen.is_some_and(|seen| seen != sent.resource_version);
                Some(if newer { now } else { now + RETRY_MAX })
            }
            WriteResult::NotSent { .. } | WriteResult::Unknown { .. } => {
                told.failures = told.failures.saturating_add(1);
                Some(now + retry)
            }
        };
        self.tells.set_due(uid, next);
    }

    /// A newer version of the pod was seen: a write that was stale can go out again, and a
    /// condition that somebody overwrote is written again, in its time.
    pub(super) fn tell_seen(&mut self, uid: &PodUid) {
        let Some(record) = self.cluster.pod(uid) else { return };
        let Some(told) = self.tells.pods.get_mut(uid) else { return };
        if told.in_flight.is_some() {
            return;
        }
        let same = record.pod.unscheduled.as_ref() == Some(&told.wanted);
        let next = match &told.written {
            _ if same && nomination_to_write(&self.cluster, &record.pod).is_none() => None,
            _ if told.failures > 0 => Some(self.now),
            Some((_, at)) if told.due.is_none() => Some(*at + self.setup.limits.retell),
            Some(_) | None => return,
        };
        told.failures = 0;
        self.tells.set_due(uid, next);
    }
}

/// Returns what `status.nominatedNodeName` must become to say what the ledger says; `None` if it
/// does already.
fn nomination_to_write(cluster: &Cluster, pod: &Pod) -> Option<Text> {
    let ours = cluster.nomination(&pod.uid).map(|node| &cluster.nodes().slot(node).name);
    (ours != pod.nominated_node.as_ref()).then(|| ours.cloned().unwrap_or_default())
}
