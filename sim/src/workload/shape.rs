//! Shapes of nodes and pods.

use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::pod::TolerationOperator;
use berth_core::types::{
    LabelSelector, Labels, Node, Pod, PodRequests, PodSpec, Resources, SpreadConstraint, Taint,
    TaintEffect, Text, Toleration,
};

use crate::kubelet::RUNS_MS;
use crate::world::FINALIZER;

pub const SCHEDULER: &str = "default-scheduler";
pub const GPU: &str = "nvidia.com/gpu";
pub const ZONE: &str = "topology.kubernetes.io/zone";
const MODEL: &str = "gpu-model";
const GIB: i64 = 1 << 30;

/// The node to which others bind our pods. No pod of ours tolerates it, so that what is on it
/// says nothing about us.
pub const ELSEWHERE: &str = "elsewhere";

pub(super) fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

pub(super) fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.below(n) == 0
}

/// Makes 8 to 12 nodes of 1 to 8 GPUs.
pub(super) fn nodes(rng: &mut Rng) -> Vec<Node> {
    (0..8 + rng.below(5)).map(|number| node(rng, number)).collect()
}

fn node(rng: &mut Rng, number: u64) -> Node {
    let gpus = pick(rng, &[1, 2, 4, 8, 8]);
    let zone = pick(rng, &["z1", "z2", "z3"]);
    let model = pick(rng, &["a100", "h100"]);
    let name = Text::from(format!("node-{number:02}"));
    let mut node = Node {
        labels: Labels::new(vec![
            (ZONE.into(), zone.into()),
            (MODEL.into(), model.into()),
            ("kubernetes.io/hostname".into(), name.clone()),
        ]),
        allocatable: resources(4000 + 2000 * gpus, 16 + 8 * gpus, gpus),
        pods_max: pick(rng, &[4, 8, 16, 110]),
        name,
        ..Node::default()
    };
    if one_in(rng, 5) {
        node.taints.push(taint("dedicated"));
    }
    node
}

pub(super) fn elsewhere() -> Node {
    Node {
        name: ELSEWHERE.into(),
        taints: vec![taint("foreign")],
        allocatable: resources(1_000_000, 100_000, 0),
        pods_max: 10_000,
        ..Node::default()
    }
}

fn taint(key: &str) -> Taint {
    Taint { key: key.into(), value: "x".into(), effect: TaintEffect::NoSchedule }
}

fn resources(cpu_milli: i64, memory_gib: i64, gpus: i64) -> Resources {
    let mut amounts =
        Resources { cpu_milli, memory_bytes: memory_gib * GIB, ..Resources::default() };
    amounts.set(&GPU.into(), gpus);
    amounts
}

/// Makes what the pods of one job ask for.
pub(super) fn spec(rng: &mut Rng) -> Arc<PodSpec> {
    let impossible = one_in(rng, 12);
    let gpus = if impossible { 16 } else { pick(rng, &[0, 0, 1, 1, 1, 2, 2, 4, 8]) };
    let real = resources(
        pick(rng, &[250, 1000, 2000, 4000]) + 1000 * (gpus.min(8) / 2),
        pick(rng, &[1, 2, 4, 8]),
        gpus,
    );
    let requests = PodRequests {
        nonzero_cpu_milli: real.cpu_milli,
        nonzero_memory_bytes: real.memory_bytes,
        real,
    };
    let mut spec = PodSpec { scheduler_name: SCHEDULER.into(), requests, ..PodSpec::default() };
    if one_in(rng, 5) {
        spec.node_selector.push((ZONE.into(), pick(rng, &["z1", "z2", "z3", "z9"]).into()));
    } else if one_in(rng, 6) {
        spec.node_selector.push((MODEL.into(), pick(rng, &["a100", "h100"]).into()));
    }
    if one_in(rng, 3) {
        spec.tolerations.push(Toleration {
            key: "dedicated".into(),
            operator: TolerationOperator::Exists,
            value: Text::default(),
            effect: None,
        });
    }
    if one_in(rng, 6) {
        spec.spread.push(spread(rng));
    }
    Arc::new(spec)
}

fn spread(rng: &mut Rng) -> SpreadConstraint {
    SpreadConstraint {
        max_skew: 1 + rng.below(2) as i32,
        topology_key: ZONE.into(),
        hard: true,
        selector: Some(LabelSelector::equals("app", pick(rng, &["a", "b"]))),
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
        match_label_keys: Vec::new(),
    }
}

pub(super) fn pod(rng: &mut Rng, number: u64, spec: Arc<PodSpec>) -> Pod {
    let mut labels = vec![("app".into(), pick(rng, &["a", "b", "c"]).into())];
    if one_in(rng, 2) {
        let runs = 500 + rng.below(30_000);
        labels.push((RUNS_MS.into(), Text::from(runs.to_string())));
    }
    if one_in(rng, 8) {
        labels.push((FINALIZER.into(), Text::default()));
    }
    Pod {
        namespace: "default".into(),
        name: Text::from(format!("pod-{number:03}")),
        labels: Labels::new(labels),
        usage: Arc::new(spec.requests.clone()),
        priority: pick(rng, &[0, 0, 0, 10, 100]),
        gates: if one_in(rng, 12) { vec!["hold".into()] } else { Vec::new() },
        spec,
        ..Pod::default()
    }
}
