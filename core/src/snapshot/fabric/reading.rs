//! The GPUs of a node, which of them are free, and how they are linked, read from the ledger.
//!
//! What devices say of themselves counts first; what they leave open is the node object's to say, if
//! that speaks of as many GPUs. Where neither says anything, GPUs that a device plugin counts are in the
//! NUMA cells that the node tells of ([`numa`](super::super::numa)).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::device::{AttributeValue, Placement};
use crate::types::topology::{GPUS_MAX, GpuSet, NodeTopology, pcie};
use crate::types::{DeviceId, Node, Text};

use super::super::cluster::Cluster;
use super::super::devices::gather::{NodeDevice, NodePool, PoolState};
use super::super::devices::pools::SliceIdx;
use super::super::nodes::NodeIdx;
use super::FabricRules;

const PCI_BUS_ID: &str = "resource.kubernetes.io/pciBusID";
pub(super) const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
pub(super) const NUMA_NODE: &str = "resource.kubernetes.io/numaNode";
/// Attributes that name the fabric partition which a GPU belongs to, and what two GPUs have that are
/// in one. They talk at full speed, but only if all of the partition is taken together, so the
/// smaller one comes first. Source: FabricManagerPartitioning of dra-driver-nvidia-gpu.
const PARTITIONS: [(&str, u16); 3] =
    [("partition2", 900), ("partition4", 899), ("partition8", 898)];
/// Source: dra-driver-nvidia-gpu, AMD's driver.
const TYPES: [&str; 2] = ["gpu", "amdgpu"];

/// Which GPUs are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Free {
    Set(GpuSet),
    /// So many, no matter which.
    Count(usize),
}

impl Free {
    pub fn count(self) -> usize {
        match self {
            Free::Set(set) => set.len(),
            Free::Count(count) => count,
        }
    }
}

/// The GPUs of a node.
#[derive(Clone, Debug)]
pub struct NodeGpus {
    /// `None`: nothing is known, or there are not as many GPUs as it speaks of.
    pub topology: Option<Arc<NodeTopology>>,
    pub free: Free,
    /// Where each GPU is published; empty: they are no devices.
    pub(super) devices: Vec<(SliceIdx, usize)>,
}

impl NodeGpus {
    /// Returns the name of the device that a GPU is, if it is one.
    pub fn device_name<'a>(&self, cluster: &'a Cluster, gpu: usize) -> Option<&'a Text> {
        let (slice, at) = self.devices.get(gpu)?;
        Some(&cluster.devices().slice(*slice)?.devices.get(*at)?.name)
    }

    /// Number of GPUs that are devices.
    pub fn n_devices(&self) -> usize {
        self.devices.len()
    }

    /// Returns which GPU the device of this name is.
    pub fn gpu_named(&self, cluster: &Cluster, id: &DeviceId) -> Option<usize> {
        self.devices.iter().position(|(slice, at)| {
            cluster.devices().slice(*slice).is_some_and(|slice| {
                let named = slice.devices.get(*at).is_some_and(|it| it.name == id.device);
                named && slice.driver == id.driver && slice.pool == id.pool
            })
        })
    }

    /// Returns which GPU a device is.
    pub fn gpu_of(&self, device: &NodeDevice<'_>) -> Option<usize> {
        self.devices.iter().position(|place| *place == (device.slice_idx, device.at))
    }
}

/// Returns the GPUs of a node; `None` if it has none.
pub(super) fn read(
    cluster: &Cluster,
    rules: &FabricRules,
    at: NodeIdx,
    node: &Node,
) -> Option<NodeGpus> {
    let devices = devices_of(cluster, rules, node);
    if devices.is_empty() { counted(cluster, rules, at, node) } else { listed(devices, node) }
}

