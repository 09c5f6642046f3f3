//! Index of fabrics: how the GPUs of nodes are linked, which are free, and what the best so many of
//! them have. It is there only if a profile has rules for it.
//!
//! A node's GPUs are [`read`](reading) from its object and its devices. Nodes that are built alike
//! share one list of subsets for each number of GPUs that pods ask for ([`subsets`]), made when that
//! is declared; the choice among the GPUs that are free is kept by topology, number and free set.
//!
//! Reading order: [`rules`], [`reading`], [`subsets`], this file, then what a choice goes by besides: what is
//! to be near the GPUs ([`beside`]), and which of them the rest of a group has ([`rails`]).

pub mod beside;
pub mod rails;
pub mod reading;
pub mod subsets;

mod rules;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::claim::{AllocationMode, ClaimRequest, DeviceRequest};
use crate::types::topology::{GPUS_MAX, GpuSet};
use crate::types::{NodeTopology, Pod};

use super::changes::Version;
use super::cluster::Cluster;
use super::devices::entries::PodClaimState;
use super::nodes::NodeIdx;
use reading::{Free, NodeGpus};
use subsets::{Best, Subsets};

pub use rules::FabricRules;

/// Lists of subsets that are kept; the standing of nodes of further topologies is worked out greedily.
/// A list of 16 GPUs has up to 150 kB.
const LISTS_MAX: usize = 512;
/// Choices that are kept; when there are more all are forgotten.
const CHOICES_MAX: usize = 1 << 16;
/// Numbers of GPUs that one pod may come to by its alternatives, beyond which they aren't looked at.
const SIZES_MAX: usize = 16;

/// What a node has for so many GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How much of the best that so many GPUs of this node can have they would have, whichever are
    /// free. Unit: percent.
    pub share: i64,
    /// Free GPUs that they would leave over: of the node, and of islands that they break.
    pub left_over: i64,
}

#[derive(Clone, Debug)]
struct NodeEntry {
    version: Version,
    gpus: Option<NodeGpus>,
    /// Number of its topology.
    built: Option<u32>,
}

/// A topology by its links alone: nodes whose network cards are called otherwise share what is worked out.
#[derive(Clone, Debug)]
struct Links(Arc<NodeTopology>);

impl PartialEq for Links {
    fn eq(&self, other: &Links) -> bool {
        self.0.links() == other.0.links()
    }
}

impl Eq for Links {}

impl PartialOrd for Links {
    fn partial_cmp(&self, other: &Links) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Links {
    fn cmp(&self, other: &Links) -> Ordering {
        self.0.links().cmp(&other.0.links())
    }
}

#[derive(Debug)]
pub struct Fabric {
    rules: FabricRules,
    nodes: Vec<Option<NodeEntry>>,
    /// Numbers of GPUs that were declared.
    sizes: BTreeSet<usize>,
    /// Numbers of topologies; none is used again.
    built: BTreeMap<Links, u32>,
    next_built: u32,
    /// By topology and number of GPUs wanted.
    lists: BTreeMap<(u32, usize), Arc<Subsets>>,
    /// By topology, number of GPUs wanted and free set.
    choices: BTreeMap<(u32, usize, GpuSet), Option<Best>>,
    /// What of the log of node changes was read.
    read_to: Option<u64>,
}

impl Fabric {
    fn new(rules: FabricRules) -> Fabric {
        Fabric {
            rules,
            nodes: Vec::new(),
            sizes: BTreeSet::new(),
            built: BTreeMap::new(),
            next_built: 0,
            lists: BTreeMap::new(),
            choices: BTreeMap::new(),
            read_to: None,
        }
    }

