//! A world of one engine, one server and a clock that only the story moves.

use std::collections::{BTreeMap, VecDeque};

use berth_core::engine::measures::Measures;
use berth_core::engine::{
    Answer, CycleReport, Decision, Engine, Input, Limits, Notice, Question, Setup, Write,
    WriteResult,
};
use berth_core::framework::Op;
use berth_core::queue::Station;
use berth_core::snapshot::{ClusterEvent, Place};
use berth_core::types::group::GroupPhase;
use berth_core::types::{Condition, Node, Pod, PodUid, Span, Timestamp};

use crate::build::{USUAL, profile};
use crate::server::Server;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    pub(crate) now: Timestamp,
    /// Writes that nobody has carried out yet.
    pub(crate) writes: VecDeque<Write>,
    pub(crate) reports: Vec<CycleReport>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) questions: Vec<Question>,
    pub(crate) polls: usize,
    pub(crate) measures: Vec<Measures>,
    /// Pods whose binds the server refuses, by name; to one node only, if it is named.
    refused: BTreeMap<String, Option<String>>,
    /// What was told of groups, with members that have a place.
    told_groups: Vec<(GroupPhase, u32)>,
    plugins: Vec<&'static str>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(Setup::default())
    }

    pub(crate) fn with(setup: Setup) -> World {
        World::of(USUAL, setup)
    }

    pub(crate) fn of(plugins: &[&'static str], setup: Setup) -> World {
        World {
            engine: Engine::new(vec![profile(plugins, 0)], setup),
            server: Server::default(),
            now: Timestamp(1_000_000),
            writes: VecDeque::new(),
            reports: Vec::new(),
            notices: Vec::new(),
            questions: Vec::new(),
            polls: 0,
            measures: Vec::new(),
            refused: BTreeMap::new(),
            told_groups: Vec::new(),
            plugins: plugins.to_vec(),
        }
    }

    /// The process ends and another begins with what the server has; group objects and nodes must be
    /// told anew.
    pub(crate) fn restart(&mut self) {
        let plugins = self.plugins.clone();
        self.engine = Engine::new(vec![profile(&plugins, 0)], Setup::default());
        self.writes.clear();
        for pod in self.server.pods.clone().into_values() {
            self.event(ClusterEvent::PodApplied(Box::new(pod)));
        }
    }

    /// From now on the server refuses to bind a pod, to this node or to any.
    pub(crate) fn refuse(&mut self, name: &str, node: Option<&str>) {
        self.refused.insert(name.to_owned(), node.map(str::to_owned));
    }

    pub(crate) fn told_groups(&self) -> &[(GroupPhase, u32)] {
        &self.told_groups
    }

    /// From now on the server refuses to bind a pod nowhere.
    pub(crate) fn allow(&mut self, name: &str) {
        self.refused.remove(name);
    }

    fn refuses(&self, op: &Op) -> bool {
        let (Op::Bind { pod, node, .. } | Op::TryBind { pod, node }) = op else { return false };
        let refused = self.refused.get(pod.name.as_str());
        refused.is_some_and(|only| only.as_ref().is_none_or(|only| **only == **node))
    }

    /// A poll may make so many plugin calls.
    pub(crate) fn with_steps(steps_a_poll: u64) -> World {
        let limits = Limits { steps_a_poll, ..Limits::default() };
        World::with(Setup { limits, ..Setup::default() })
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.engine.handle(input, self.now);
    }

    pub(crate) fn event(&mut self, event: ClusterEvent) {
        self.input(Input::Cluster(event));
    }

    pub(crate) fn node(&mut self, node: Node) {
        self.event(ClusterEvent::NodeApplied(node));
    }

    pub(crate) fn node_gone(&mut self, name: &str) {
        self.event(ClusterEvent::NodeDeleted {
            name: name.into(),
            uid: format!("uid-of-{name}").into(),
        });
    }

    /// Creates or replaces a pod on the server, and lets the engine see it.
    pub(crate) fn pod(&mut self, pod: Pod) {
        let pod = self.server.put(pod);
        self.event(ClusterEvent::PodApplied(Box::new(pod)));
    }

    /// Changes a pod on the server, and lets the engine see it.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.on_server(name).clone();
        change(&mut pod);
        self.pod(pod);
    }

    pub(crate) fn pod_gone(&mut self, name: &str) {
        self.server.pods.remove(&uid(name));
        self.event(ClusterEvent::PodDeleted { uid: uid(name) });
    }

    /// Polls once. Returns whether there is more to do.
    pub(crate) fn poll(&mut self) -> bool {
        self.polls += 1;
        let poll = self.engine.poll(self.now);
        self.measures.push(poll.measures);
        for decision in poll.decisions {
            match decision {
                Decision::Write(write) => self.writes.push_back(write),
                Decision::Ask(question) => self.questions.push(question),
                Decision::Notice(notice) => self.notices.push(notice),
                Decision::Report(report) => self.reports.push(*report),
            }
        }
        poll.working
    }

    /// Polls until nothing is left to do at this moment.
    pub(crate) fn think(&mut self) {
        for _ in 0..100_000 {
            if !self.poll() {
                return;
            }
        }
        panic!("the engine never comes to rest");
    }

    /// Thinks and carries out every write, until there is none.
    pub(crate) fn run(&mut self) {
        for _ in 0..50_000 {
            self.think();
            let Some(write) = self.writes.pop_front() else { return };
            self.carry_out(write);
        }
        panic!("the engine never stops writing");
    }

    /// The server does a write, answers it, and the watch shows it.
    pub(crate) fn carry_out(&mut self, write: Write) {
        if let Op::TellGroup { told, .. } = &write.op {
            self.told_groups.push((told.phase, told.scheduled));
        }
        if self.refuses(&write.op) {
            return self.answer(&write, refused(403));
        }
        let (result, changed) = self.server.carry_out(&write.op);
        self.answer(&write, result);
        if let Some(pod) = changed {
            self.event(ClusterEvent::PodApplied(Box::new(pod)));
        }
    }

    pub(crate) fn answer(&mut self, write: &Write, result: WriteResult) {
        self.input(Input::Outcome { write: write.id, result });
    }

    pub(crate) fn reply(&mut self, question: &Question, answer: Answer) {
        self.input(Input::Answer { question: question.id, answer });
    }

    /// Thinks, then takes the first write that `wanted` picks.
    pub(crate) fn write(&mut self, wanted: impl Fn(&Op) -> bool) -> Write {
        self.think();
        let at = self.writes.iter().position(|write| wanted(&write.op));
        let at = at.unwrap_or_else(|| panic!("no such write among {:?}", self.writes));
        self.writes.remove(at).expect("it was just found")
    }

    pub(crate) fn bind_of(&mut self, name: &str) -> Write {
        self.write(|op| matches!(op, Op::Bind { pod, .. } if pod.name == name))
    }

    /// Returns what is waiting to be written, by kind, after thinking.
    pub(crate) fn pending_writes(&mut self) -> Vec<String> {
        self.think();
        self.writes.iter().map(|write| shown(&write.op)).collect()
    }

    /// Lets time pass, waking the engine whenever it asked for it.
    pub(crate) fn wait(&mut self, span: Span) {
        let until = self.now + span;
        self.run();
        let mut wakeups = 0;
        while let Some((at, why)) = self.engine.next_wakeup().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            self.run();
            wakeups += 1;
            assert!(wakeups < 10_000, "woken again and again, but nothing is done: {why}");
        }
        self.now = until;
        self.run();
    }

    pub(crate) fn wait_secs(&mut self, secs: u64) {
        self.wait(Span::from_secs(secs));
    }

    pub(crate) fn on_server(&self, name: &str) -> &Pod {
        &self.server.pods[&uid(name)]
    }

    /// Returns the node that the server has bound a pod to; empty if none.
    pub(crate) fn bound(&self, name: &str) -> String {
        self.on_server(name).node_name.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the node on which the ledger holds a place for a pod; empty if none.
    pub(crate) fn held(&self, name: &str) -> String {
        let place = self.engine.cluster().pod(&uid(name)).map_or(Place::Nowhere, |r| r.place);
        let node = place.node().map(|node| self.engine.cluster().nodes().slot(node).name.clone());
        node.map(|name| name.to_string()).unwrap_or_default()
    }

    pub(crate) fn condition(&self, name: &str) -> Condition {
        let none = Condition { reason: "".into(), message: "".into() };
        self.on_server(name).unscheduled.clone().unwrap_or(none)
    }

    pub(crate) fn station(&self, name: &str) -> Option<Station> {
        self.engine.queue().entry_of(&uid(name)).map(|entry| entry.station.clone())
    }

    pub(crate) fn attempts(&self, name: &str) -> u32 {
        self.engine.queue().entry_of(&uid(name)).map_or(0, |entry| entry.attempts)
    }
}

