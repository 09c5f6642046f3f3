//! The auditor: judges what happened in the [`World`] and what was sent to it.
//!
//! It shares no code with the engine: it keeps its own sums and its own small model of the filters
//! ([`model`]), and believes the world's log. Only for I11 does it look at the engine's ledger.
//! The invariants are those of facts/reliability.md B4.

mod claims;
mod end;
mod gangs;
mod grants;
mod left;
mod model;
mod roster;
mod solve;
mod stock;
mod view;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::engine::{CycleReport, Notice, WriteId};
use berth_core::framework::Op;
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{Node, Pod, PodRef, PodRequests, PodUid, Text, Timestamp};

use crate::workload::ELSEWHERE;
use crate::world::{Logged, World};

use claims::{Claims, Wrong};
use gangs::Gangs;
pub use gangs::HOLD_SLOTS;
use view::View;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its row in B4.
    pub invariant: &'static str,
    pub at: Timestamp,
    pub text: String,
}

/// A process's write: its generation, and the write's id there.
pub(crate) type Sender = (u64, WriteId);

/// What became of a bind, by the world's own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It can still be committed, or was.
    Open,
    /// It was refused or lost, and can't be committed any more.
    Dead,
}

#[derive(Debug)]
struct Sent {
    by: Sender,
    node: Text,
    /// The bind is committed at this version of the pod or not at all; 0: at any.
    resource_version: u64,
    at: Timestamp,
    /// The node as the process knew it.
    known: Arc<Node>,
    fate: Fate,
}

#[derive(Debug, Default)]
pub(crate) struct Auditor {
    view: View,
    claims: Claims,
    gangs: Gangs,
    binds: BTreeMap<PodUid, Vec<Sent>>,
    /// What holds resources on each node name.
    placed: BTreeMap<Text, BTreeMap<PodUid, Arc<PodRequests>>>,
    at: BTreeMap<PodUid, Text>,
    /// Every node as it was last.
    nodes: BTreeMap<Text, Node>,
    /// Pods and nodes of which the process was told since its last turn.
    fresh: BTreeSet<Text>,
    /// The process was asked to stop before its last poll: it begins nothing.
    pub(crate) stopping: bool,
    violation: Option<Violation>,
}

