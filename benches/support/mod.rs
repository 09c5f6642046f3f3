//! Synthetic clusters, pod mixes and a loop that answers every bind at once.
#![allow(dead_code, reason = "each bench uses its part")]

pub(crate) mod devices;
pub(crate) mod hostile;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::engine::{Decision, Engine, Input, Setup, WriteResult, Written};
use berth_core::framework::{Op, Profile, ProfileSpec};
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{
    LabelSelector, Labels, Node, Pod, PodRequests, PodSpec, PodUid, Resources, SpreadConstraint,
    Taint, TaintEffect, Text, Timestamp,
};

pub(crate) const SCHEDULER: &str = "default-scheduler";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(crate) fn engine() -> Engine {
    engine_with(|_| Setup::default())
}

/// Makes an engine of the setup that fits its profiles.
fn engine_with(setup: impl FnOnce(&[Profile]) -> Setup) -> Engine {
    let spec = ProfileSpec::default_named(SCHEDULER);
    let profile = Profile::build(&spec, berth_plugins::registry()).expect("the default profile");
    let profiles = vec![profile];
    let setup = setup(&profiles);
    Engine::new(profiles, setup)
}

/// Nodes of 128 cores (the largest openb pod asks for 120), 1 TiB and 8 GPUs; 40 labels each, 3
/// zones, one in ten tainted.
pub(crate) fn gpu_node(at: usize) -> Node {
    let name = Text::from(format!("node-{at}"));
    let mut labels: Vec<(Text, Text)> = (0..37)
        .map(|i| (format!("example.com/label-{i}").into(), format!("value-{}", at % 7).into()))
        .collect();
    labels.push((ZONE.into(), format!("zone-{}", at % 3).into()));
    labels.push(("kubernetes.io/hostname".into(), name.clone()));
    labels.push(("example.com/rack".into(), format!("rack-{}", at / 16).into()));
    let mut allocatable = Resources {
        cpu_milli: 128_000,
        memory_bytes: 1 << 40,
        ephemeral_bytes: 1 << 40,
        ..Resources::default()
    };
    allocatable.set(&"nvidia.com/gpu".into(), 8);
    let tainted = at % 10 == 9;
    let taint = || Taint {
        key: "example.com/reserved".into(),
        value: Text::default(),
        effect: TaintEffect::NoSchedule,
    };
    Node {
        uid: format!("uid-{name}").into(),
        name,
        labels: Labels::new(labels),
        taints: if tainted { vec![taint()] } else { Vec::new() },
        allocatable,
        pods_max: 110,
        ..Node::default()
    }
}

pub(crate) fn with_nodes(count: usize) -> Engine {
    with_nodes_and(count, |_| Setup::default())
}

pub(crate) fn with_nodes_and(count: usize, setup: impl FnOnce(&[Profile]) -> Setup) -> Engine {
    let mut engine = engine_with(setup);
    for at in 0..count {
        let event = ClusterEvent::NodeApplied(gpu_node(at));
        engine.handle(Input::Cluster(event), Timestamp(0));
    }
    engine
}

pub(crate) fn spec(cpu_milli: i64, memory_bytes: i64, gpus: i64) -> PodSpec {
    let mut real = Resources { cpu_milli, memory_bytes, ..Resources::default() };
    real.set(&"nvidia.com/gpu".into(), gpus);
    PodSpec {
        scheduler_name: SCHEDULER.into(),
        requests: PodRequests {
            nonzero_cpu_milli: cpu_milli.max(100),
            nonzero_memory_bytes: memory_bytes.max(200 << 20),
            real,
        },
        ..PodSpec::default()
    }
}

/// Which pods are scheduled.
#[derive(Clone)]
pub(crate) enum Mix {
    /// One GPU, 8 cores, 64 GiB, all alike.
    OneClass,
    /// The (cpu, memory, GPU) requests of the openb trace, fractions of a GPU as a whole one.
    Openb(Arc<Vec<Arc<PodSpec>>>),
    /// Every pod asks for another amount of CPU.
    AllDifferent,
    /// As `OneClass`, spread over zones with maxSkew 1.
    ZoneSpread,
}

