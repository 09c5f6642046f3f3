//! What the ledger costs: folding events, a what-if placement with its rollback; and what it
//! costs to show it.

mod support;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

use berth::gates::Gates;
use berth::observe::metrics::Metrics;
use berth_core::snapshot::{Cluster, ClusterEvent, NodeIdx, Overlay};
use berth_core::types::Text;

use support::{Mix, gpu_node, pod, schedule, with_nodes};

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
    let mut engine = with_nodes(NODES);
    schedule(&mut engine, &Mix::OneClass, 0, 1000);
    let metrics = Metrics::default();
    let gates = Gates::default();
    metrics.set_features(gates.iter().map(|(gate, on)| (gate.name, gate.stage.label(), on)));
    metrics.recorder(|| {}).between_polls(&engine);
    criterion.bench_function("metrics/render at 5,000 nodes", |bencher| {
        bencher.iter(|| black_box(metrics.render()));
    });
}

criterion_group!(benches, bench, render);
criterion_main!(benches);
