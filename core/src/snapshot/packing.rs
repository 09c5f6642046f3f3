//! Index of packing: what nodes have free of GPUs, what pods are expected to want, and what a node
//! is worth by both. It is there only if a profile has rules for it.
//!
//! Demands are [`classes`] (with their shares of the arrivals), what is free of a node is a
//! [`states::NodeState`]. A price solve ([`solve`]) finds what one more pod of each class is worth,
//! and with it what a GPU is worth of which so much is free ([`tables`]), at each of a few prices of
//! CPU and memory ([`grid`]); by those a node's state has a value ([`prices`]) and a placement a
//! loss ([`judge`]), and the order of choice is one number ([`key`]). The solve works on a picture
//! ([`drafting`]), and when it is done every node is valued anew ([`valuing`]): a few nodes or rounds
//! whenever a poll has steps left ([`finding`]). Everything else is integers looked up.
//!
//! Reading order: [`gpu`], [`demand`], [`key`], [`prices`], [`judge`], [`tables`], [`solve`], then
//! this file.

pub mod demand;
pub mod gpu;
pub mod key;

mod classes;
mod drafting;
mod finding;
mod grid;
mod judge;
mod prices;
mod reading;
mod rules;
mod solve;
mod states;
mod tables;
mod valuing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::{Node, Pod, PodUid};

use super::changes::Version;
use super::cluster::Cluster;
use super::devices::gather::NodeDevice;
use super::nodes::NodeIdx;
use classes::{Classes, POD_WEIGHT};
use demand::{Capacities, Demand};
use finding::Work;
use gpu::{GpuFree, Outcome, Want};
use key::Key;
use prices::Prices;
use states::{Slot, States};

pub use prices::PriceBook;
pub use rules::PackingRules;
pub use states::NodeState;

/// Kinds of nodes with partitioned GPUs that are told apart.
const PARTITIONED_MAX: usize = 16;

/// What is known of a node.
#[derive(Clone, Debug)]
struct NodeEntry {
    version: Version,
    /// The object that its group was found for.
    object: Arc<Node>,
    group: Option<u32>,
    slot: u32,
}

/// Keys of one class by state.
#[derive(Debug, Default)]
struct Row {
    /// What of the states' log was read: epoch and length.
    read: (u64, usize),
    keys: Vec<Key>,
}

#[derive(Debug)]
pub struct Packing {
    rules: PackingRules,
    version: Version,
    classes: Classes,
    capacities: Capacities,
    /// A node with partitioned GPUs for each number of parts: what is selected there is selected on
    /// the others like it.
    partitioned: BTreeMap<usize, NodeIdx>,
    nodes: Vec<Option<NodeEntry>>,
    states: States,
    prices: Prices,
    rows: BTreeMap<u32, Row>,
    /// What of the log of node changes was read.
    read_to: Option<u64>,
    /// Pods that had a place before anybody asked for one for them.
    placed_before: Vec<PodUid>,
    work: Option<Work>,
    /// Number of arrivals when a solve was begun last.
    begun_at: Option<u64>,
    solves: u32,
}

impl Packing {
    fn new(rules: PackingRules) -> Packing {
        let mut classes = Classes::default();
        let all: i64 = rules.prior.iter().map(|(_, share)| i64::from(*share)).sum();
        for (demand, share) in &rules.prior {
            let id = classes.enter(&Arc::new(demand.clone()));
            let pods = i64::from(rules.prior_pods) * POD_WEIGHT;
            classes.add_weight(id, pods.saturating_mul(i64::from(*share)) / all.max(1));
        }
        Packing {
            rules,
            version: Version::default(),
            classes,
            capacities: Capacities::new(),
            partitioned: BTreeMap::new(),
            nodes: Vec::new(),
            states: States::default(),
            prices: Prices::default(),
            rows: BTreeMap::new(),
            read_to: None,
            placed_before: Vec::new(),
            work: None,
            begun_at: None,
            solves: 0,
        }
    }

    /// Moves when prices were found: every state has another value then.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Number of price solves so far.
    pub fn solves(&self) -> u32 {
        self.solves
    }

    /// Returns what a pod asks for.
    pub fn demand(&self, pod: &Pod, cluster: &Cluster) -> Demand {
        Demand::of(pod, cluster, &self.rules, &self.capacities)
    }

    /// Tells whether devices of this class are counted as GPUs.
    pub fn counts_class(&self, class: &str) -> bool {
        self.rules.device_classes.contains(class)
    }

    /// Returns the number of a demand that was declared, for [`Packing::key`].
    pub fn class(&self, demand: &Demand) -> Option<u32> {
        self.classes.id(demand)
    }

