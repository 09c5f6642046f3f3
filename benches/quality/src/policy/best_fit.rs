//! The node that is left with least CPU and GPUs, each divided by what the largest node has.

use std::sync::Arc;

use berth_core::framework::{Args, Cycle, CycleState, Normalize, PluginDef, Points, Score};
use berth_core::snapshot::nodes::ResourceId;
use berth_core::snapshot::{Cluster, NodeIdx};

use super::first_of_best;
use crate::stage::GPU_MILLI;

pub(super) const PLUGIN: PluginDef =
    PluginDef { name: "BenchBestFit", summary: "least CPU and GPU left", missing: None, build };

struct BestFit;

fn build(_: &Args, points: &mut Points) {
    points.score(Arc::new(BestFit));
}

/// Of the openb nodes. Units: milli-CPU and thousandths of a GPU.
const LARGEST_CPU: i64 = 128_000;
const LARGEST_GPU: i64 = 8_000;

impl Score for BestFit {
    fn score(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> i64 {
        let requests = &cycle.pod.spec.requests.real;
        let cpu = free(cycle.cluster, ResourceId::CPU, node) - requests.cpu_milli;
        let gpu = cycle.cluster.nodes().known_resource(GPU_MILLI);
        let gpu = gpu.map_or(0, |gpu| free(cycle.cluster, gpu, node)) - requests.amount(GPU_MILLI);
        -(cpu * LARGEST_GPU + gpu * LARGEST_CPU)
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    fn normalize(&self, _: Cycle<'_>, _: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        first_of_best(scores);
    }
}

fn free(cluster: &Cluster, resource: ResourceId, node: NodeIdx) -> i64 {
    cluster.nodes().allocatable(resource, node) - cluster.nodes().requested(resource, node)
}
