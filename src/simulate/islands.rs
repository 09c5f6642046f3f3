//! The GPUs of nodes by island, where it is known how they are linked and there are several.

use std::collections::BTreeMap;

use berth_core::snapshot::Cluster;
use berth_core::snapshot::fabric::reading::Free;
use berth_core::types::{GpuSet, Text};

/// A GPU of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub at: usize,
    /// What its device is called, if it is one.
    pub device: Option<Text>,
    /// `None`: of this node only the number of free GPUs is known.
    pub free: Option<bool>,
}

/// Islands by node.
pub type Islands = BTreeMap<Text, Vec<Vec<Gpu>>>;

/// Returns the islands of the nodes that have several.
pub fn islands(cluster: &Cluster) -> Islands {
    let of = |node| {
        let gpus = cluster.gpus_of(node)?;
        let topology = gpus.topology.clone().filter(|topology| topology.islands().len() > 1)?;
        let free = match gpus.free {
            Free::Set(free) => Some(free),
            Free::Count(0) => Some(GpuSet::default()),
            Free::Count(_) => None,
        };
        let gpu = |at| Gpu {
            at,
            device: gpus.device_name(cluster, at).cloned(),
            free: free.map(|free| free.contains(at)),
        };
        let island = |island: &GpuSet| island.iter().map(gpu).collect();
        Some(topology.islands().iter().map(island).collect())
    };
    let nodes = cluster.nodes().iter();
    nodes.filter_map(|(at, node)| Some((node.name.clone(), of(at)?))).collect()
}