pub(crate) fn uid(name: &str) -> PodUid {
    PodUid(name.into())
}

pub(crate) fn unknown() -> WriteResult {
    WriteResult::Unknown { message: "connection reset".into() }
}

pub(crate) fn refused(code: u16) -> WriteResult {
    WriteResult::Refused { code, message: "no".into() }
}

pub(crate) fn shown(op: &Op) -> String {
    match op {
        Op::Bind { pod, node, .. } => format!("bind {} to {node}", pod.name),
        Op::TryBind { pod, node } => format!("try {} on {node}", pod.name),
        Op::SetDisruption { pod, reason, .. } => format!("disrupt {} {reason}", pod.name),
        Op::TellGroup { group, told, .. } => format!("tell group {} {:?}", group.name, told.phase),
        Op::ReadPod { pod } => format!("read {}", pod.name),
        Op::Fence { pod, node, .. } => format!("fence {} from {node}", pod.name),
        Op::SetCondition { pod, condition, .. } => {
            format!("tell {} {}", pod.name, condition.reason)
        }
        Op::Nominate { pod, node, .. } => format!("nominate {} for {node}", pod.name),
        Op::DeletePod { pod } => format!("delete pod {}", pod.name),
        Op::Claim { claim, write, .. } => format!("claim {} {write:?}", claim.key.name),
        Op::Create { kind, name, .. } => format!("create {kind} {name:?}"),
        Op::Patch { name, body, .. } => format!("patch {name:?} to {body}"),
        Op::Delete { name, .. } => format!("delete {name:?}"),
    }
}
