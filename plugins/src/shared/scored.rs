//! The resources that a scorer weighs, and how full a node would be of each.
//!
//! Source: `resourceAllocationScorer` of upstream's noderesources/resource_allocation.go (1.37).

use berth_core::framework::{Args, NodeSet};
use berth_core::snapshot::nodes::Nodes;
use berth_core::snapshot::{NodeIdx, ResourceId};
use berth_core::types::resources::{CPU, MEMORY};
use berth_core::types::{PodRequests, Text};

/// A resource that a configuration lists for scoring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weighted {
    pub(crate) name: Text,
    /// 1 to 100.
    pub(crate) weight: i64,
}

/// Reads `resources`: an absent or zero weight is 1, an absent or empty list is cpu and memory.
///
/// `check` notes what is wrong with an entry.
pub(crate) fn read_resources(args: &Args, check: impl Fn(&Args, &Weighted)) -> Vec<Weighted> {
    let read = |entry: &Args| {
        let name = entry.text("name").unwrap_or_default();
        let weight = entry.int("weight").filter(|weight| *weight != 0).unwrap_or(1);
        let weighted = Weighted { name, weight };
        check(entry, &weighted);
        entry.finish();
        weighted
    };
    let resources: Vec<Weighted> = args.objects("resources").iter().map(read).collect();
    if resources.is_empty() { default_resources() } else { resources }
}

pub(crate) fn default_resources() -> Vec<Weighted> {
    [CPU, MEMORY].map(|name| Weighted { name: name.into(), weight: 1 }).to_vec()
}

/// Which amounts stand for cpu and memory of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// As requested.
    Real,
    /// With the defaults for containers that request none.
    Nonzero,
}

/// What one pod asks for of the resources that are weighed; those that can't matter to it are
/// left out.
#[derive(Debug)]
pub(crate) struct Asked {
    basis: Basis,
    entries: Vec<AskedEntry>,
}

#[derive(Debug)]
struct AskedEntry {
    name: Text,
    /// None: no node or pod had it when this was made; it is looked up again each time, since a
    /// new name moves no index.
    id: Option<ResourceId>,
    amount: i64,
    weight: i64,
}

/// How full a node is of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// What the pods on the node take.
    pub(crate) before: i64,
    /// The same with the pod that is placed.
    pub(crate) after: i64,
    /// Above 0.
    pub(crate) allocatable: i64,
    pub(crate) weight: i64,
}

impl Asked {
    pub(crate) fn of(
        requests: &PodRequests,
        resources: &[Weighted],
        basis: Basis,
        nodes: &Nodes,
    ) -> Asked {
        let entries = resources
            .iter()
            .map(|Weighted { name, weight }| AskedEntry {
                name: name.clone(),
                id: nodes.known_resource(name),
                amount: amount(requests, name, basis),
                weight: *weight,
            })
            .filter(|entry| entry.amount != 0 || !entry.scalar())
            .collect();
        Asked { basis, entries }
    }

    /// Tells whether the pod asks for none of the weighed resources.
    pub(crate) fn is_nothing(&self) -> bool {
        self.entries.iter().all(|entry| entry.amount == 0)
    }

    /// Returns the loads of `node`, in the order of the configuration, without resources that the
    /// node has none of.
    pub(crate) fn loads<'a>(
        &'a self,
        nodes: &'a Nodes,
        node: NodeIdx,
    ) -> impl Iterator<Item = Load> + Clone + 'a {
        self.entries.iter().filter_map(move |entry| {
            let id = entry.id.or_else(|| nodes.known_resource(&entry.name))?;
            let allocatable = nodes.allocatable(id, node);
            if allocatable == 0 {
                return None;
            }
            let before = self.taken(id, nodes, node);
            let after = before.saturating_add(entry.amount);
            Some(Load { before, after, allocatable, weight: entry.weight })
        })
    }

    fn taken(&self, id: ResourceId, nodes: &Nodes, node: NodeIdx) -> i64 {
        taken(self.basis, id, nodes, node)
    }
}

impl Weighted {
    /// Returns how much of the resource a pod asks for.
    pub(crate) fn asked(&self, requests: &PodRequests, basis: Basis) -> i64 {
        amount(requests, &self.name, basis)
    }
}

/// Returns how full some nodes are together. Shape: one load a resource, `after` as `before`;
/// `allocatable` is 0 where none of the nodes has any.
pub(crate) fn sums(resources: &[Weighted], basis: Basis, nodes: &Nodes, of: &NodeSet) -> Vec<Load> {
    let sum = |Weighted { name, weight }: &Weighted| {
        let (mut before, mut allocatable) = (0i64, 0i64);
        if let Some(id) = nodes.known_resource(name) {
            for node in of.iter() {
                before = before.saturating_add(taken(basis, id, nodes, node));
                allocatable = allocatable.saturating_add(nodes.allocatable(id, node));
            }
        }
        Load { before, after: before, allocatable, weight: *weight }
    };
    resources.iter().map(sum).collect()
}

fn taken(basis: Basis, id: ResourceId, nodes: &Nodes, node: NodeIdx) -> i64 {
    match (basis, id) {
        (Basis::Nonzero, ResourceId::CPU) => nodes.nonzero(node).0,
        (Basis::Nonzero, ResourceId::MEMORY) => nodes.nonzero(node).1,
        _ => nodes.requested(id, node),
    }
}

impl AskedEntry {
    /// Tells whether the resource is left out where the pod doesn't request it: any but cpu,
    /// memory and ephemeral-storage.
    fn scalar(&self) -> bool {
        self.id.is_none_or(|id| id > ResourceId::EPHEMERAL)
    }
}

fn amount(requests: &PodRequests, name: &str, basis: Basis) -> i64 {
    match (basis, name) {
        (Basis::Nonzero, CPU) => requests.nonzero_cpu_milli,
        (Basis::Nonzero, MEMORY) => requests.nonzero_memory_bytes,
        _ => requests.real.amount(name),
    }
}
