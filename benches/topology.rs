//! Links between the GPUs of a node: what one node costs to rate, and to choose a set on.
//!
//! Shape of the names: `topology/<machine>/<what>/<GPUs wanted>`. `choice` is the best subset of one
//! free set that was not asked about before, `look-up` the score of one node as filters have left it,
//! `list` what is made once for a topology and a number of GPUs.

use std::hint::black_box;
use std::sync::Arc;

use berth::wire::topology::Topologies;
use berth_core::snapshot::fabric::subsets::Subsets;
use berth_core::snapshot::{Cluster, ClusterEvent, FabricRules, NodeIdx};
use berth_core::types::{GpuSet, Node, NodeTopology, Pod, PodRequests, PodUid};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const NODES: usize = 5_000;

/// The hybrid cube mesh of a DGX-1, 16 GPUs on two NVSwitches, 72 on one, and 72 in trays of four.
fn machines() -> [(&'static str, Arc<NodeTopology>, &'static [usize]); 4] {
    let mesh = "nvlink 0-1:50 0-2:50 0-3:100 0-4:100 1-2:100 1-3:50 1-5:100 2-3:100 2-6:50 3-7:50 \
                4-5:50 4-6:50 4-7:100 5-6:100 5-7:50 6-7:100; numa 0-3 4-7; pcie 0,1 2,3 4,5 6,7";
    let trays: Vec<String> = (0..18).map(|at| format!("{}-{}:1800", 4 * at, 4 * at + 3)).collect();
    let trays = format!("nvswitch {}", trays.join(" "));
    let mut topologies = Topologies::default();
    let mut read = |text: &str| topologies.of_text(text).expect("a topology");
    [
        ("dgx-1", read(mesh), &[2, 4]),
        ("two-switches-of-8", read("nvswitch 0-7:600 8-15:600"), &[2, 8]),
        ("nvl72", read("nvswitch 0-71:1800"), &[4, 36]),
        ("trays-of-4", read(&trays), &[4, 8]),
    ]
}

/// Free sets of all sizes, the same every time.
fn free_sets(len: usize) -> Vec<GpuSet> {
    let mut dice = 0x9e37_79b9_7f4a_7c15_u128;
    let mut next = || {
        dice ^= dice << 49;
        dice ^= dice >> 31;
        dice ^= dice << 17;
        dice
    };
    let any = (0..512).map(|at| GpuSet(if at % 2 == 0 { next() } else { next() | next() }));
    any.map(|set| set.and(GpuSet::first(len))).collect()
}

/// A cluster of such nodes, each with another number of GPUs in use.
fn cluster(topology: &Arc<NodeTopology>, size: usize) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.set_fabric(FabricRules::default());
    let gpu = "nvidia.com/gpu".into();
    for at in 0..NODES {
        let name = format!("node-{at}");
        let topology = Some(Arc::clone(topology));
        let mut node =
            Node { name: name.as_str().into(), topology, pods_max: 110, ..Node::default() };
        node.allocatable.set(&gpu, topology_len(&node));
        cluster.fold(ClusterEvent::NodeApplied(node));
        let mut usage = PodRequests::default();
        usage.real.set(&gpu, (at % 5) as i64);
        let uid = PodUid(format!("pod-{at}").into());
        let node_name = Some(name.as_str().into());
        let pod = Pod { uid, node_name, usage: Arc::new(usage), ..Pod::default() };
        cluster.fold(ClusterEvent::PodApplied(Box::new(pod)));
    }
    cluster.declare_gpus(size);
    cluster
}

fn topology_len(node: &Node) -> i64 {
    node.topology.as_ref().map_or(0, |topology| topology.len() as i64)
}

fn bench(criterion: &mut Criterion) {
    for (name, topology, sizes) in machines() {
        let mut group = criterion.benchmark_group(format!("topology/{name}"));
        for size in sizes {
            group.throughput(Throughput::Elements(1));
            group.bench_function(format!("list/{size}"), |bencher| {
                bencher.iter(|| Subsets::new(black_box(&topology), *size));
            });
            let subsets = Subsets::new(&topology, *size);
            let sets = free_sets(topology.len());
            group.throughput(Throughput::Elements(sets.len() as u64));
            group.bench_function(format!("choice/{size}"), |bencher| {
                bencher.iter(|| {
                    sets.iter().for_each(|free| {
                        black_box(subsets.best_of(black_box(*free)));
                    });
                });
            });
            let cluster = cluster(&topology, *size);
            let fabric = cluster.fabric().expect("it was set");
            group.throughput(Throughput::Elements(NODES as u64));
            group.bench_function(format!("look-up/{size}"), |bencher| {
                bencher.iter(|| {
                    (0..NODES).for_each(|at| {
                        black_box(fabric.standing(&cluster, *size, NodeIdx(at as u32)));
                    });
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
