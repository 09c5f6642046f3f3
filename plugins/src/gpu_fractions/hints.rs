//! Which changes may make room for a pod that lacked a part of a GPU.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::{Change, DeviceChange, NodeIdx};

use super::GpuFractions;

impl Interest for GpuFractions {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let helps = match change {
            Change::NodeAdded { node } => fits(cx, *node),
            Change::NodeUpdated { node, aspects, .. } => {
                (aspects.labels || aspects.allocatable) && fits(cx, *node)
            }
            Change::PodFreed { old, node } => old.gpu_share().is_some() && fits(cx, *node),
            Change::PodUpdated { uid, old, aspects } if *uid == cx.pod.uid => {
                aspects.spec && old.spec != cx.pod.spec
            }
            Change::PodUpdated { uid, aspects, .. } => {
                let place = cx.cluster.pod(uid).and_then(|record| record.place.node());
                (aspects.gpus || aspects.spec) && place.is_some_and(|node| fits(cx, node))
            }
            // A driver that lets go of a node's GPUs.
            Change::Devices(DeviceChange::Slice | DeviceChange::SliceGone) => true,
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

fn fits(cx: HintContext<'_>, node: NodeIdx) -> bool {
    let (Some(share), Ok(gpus)) = (cx.pod.gpu_share(), cx.cluster.shared_gpus(node)) else {
        return false;
    };
    gpus.n_with(&share) >= usize::from(share.n_gpus)
}
