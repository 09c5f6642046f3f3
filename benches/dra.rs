//! Decisions a second in process for pods with resource claims: devices chosen, claims written.
//!
//! Each sample schedules a batch, with the claims' writes answered as the server would, and takes
//! it off again; only scheduling is timed. Shape of the names: `dra/<load>/<nodes>x<devices>`.

mod support;

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use support::devices::{Shape, Stage};

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dra");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    let loads = [
        ("plain", Shape::Plain, 500, 10, 1_000),
        ("matched-by-cel", Shape::Matched, 5_000, 8, 2_000),
        ("mig", Shape::Mig, 1_000, 8, 1_000),
    ];
    for (name, shape, nodes, devices, batch) in loads {
        group.throughput(Throughput::Elements(batch as u64));
        let mut stage = Stage::new(nodes, devices, shape);
        let mut next = 0;
        group.bench_function(BenchmarkId::new(name, format!("{nodes}x{devices}")), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let start = Instant::now();
                    let bound = stage.schedule(next, batch);
                    spent += start.elapsed();
                    assert_eq!(bound, batch, "a pod of the batch found no place");
                    stage.remove(next, batch);
                    next += batch;
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
