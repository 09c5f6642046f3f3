//! Berth's own numbers for a pod that lacks a part of a GPU, and what can be done.

use berth_core::framework::{Cycle, CycleState, Explain};
use berth_core::snapshot::{NodeIdx, SharedGpus};
use berth_core::types::gpu_share::{GPU_FRACTIONS, GPU_MEMORY};
use berth_core::types::{GpuShare, ShareSize, Text};

use crate::shared::is_open;

use super::GpuFractions;

impl Explain for GpuFractions {
    fn explain(&self, cycle: Cycle<'_>, _: &CycleState) -> Option<Text> {
        let share = cycle.pod.gpu_share()?;
        let nodes = cycle.cluster.nodes();
        let open = nodes.iter().filter(|(_, node)| is_open(cycle, node));
        let gpus = open.filter_map(|(at, _)| Some((at, cycle.cluster.shared_gpus(at).ok()?)));
        let gpus: Vec<(NodeIdx, SharedGpus)> = gpus.collect();
        let wanted = shown(&share);
        if gpus.is_empty() {
            return Some(Text::from(format!(
                "needs {wanted}; no node that it may use gives out fractions: label those whose GPUs \
                 nobody else gives out {GPU_FRACTIONS}=true"
            )));
        }
        let enough = |gpus: &SharedGpus| gpus.n_with(&share) >= usize::from(share.n_gpus);
        if gpus.iter().any(|(_, gpus)| enough(gpus)) {
            return None;
        }
        if let Some(never) = never(&share, gpus.iter().map(|(_, gpus)| gpus)) {
            return Some(Text::from(format!("needs {wanted}; {never}")));
        }
        // The first of those that come nearest.
        let nearest = |(_, a): &(NodeIdx, SharedGpus)| (a.n_with(&share), a.most(share.size));
        let best = gpus.iter().rev().max_by_key(|it| nearest(it))?;
        let name = &nodes.slot(best.0).name;
        Some(Text::from(match (best.1.n_with(&share), share.size) {
            (0, ShareSize::Milli(_)) => {
                let most = best.1.most(share.size);
                format!("needs {wanted}; at most {most} of 1000 are free of one GPU ({name})")
            }
            (0, ShareSize::Mib(_)) => {
                let most = best.1.most(share.size);
                format!("needs {wanted}; at most {most} MiB are free of one GPU ({name})")
            }
            (n, _) => {
                let gpus = if n == 1 { "1 GPU has" } else { &format!("{n} GPUs have") };
                format!("needs {wanted}; at most {gpus} as much free on one node ({name})")
            }
        }))
    }
}

/// Says why even an empty node has no room, if so it is everywhere.
fn never<'a>(
    share: &GpuShare,
    gpus: impl Iterator<Item = &'a SharedGpus> + Clone,
) -> Option<String> {
    if gpus.clone().any(|gpus| gpus.ever(share)) {
        return None;
    }
    let n_gpus = gpus.clone().map(SharedGpus::len).max().unwrap_or(0);
    if n_gpus < usize::from(share.n_gpus) {
        return Some(format!("the largest node has {n_gpus}"));
    }
    let memory = gpus.filter_map(SharedGpus::memory_mib).max();
    Some(match memory {
        Some(mib) => format!("the largest GPU has {mib} MiB"),
        None => format!("no node tells how much its GPUs have: label them {GPU_MEMORY}=<MiB>"),
    })
}

fn shown(share: &GpuShare) -> String {
    let size = match share.size {
        ShareSize::Milli(milli) => format!("{milli} of 1000"),
        ShareSize::Mib(mib) => format!("{mib} MiB"),
    };
    match share.n_gpus {
        1 => format!("{size} of a GPU"),
        n => format!("{size} of each of {n} GPUs"),
    }
}
