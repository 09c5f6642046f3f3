//! What is free of a node's GPUs, read from the ledger.

use std::collections::BTreeSet;

use crate::types::device::{AttributeValue, NANOS};
use crate::types::gpu_share::GPU_MEMORY;
use crate::types::{Node, SharingNode, Text};

use super::super::cluster::Cluster;
use super::super::devices::Devices;
use super::super::devices::gather::{NodeDevice, NodePool};
use super::super::devices::selections::Selected;
use super::super::nodes::{NodeIdx, ResourceId};
use super::PackingRules;
use super::demand::Capacities;
use super::gpu::{GpuFree, Selection, WHOLE_MILLI};
use super::states::NodeState;

/// More GPUs than a node can have: what lies beyond is not looked at. Of replicas as many as ten of
/// each.
const GPUS_MAX: i64 = 64;
const REPLICAS_MAX: i64 = 10 * GPUS_MAX;
const MIB: i64 = 1 << 20;
/// The attribute that tells GPUs from other devices of their driver. Source: dra-driver-nvidia-gpu.
const TYPE: &str = "type";

/// What a plugin may call a resource whose GPUs it shares, and the label that says into how many
/// replicas it divides each. Source: NVIDIA's device plugin and GPU feature discovery.
const SHARED_SUFFIX: &str = ".shared";
const REPLICAS_SUFFIX: &str = ".replicas";

/// Returns how many replicas device plugins give out of each GPU of a node; 1: whole GPUs.
pub(super) fn replicas(rules: &PackingRules, node: &Node) -> u16 {
    let of = |resource: &&Text| {
        let base = resource.strip_suffix(SHARED_SUFFIX).unwrap_or(resource);
        let label = node.labels.value(&format!("{base}{REPLICAS_SUFFIX}"))?;
        label.parse::<u16>().ok().filter(|replicas| (2..=100).contains(replicas))
    };
    let there = rules.resources.iter().filter(|name| node.allocatable.amount(name) > 0);
    there.filter_map(|name| of(&name)).next().unwrap_or(1)
}

/// Returns a node's state, its group left out.
pub(super) fn state(
    cluster: &Cluster,
    rules: &PackingRules,
    at: NodeIdx,
    node: &Node,
) -> NodeState {
    let nodes = cluster.nodes();
    let free = |resource| (nodes.allocatable(resource, at) - nodes.requested(resource, at)).max(0);
    let mut gpus: Vec<GpuFree> = Vec::new();
    let replicas = replicas(rules, node);
    let most = if replicas > 1 { REPLICAS_MAX } else { GPUS_MAX };
    for name in &rules.resources {
        let Some(resource) = nodes.known_resource(name) else { continue };
        let all = nodes.allocatable(resource, at).clamp(0, most);
        let free = free(resource).min(all);
        let of = |at| if at < free { GpuFree::replica(replicas) } else { GpuFree::milli(0) };
        gpus.extend((0..all).map(of));
    }
    for pool in gpu_pools(cluster, rules, node) {
        gpus.extend(pool.devices.iter().filter(|device| is_gpu(device)).map(free_of));
        let sets = partitioned_gpus(cluster.devices(), &pool);
        gpus.extend(sets.iter().map(|gpu| GpuFree::slices(gpu.free)));
    }
    if let Ok(shared) = cluster.shared_gpus(at) {
        gpus.extend(shared.milli().map(GpuFree::milli));
    }
    gpus.truncate(most as usize);
    gpus.sort_unstable();
    NodeState {
        group: None,
        cpu_milli: free(ResourceId::CPU),
        memory_mib: free(ResourceId::MEMORY) / MIB,
        gpus: gpus.into(),
        replicas,
    }
}

fn gpu_pools<'a>(cluster: &'a Cluster, rules: &PackingRules, node: &Node) -> Vec<NodePool<'a>> {
    let mut pools = cluster.devices().pools_on(node);
    pools.retain(|pool| rules.drivers.contains(pool.driver));
    pools
}

/// Tells whether a device is a GPU of its own, not one that is cut out of the counters of one.
pub(super) fn is_gpu(device: &NodeDevice<'_>) -> bool {
    let kind = match device.device.published(TYPE) {
        Some(AttributeValue::String(kind)) => kind == "gpu",
        Some(_) | None => true,
    };
    kind && device.device.consumes.is_empty()
}

/// A GPU whose memory slices are counters of one set.
pub(super) struct Partitioned<'a> {
    set: &'a Text,
    /// In order of name: each is one slice, or as many as make eight of all.
    slots: Vec<&'a Text>,
    pub(super) free: u8,
}

