//! GpuFractions: pods that ask for a part of a GPU by annotation, where no driver divides it.
//!
//! The ledger keeps who has how much of which GPU
//! ([`gpu_shares`](berth_core::snapshot::gpu_shares)); Filter asks it, and Reserve chooses the GPUs, in
//! the order of packing where that is kept. The bind carries their numbers to the pod.
//!
//! kube-scheduler doesn't know these annotations: where this plugin isn't enabled they say nothing.

mod explain;
mod hints;

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, PluginDef, Points, PreFilter, PreFilterAnswer, Reason,
    Reserve, Room, Verdict, Work,
};
use berth_core::snapshot::{Cluster, NodeIdx, Overlay};
use berth_core::types::gpu_share::{GPU_COUNT, GPU_MEMORY};
use berth_core::types::resources::is_gpu;
use berth_core::types::{GpuNumbers, GpuShare, NotShared, Pod, ShareSize};

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "GpuFractions",
    summary: "gives out parts of GPUs to pods that ask for them by annotation",
    missing: None,
    build,
};

const INSUFFICIENT: &str = "Insufficient GPU fraction";
const UNMARKED: &str = "node(s) didn't give out GPU fractions";
const PLUGIN_TOO: &str = "node(s) gave out whole GPUs by a device plugin";
const DRIVER_TOO: &str = "node(s) gave out GPUs by a DRA driver";

struct GpuFractions;

fn build(_: &Args, points: &mut Points) {
    points.gpu_shares();
    let plugin = Arc::new(GpuFractions);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.room(plugin.clone());
    points.reserve(plugin.clone());
    points.explain(plugin.clone());
    points.interest(plugin);
}

impl PreFilter for GpuFractions {
    fn pre_filter(&self, cycle: Cycle<'_>, _: &mut CycleState) -> PreFilterAnswer {
        let spec = &cycle.pod.spec;
        let refused = |text: String| PreFilterAnswer::Unresolvable(Reason::of(&text));
        match &spec.gpu_share {
            None => PreFilterAnswer::Skip,
            Some(Err(problem)) => refused(problem.to_string()),
            Some(Ok(_)) => match spec.requests.real.iter().find(|(name, _)| is_gpu(name)) {
                None => PreFilterAnswer::Continue,
                Some((name, _)) => refused(format!(
                    "annotations ask for a part of a GPU and containers for {name}: take one of them away"
                )),
            },
        }
    }
}

impl Filter for GpuFractions {
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        let Some(share) = cycle.pod.gpu_share() else { return Verdict::Fit };
        let gpus = match cycle.cluster.shared_gpus(node) {
            Ok(gpus) => gpus,
            Err(why) => return Verdict::Unresolvable(why_not(why)),
        };
        if matches!(share.size, ShareSize::Mib(_)) && gpus.memory_mib().is_none() {
            return Verdict::Unresolvable(lacks_label(GPU_MEMORY));
        }
        if !gpus.ever(&share) {
            return Verdict::Unresolvable(Reason::of(INSUFFICIENT));
        }
        // A plan that has chosen stands on just these.
        let fits = match cycle.cluster.gpus_given(&cycle.pod.uid) {
            Some(given) => gpus.are_free(&share, given),
            None => gpus.n_with(&share) >= usize::from(share.n_gpus),
        };
        if fits { Verdict::Fit } else { Verdict::Unschedulable(Reason::of(INSUFFICIENT)) }
    }
}

fn why_not(why: NotShared) -> Reason {
    match why {
        NotShared::Unmarked => Reason::of(UNMARKED),
        NotShared::Plugin => Reason::of(PLUGIN_TOO),
        NotShared::Driver => Reason::of(DRIVER_TOO),
        NotShared::Uncounted => lacks_label(GPU_COUNT),
    }
}

fn lacks_label(label: &str) -> Reason {
    Reason::of(&format!("node(s) didn't have the label {label}"))
}

impl Room for GpuFractions {
    fn room(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> u32 {
        let Some(share) = cycle.pod.gpu_share() else { return u32::MAX };
        let gpus = cycle.cluster.shared_gpus(node);
        gpus.map_or(0, |gpus| gpus.n_shares(&share) / u32::from(share.n_gpus.max(1)))
    }
}

impl Reserve for GpuFractions {
    fn reserve(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        _: &CycleState,
        node: NodeIdx,
        _: &mut Work,
    ) -> Result<(), Reason> {
        match take(pod, overlay, node, 0) {
            true => Ok(()),
            false => Err(Reason::of(INSUFFICIENT)),
        }
    }

    fn reserve_other(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        _: &CycleState,
        node: NodeIdx,
        nth: u32,
        _: &mut Work,
    ) -> Option<Result<bool, Reason>> {
        Some(Ok(pod.gpu_share().is_some() && take(pod, overlay, node, nth)))
    }
}

/// Takes the share by the `nth` way. False, with the overlay as it was, if there are not so many.
fn take(pod: &Pod, overlay: &mut Overlay<'_>, node: NodeIdx, nth: u32) -> bool {
    let Some(share) = pod.gpu_share() else { return nth == 0 };
    let way = ways(pod, &share, overlay.cluster(), node).into_iter().nth(nth as usize);
    way.is_some_and(|gpus| overlay.give_gpus(&pod.uid, gpus))
}

/// Returns the ways to have the share, the best first: as packing has it, else where least is left over.
fn ways(pod: &Pod, share: &GpuShare, cluster: &Cluster, node: NodeIdx) -> Vec<GpuNumbers> {
    let Ok(gpus) = cluster.shared_gpus_but(node, Some(&pod.uid)) else { return Vec::new() };
    let mut ways = gpus.ways(share);
    if let Some(packing) = cluster.packing().filter(|_| ways.len() > 1) {
        let demand = packing.demand(pod, cluster);
        let outcomes = packing.outcomes(packing.class(&demand), &demand, node);
        ways.sort_by_key(|way| {
            let same = outcomes.iter().position(|(_, outcome)| outcome.span == way.span);
            same.unwrap_or(outcomes.len())
        });
    }
    ways.into_iter().map(|way| way.gpus).collect()
}
