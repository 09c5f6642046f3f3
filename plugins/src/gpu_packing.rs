//! GpuPacking: of the nodes that take a pod, the one on which least is lost for those who come after
//! it; and there the GPU of which the same is true.
//!
//! What is lost is the ledger's to say: it keeps what is free of GPUs, what is asked for, and prices
//! that follow from both ([`packing`](berth_core::snapshot::packing)). Here are the arguments
//! ([`args`]), how the order of choice becomes a score, and which devices go first.
//!
//! Of the domains in which a group may be placed, it likes the one with fewest idle GPUs.
//!
//! The best node gets 100, every other one less, by how much more is lost there. So where this plugin
//! decides, its order is kept to the letter; where others weigh more, it decides among what they
//! leave equal.

mod args;

use std::sync::Arc;

use berth_core::framework::{
    Args, ClassPart, Classify, Cycle, CycleState, DeviceOrder, Normalize, PlacementScore,
    PluginDef, Points, PreFilter, PreFilterAnswer, Proposal, Reads, Score,
};
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::packing::demand::Demand;
use berth_core::snapshot::packing::gpu::{GpuFree, Outcome};
use berth_core::snapshot::packing::key::Key;
use berth_core::snapshot::{Cluster, IndexRef, NodeIdx};
use berth_core::types::Pod;

const NAME: &str = "GpuPacking";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "puts GPU pods where they leave the most room for those who come after them",
    missing: None,
    build,
};

const SCORE_MAX: i64 = 100;

struct GpuPacking;

fn build(args: &Args, points: &mut Points) {
    points.packing(args::read(args));
    let plugin = Arc::new(GpuPacking);
    points.classify(plugin.clone());
    points.pre_filter(plugin.clone());
    points.placement_score(plugin.clone());
    points.score(plugin);
}

/// What pods of one class want, and its number in the index.
#[derive(Clone, Debug)]
struct Prepared {
    demand: Arc<Demand>,
    class: Option<u32>,
}

impl Classify for GpuPacking {
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        let demand = cluster.packing().map(|packing| Arc::new(packing.demand(pod, cluster)));
        ClassPart { packing: demand, ..ClassPart::default() }
    }
}

impl PreFilter for GpuPacking {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        if let Some(packing) = cycle.cluster.packing() {
            let demand = Arc::new(packing.demand(cycle.pod, cycle.cluster));
            let class = packing.class(&demand);
            let prepared = Prepared { demand, class };
            state.order_devices(Arc::new(prepared.clone()));
            state.put(NAME, prepared);
        }
        PreFilterAnswer::Continue
    }
}

impl Score for GpuPacking {
    /// Shape: the number of the node's key, negative, so that more is better.
    fn score(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        let (Some(packing), Some(Prepared { demand, class })) =
            (cycle.cluster.packing(), state.kept::<Prepared>(NAME))
        else {
            return 0;
        };
        -packing.key(cycle.cluster, *class, demand, node).number()
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    /// The first of the best gets 100. The others get 99 less their share of the greatest difference
    /// in what is lost: small differences show as long as all are small.
    fn normalize(&self, _: Cycle<'_>, _: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        let loss = |raw: i64| Key::loss_steps(-raw);
        let (mut best, mut worst) = (i64::MIN, i64::MIN);
        for (_, raw) in scores.iter() {
            best = best.max(*raw);
            if *raw != -Key::LAST.number() {
                worst = worst.max(loss(*raw));
            }
        }
        let least = loss(best);
        let span = (worst.max(least) - least).max(1);
        let mut first = true;
        for (_, raw) in scores {
            *raw = match *raw {
                raw if raw == best && std::mem::take(&mut first) => SCORE_MAX,
                raw => {
                    let more = (loss(raw) - least).min(span);
                    SCORE_MAX - 1 - more * (SCORE_MAX - 1) / span
                }
            };
        }
    }

    fn reads(&self, _: Cycle<'_>) -> Reads {
        Reads { indexes: vec![IndexRef::Packing] }
    }
}

impl PlacementScore for GpuPacking {
    /// Shape: thousandths of GPUs that are idle in the placement, negative. What the group takes is the
    /// same everywhere, so where least is idle now, least is left over for nobody.
    fn score(&self, proposal: Proposal<'_>, cluster: &Cluster) -> i64 {
        let Some(packing) = cluster.packing() else { return 0 };
        let nodes = proposal.placement.nodes.iter();
        -nodes.filter_map(|node| packing.state(node)).map(|it| it.idle_milli()).sum::<i64>()
    }

    fn normalize(&self, scores: &mut [i64]) {
        let best = scores.iter().copied().max().unwrap_or(0);
        let worst = scores.iter().copied().min().unwrap_or(0);
        let span = (best - worst).max(1);
        for score in scores {
            *score = (*score - worst) * SCORE_MAX / span;
        }
    }
}

impl DeviceOrder for Prepared {
    /// GPUs of which as much is free are equal.
    fn ranks(
        &self,
        _: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        devices: &[NodeDevice<'_>],
    ) -> Vec<i64> {
        let Some(packing) = cluster.packing() else { return Vec::new() };
        let outcomes = packing.outcomes(self.class, &self.demand, node);
        if outcomes.len() < 2 {
            return Vec::new();
        }
        let rank = |way: Option<(GpuFree, Option<GpuFree>)>| {
            let (from, to) = way?;
            let same =
                |outcome: &Outcome| outcome.from == from && to.is_none_or(|to| outcome.to == to);
            outcomes.iter().position(|(_, outcome)| same(outcome))
        };
        let ways = packing.ways(cluster, node, devices).into_iter();
        ways.map(|way| rank(way).map_or(outcomes.len() as i64, |at| at as i64)).collect()
    }
}
