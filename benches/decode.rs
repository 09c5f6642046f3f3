//! Decoding watched objects: JSON text to what the ledger keeps.

#[path = "support/json.rs"]
mod json;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use berth::wire::{self, Tables, k8s};

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let pod = json::pod(7, "node-1").to_string();
    group.throughput(Throughput::Bytes(pod.len() as u64));
    group.bench_function("pod", |bencher| {
        let mut tables = Tables::default();
        bencher.iter(|| {
            let wire_pod: k8s::Pod = serde_json::from_str(&pod).expect("a pod");
            black_box(wire::pod::pod(wire_pod, &mut tables))
        });
    });
    let node = json::node(7).to_string();
    group.throughput(Throughput::Bytes(node.len() as u64));
    group.bench_function("node", |bencher| {
        let mut tables = Tables::default();
        bencher.iter(|| {
            let wire_node: k8s::Node = serde_json::from_str(&node).expect("a node");
            black_box(wire::node::node(wire_node, &mut tables))
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
