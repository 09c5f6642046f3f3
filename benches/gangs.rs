//! Decisions about groups in process: gathering, search, plan, and the answer to every bind.
//!
//! Each sample schedules all gangs and takes them off again; only scheduling is timed. Members have a
//! controller, as a Job's do, and ask for one GPU, those of the largest gangs for CPU only. Shape of the names:
//! `gangs/<gangs>x<members>/<nodes>`; `unequal` has one member in four that asks for eight GPUs. Of loads
//! with racks each gang must be in one, and every rack is rated for each.
//!
//! `decision/<load>` hands in one gang after the other and prints percentiles of what the engine is
//! busy with each: all polls from the last member's coming to the last bind.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::engine::{Engine, Input};
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupHint, GroupKey, GroupKind, NATIVE, TopologyConstraint};
use berth_core::types::{Owner, Pod, PodGroup, PodSpec, PodUid, Text, Timestamp};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use support::{answer_all, gpu_node, spec, timed_polls, with_nodes};

const NOW: Timestamp = Timestamp(1_000);

struct Load {
    name: &'static str,
    nodes: usize,
    gangs: usize,
    members: usize,
    unequal: bool,
    /// GPUs that a member asks for.
    gpus: i64,
    /// Nodes in a rack; none: the gangs may be anywhere.
    rack: Option<usize>,
}

const PLAIN: Load = Load {
    name: "500x8",
    nodes: 1_000,
    gangs: 500,
    members: 8,
    unequal: false,
    gpus: 1,
    rack: None,
};

const LOADS: [Load; 9] = [
    PLAIN,
    Load { name: "500x8-unequal", nodes: 5_000, unequal: true, ..PLAIN },
    Load { name: "1000x3", nodes: 5_000, gangs: 1_000, members: 3, ..PLAIN },
    Load { name: "10x5000", nodes: 5_000, gangs: 10, members: 5_000, gpus: 0, ..PLAIN },
    Load { name: "1x512", gangs: 1, members: 512, ..PLAIN },
    Load { name: "racks-750x4", nodes: 5_000, gangs: 750, members: 4, rack: Some(100), ..PLAIN },
    Load { name: "racks-1500x4", nodes: 5_000, gangs: 1_500, members: 4, rack: Some(100), ..PLAIN },
    Load { name: "racks-2250x4", nodes: 5_000, gangs: 2_250, members: 4, rack: Some(100), ..PLAIN },
    // A rack of 18 trays takes one gang of 18.
    Load {
        name: "nvl72-100x18",
        nodes: 45_000,
        gangs: 100,
        members: 18,
        gpus: 8,
        rack: Some(18),
        ..PLAIN
    },
];

const RACK: &str = "example.com/bench-rack";

impl Load {
    fn group(&self, gang: usize) -> PodGroup {
        let name = Text::from(format!("gang-{gang}"));
        let (namespace, uid) = ("default".into(), format!("uid-of-{name}"));
        let key = GroupKey { dialect: NATIVE, kind: GroupKind::Pods, namespace, name };
        let together = self.rack.map(|_| TopologyConstraint::required(RACK.into()));
        let topology = together.into_iter().collect();
        PodGroup { topology, ..PodGroup::gang(key, uid, self.members as u32) }
    }

    /// An engine that knows the nodes, each in its rack, and the groups.
    fn engine(&self) -> Engine {
        let mut engine = with_nodes(0);
        for at in 0..self.nodes {
            let mut node = gpu_node(at);
            if let Some(rack) = self.rack {
                let label = (RACK.into(), format!("rack-{}", at / rack).into());
                node.labels = node.labels.iter().cloned().chain([label]).collect();
                // A taint would make a rack that no gang of its size fits into.
                node.taints.clear();
            }
            engine.handle(Input::Cluster(ClusterEvent::NodeApplied(node)), NOW);
        }
        for gang in 0..self.gangs {
            let event = GroupEvent::Applied(Box::new(self.group(gang)));
            engine.handle(Input::Cluster(ClusterEvent::Groups(event)), NOW);
        }
        engine
    }

