//! Decisions a second in process: queue, filter, score, reserve, plan, with every default plugin.
//!
//! Each sample schedules a batch and takes it off again; only scheduling is timed. Shape of the
//! names: `schedule/<mix>/<nodes>`.

mod support;

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use support::{Mix, remove, schedule, with_nodes};

/// Pods a batch: enough that each class comes again and again, few enough that the nodes, over
/// which the default scores spread them, still have room for one that wants eight GPUs.
fn batch(nodes: usize) -> usize {
    (nodes / 2).min(2_000)
}

fn mixes(nodes: usize) -> Vec<(&'static str, Mix, usize)> {
    let mut mixes = vec![("one-class", Mix::OneClass, batch(nodes))];
    mixes.extend(Mix::openb().map(|mix| ("openb-150-classes", mix, batch(nodes))));
    mixes.push(("all-different", Mix::AllDifferent, 50));
    mixes.push(("zone-spread", Mix::ZoneSpread, 200));
    mixes
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    for nodes in [1_000, 5_000, 15_000, 50_000] {
        for (name, mix, batch) in mixes(nodes) {
            group.throughput(Throughput::Elements(batch as u64));
            let mut engine = with_nodes(nodes);
            let mut next = 0;
            group.bench_function(BenchmarkId::new(name, nodes), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..iterations {
                        let start = Instant::now();
                        let bound = schedule(&mut engine, &mix, next, batch);
                        spent += start.elapsed();
                        assert_eq!(bound, batch, "a pod of the batch found no place");
                        remove(&mut engine, next, batch);
                        next += batch;
                    }
                    spent
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
