//! Decisions about groups in process: gathering, search, plan, and the answer to every bind.
//!
//! Each sample schedules all gangs and takes them off again; only scheduling is timed. Members have a
//! controller, as a Job's do, and ask for one GPU, those of the largest gangs for CPU only. Shape of the names:
//! `gangs/<gangs>x<members>/<nodes>`; `unequal` has one member in four that asks for eight GPUs.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::engine::{Engine, Input};
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::group::{GroupHint, GroupKey, GroupKind, NATIVE};
use berth_core::types::{Owner, Pod, PodGroup, PodSpec, PodUid, Text, Timestamp};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use support::{answer_all, spec, with_nodes};

const NOW: Timestamp = Timestamp(1_000);

struct Load {
    name: &'static str,
    nodes: usize,
    gangs: usize,
    members: usize,
    unequal: bool,
}

const LOADS: [Load; 5] = [
    Load { name: "500x8", nodes: 1_000, gangs: 500, members: 8, unequal: false },
    Load { name: "500x8-unequal", nodes: 5_000, gangs: 500, members: 8, unequal: true },
    Load { name: "1000x3", nodes: 5_000, gangs: 1_000, members: 3, unequal: false },
    Load { name: "10x5000", nodes: 5_000, gangs: 10, members: 5_000, unequal: false },
    Load { name: "1x512", nodes: 1_000, gangs: 1, members: 512, unequal: false },
];

impl Load {
    fn group(&self, gang: usize) -> PodGroup {
        let name = Text::from(format!("gang-{gang}"));
        let (namespace, uid) = ("default".into(), format!("uid-of-{name}"));
        let key = GroupKey { dialect: NATIVE, kind: GroupKind::Pods, namespace, name };
        PodGroup::gang(key, uid, self.members as u32)
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
        let gpus = i64::from(self.members < 1_000);
        let small = spec(2_000, 4 << 30, gpus);
        let specs = [Arc::new(small), Arc::new(spec(64_000, 256 << 30, 8))];
        for gang in 0..self.gangs {
            for at in 0..self.members {
                let pod = Box::new(self.member(&specs, round, gang, at));
                engine.handle(Input::Cluster(ClusterEvent::PodApplied(pod)), NOW);
            }
        }
        answer_all(engine, NOW)
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
        let mut engine = with_nodes(load.nodes);
        for gang in 0..load.gangs {
            let event = GroupEvent::Applied(Box::new(load.group(gang)));
            engine.handle(Input::Cluster(ClusterEvent::Groups(event)), NOW);
        }
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

criterion_group!(benches, bench);
criterion_main!(benches);