impl Mix {
    /// Returns `None`, saying so, if the trace is not on this machine.
    pub(crate) fn openb() -> Option<Mix> {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../shared/traces/gpu-v2023/openb_pod_list_default.csv");
        let Ok(text) = fs::read_to_string(&file) else {
            eprintln!("openb mix skipped: {} is not there", file.display());
            return None;
        };
        let specs = text.lines().skip(1).filter_map(openb_spec).map(Arc::new);
        Some(Mix::Openb(Arc::new(specs.collect())))
    }

    fn spec(&self, at: usize) -> Arc<PodSpec> {
        match self {
            Mix::OneClass => Arc::new(spec(8_000, 64 << 30, 1)),
            Mix::Openb(specs) => specs[at % specs.len()].clone(),
            Mix::AllDifferent => Arc::new(spec(1_000 + at as i64, 1 << 30, 0)),
            Mix::ZoneSpread => {
                Arc::new(PodSpec { spread: vec![zone_spread()], ..spec(8_000, 64 << 30, 1) })
            }
        }
    }
}

fn zone_spread() -> SpreadConstraint {
    SpreadConstraint {
        max_skew: 1,
        topology_key: ZONE.into(),
        hard: true,
        selector: Some(LabelSelector::equals("app", "bench")),
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: true,
        match_label_keys: Vec::new(),
    }
}

fn openb_spec(line: &str) -> Option<PodSpec> {
    let mut fields = line.split(',').skip(1).map(str::parse::<i64>);
    let mut next = || fields.next()?.ok();
    let (cpu_milli, memory_mib, gpus) = (next()?, next()?, next()?);
    Some(spec(cpu_milli, memory_mib << 20, gpus))
}

pub(crate) fn pod(mix: &Mix, at: usize) -> Pod {
    let spec = mix.spec(at);
    let name = format!("pod-{at}");
    Pod {
        uid: PodUid(format!("00000000-0000-0000-0000-{at:012}").into()),
        namespace: "default".into(),
        name: name.as_str().into(),
        labels: Labels::new(vec![
            ("app".into(), "bench".into()),
            ("example.com/job-index".into(), name.into()),
        ]),
        usage: Arc::new(spec.requests.clone()),
        spec,
        resource_version: 1,
        ..Pod::default()
    }
}

/// Hands in `count` pods, answers every bind, and returns how many were bound.
pub(crate) fn schedule(engine: &mut Engine, mix: &Mix, first: usize, count: usize) -> usize {
    let now = Timestamp(1_000);
    for at in first..first + count {
        engine.handle(Input::Cluster(ClusterEvent::PodApplied(Box::new(pod(mix, at)))), now);
    }
    answer_all(engine, now)
}

/// Polls until nothing is left to do, and answers every write. Returns how many were binds.
pub(crate) fn answer_all(engine: &mut Engine, now: Timestamp) -> usize {
    timed_polls(engine, now).0
}

/// As [`answer_all`], and how long the polls took.
pub(crate) fn timed_polls(engine: &mut Engine, now: Timestamp) -> (usize, Duration) {
    let (mut bound, mut spent) = (0, Duration::ZERO);
    loop {
        let start = Instant::now();
        let poll = engine.poll(now);
        spent += start.elapsed();
        let idle = poll.decisions.is_empty() && !poll.working;
        for decision in poll.decisions {
            if let Decision::Write(write) = decision {
                bound += usize::from(matches!(write.op, Op::Bind { .. }));
                let result = WriteResult::Done(Written::default());
                engine.handle(Input::Outcome { write: write.id, result }, now);
            }
        }
        if idle {
            return (bound, spent);
        }
    }
}

/// Takes the pods off again.
pub(crate) fn remove(engine: &mut Engine, first: usize, count: usize) {
    for at in first..first + count {
        let uid = PodUid(format!("00000000-0000-0000-0000-{at:012}").into());
        let event = ClusterEvent::PodDeleted { uid };
        engine.handle(Input::Cluster(event), Timestamp(1_000));
    }
}