    /// Returns what is free of a node, as it was when the index was brought up to date last.
    pub fn state(&self, node: NodeIdx) -> Option<&NodeState> {
        self.slot(node).map(|slot| &slot.state)
    }

    /// Returns the largest number of GPUs on one node, at the last price solve.
    pub fn gpus_max(&self) -> usize {
        self.prices.gpus_max
    }

    /// Returns the prices as they stand for a node; `None` before they were found, or if no node of its
    /// kind was there then.
    pub fn book(&self, node: NodeIdx) -> Option<PriceBook> {
        self.prices.book(self.nodes.get(node.at())?.as_ref()?.group?)
    }

    fn slot(&self, node: NodeIdx) -> Option<&Slot> {
        self.states.slot(self.nodes.get(node.at())?.as_ref()?.slot)
    }

    /// Returns the key of placing a pod of the class on `node` in the best way; [`Key::LAST`] if it
    /// doesn't fit. Cost: a look-up; where that is outdated, as much as [`Packing::outcomes`].
    pub fn key(
        &self,
        cluster: &Cluster,
        class: Option<u32>,
        demand: &Demand,
        node: NodeIdx,
    ) -> Key {
        let entry = self.nodes.get(node.at()).and_then(Option::as_ref);
        let version = cluster.nodes().slot(node).version;
        let row = class.and_then(|class| self.rows.get(&class));
        match (entry, row) {
            (Some(entry), Some(row)) if entry.version == version && self.is_current(row) => {
                row.keys.get(entry.slot as usize).copied().unwrap_or(Key::LAST)
            }
            _ => self.key_now(cluster, self.resolved(class, demand), node),
        }
    }

    fn is_current(&self, row: &Row) -> bool {
        row.read == (self.states.epoch(), self.states.n_made())
    }

    /// Returns the ways to place such a pod on `node`, the best first, as things were when the index
    /// was brought up to date last. Cost: O(prices × GPUs).
    pub fn outcomes(
        &self,
        class: Option<u32>,
        demand: &Demand,
        node: NodeIdx,
    ) -> Vec<(Key, Outcome)> {
        let Some(Slot { state, valued, .. }) = self.slot(node) else { return Vec::new() };
        let demand = self.resolved(class, demand);
        let mut outcomes = Vec::new();
        self.prices.each_outcome(demand, state, valued, |key, way| outcomes.push((key, way)));
        // Without prices the least that does is taken; with them what is most broken is equal.
        let priced = state.group.is_some();
        outcomes.sort_by(|(a, x), (b, y)| {
            let larger = y.from.cmp(&x.from);
            a.cmp(b).then(if priced { larger } else { larger.reverse() })
        });
        outcomes
    }

    fn resolved<'a>(&'a self, class: Option<u32>, demand: &'a Demand) -> &'a Demand {
        class.and_then(|class| self.classes.demand(class)).map_or(demand, AsRef::as_ref)
    }

    fn key_now(&self, cluster: &Cluster, demand: &Demand, at: NodeIdx) -> Key {
        let Some(node) = cluster.nodes().node(at) else { return Key::LAST };
        let mut state = reading::state(cluster, &self.rules, at, node);
        state.group = self.prices.group_of(node, state.replicas);
        self.prices.key(demand, &state, &self.prices.value(&state))
    }

