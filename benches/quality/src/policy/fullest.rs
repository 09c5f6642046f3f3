//! Two plain rules: the first node that does, and the one with least of its GPUs left.

use std::sync::Arc;

use berth_core::framework::{Args, Cycle, CycleState, Normalize, PluginDef, Points, Score};
use berth_core::snapshot::NodeIdx;

use super::first_of_best;
use crate::stage::GPU_MILLI;

pub(super) const FIRST: PluginDef = PluginDef {
    name: "BenchFirstFit",
    summary: "the first node",
    missing: None,
    build: |_: &Args, points: &mut Points| points.score(Arc::new(First)),
};

pub(super) const FULLEST: PluginDef = PluginDef {
    name: "BenchFullest",
    summary: "least of its GPUs left",
    missing: None,
    build: |_: &Args, points: &mut Points| points.score(Arc::new(Fullest)),
};

struct First;

struct Fullest;

impl Score for First {
    fn score(&self, _: Cycle<'_>, _: &CycleState, _: NodeIdx) -> i64 {
        0
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    fn normalize(&self, _: Cycle<'_>, _: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        first_of_best(scores);
    }
}

impl Score for Fullest {
    fn score(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> i64 {
        let nodes = cycle.cluster.nodes();
        let free = |gpu| nodes.allocatable(gpu, node) - nodes.requested(gpu, node);
        -nodes.known_resource(GPU_MILLI).map_or(0, free)
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    fn normalize(&self, _: Cycle<'_>, _: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        first_of_best(scores);
    }
}