/// Of what a device plugin has only the number is known.
fn counted(cluster: &Cluster, rules: &FabricRules, at: NodeIdx, node: &Node) -> Option<NodeGpus> {
    let nodes = cluster.nodes();
    let (mut all, mut free) = (0, 0);
    for resource in rules.resources.iter().filter_map(|name| nodes.known_resource(name)) {
        let here = nodes.allocatable(resource, at);
        all += here;
        free += (here - nodes.requested(resource, at)).clamp(0, here);
    }
    let (all, free) = (usize::try_from(all).ok()?, usize::try_from(free).ok()?);
    if all == 0 {
        return None;
    }
    if node.topology.is_none()
        && let Some((topology, left)) = in_cells(cluster, rules, at)
        && all <= topology.len()
    {
        // What it says of each cell holds only while it knows of all that is in use.
        let left = left.filter(|left| left.len() == free).map_or(Free::Count(free), Free::Set);
        return Some(NodeGpus { topology: Some(topology), free: left, devices: Vec::new() });
    }
    // Fewer than it speaks of may be healthy; more are shares of GPUs.
    let topology = node.topology.clone().filter(|topology| all <= topology.len());
    let whole = topology.as_ref().is_some_and(|topology| free == topology.len());
    let free = if whole { Free::Set(GpuSet::first(free)) } else { Free::Count(free) };
    Some(NodeGpus { topology, free, devices: Vec::new() })
}

/// Returns GPUs that are in NUMA cells, as the node tells of them, and which are free: of one cell, any
/// that many. Nothing is known of links.
fn in_cells(
    cluster: &Cluster,
    rules: &FabricRules,
    at: NodeIdx,
) -> Option<(Arc<NodeTopology>, Option<GpuSet>)> {
    let cells = cluster.numa_cells(at)?;
    let way = cells.exact();
    let (mut places, mut free) = (Vec::new(), GpuSet::default());
    for (at, cell) in cells.report.cells.iter().enumerate() {
        let sum = |amount: &dyn Fn(&Text) -> i64| -> usize {
            usize::try_from(rules.resources.iter().map(amount).sum::<i64>()).unwrap_or(0)
        };
        let all = sum(&|name| cell.allocatable.amount(name));
        let left = sum(&|name| way.map_or(0, |way| way.free(at, name)));
        if places.len() + all > GPUS_MAX {
            return None;
        }
        (places.len()..places.len() + left).for_each(|gpu| free.insert(gpu));
        places.extend((0..all).map(|_| Some(cell.number)));
    }
    let bandwidth = |a: usize, b: usize| match places[a] == places[b] {
        true => pcie::CELL,
        false => pcie::SYSTEM,
    };
    let topology = NodeTopology::new(places.len(), bandwidth, places.clone(), Vec::new());
    (!places.is_empty()).then(|| (Arc::new(topology), way.is_some().then_some(free)))
}

/// A GPU among the devices of a node.
struct Gpu<'a> {
    device: NodeDevice<'a>,
    free: bool,
}

fn devices_of<'a>(cluster: &'a Cluster, rules: &FabricRules, node: &Node) -> Vec<Gpu<'a>> {
    let devices = cluster.devices();
    let mut gpus = Vec::new();
    for pool in devices.pools_on(node) {
        if !rules.drivers.contains(pool.driver) || pool.state != PoolState::Complete {
            continue;
        }
        let here = pool.devices.iter().filter(|device| is_gpu(device));
        gpus.extend(
            here.map(|device| Gpu { device: *device, free: is_free(cluster, &pool, device) }),
        );
    }
    // As `nvidia-smi` counts them.
    let bus = |gpu: &Gpu<'_>| match gpu.device.device.published(PCI_BUS_ID) {
        Some(AttributeValue::String(id)) => Some(id.clone()),
        Some(_) | None => None,
    };
    match gpus.iter().all(|gpu| bus(gpu).is_some()) {
        true => gpus.sort_by_cached_key(bus),
        false => gpus.sort_by_cached_key(|gpu| natural(&gpu.device.device.name)),
    }
    gpus
}

/// Tells whether a device is a whole GPU, of this node only.
fn is_gpu(device: &NodeDevice<'_>) -> bool {
    let kind = match device.device.published("type") {
        Some(AttributeValue::String(kind)) => TYPES.iter().any(|known| kind == known),
        Some(_) => false,
        None => device.device.consumes.is_empty(),
    };
    kind && matches!(device.placement, Placement::Node(_))
}