/// Returns the GPUs of a pool that are given out in parts: sets of counters of which at most eight,
/// its memory slices, are there just once.
///
/// Source: how dra-driver-nvidia-gpu publishes MIG.
pub(super) fn partitioned_gpus<'a>(
    devices: &'a Devices,
    pool: &NodePool<'a>,
) -> Vec<Partitioned<'a>> {
    let mut gpus: Vec<Partitioned<'a>> = Vec::new();
    for consumption in pool.devices.iter().filter_map(|device| device.device.consumes.first()) {
        if gpus.iter().rev().any(|gpu| *gpu.set == consumption.set) {
            continue;
        }
        let Some(set) = pool.counter_set(devices, &consumption.set) else { continue };
        let once = set.counters.iter().filter(|(_, total)| total.nanos == NANOS);
        let slots: Vec<&Text> = once.map(|(name, _)| name).collect();
        if slots.is_empty() || 8 % slots.len() != 0 {
            continue;
        }
        let mut gpu = Partitioned { set: &set.name, slots, free: u8::MAX };
        let held = pool.counters_held(&consumption.set).filter(|(_, nanos)| *nanos > 0);
        gpu.free &= !held.fold(0, |taken, (counter, _)| taken | gpu.bits(counter));
        gpus.push(gpu);
    }
    gpus
}

impl Partitioned<'_> {
    fn bits(&self, counter: &Text) -> u8 {
        let width = 8 / self.slots.len();
        let at = self.slots.iter().position(|slot| *slot == counter);
        at.map_or(0, |at| ((1u16 << width) - 1).unbounded_shl((at * width) as u32) as u8)
    }

    /// Returns the slices that a device takes, none if it is cut out of another GPU.
    pub(super) fn place(&self, device: &NodeDevice<'_>) -> Option<u8> {
        let mut consumes = device.device.consumes.iter();
        let of = consumes.find(|consumption| consumption.set == *self.set)?;
        let drawn = of.counters.iter().filter(|(_, amount)| amount.nanos > 0);
        Some(drawn.fold(0, |place, (counter, _)| place | self.bits(counter)))
    }
}

/// Returns for each device what is free of its GPU, and what would be left of that; of a device that
/// is no part of a GPU the latter is not said. `None` for what is no GPU.
pub(super) fn ways(
    cluster: &Cluster,
    rules: &PackingRules,
    node: &Node,
    devices: &[NodeDevice<'_>],
) -> Vec<Option<(GpuFree, Option<GpuFree>)>> {
    let pools = gpu_pools(cluster, rules, node);
    let gpus: Vec<(&Text, &Text, Partitioned<'_>)> = pools
        .iter()
        .flat_map(|pool| {
            let gpus = partitioned_gpus(cluster.devices(), pool);
            gpus.into_iter().map(|gpu| (pool.driver, pool.name, gpu))
        })
        .collect();
    let way = |device: &NodeDevice<'_>| {
        if rules.drivers.contains(&device.slice.driver) && is_gpu(device) {
            return Some((free_of(device), None));
        }
        let (driver, pool) = (&device.slice.driver, &device.slice.pool);
        let mut own = gpus.iter().filter(|(d, p, _)| *d == driver && *p == pool);
        own.find_map(|(_, _, gpu)| {
            let free = GpuFree::slices(gpu.free);
            Some((free, free.less_slices(gpu.place(device)?)))
        })
    };
    devices.iter().map(way).collect()
}

/// Returns the places that the selected devices of a node have on their GPUs, ascending; none if it
/// has none.
pub(super) fn places_of(
    cluster: &Cluster,
    rules: &PackingRules,
    node: &Node,
    selection: &Selection,
) -> BTreeSet<u8> {
    let devices = cluster.devices();
    let class = devices.class(&selection.class);
    let of_class = class.into_iter().flat_map(|class| &class.selectors);
    let selectors: Vec<&Text> = of_class.chain(&selection.selectors).collect();
    let selected = |device: &&NodeDevice<'_>| {
        let answer = |selector: &&Text| {
            devices.selections().selected(selector, device.slice_idx, device.at) == Selected::Yes
        };
        selectors.iter().all(answer)
    };
    let mut places = BTreeSet::new();
    for pool in gpu_pools(cluster, rules, node) {
        let gpus = partitioned_gpus(devices, &pool);
        for device in pool.devices.iter().filter(selected) {
            places.extend(gpus.iter().find_map(|gpu| gpu.place(device)));
        }
    }
    places
}

/// Returns the number of devices that are parts of GPUs.
pub(super) fn n_parts(cluster: &Cluster, rules: &PackingRules, node: &Node) -> usize {
    let pools = gpu_pools(cluster, rules, node);
    let devices = pools.iter().flat_map(|pool| &pool.devices);
    devices.filter(|device| !device.device.consumes.is_empty()).count()
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
    let pools = gpu_pools(cluster, rules, node);
    for device in pools.iter().flat_map(|pool| &pool.devices).filter(|device| is_gpu(device)) {
        for capacity in device.device.model.capacity.iter() {
            let most = capacities.entry(Text::clone(&capacity.name)).or_default();
            *most = capacity.value.nanos.max(*most);
        }
    }
    let shared = SharingNode::of(node).ok().filter(|_| cluster.keeps_gpu_shares());
    if let Some(mib) = shared.and_then(|node| node.memory_mib) {
        let most = capacities.entry(Text::from(GPU_MEMORY)).or_default();
        *most = i128::from(mib).max(*most);
    }
}
