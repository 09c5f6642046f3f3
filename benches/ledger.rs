//! What the ledger costs: folding events, a what-if placement with its rollback; and what it
//! costs to show it.

mod support;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

use berth::gates::Gates;
use berth::observe::metrics::Metrics;
use berth_core::engine::{Engine, Setup};
use berth_core::snapshot::{Cluster, ClusterEvent, NodeIdx, Overlay};
use berth_core::types::Text;

use rustix::time::{ClockId, clock_gettime};
use support::{Mix, gpu_node, pod, remove, schedule, with_nodes_and};

const NODES: usize = 5_000;
const PODS: usize = 30_000;

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for at in 0..NODES {
        cluster.fold(ClusterEvent::NodeApplied(gpu_node(at)));
    }
    for at in 0..PODS {
        let mut pod = pod(&Mix::OneClass, at);
        pod.node_name = Some(Text::from(format!("node-{}", at % NODES)));
        cluster.fold(ClusterEvent::PodApplied(Box::new(pod)));
    }
    cluster
}

fn bench(criterion: &mut Criterion) {
    let mut cluster = cluster();
    let mut version = 1;
    criterion.bench_function("fold/pod update of 30,000", |bencher| {
        bencher.iter(|| {
            version += 1;
            let at = version as usize % PODS;
            let mut pod = pod(&Mix::OneClass, at);
            pod.node_name = Some(Text::from(format!("node-{}", at % NODES)));
            pod.resource_version = version;
            black_box(cluster.fold(ClusterEvent::PodApplied(Box::new(pod))));
        });
    });
    criterion.bench_function("fold/node update of 5,000", |bencher| {
        bencher.iter(|| {
            version += 1;
            let mut node = gpu_node(version as usize % NODES);
            node.allocatable.cpu_milli += (version % 2) as i64;
            node.resource_version = version;
            black_box(cluster.fold(ClusterEvent::NodeApplied(node)));
        });
    });
    let waiting = pod(&Mix::OneClass, PODS);
    let uid = waiting.uid.clone();
    cluster.fold(ClusterEvent::PodApplied(Box::new(waiting)));
    criterion.bench_function("overlay/assume and roll back", |bencher| {
        bencher.iter(|| {
            let mut overlay = Overlay::new(&mut cluster);
            black_box(overlay.assume(&uid, NodeIdx(7)));
        });
    });
}

/// `/metrics` as it is after some scheduling, the feature gates among it.
fn render(criterion: &mut Criterion) {
    let metrics = Metrics::default();
    let mut engine = with_nodes_and(NODES, |profiles| Setup {
        stopwatch: metrics.stopwatch(profiles),
        ..Setup::default()
    });
    schedule(&mut engine, &Mix::OneClass, 0, 1000);
    let gates = Gates::default();
    metrics.set_features(gates.iter().map(|(gate, on)| (gate.name, gate.stage.label(), on)));
    metrics.recorder(|| {}).between_polls(&engine);
    criterion.bench_function("metrics/render at 5,000 nodes", |bencher| {
        bencher.iter(|| black_box(metrics.render()));
    });
}

/// What the stopwatch adds to a decision of the openb mix: batches with and without take turns, and
/// the median of their ratios counts, in CPU time of this thread.
fn stopwatch(_: &mut Criterion) {
    let Some(mix) = Mix::openb() else { return };
    for nodes in [1_000, NODES] {
        let batch = (nodes / 2).min(2_000);
        let metrics = Metrics::default();
        let mut plain = with_nodes_and(nodes, |_| Setup::default());
        let mut timed = with_nodes_and(nodes, |profiles| Setup {
            stopwatch: metrics.stopwatch(profiles),
            ..Setup::default()
        });
        let mut ratios: Vec<f64> = (0..ROUNDS)
            .map(|round| {
                let first = round * batch;
                let (without, with) = (
                    cpu_of(&mut plain, &mix, first, batch),
                    cpu_of(&mut timed, &mix, first, batch),
                );
                with / without
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (low, median, high) = (ratios[ROUNDS / 4], ratios[ROUNDS / 2], ratios[ROUNDS * 3 / 4]);
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        println!(
            "stopwatch/openb at {nodes} nodes: {:+.2} % ({:+.2} % to {:+.2} %)",
            percent(median),
            percent(low),
            percent(high)
        );
    }
}

const ROUNDS: usize = 41;

/// Schedules a batch, takes it off again, and returns the seconds that scheduling took.
fn cpu_of(engine: &mut Engine, mix: &Mix, first: usize, batch: usize) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let begun = now();
    assert_eq!(schedule(engine, mix, first, batch), batch, "a pod found no place");
    let took = now() - begun;
    remove(engine, first, batch);
    took
}

criterion_group!(benches, bench, render, stopwatch);
criterion_main!(benches);
