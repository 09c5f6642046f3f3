//! How near the devices of a node are to its GPUs: network cards, and whatever else is to work with them.
//!
//! What devices say of themselves counts (PCIe root, NUMA node), and what the node says of the network
//! cards that it names: a device is one of these if it is called so, or has a text attribute that says
//! so, such as its interface or its PCI address.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::device::AttributeValue;
use crate::types::topology::pcie;
use crate::types::{NodeTopology, Text};

use super::super::devices::gather::NodeDevice;
use super::reading::{NUMA_NODE, NodeGpus, PCIE_ROOT, numbered};

/// Beyond these many steps nothing is told apart.
const FARTHEST: u64 = 4;

/// The devices of one node, by their place in a list.
#[derive(Debug)]
pub struct Neighbours {
    topology: Option<Arc<NodeTopology>>,
    places: Vec<Where>,
}

#[derive(Clone, Copy, Debug)]
struct Where {
    gpu: Option<usize>,
    /// Which of the network cards that the node names.
    nic: Option<usize>,
    /// Values of the attributes, numbered.
    root: Option<u16>,
    cell: Option<u16>,
}

impl Neighbours {
    pub fn of(gpus: &NodeGpus, devices: &[NodeDevice<'_>]) -> Neighbours {
        let column = |name: &str| {
            numbered(devices.iter().map(|it| it.device.attribute(&it.slice.driver, name)))
        };
        let (roots, cells) = (column(PCIE_ROOT), column(NUMA_NODE));
        let names = Names::of(gpus.topology.as_deref());
        let places =
            devices.iter().zip(roots.into_iter().zip(cells)).map(|(device, (root, cell))| {
                let gpu = gpus.gpu_of(device);
                let nic = if gpu.is_none() { names.nic(device) } else { None };
                Where { gpu, nic, root, cell }
            });
        Neighbours { topology: gpus.topology.clone(), places: places.collect() }
    }

    /// Returns which GPU a device is.
    pub fn gpu(&self, device: u32) -> Option<usize> {
        self.places.get(device as usize)?.gpu
    }

    /// Tells how far a device is from those of the other kind among `picked`; where there are none, how far
    /// from the nearest of `candidates`. To a GPU devices that are no GPUs are of the other kind, and GPUs to
    /// them. Those of which nobody knows where they are don't count.
    ///
    /// The least is best: a device that is near to such as have nothing near yet, then one that is near to
    /// many.
    pub fn distance(
        &self,
        device: u32,
        picked: &[u32],
        candidates: impl Iterator<Item = u32>,
    ) -> u64 {
        let is_gpu = self.gpu(device).is_some();
        let of_kind = |other: &u32, gpu: bool| self.gpu(*other).is_some() == gpu;
        let known = |other: &u32| of_kind(other, !is_gpu) && self.is_placed(*other);
        let mut partners = picked.iter().copied().filter(known).peekable();
        if partners.peek().is_none() {
            let steps = candidates.filter(known).map(|it| self.steps(device, it));
            return steps.min().unwrap_or(FARTHEST + 1);
        }
        let (mut served, mut own) = (0, 0);
        for partner in partners {
            let steps = self.steps(device, partner);
            let mates = picked.iter().filter(|mate| of_kind(mate, is_gpu));
            let nearest = mates.map(|mate| self.steps(*mate, partner)).min();
            served += farther(nearest.map_or(steps, |nearest| nearest.min(steps)));
            own += farther(steps);
        }
        served << 32 | own
    }

    fn is_placed(&self, device: u32) -> bool {
        self.places.get(device as usize).is_some_and(|it| {
            it.nic.is_some() || it.root.is_some() || it.cell.is_some() || self.names_nics(it)
        })
    }

    /// Where a GPU is the node says with its network cards.
    fn names_nics(&self, place: &Where) -> bool {
        let named = self.topology.as_ref().is_some_and(|topology| !topology.nics().is_empty());
        place.gpu.is_some() && named
    }

    /// Returns how far two devices are from each other: 0 if one switch, or one PCIe root, is all that lies
    /// between, up to 4.
    fn steps(&self, a: u32, b: u32) -> u64 {
        let (Some(a), Some(b)) = (self.places.get(a as usize), self.places.get(b as usize)) else {
            return FARTHEST;
        };
        let told = self.told(a, b).or_else(|| self.told(b, a)).unwrap_or(0);
        let same = |a: Option<u16>, b: Option<u16>| a.is_some() && a == b;
        match told {
            _ if same(a.root, b.root) => 0,
            pcie::SWITCH.. => 0,
            pcie::SWITCHES.. => 1,
            pcie::BRIDGE.. => 2,
            pcie::CELL.. => 3,
            _ if same(a.cell, b.cell) => 3,
            _ => FARTHEST,
        }
    }

    fn told(&self, nic: &Where, gpu: &Where) -> Option<u16> {
        self.topology.as_ref()?.nics().get(nic.nic?)?.gbs.get(gpu.gpu?).copied()
    }
}

/// Shape: a one for each way that isn't near enough, 8 bits for each, the nearest highest.
fn farther(steps: u64) -> u64 {
    (0..FARTHEST).filter(|way| steps > *way).map(|way| 1 << (8 * (3 - way))).sum()
}

/// The network cards that a node names.
struct Names<'a> {
    as_told: BTreeMap<&'a str, usize>,
    /// Names of devices have neither underscores nor capitals.
    as_devices: BTreeMap<String, usize>,
}

impl<'a> Names<'a> {
    fn of(topology: Option<&'a NodeTopology>) -> Names<'a> {
        let nics = topology.map_or(&[][..], NodeTopology::nics).iter().enumerate();
        let told = nics.map(|(at, nic)| (nic.name.as_str(), at));
        let as_told: BTreeMap<&str, usize> = told.collect();
        let bare = |name: &str| name.replace('_', "-").to_ascii_lowercase();
        let as_devices = as_told.iter().map(|(name, at)| (bare(name), *at)).collect();
        Names { as_told, as_devices }
    }

    fn nic(&self, device: &NodeDevice<'_>) -> Option<usize> {
        if self.as_told.is_empty() {
            return None;
        }
        let said = |(_, value): &(Text, AttributeValue)| match value {
            AttributeValue::String(text) => self.as_told.get(text.as_str()).copied(),
            _ => None,
        };
        let by_name = self.as_devices.get(device.device.name.as_str()).copied();
        // Attributes have no order.
        by_name.or_else(|| device.device.attributes().filter_map(said).min())
    }
}

#[cfg(test)]
mod tests;