fn is_free(cluster: &Cluster, pool: &NodePool<'_>, device: &NodeDevice<'_>) -> bool {
    let left = |set, counter| pool.counter_left(cluster.devices(), set, counter).unwrap_or(0);
    let mut consumes = device.device.consumes.iter();
    device.taken.is_none()
        && consumes.all(|of| {
            of.counters.iter().all(|(counter, drawn)| drawn.nanos <= left(&of.set, counter))
        })
}

/// Orders `gpu-2` before `gpu-10`.
fn natural(name: &Text) -> (String, u64, Text) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (head.to_owned(), name[head.len()..].parse().unwrap_or(0), name.clone())
}

fn listed(gpus: Vec<Gpu<'_>>, node: &Node) -> Option<NodeGpus> {
    if gpus.len() > GPUS_MAX {
        return None;
    }
    let free = (0..gpus.len()).filter(|at| gpus[*at].free).collect();
    let devices = gpus.iter().map(|gpu| (gpu.device.slice_idx, gpu.device.at)).collect();
    let base = node.topology.as_ref().filter(|topology| topology.len() == gpus.len());
    Some(NodeGpus { topology: linked(&gpus, base), free: Free::Set(free), devices })
}

/// Returns the topology that the attributes of devices tell, with what `base` adds.
fn linked(gpus: &[Gpu<'_>], base: Option<&Arc<NodeTopology>>) -> Option<Arc<NodeTopology>> {
    let column = |name: &str| numbered(gpus.iter().map(|gpu| gpu.device.device.published(name)));
    let (mut cells, mut roots) = (column(NUMA_NODE), column(PCIE_ROOT));
    let partitions = PARTITIONS.map(|(name, gbs)| (column(name), gbs));
    let told = |column: &[Option<u16>]| column.iter().any(Option::is_some);
    let by_partition = partitions.iter().any(|(column, _)| told(column));
    let by_place = told(&cells) || told(&roots);
    if !by_partition && !by_place {
        return base.cloned();
    }
    if let Some(base) = base {
        let of_base = |own: &mut Vec<Option<u16>>, of: &dyn Fn(usize) -> Option<u16>| {
            if !told(own) {
                *own = (0..gpus.len()).map(of).collect();
            }
        };
        of_base(&mut cells, &|gpu| base.cell(gpu));
        of_base(&mut roots, &|gpu| base.root(gpu));
    }
    let same =
        |column: &[Option<u16>], a: usize, b: usize| column[a].is_some() && column[a] == column[b];
    let bandwidth = |a: usize, b: usize| {
        let of_base = base.map_or(0, |base| base.bandwidth(a, b));
        let in_one = partitions.iter().find(|(column, _)| same(column, a, b));
        match in_one {
            Some((_, gbs)) => *gbs,
            None if of_base > pcie::SWITCH && !by_partition => of_base,
            None if !by_place => of_base.clamp(pcie::SYSTEM, pcie::SWITCH),
            None if same(&roots, a, b) => pcie::SWITCH,
            None if same(&cells, a, b) => pcie::CELL,
            None => pcie::SYSTEM,
        }
    };
    let topology = NodeTopology::new(gpus.len(), bandwidth, cells.clone(), roots.clone());
    let nics = base.map_or(&[][..], |base| base.nics());
    Some(Arc::new(topology.with_nics(nics.iter().cloned())))
}

/// Numbers the values of an attribute in the order in which they come.
pub(super) fn numbered<'a>(
    values: impl Iterator<Item = Option<&'a AttributeValue>>,
) -> Vec<Option<u16>> {
    let mut known: BTreeMap<AttributeValue, usize> = BTreeMap::new();
    let number = |value: Option<&'a AttributeValue>| {
        let value = match value? {
            // Of a list the first counts.
            AttributeValue::Ints(values) => AttributeValue::Int(*values.first()?),
            AttributeValue::Strings(values) => AttributeValue::String(values.first()?.clone()),
            value => value.clone(),
        };
        let next = known.len();
        u16::try_from(*known.entry(value).or_insert(next)).ok()
    };
    values.map(number).collect()
}
