//! What is free of a node's GPUs, read from the ledger.

use crate::types::device::AttributeValue;
use crate::types::{Node, Text};

use super::super::cluster::Cluster;
use super::super::devices::gather::NodeDevice;
use super::super::nodes::{NodeIdx, ResourceId};
use super::PackingRules;
use super::demand::Capacities;
use super::gpu::{GpuFree, WHOLE_MILLI};
use super::states::NodeState;

/// More GPUs than a node can have: what lies beyond is not looked at.
const GPUS_MAX: i64 = 64;
const MIB: i64 = 1 << 20;
/// The attribute that tells GPUs from other devices of their driver. Source: dra-driver-nvidia-gpu.
const TYPE: &str = "type";

/// Returns a node's state, its group left out.
pub(super) fn state(cluster: &Cluster, rules: &PackingRules, at: NodeIdx, node: &Node) -> NodeState {
    let nodes = cluster.nodes();
    let free = |resource| {
        (nodes.allocatable(resource, at) - nodes.requested(resource, at)).max(0)
    };
    let mut gpus: Vec<GpuFree> = Vec::new();
    for name in &rules.resources {
        let Some(resource) = nodes.known_resource(name) else { continue };
        let all = nodes.allocatable(resource, at).clamp(0, GPUS_MAX);
        let free = free(resource).min(all);
        gpus.extend((0..all).map(|at| GpuFree::milli(if at < free { WHOLE_MILLI } else { 0 })));
    }
    for device in gpu_devices(cluster, rules, node) {
        gpus.push(free_of(&device));
    }
    gpus.truncate(GPUS_MAX as usize);
    gpus.sort_unstable();
    NodeState {
        group: None,
        cpu_milli: free(ResourceId::CPU),
        memory_mib: free(ResourceId::MEMORY) / MIB,
        gpus: gpus.into(),
    }
}

/// Returns the devices of the node that are GPUs.
fn gpu_devices<'a>(
    cluster: &'a Cluster,
    rules: &'a PackingRules,
    node: &Node,
) -> impl Iterator<Item = NodeDevice<'a>> + 'a {
    let pools = cluster.devices().pools_on(node);
    let of_gpus = pools.into_iter().filter(|pool| rules.drivers.contains(pool.driver));
    of_gpus.flat_map(|pool| pool.devices).filter(is_gpu)
}

pub(super) fn is_gpu(device: &NodeDevice<'_>) -> bool {
    match device.device.published(TYPE) {
        Some(AttributeValue::String(kind)) => kind == "gpu",
        Some(_) | None => true,
    }
}

/// Returns what is free of a device: of a shared one what is left of the capacity of which least
/// is.
pub(super) fn free_of(device: &NodeDevice<'_>) -> GpuFree {
    let Some(taken) = device.taken else { return GpuFree::milli(WHOLE_MILLI) };
    if taken.dedicated() {
        return GpuFree::milli(0);
    }
    let left = device.device.model.capacity.iter().filter_map(|capacity| {
        let total = capacity.value.nanos;
        let left = (total - taken.consumed(&capacity.name)).max(0);
        (total > 0).then(|| left.saturating_mul(i128::from(WHOLE_MILLI)) / total)
    });
    GpuFree::milli(left.min().unwrap_or(0) as i64)
}

/// Notes what the node's GPUs have at most of each capacity.
pub(super) fn note_capacities(
    cluster: &Cluster,
    rules: &PackingRules,
    node: &Node,
    capacities: &mut Capacities,
) {
    for device in gpu_devices(cluster, rules, node) {
        for capacity in device.device.model.capacity.iter() {
            let most = capacities.entry(Text::clone(&capacity.name)).or_default();
            *most = capacity.value.nanos.max(*most);
        }
    }
}