    fn member(&self, specs: &[Arc<PodSpec>; 2], round: usize, gang: usize, at: usize) -> Pod {
        let large = self.unequal && at.is_multiple_of(4);
        let spec = specs[usize::from(large)].clone();
        let name = format!("p-{round}-{gang}-{at}");
        let owner = Owner { kind: "Job".into(), name: format!("j-{gang}").into(), uid: "j".into() };
        let mut pod = Pod {
            uid: PodUid(name.as_str().into()),
            namespace: "default".into(),
            name: name.into(),
            usage: Arc::new(spec.requests.clone()),
            spec,
            owner: Some(owner),
            resource_version: 1,
            ..Pod::default()
        };
        let group = format!("gang-{gang}");
        pod.add_group_hint(GroupHint::of_object(NATIVE, group.into()));
        pod
    }

    fn schedule(&self, engine: &mut Engine, round: usize) -> usize {
        let small = spec(2_000, 4 << 30, self.gpus);
        let specs = [Arc::new(small), Arc::new(spec(64_000, 256 << 30, 8))];
        for gang in 0..self.gangs {
            for at in 0..self.members {
                let pod = Box::new(self.member(&specs, round, gang, at));
                engine.handle(Input::Cluster(ClusterEvent::PodApplied(pod)), NOW);
            }
        }
        answer_all(engine, NOW)
    }

    /// Returns how long the engine was at work on each gang, one after the other.
    fn decisions(&self, engine: &mut Engine, round: usize) -> Vec<Duration> {
        let small = Arc::new(spec(2_000, 4 << 30, self.gpus));
        let specs = [Arc::clone(&small), small];
        let decide = |gang| {
            for at in 0..self.members {
                let pod = Box::new(self.member(&specs, round, gang, at));
                engine.handle(Input::Cluster(ClusterEvent::PodApplied(pod)), NOW);
            }
            let (bound, spent) = timed_polls(engine, NOW);
            assert_eq!(bound, self.members, "a member found no place");
            spent
        };
        (0..self.gangs).map(decide).collect()
    }

    fn remove(&self, engine: &mut Engine, round: usize) {
        for gang in 0..self.gangs {
            for at in 0..self.members {
                let uid = PodUid(format!("p-{round}-{gang}-{at}").into());
                engine.handle(Input::Cluster(ClusterEvent::PodDeleted { uid }), NOW);
            }
        }
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gangs");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    for load in &LOADS {
        let pods = load.gangs * load.members;
        group.throughput(Throughput::Elements(pods as u64));
        let mut engine = load.engine();
        let mut round = 0;
        group.bench_function(BenchmarkId::new(load.name, load.nodes), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let start = Instant::now();
                    let bound = load.schedule(&mut engine, round);
                    spent += start.elapsed();
                    assert_eq!(bound, pods, "a member found no place");
                    load.remove(&mut engine, round);
                    round += 1;
                }
                spent
            });
        });
    }
    group.finish();
}

fn bench_decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    for load in LOADS.iter().filter(|load| load.rack.is_some()) {
        let mut engine = load.engine();
        let (mut round, mut all) = (0, Vec::new());
        group.throughput(Throughput::Elements(load.gangs as u64));
        group.bench_function(BenchmarkId::new(load.name, load.nodes), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                for _ in 0..iterations {
                    let decisions = load.decisions(&mut engine, round);
                    load.remove(&mut engine, round);
                    round += 1;
                    spent += decisions.iter().sum::<Duration>();
                    all.extend(decisions);
                }
                spent
            });
        });
        all.sort_unstable();
        let Some(last) = all.len().checked_sub(1) else { continue };
        let at = |percent: usize| all[last * percent / 100];
        let (name, [p50, p99]) = (load.name, [at(50), at(99)]);
        println!(
            "decision/{name}: p50 {p50:?}, p99 {p99:?}, most {:?}, of {}",
            all[last],
            last + 1
        );
    }
    group.finish();
}

criterion_group!(benches, bench, bench_decisions);
criterion_main!(benches);
