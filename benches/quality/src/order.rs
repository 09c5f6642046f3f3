//! The order of choice survives the framework: where GpuPacking alone scores, the engine takes the
//! node and the GPU that the rule takes. The rule is written out here once more, plainly, over the
//! second book-keeping; only the prices come from the ledger.

use berth_core::framework::rng::Rng;
use berth_core::snapshot::packing::PriceBook;
use berth_core::snapshot::packing::gpu::Want;

use crate::policy::{Options, Policy};
use crate::stage::Stage;
use crate::trace::{TraceNode, TracePod};

const DECISIONS: usize = 10_000;

/// (CPU, memory, GPUs) that are free of a node.
type Free = (i64, i64, Vec<i64>);

/// The least is best: loss in quanta, as many GPUs as any node, idle afterwards, squares (negative),
/// place of the node, what was free of the GPU (negative).
type Key = (i64, bool, i64, i64, usize, i64);

fn value(book: &PriceBook, (cpu, memory, gpus): &Free) -> i64 {
    let at = |(pair, (core, gib)): (usize, &(i64, i64))| {
        let worth = (core * cpu * 1024 + gib * memory * 1000).div_euclid(8 * 1000 * 1024);
        worth + gpus.iter().map(|free| book.values[pair][(free / 10) as usize]).sum::<i64>()
    };
    book.pairs.iter().enumerate().map(at).min().unwrap()
}

fn places(book: &PriceBook, (cpu, memory, gpus): &Free) -> i64 {
    let whole = gpus.iter().filter(|free| **free == 1000).count() as i64;
    let of = |demand: &berth_core::snapshot::packing::demand::Demand| {
        let Want::Gpus { count, .. } = demand.want else { return 0 };
        let mut copies = whole / i64::from(count);
        if demand.cpu_milli > 0 {
            copies = copies.min(cpu / demand.cpu_milli);
        }
        if demand.memory_mib > 0 {
            copies = copies.min(memory / demand.memory_mib);
        }
        copies
    };
    book.places.iter().map(|(demand, weight)| weight * of(demand)).sum()
}

/// Returns the keys of a pod on a node, one for each value of a GPU that could be taken.
fn keys(book: &PriceBook, at: usize, before: &Free, pod: &TracePod) -> Vec<Key> {
    let (cpu, memory, gpus) = before;
    let mut keys = Vec::new();
    let fitting = |free: &&i64| **free >= pod.gpu_milli;
    if *cpu < pod.cpu_milli
        || *memory < pod.memory_mib
        || (gpus.iter().filter(fitting).count() as i64) < pod.gpus
    {
        return keys;
    }
    let mut values: Vec<i64> = gpus.iter().filter(fitting).copied().collect();
    values.dedup();
    if pod.gpus == 0 {
        values = vec![0];
    }
    for value_taken in values {
        let mut left = gpus.clone();
        let mut open = pod.gpus;
        for free in &mut left {
            let taken = if pod.gpus == 1 { *free == value_taken } else { *free == 1000 };
            if open > 0 && taken {
                *free -= pod.gpu_milli;
                open -= 1;
            }
        }
        let after = (cpu - pod.cpu_milli, memory - pod.memory_mib, left);
        let mut loss = value(book, before) - value(book, &after);
        loss += places(book, before) - places(book, &after);
        let all_free =
            |gpus: &[i64]| gpus.len() == book.gpus_max && gpus.iter().all(|free| *free == 1000);
        if (pod.gpus as usize) < book.gpus_max
            && all_free(gpus)
            && (pod.gpus == 0 || !all_free(&after.2))
        {
            loss += 5;
        }
        let idle = after.2.iter().sum();
        let squares: i64 = after.2.iter().map(|free| free * free).sum();
        let large = gpus.len() >= book.gpus_max;
        keys.push((loss.div_euclid(5), large, idle, -squares, at, -value_taken));
    }
    keys
}

fn nodes(rng: &mut Rng) -> Vec<TraceNode> {
    let node = |at: usize| TraceNode {
        name: format!("node-{at:02}"),
        cpu_milli: [32_000, 64_000, 96_000, 128_000][rng.below(4) as usize],
        memory_mib: 1024 * [96, 256, 512][rng.below(3) as usize],
        gpus: [1, 2, 4, 8, 8][rng.below(5) as usize],
        model: ["A", "B"][rng.below(2) as usize].to_owned(),
    };
    (0..24).map(node).collect()
}

fn pod(rng: &mut Rng) -> TracePod {
    let gpus = [0, 1, 1, 1, 1, 1, 2, 4, 8][rng.below(9) as usize];
    let share = [1000, 1000, 810, 500, 460, 160, 95][rng.below(7) as usize];
    let models = ["A", "B"][rng.below(2) as usize].to_owned();
    TracePod {
        cpu_milli: 500 * (1 + rng.below(20) as i64) * gpus.max(1),
        memory_mib: 512 * (1 + rng.below(60) as i64),
        gpus,
        gpu_milli: [0, share, 1000][gpus.min(2) as usize],
        models: if rng.below(6) == 0 { vec![models] } else { Vec::new() },
        profile: "",
        seconds: 0,
    }
}

#[test]
fn the_engine_takes_what_the_rule_takes_in_ten_thousand_states() {
    let mut rng = Rng::stream(5, "order", "", 0);
    let nodes = nodes(&mut rng);
    let kinds: Vec<TracePod> = (0..40).map(|_| pod(&mut rng)).collect();
    let profile = Policy::Berth.profile(&[], &Options::default());
    let mut stage = Stage::new(&nodes, profile, 5);
    let (mut placed, mut compared): (Vec<usize>, usize) = (Vec::new(), 0);
    while compared < DECISIONS {
        let pod = &kinds[rng.below(kinds.len() as u64) as usize];
        let cluster = stage.engine().cluster();
        let mut all: Vec<Key> = Vec::new();
        let mut priced = true;
        for (at, node) in nodes.iter().enumerate() {
            let idx = cluster.nodes().index(&node.name).unwrap();
            let book = cluster.packing().unwrap().book(idx);
            priced &= book.is_some();
            let admitted = pod.models.is_empty() || pod.models.contains(&node.model);
            if let Some(book) = book.filter(|_| admitted) {
                all.extend(keys(&book, at, &stage.free_of(&node.name), pod));
            }
        }
        let before: Vec<Free> = nodes.iter().map(|node| stage.free_of(&node.name)).collect();
        let found = stage.arrive(pod);
        if priced {
            compared += 1;
            let best = all.iter().min();
            assert_eq!(found.is_some(), best.is_some(), "{pod:?} in state {compared}");
            if let (Some(number), Some(best)) = (found, best) {
                let (node, devices) = stage.place_of(number);
                assert_eq!(&*node, nodes[best.4].name, "{pod:?} in state {compared}: {best:?}");
                let at: Option<usize> = devices.first().map(|d| d[4..].parse().unwrap());
                if let (Some(at), 1) = (at, pod.gpus) {
                    assert_eq!(before[best.4].2[at], -best.5, "{pod:?} in state {compared}");
                }
            }
        }
        placed.extend(found);
        // Full clusters have few choices: half of what is there leaves now and then.
        if found.is_none() || placed.len() > 120 {
            for _ in 0..placed.len() / 2 {
                let gone = placed.swap_remove(rng.below(placed.len() as u64) as usize);
                stage.depart(gone);
            }
        }
    }
    let solves = stage.engine().cluster().packing().unwrap().solves();
    assert!(solves > 50, "prices were found anew {solves} times only");
}