    /// Returns for each device what is free of its GPU now, and what would be left of that if it were
    /// taken, where that is said by the device; `None` for what is no GPU.
    pub fn ways(
        &self,
        cluster: &Cluster,
        node: NodeIdx,
        devices: &[NodeDevice<'_>],
    ) -> Vec<Option<(GpuFree, Option<GpuFree>)>> {
        match cluster.nodes().node(node) {
            Some(node) => reading::ways(cluster, &self.rules, node, devices),
            None => vec![None; devices.len()],
        }
    }

    /// Finds out what is selected: on the nodes that stand for those with partitioned GPUs.
    fn resolve(&mut self, cluster: &Cluster, class: u32) -> bool {
        let Packing { classes, rules, partitioned, .. } = self;
        classes.resolve(class, |selection| {
            let nodes = partitioned.values().filter_map(|at| cluster.nodes().node(*at));
            let mut places = BTreeSet::new();
            for node in nodes {
                places.extend(reading::places_of(cluster, rules, node, selection));
            }
            let parts = places.iter().any(|place| *place != u8::MAX);
            match parts {
                true => Want::Part(places.into_iter().collect()),
                false => Want::whole(1),
            }
        })
    }

    /// Takes over the nodes that have changed.
    fn refresh(&mut self, cluster: &Cluster) {
        let nodes = cluster.nodes();
        self.nodes.resize(nodes.capacity(), None);
        match self.read_to.and_then(|from| nodes.changed_since(from)) {
            Some(changed) => {
                for at in changed {
                    self.look_at(cluster, at);
                }
            }
            None => (0..nodes.capacity()).for_each(|at| self.look_at(cluster, NodeIdx(at as u32))),
        }
        self.read_to = Some(nodes.log_end());
    }

    fn look_at(&mut self, cluster: &Cluster, at: NodeIdx) {
        let version = cluster.nodes().slot(at).version;
        let known = self.nodes[at.at()].take();
        if known.as_ref().is_some_and(|known| known.version == version) {
            self.nodes[at.at()] = known;
            return;
        }
        let node = cluster.nodes().node(at);
        self.nodes[at.at()] = node.map(|object| {
            let state = reading::state(cluster, &self.rules, at, object);
            let same = known.as_ref().filter(|known| Arc::ptr_eq(&known.object, object));
            let group = match same {
                Some(known) => known.group,
                None => {
                    reading::note_capacities(cluster, &self.rules, object, &mut self.capacities);
                    let n_parts = reading::n_parts(cluster, &self.rules, object);
                    if n_parts > 0 && self.partitioned.len() < PARTITIONED_MAX {
                        self.partitioned.entry(n_parts).or_insert(at);
                    }
                    self.prices.group_of(object, state.replicas)
                }
            };
            let slot = self.states.enter(NodeState { group, ..state }, &self.prices);
            NodeEntry { version, object: Arc::clone(object), group, slot }
        });
        // After the new one, so that a state that stays keeps its place.
        if let Some(known) = known {
            self.states.leave(known.slot);
        }
    }

    /// Brings the keys of a class up to date.
    fn refresh_row(&mut self, class: u32) {
        let Packing { states, prices, rows, classes, .. } = self;
        let Some(demand) = classes.demand(class) else { return };
        let row = rows.entry(class).or_default();
        let (epoch, n_made) = (states.epoch(), states.n_made());
        row.keys.resize(states.slots().len(), Key::LAST);
        let mut set = |at: usize| {
            let Some(Slot { state, valued, .. }) = states.slot(at as u32) else { return };
            row.keys[at] = prices.key(demand, state, valued);
        };
        match row.read.0 == epoch {
            true => states.made_since(row.read.1).iter().for_each(|at| set(*at as usize)),
            false => (0..states.slots().len()).for_each(&mut set),
        }
        row.read = (epoch, n_made);
    }
}

impl Cluster {
    /// Returns the index of packing, if a profile has rules for it.
    pub fn packing(&self) -> Option<&Packing> {
        self.packing.as_deref()
    }

    /// Has the ledger keep the index.
    pub(crate) fn set_packing(&mut self, rules: PackingRules) {
        self.packing = Some(Box::new(Packing::new(rules)));
    }

    /// Declares a demand, so that [`Packing::key`] is a look-up: the index is brought up to date.
    /// Cost: O(states) the first time and after a price solve, else O(nodes that have changed).
    pub fn declare_demand(&mut self, demand: &Arc<Demand>) {
        let Some(mut packing) = self.packing.take() else { return };
        packing.refresh(self);
        let known = packing.classes.id(demand);
        let class = packing.classes.enter(demand);
        if known.is_none() && packing.resolve(self, class) {
            packing.rows.remove(&class);
        }
        packing.refresh_row(class);
        self.packing = Some(packing);
    }

    /// Counts a pod as one that asks for a place; each counts once.
    pub(crate) fn count_demand(&mut self, uid: &PodUid, demand: &Arc<Demand>) {
        if let Some(packing) = &mut self.packing {
            let half_life = packing.rules.half_life;
            packing.classes.count(uid, demand, half_life);
        }
    }

    /// Goes on with the price solve. Returns the number of steps it took.
    pub(crate) fn advance_packing(&mut self, steps: u64) -> u64 {
        let Some(mut packing) = self.packing.take() else { return 0 };
        let (spent, found) = packing.advance(self, steps);
        if found {
            packing.version = self.nodes_mut().fresh_version();
        }
        self.packing = Some(packing);
        spent
    }

    /// Tells whether a price solve is due or under way.
    pub(crate) fn packing_waits(&self) -> bool {
        self.packing.as_ref().is_some_and(|packing| packing.work.is_some() || packing.due())
    }

    /// A pod is known that has its place already.
    pub(super) fn note_placed(&mut self, uid: &PodUid) {
        if let Some(packing) = &mut self.packing {
            packing.placed_before.push(uid.clone());
        }
    }

    pub(super) fn forget_demand(&mut self, uid: &PodUid) {
        if let Some(packing) = &mut self.packing {
            packing.classes.forget_pod(uid);
        }
    }
}

#[cfg(test)]
mod tests;