    /// Returns how many GPUs a pod may come to, as its requests are met by their first alternatives,
    /// then by others; none if it wants no GPU.
    pub fn wanted(&self, pod: &Pod, cluster: &Cluster) -> Vec<u16> {
        let requests = &pod.spec.requests.real;
        let whole: i64 = self.rules.resources.iter().map(|name| requests.amount(name)).sum();
        let mut sums = vec![usize::try_from(whole).unwrap_or(usize::MAX)];
        for entry in &pod.spec.claims {
            let PodClaimState::Claim(key) = cluster.claim_of(pod, entry) else { continue };
            let Some(record) = cluster.devices().claim(&key) else { continue };
            for request in &record.claim.spec.demand.requests {
                let counts = self.counts(request);
                let with = |sum: usize| counts.iter().map(move |count| sum.saturating_add(*count));
                let mut longer: Vec<usize> = Vec::new();
                for sum in sums.iter().flat_map(|sum| with(*sum)) {
                    if !longer.contains(&sum) && longer.len() < SIZES_MAX {
                        longer.push(sum);
                    }
                }
                sums = longer;
            }
        }
        let first = sums.first().copied().unwrap_or(0);
        let sums = sums.into_iter().filter(|sum| (1..=GPUS_MAX).contains(sum));
        if first == 0 { Vec::new() } else { sums.map(|sum| sum as u16).collect() }
    }