impl Auditor {
    /// Returns the first violation.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn violate(&mut self, invariant: &'static str, at: Timestamp, text: String) {
        self.violation.get_or_insert(Violation { invariant, at, text });
    }

    /// Another process begins: it has seen nothing.
    pub(crate) fn restarted(&mut self) {
        self.view = View::default();
        self.claims.restarted();
        self.gangs.restarted();
        self.stopping = false;
    }

    /// The process was told this.
    pub(crate) fn delivered(&mut self, event: &ClusterEvent, now: Timestamp) {
        self.gangs.delivered(event, now);
        match event {
            ClusterEvent::Devices(event) => self.claims.delivered(event),
            event => self.view.fold(event),
        }
        match event {
            ClusterEvent::PodApplied(pod) => self.fresh.insert(pod.uid.0.clone()),
            ClusterEvent::PodDeleted { uid } => self.fresh.insert(uid.0.clone()),
            ClusterEvent::NodeApplied(node) => self.fresh.insert(node.name.clone()),
            ClusterEvent::NodeDeleted { name, .. } => self.fresh.insert(name.clone()),
            _ => false,
        };
    }

    /// The process says something to people.
    pub(crate) fn noticed(&mut self, notice: &Notice) {
        self.gangs.noticed(notice);
        if let Notice::Odd { subject, .. } = notice {
            self.claims.noticed(subject);
        }
    }

    /// How an attempt went.
    pub(crate) fn reported(&mut self, report: &CycleReport) {
        self.gangs.reported(report);
    }

    /// Nothing strikes any more.
    pub(crate) fn faults_ended(&mut self, now: Timestamp) {
        self.gangs.faults_ended = Some(now);
    }

    /// The process has had its turn.
    pub(crate) fn polled(&mut self, now: Timestamp) {
        self.fresh.clear();
        let wrong = self.claims.polled();
        self.wrong(wrong, now);
        let wrong = self.gangs.polled(now);
        self.wrong(wrong, now);
    }

    /// A fault has changed a claim under its pods.
    pub(crate) fn tampered(&mut self, claim: &Text, pods: impl Iterator<Item = PodUid>) {
        self.claims.tampered.insert(claim.clone());
        self.claims.robbed.extend(pods);
    }

    fn wrong(&mut self, wrong: Option<Wrong>, now: Timestamp) {
        if let Some((invariant, text)) = wrong {
            self.violate(invariant, now, text);
        }
    }

    /// The process sends `op`.
    ///
    /// `current` is the version that the server has of a bind's pod.
    pub(crate) fn sends(&mut self, by: Sender, op: &Op, current: u64, now: Timestamp) {
        match op {
            Op::Bind { pod, node, resource_version, .. } => {
                self.still_open(pod, node, current, now);
                self.sends_bind(by, pod, node, *resource_version, now);
            }
            Op::SetCondition { pod, resource_version, .. }
            | Op::Nominate { pod, resource_version, .. } => {
                let seen = self.view.pod(&pod.uid).map_or(0, |pod| pod.resource_version);
                if *resource_version < seen {
                    let text = format!("status of {pod} at {resource_version}, seen {seen}");
                    self.violate("I10", now, text);
                }
            }
            Op::Claim { claim, .. } => {
                let stopping = self.stopping && !self.gangs.begun_with(&claim.key);
                let wrong = self.claims.sends(op, stopping);
                self.wrong(wrong, now);
            }
            Op::TryBind { .. }
            | Op::SetDisruption { .. }
            | Op::TellGroup { .. }
            | Op::ReadPod { .. }
            | Op::Fence { .. }
            | Op::DeletePod { .. }
            | Op::Create { .. }
            | Op::Patch { .. }
            | Op::Delete { .. } => {}
        }
        let wrong = self.gangs.sends(op, now);
        self.wrong(wrong, now);
    }

    /// An earlier bind may still be committed while the pod is at the version it was sent with.
    fn still_open(&mut self, pod: &PodRef, node: &Text, current: u64, now: Timestamp) {
        let earlier = self.binds.get(&pod.uid).into_iter().flatten();
        let open = |sent: &&Sent| {
            let version = sent.resource_version;
            sent.fate == Fate::Open && (version == 0 || version == current)
        };
        for sent in earlier.filter(open).filter(|sent| sent.node != *node) {
            let text = format!("{pod} is sent to {node}, may still go to {}", sent.node);
            self.violation.get_or_insert(Violation { invariant: "I3", at: now, text });
        }
    }

    fn sends_bind(
        &mut self,
        by: Sender,
        pod: &PodRef,
        node: &Text,
        resource_version: u64,
        now: Timestamp,
    ) {
        let begun = self.claims.begun(&pod.uid) || self.gangs.begun(&pod.uid);
        if self.stopping && !begun {
            self.violate("F39", now, format!("{pod} is sent after SIGTERM"));
        }
        // A pod's claims are written first: what has come with the answer may have come too late.
        let excused = begun && (self.fresh.contains(&pod.uid.0) || self.fresh.contains(node));
        let last = || self.nodes.get(node).filter(|_| excused).cloned().map(Arc::new);
        let Some(known) = self.view.node(node).cloned().or_else(last) else {
            return self.violate("I10", now, format!("{pod} is sent to {node}, known to be gone"));
        };
        match self.view.pod(&pod.uid) {
            None if excused => {}
            None => {
                self.violate("I10", now, format!("{pod} ({}) is sent, known to be gone", pod.uid))
            }
            Some(seen) => {
                let here = self.placed.get(node).into_iter().flatten();
                let taken: Vec<&PodRequests> = here.map(|(_, usage)| &**usage).collect();
                if let Some((invariant, text)) = self.gangs.takes_kept(seen, &known, &taken, now) {
                    self.violation.get_or_insert(Violation { invariant, at: now, text });
                }
                let unready = self.claims.unready(seen, &known);
                if let Some(why) = unfit_to_send(seen, &known).filter(|_| !excused) {
                    self.violate("I2", now, format!("{pod} is sent to {node}: {why}"));
                } else if let Some(why) = unready {
                    self.violate("I12", now, format!("{pod} is sent to {node}: {why}"));
                }
            }
        }
        let fate = Fate::Open;
        let sent = Sent { by, node: node.clone(), resource_version, at: now, known, fate };
        self.binds.entry(pod.uid.clone()).or_default().push(sent);
    }

    /// The world says what became of a bind.
    pub(crate) fn dead(&mut self, uid: &PodUid, by: Sender) {
        for sent in self.binds.get_mut(uid).into_iter().flatten().filter(|s| s.by == by) {
            sent.fate = Fate::Dead;
        }
    }

    /// Follows the world's log.
    pub(crate) fn logged(&mut self, logged: &Logged) {
        self.gangs.logged(&logged.event, logged.at);
        match &*logged.event {
            ClusterEvent::PodApplied(pod) => self.pod_applied(pod, logged.at),
            ClusterEvent::PodDeleted { uid } => {
                self.vacate(uid);
                self.binds.remove(uid);
            }
            ClusterEvent::NodeApplied(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
            }
            ClusterEvent::Devices(event) => {
                let runs = |uid: &PodUid| self.at.get(uid).is_some_and(|node| node != ELSEWHERE);
                let wrong = self.claims.logged(event, &runs);
                self.wrong(wrong, logged.at);
            }
            _ => {}
        }
    }

    fn pod_applied(&mut self, pod: &Pod, now: Timestamp) {
        if pod.finished() {
            self.vacate(&pod.uid);
            return;
        }
        let Some(node) = &pod.node_name else { return };
        if self.at.insert(pod.uid.clone(), node.clone()).is_some() {
            return;
        }
        let placed = self.placed.entry(node.clone()).or_default();
        placed.insert(pod.uid.clone(), pod.usage.clone());
        if node != ELSEWHERE {
            self.bound(pod, node, now);
        }
    }

    fn vacate(&mut self, uid: &PodUid) {
        if let Some(node) = self.at.remove(uid)
            && let Some(placed) = self.placed.get_mut(&node)
        {
            placed.remove(uid);
        }
    }

    /// I2, at the moment of a commit: what is on the node is within what it had when it was decided.
    fn bound(&mut self, pod: &Pod, node: &Text, now: Timestamp) {
        let sent = self.binds.get(&pod.uid).into_iter().flatten();
        if !sent.rev().any(|sent| sent.node == *node) {
            return self.violate("I3", now, format!("{} is bound, never sent", pod.name));
        }
        let wrong = self.nodes.get(node).and_then(|node| self.claims.bound(pod, node));
        self.wrong(wrong, now);
        let placed = self.placed.get(node).into_iter().flatten();
        let taken = placed.filter_map(|(uid, usage)| {
            let sent = self.binds.get(uid)?.iter().rev().find(|sent| sent.node == *node)?;
            Some(model::Taken { usage, known: &sent.known, decided: sent.at })
        });
        if let Some(over) = model::over(&taken.collect::<Vec<_>>(), &pod.usage) {
            let names: Vec<&str> = self.placed[node].keys().map(|uid| uid.0.as_str()).collect();
            let text = format!("{} bound to {node}: {over} ({})", pod.name, names.join(" "));
            self.violate("I2", now, text);
        }
    }

    /// Judges the end: see [`end`].
    pub(crate) fn judge_places(&mut self, world: &World, now: Timestamp) {
        let book = &self.claims.world;
        let excused = |pod: &Pod| {
            let elsewhere = pod.node_name.as_ref().is_some_and(|node| node == ELSEWHERE);
            elsewhere || self.claims.robbed.contains(&pod.uid)
        };
        let bereft = left::bereft(book, world, &excused);
        let whole = || whole::misplaced(world, book, &self.gangs.world);
        if let Some(text) = end::misplaced(world, book).or_else(whole).or(bereft) {
            self.violate("I5", now, text);
        } else if let Some(text) = left::leaked(book, world) {
            self.violate("I12", now, text);
        }
    }

    pub(crate) fn judge_reasons(&mut self, world: &World, now: Timestamp) {
        let book = &self.claims.world;
        let groups = || whole::untrue(world, book, &self.gangs.world);
        if let Some(text) = end::untrue(world, book).or_else(groups) {
            self.violate("I5", now, text);
        }
    }

    pub(crate) fn judge_ledger(
        &mut self,
        world: &World,
        engine: &berth_core::engine::Engine,
        now: Timestamp,
    ) {
        let differs = end::differs(world, engine);
        if let Some(text) = differs.or_else(|| left::differs(&self.claims.world, engine)) {
            self.violate("I11", now, text);
        }
    }
}

/// Says why a process that knows the pod and the node so must not bind one to the other.
fn unfit_to_send(pod: &Pod, node: &Node) -> Option<String> {
    if let Some(place) = &pod.node_name {
        return Some(format!("it is on {place}"));
    }
    if pod.terminating || pod.finished() || !pod.gates.is_empty() {
        return Some("it is terminating, finished or gated".to_owned());
    }
    model::turned_away(pod, node).map(str::to_owned)
}
