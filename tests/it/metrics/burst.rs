//! An engine between its driver's two loops: inputs, polls and binds that are always done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use berth::assemble::assemble;
use berth::config::Configuration;
use berth::observe::metrics::{Metrics, Recorder};
use berth_core::engine::{Decision, Engine, Input, Write, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupKind, NATIVE, TopologyConstraint};
use berth_core::types::{
    GroupHint, GroupKey, Node, Owner, Pod, PodGroup, PodRequests, PodSpec, PodUid, Resources,
    Timestamp,
};

/// An engine with the usual profile, and its recorder.
pub(crate) struct Burst {
    pub(crate) metrics: Metrics,
    engine: Engine,
    recorder: Recorder,
    now: Timestamp,
}

/// The engine's thread, answering questions.
pub(crate) struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn amount(cpu_milli: i64) -> Resources {
    Resources { cpu_milli, memory_bytes: 1 << 20, ..Resources::default() }
}

fn pod(name: &str, cpu_milli: i64) -> ClusterEvent {
    let requests = PodRequests { real: amount(cpu_milli), ..PodRequests::default() };
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests: requests.clone(),
        ..PodSpec::default()
    };
    ClusterEvent::PodApplied(Box::new(Pod {
        uid: PodUid(name.into()),
        namespace: "default".into(),
        name: name.into(),
        resource_version: 1,
        spec: Arc::new(spec),
        usage: Arc::new(requests),
        limits: Arc::new(amount(2 * cpu_milli)),
        ..Pod::default()
    }))
}

impl Burst {
    pub(crate) fn new(nodes: usize) -> Burst {
        Burst::of(nodes, true)
    }

    /// Makes one with or without the stopwatch of a running Berth.
    pub(crate) fn of(nodes: usize, timed: bool) -> Burst {
        let configuration = Configuration::defaults();
        let (profiles, mut setup) = assemble(&configuration, 1).expect("the defaults are sound");
        let metrics = Metrics::default();
        if timed {
            setup.stopwatch = metrics.stopwatch(&profiles);
        }
        let recorder = metrics.recorder(|| {});
        let engine = Engine::new(profiles, setup);
        let mut burst = Burst { metrics, engine, recorder, now: Timestamp(1_000_000) };
        for at in 0..nodes {
            burst.input(Input::Cluster(ClusterEvent::NodeApplied(Node {
                name: format!("node-{at}").into(),
                uid: format!("node-{at}").into(),
                allocatable: Resources { memory_bytes: 1 << 40, ..amount(64_000) },
                pods_max: 110,
                labels: [("rack".into(), format!("r{}", at % 2).into())].into_iter().collect(),
                ..Node::default()
            })));
        }
        burst
    }

    fn input(&mut self, input: Input) {
        let seen = self.recorder.sees(&input, &self.engine);
        let begun = Instant::now();
        self.engine.handle(input, self.now);
        self.recorder.handled(seen, begun.elapsed());
    }

    pub(crate) fn pods(&mut self, count: usize) {
        for at in 0..count {
            self.input(Input::Cluster(pod(&format!("pod-{at}"), 500)));
        }
    }

    /// Adds a group and its two members.
    pub(crate) fn gang(&mut self) {
        let (namespace, name) = ("default".into(), "train".into());
        let key = GroupKey { dialect: NATIVE, kind: GroupKind::Pods, namespace, name };
        let topology = vec![TopologyConstraint::required("rack".into())];
        let group = PodGroup { topology, ..PodGroup::gang(key, "uid-of-train", 2) };
        let group = GroupEvent::Applied(Box::new(group));
        self.input(Input::Cluster(ClusterEvent::Groups(group)));
        for name in ["rank-0", "rank-1"] {
            let ClusterEvent::PodApplied(mut member) = pod(name, 500) else { continue };
            member.add_group_hint(GroupHint::of_object(NATIVE, "train".into()));
            let (kind, name, uid) = ("Job".into(), "train".into(), "uid-of-job".into());
            member.owner = Some(Owner { kind, name, uid });
            self.input(Input::Cluster(ClusterEvent::PodApplied(member)));
        }
    }

    /// Schedules `count` pods and one that fits nowhere, and returns what was decided.
    pub(crate) fn run(mut self, count: usize) -> Vec<String> {
        let mut decided = Vec::new();
        self.pods(count);
        self.input(Input::Cluster(pod("whale", 1_000_000)));
        let mut writes = VecDeque::new();
        loop {
            let begun = Instant::now();
            let poll = self.engine.poll(self.now);
            self.recorder.polled(&poll, begun, begun.elapsed(), self.now);
            let working = poll.working;
            decided.extend(poll.decisions.iter().map(|decision| format!("{decision:?}")));
            writes.extend(poll.decisions.into_iter().filter_map(write));
            if let Some(Write { id, op, .. }) = writes.pop_front() {
                let told = matches!(op, Op::SetCondition { .. } | Op::TellGroup { .. });
                assert!(told || matches!(op, Op::Bind { .. }), "{op:?}");
                let result = WriteResult::Done(Written::default());
                self.input(Input::Outcome { write: id, result });
            } else if !working {
                break;
            }
        }
        // What is published once a second is due for the first time.
        self.recorder.between_polls(&self.engine);
        decided
    }

    /// Has a thread answer what the recorder is asked.
    pub(crate) fn serving(mut self) -> Serving {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                self.recorder.between_polls(&self.engine);
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        Serving { stop, thread: Some(thread) }
    }
}

fn write(decision: Decision) -> Option<Write> {
    match decision {
        Decision::Write(write) => Some(write),
        Decision::Ask(_) | Decision::Notice(_) | Decision::Report(_) => None,
    }
}

impl Serving {
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it did not panic");
        }
    }
}