    /// Returns how many GPUs each alternative of a request wants.
    fn counts(&self, request: &ClaimRequest) -> Vec<usize> {
        let count = |wanted: &DeviceRequest| match &wanted.mode {
            _ if wanted.admin || !self.rules.device_classes.contains(&wanted.class) => 0,
            AllocationMode::ExactCount(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            AllocationMode::All | AllocationMode::Unknown(_) => 1,
        };
        request.alternatives.iter().map(count).collect()
    }

    /// Returns the GPUs of a node as they are now.
    pub fn gpus(&self, cluster: &Cluster, node: NodeIdx) -> Option<NodeGpus> {
        match self.entry(cluster, node) {
            Some(entry) => entry.gpus.clone(),
            None => reading::read(cluster, &self.rules, node, cluster.nodes().node(node)?),
        }
    }

    /// Returns what is known of a node, if nothing has changed there since.
    fn entry(&self, cluster: &Cluster, node: NodeIdx) -> Option<&NodeEntry> {
        let entry = self.nodes.get(node.at())?.as_ref()?;
        (entry.version == cluster.nodes().slot(node).version).then_some(entry)
    }

    /// Returns the subsets of a size. Cost: a look-up where the size was declared.
    pub fn subsets(&self, topology: &Arc<NodeTopology>, size: usize) -> Arc<Subsets> {
        let known = self.built_as(topology).and_then(|built| self.lists.get(&(built, size)));
        known.cloned().unwrap_or_else(|| Arc::new(Subsets::new(topology, size)))
    }

    /// Returns what `size` GPUs would have on a node; `None` if so many aren't free there, as far as
    /// is known. Cost: a look-up where the node is as it was when the size was declared.
    pub fn standing(&self, cluster: &Cluster, size: usize, node: NodeIdx) -> Option<Standing> {
        if let Some(entry) = self.entry(cluster, node) {
            return self.standing_of(entry.gpus.as_ref()?, entry.built, size);
        }
        let gpus = self.gpus(cluster, node)?;
        let topology = gpus.topology.as_ref();
        let built = topology.and_then(|topology| self.built_as(topology));
        self.standing_of(&gpus, built, size)
    }

    /// Returns the number of a topology.
    fn built_as(&self, topology: &Arc<NodeTopology>) -> Option<u32> {
        self.built.get(&Links(Arc::clone(topology))).copied()
    }

    fn standing_of(&self, gpus: &NodeGpus, built: Option<u32>, size: usize) -> Option<Standing> {
        let spare = i64::try_from(gpus.free.count().checked_sub(size)?).unwrap_or(i64::MAX);
        let Some(topology) = &gpus.topology else {
            return Some(Standing { share: 100, left_over: spare });
        };
        let fresh;
        let subsets = match built.and_then(|built| self.lists.get(&(built, size))) {
            Some(subsets) => subsets,
            None => {
                fresh = Arc::new(Subsets::rough(topology, size));
                &fresh
            }
        };
        let (goodness, broken) = match gpus.free {
            Free::Count(count) => (subsets.guaranteed(count)?, 0),
            Free::Set(free) => {
                let known = built.and_then(|built| self.choices.get(&(built, size, free)));
                let best = known.copied().unwrap_or_else(|| subsets.best_of(free))?;
                (best.goodness, i64::from(best.left_over))
            }
        };
        Some(Standing { share: goodness.share_of(subsets.best()), left_over: spare + broken })
    }

    /// Takes over the nodes that have changed.
    fn refresh(&mut self, cluster: &Cluster) {
        let nodes = cluster.nodes();
        self.nodes.resize(nodes.capacity(), None);
        match self.read_to.and_then(|from| nodes.changed_since(from)) {
            Some(changed) => changed.for_each(|at| self.look_at(cluster, at)),
            None => (0..nodes.capacity()).for_each(|at| self.look_at(cluster, NodeIdx(at as u32))),
        }
        self.read_to = Some(nodes.log_end());
    }

    fn look_at(&mut self, cluster: &Cluster, at: NodeIdx) {
        let version = cluster.nodes().slot(at).version;
        if self.nodes[at.at()].as_ref().is_some_and(|known| known.version == version) {
            return;
        }
        let node = cluster.nodes().node(at);
        let gpus = node.and_then(|node| reading::read(cluster, &self.rules, at, node));
        let built = gpus.as_ref().and_then(|gpus| gpus.topology.as_ref()).map(|t| self.number(t));
        let entry = NodeEntry { version, gpus, built };
        for size in self.sizes.clone() {
            self.prepare(&entry, size);
        }
        self.nodes[at.at()] = node.map(|_| entry);
    }

    fn number(&mut self, topology: &Arc<NodeTopology>) -> u32 {
        if let Some(known) = self.built_as(topology) {
            return known;
        }
        if self.next_built as usize % LISTS_MAX == LISTS_MAX - 1 {
            self.forget_unused();
        }
        let number = self.next_built;
        self.next_built += 1;
        self.built.insert(Links(Arc::clone(topology)), number);
        number
    }

    /// Makes the list of subsets, and the choice, for a node's GPUs.
    fn prepare(&mut self, entry: &NodeEntry, size: usize) {
        let (Some(gpus), Some(built)) = (&entry.gpus, entry.built) else { return };
        let Some(topology) = &gpus.topology else { return };
        if !self.lists.contains_key(&(built, size)) {
            if self.lists.len() >= LISTS_MAX {
                return;
            }
            self.lists.insert((built, size), Arc::new(Subsets::new(topology, size)));
        }
        if let Free::Set(free) = gpus.free {
            if self.choices.len() >= CHOICES_MAX {
                self.choices.clear();
            }
            let subsets = &self.lists[&(built, size)];
            self.choices.entry((built, size, free)).or_insert_with(|| subsets.best_of(free));
        }
    }

    /// Forgets topologies that no node has.
    fn forget_unused(&mut self) {
        let used: BTreeSet<u32> =
            self.nodes.iter().flatten().filter_map(|entry| entry.built).collect();
        self.built.retain(|_, built| used.contains(built));
        self.lists.retain(|(built, _), _| used.contains(built));
        self.choices.retain(|(built, _, _), _| used.contains(built));
    }

    fn declare(&mut self, cluster: &Cluster, size: usize) {
        self.refresh(cluster);
        if !(1..=GPUS_MAX).contains(&size) || !self.sizes.insert(size) {
            return;
        }
        let nodes = std::mem::take(&mut self.nodes);
        nodes.iter().flatten().for_each(|entry| self.prepare(entry, size));
        self.nodes = nodes;
    }
}

impl Cluster {
    /// Returns the index of fabrics, if a profile has rules for it.
    pub fn fabric(&self) -> Option<&Fabric> {
        self.fabric.as_deref()
    }

    /// Returns the GPUs of a node as they are now, by the rules of the index or else by those that hold
    /// without any.
    pub fn gpus_of(&self, node: NodeIdx) -> Option<NodeGpus> {
        match self.fabric() {
            Some(fabric) => fabric.gpus(self, node),
            None => {
                let object = self.nodes().node(node)?;
                reading::read(self, &FabricRules::default(), node, object)
            }
        }
    }

    /// Has the ledger keep the index.
    pub fn set_fabric(&mut self, rules: FabricRules) {
        self.fabric = Some(Box::new(Fabric::new(rules)));
    }

    /// Declares a number of GPUs, so that [`Fabric::standing`] is a look-up: the index is brought up
    /// to date. Cost: O(nodes) the first time, else O(nodes that have changed).
    pub fn declare_gpus(&mut self, size: usize) {
        let Some(mut fabric) = self.fabric.take() else { return };
        fabric.declare(self, size);
        self.fabric = Some(fabric);
    }
}

#[cfg(test)]
mod tests;
