//! Any node, any GPU.

use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::framework::{
    Args, Cycle, CycleState, DeviceOrder, PluginDef, Points, PreFilter, PreFilterAnswer, Score,
};
use berth_core::snapshot::devices::gather::NodeDevice;
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::Pod;

pub(super) const PLUGIN: PluginDef =
    PluginDef { name: "BenchRandom", summary: "any node, any device", missing: None, build };

#[derive(Debug)]
struct Random;

fn build(_: &Args, points: &mut Points) {
    points.pre_filter(Arc::new(Random));
    points.score(Arc::new(Random));
}

impl PreFilter for Random {
    fn pre_filter(&self, _: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        state.order_devices(Arc::new(Random));
        PreFilterAnswer::Continue
    }
}

/// Equal scores: the engine draws among equals.
impl Score for Random {
    fn score(&self, _: Cycle<'_>, _: &CycleState, _: NodeIdx) -> i64 {
        0
    }
}

impl DeviceOrder for Random {
    fn ranks(&self, pod: &Pod, _: &Cluster, _: NodeIdx, devices: &[NodeDevice<'_>]) -> Vec<i64> {
        let mut rng = Rng::stream(7, "devices", &pod.uid.0, 0);
        devices.iter().map(|_| (rng.next_u64() >> 1) as i64).collect()
    }
}
