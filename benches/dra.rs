//! Decisions a second in process for pods with resource claims: devices chosen, claims written.
//!
//! Each sample schedules a batch, with the claims' writes answered as the server would, and takes
//! it off again; only scheduling is timed. Shape of the names: `dra/<load>/<nodes>x<devices>`.
//!
//! `dra-hostile/<kind>` decides about pods that fit nowhere and are made to take long;
//! `dra-beside/<kind>` is a load of ordinary pods while 20 of those are waiting, and
//! `dra-beside/nobody` the same without any.

mod support;

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use support::devices::{NOW, Shape, Stage};
use support::hostile::Hostile;

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

const HOSTILE: [(&str, Hostile); 4] = [
    ("131730-claims", Hostile::ClaimTooMany),
    ("131730-groups", Hostile::GroupTooMany),
    ("131730-unlike", Hostile::AllUnlike),
    ("cel", Hostile::Cel),
];

fn bench_hostile(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dra-hostile");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    for (name, kind) in &HOSTILE[..3] {
        let mut stage = Stage::new(500, 8, Shape::Plain);
        let mut next = 0;
        group.throughput(Throughput::Elements(20));
        group.bench_function(BenchmarkId::new(*name, "500x8"), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    stage.invite(*kind, next, 20);
                    let start = Instant::now();
                    stage.decide_all();
                    spent += start.elapsed();
                    stage.dismiss(*kind, next, 20);
                    next += 20;
                }
                spent
            });
        });
    }
    group.finish();
}

fn bench_beside(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dra-beside");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    let nobody = [("nobody", None)];
    let kinds = HOSTILE.map(|(name, kind)| (name, Some(kind)));
    for (name, kind) in nobody.into_iter().chain(kinds) {
        let mut next = 0;
        group.throughput(Throughput::Elements(1_000));
        group.bench_function(BenchmarkId::new(name, "500x8"), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let mut stage = Stage::new(500, 8, Shape::Matched);
                    if let Some(kind) = kind {
                        stage.invite(kind, 0, 20);
                        stage.engine.poll(NOW);
                    }
                    let start = Instant::now();
                    let bound = stage.schedule(next, 1_000);
                    spent += start.elapsed();
                    assert_eq!(bound, 1_000, "a pod of the batch found no place");
                    next += 1_000;
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench, bench_hostile, bench_beside);
criterion_main!(benches);
