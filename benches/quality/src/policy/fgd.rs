//! FGD: the node and GPU on which fragmentation grows least.
//!
//! A node's fragmentation for a kind of pod is all that is idle there if such a pod has no GPUs or
//! does not fit, else what is idle on GPUs that are too small for it; for the workload it is the mean
//! over its kinds, by how many pods are of each. The score is ⌊100·σ(−Δ/1000)⌋, ties go to the first
//! node.
//!
//! Source: Weng et al., "Beware of Fragmentation" (USENIX ATC 2023); its open details as they
//! reproduce the published figures.

use std::sync::{Arc, Mutex};

use berth_core::framework::{
    Args, Cycle, CycleState, DeviceOrder, Normalize, PluginDef, Points, PreFilter, PreFilterAnswer,
    Score,
};
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::nodes::ResourceId;
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::Pod;

use super::{first_of_best, kinds};
use crate::stage::{GPU_MILLI, MODEL};
use crate::trace::TracePod;

pub(super) const PLUGIN: PluginDef =
    PluginDef { name: "BenchFgd", summary: "least fragmentation", missing: None, build };

/// The kinds of pods with their shares. A plugin has no other way to be told; one run at a time.
static EXPECTED: Mutex<Option<Arc<Vec<Kind>>>> = Mutex::new(None);

#[derive(Debug)]
struct Kind {
    pod: TracePod,
    share: f64,
}

#[derive(Clone, Debug)]
struct Fgd {
    kinds: Arc<Vec<Kind>>,
}

/// Says what the workload is, before the profile is built.
pub(crate) fn expect(pods: &[TracePod]) {
    let all = pods.len() as f64;
    let kinds = kinds(pods).into_iter().map(|(pod, n)| Kind { pod, share: n as f64 / all });
    *EXPECTED.lock().expect("no run panicked") = Some(Arc::new(kinds.collect()));
}

fn build(_: &Args, points: &mut Points) {
    let kinds = EXPECTED.lock().expect("no run panicked").clone().unwrap_or_default();
    let plugin = Arc::new(Fgd { kinds });
    points.pre_filter(plugin.clone());
    points.score(plugin);
}

struct State {
    cpu_milli: i64,
    memory_mib: i64,
    gpus: Vec<i64>,
}

impl PreFilter for Fgd {
    fn pre_filter(&self, _: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        state.order_devices(Arc::new(self.clone()));
        PreFilterAnswer::Continue
    }
}

impl Score for Fgd {
    fn score(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> i64 {
        let best =
            self.outcomes(cycle.pod, cycle.cluster, node).into_iter().map(|(_, delta)| delta);
        let delta = best.fold(f64::INFINITY, f64::min);
        (100.0 / (1.0 + (delta / 1000.0).exp())).floor() as i64
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    fn normalize(&self, _: Cycle<'_>, _: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        first_of_best(scores);
    }
}

impl DeviceOrder for Fgd {
    fn ranks(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        devices: &[NodeDevice<'_>],
    ) -> Vec<i64> {
        // The pod has taken its CPU and memory already.
        let mut before = state(cluster, node);
        before.cpu_milli += pod.spec.requests.real.cpu_milli;
        before.memory_mib += pod.spec.requests.real.memory_bytes >> 20;
        let outcomes = self.outcomes_of(pod, cluster, node, before);
        let rank = |device: &NodeDevice<'_>| {
            let free = free_of(device);
            let of = outcomes.iter().find(|(from, _)| *from == free);
            of.map_or(i64::MAX, |(_, delta)| (delta * 1e6) as i64)
        };
        devices.iter().map(rank).collect()
    }
}

impl Fgd {
    fn outcomes(&self, pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Vec<(i64, f64)> {
        self.outcomes_of(pod, cluster, node, state(cluster, node))
    }

    /// Returns what is free of the GPU that the pod could take, with how much fragmentation grows.
    fn outcomes_of(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        before: State,
    ) -> Vec<(i64, f64)> {
        let model = cluster.nodes().node(node).and_then(|node| node.labels.value(MODEL));
        let model = model.map_or("", |model| model.as_str());
        let real = &pod.spec.requests.real;
        let (count, milli) = wanted(pod);
        let fragmented = self.fragmentation(&before, model);
        let mut after = State {
            cpu_milli: before.cpu_milli - real.cpu_milli,
            memory_mib: before.memory_mib - (real.memory_bytes >> 20),
            gpus: before.gpus.clone(),
        };
        if count != 1 {
            let whole = after.gpus.iter_mut().filter(|free| **free >= milli).take(count);
            whole.for_each(|free| *free -= milli);
            return vec![(1000, self.fragmentation(&after, model) - fragmented)];
        }
        let mut outcomes: Vec<(i64, f64)> = Vec::new();
        for at in 0..before.gpus.len() {
            let from = before.gpus[at];
            if from < milli || outcomes.iter().any(|(known, _)| *known == from) {
                continue;
            }
            after.gpus[at] -= milli;
            outcomes.push((from, self.fragmentation(&after, model) - fragmented));
            after.gpus[at] += milli;
        }
        outcomes
    }

    fn fragmentation(&self, state: &State, model: &str) -> f64 {
        let idle: i64 = state.gpus.iter().sum();
        let of = |kind: &Kind| {
            let pod = &kind.pod;
            let fitting = state.gpus.iter().filter(|free| **free >= pod.gpu_milli).count() as i64;
            let fits = pod.gpus > 0
                && pod.cpu_milli <= state.cpu_milli
                && pod.memory_mib <= state.memory_mib
                && fitting >= pod.gpus
                && (pod.models.is_empty() || pod.models.iter().any(|known| known == model));
            let small = state.gpus.iter().filter(|free| **free < pod.gpu_milli.min(1000));
            kind.share * if fits { small.sum::<i64>() } else { idle } as f64
        };
        self.kinds.iter().map(of).sum()
    }
}

/// Returns number and size of the GPUs that a pod asks for, from its resources.
fn wanted(pod: &Pod) -> (usize, i64) {
    let total = pod.spec.requests.real.amount(GPU_MILLI);
    if total <= 1000 { (usize::from(total > 0), total) } else { ((total / 1000) as usize, 1000) }
}

fn state(cluster: &Cluster, at: NodeIdx) -> State {
    let nodes = cluster.nodes();
    let free = |resource| nodes.allocatable(resource, at) - nodes.requested(resource, at);
    let pools = nodes.node(at).map(|node| cluster.devices().pools_on(node)).unwrap_or_default();
    State {
        cpu_milli: free(ResourceId::CPU),
        memory_mib: free(ResourceId::MEMORY) >> 20,
        gpus: pools.iter().flat_map(|pool| &pool.devices).map(free_of).collect(),
    }
}

fn free_of(device: &NodeDevice<'_>) -> i64 {
    const NANOS: i128 = 1_000_000_000;
    1000 - device.taken.map_or(0, |taken| (taken.consumed("milli") / NANOS) as i64)
}
