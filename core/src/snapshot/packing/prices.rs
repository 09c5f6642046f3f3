//! The prices that a solve has found, and what a node's state is worth by them. Integers only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Node;

use super::demand::{Admits, Demand};
use super::gpu::{GpuFree, Outcome};
use super::grid::{GRID, Lanes, PAIRS, add, least, worths};
use super::judge::Judge;
use super::key::Key;
use super::states::NodeState;

/// What sets nodes apart: prices know one table for each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// Which classes it admits: one bit for each of [`Prices::admits`].
    pub(super) admitted: Box<[u64]>,
    /// As [`NodeState::replicas`].
    pub(super) replicas: u16,
}

/// What a place for a pod of several GPUs is worth.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) demand: Arc<Demand>,
    /// Hundred times the worth. Unit: thousandths of a GPU.
    pub(super) weight: i64,
    /// Groups that admit it.
    pub(super) groups: Vec<bool>,
}

/// Tables and weights, as they stand until the next solve.
#[derive(Debug, Default)]
pub(super) struct Prices {
    /// Ascending.
    pub(super) admits: Arc<[Arc<Admits>]>,
    /// Numbered in their order.
    pub(super) groups: BTreeMap<Kind, u32>,
    pub(super) kinds: Vec<Kind>,
    /// By group and cell: what is free of a GPU is worth so much, at each pair of prices.
    pub(super) values: Vec<Lanes>,
    pub(super) n_cells: usize,
    pub(super) places: Vec<Place>,
    /// Largest number of GPUs on one node.
    pub(super) gpus_max: usize,
}

/// Prices, written out for who wants to follow them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceBook {
    /// Of a core and of a GiB, in eighths of a thousandth of a GPU.
    pub pairs: Vec<(i64, i64)>,
    /// By pair: what a GPU is worth of which so many hundredths are free, then, if there are
    /// partitioned ones, of which this set of slices is free. Unit: thousandths of a GPU.
    pub values: Vec<Vec<i64>>,
    /// Pods of several GPUs, and a hundred times what a place for one is worth.
    pub places: Vec<(Arc<Demand>, i64)>,
    pub gpus_max: usize,
}

/// What is known of a state beside what is free.
#[derive(Clone, Debug)]
pub(super) struct Valued {
    /// Sum over its GPUs.
    pub(super) sums: Lanes,
    pub(super) value: i64,
    pub(super) places: i64,
}

impl Default for Valued {
    fn default() -> Valued {
        Valued { sums: [0; PAIRS + 1], value: 0, places: 0 }
    }
}

impl Prices {
    /// Returns the group of a node, `None` if no node of its kind was there at the solve.
    pub(super) fn group_of(&self, node: &Node, replicas: u16) -> Option<u32> {
        self.groups.get(&Kind::of(node, &self.admits, replicas)).copied()
    }

    pub(super) fn kind(&self, group: u32) -> Option<&Kind> {
        self.kinds.get(group as usize)
    }

    pub(super) fn book(&self, group: u32) -> Option<PriceBook> {
        let start = group as usize * self.n_cells;
        let values = self.values.get(start..start + self.n_cells)?;
        let places = self.places.iter().filter(|place| place.groups[group as usize]);
        let of_pair = |pair: usize| values.iter().map(|lanes| i64::from(lanes[pair])).collect();
        Some(PriceBook {
            pairs: GRID.iter().map(|pair| (pair.core, pair.gib)).collect(),
            values: (0..PAIRS).map(of_pair).collect(),
            places: places.map(|place| (Arc::clone(&place.demand), place.weight)).collect(),
            gpus_max: self.gpus_max,
        })
    }

    /// Partitioned GPUs, if there were none at the solve, are worth nothing to anybody.
    pub(super) fn values_of(&self, group: u32, gpu: GpuFree) -> &Lanes {
        let cell = if gpu.cell() < self.n_cells { gpu.cell() } else { 0 };
        &self.values[group as usize * self.n_cells + cell]
    }

    /// Values a state. Cost: O(pairs × GPUs).
    pub(super) fn value(&self, state: &NodeState) -> Valued {
        let Some(group) = state.group else { return Valued::default() };
        let mut sums = [0; PAIRS + 1];
        for gpu in state.gpus.iter() {
            add(&mut sums, self.values_of(group, *gpu));
        }
        let mut totals = worths::<1>(state.cpu_milli, state.memory_mib);
        add(&mut totals, &sums);
        let places = self.places(group, state.cpu_milli, state.memory_mib, state.n_whole());
        Valued { sums, value: i64::from(least(&totals)), places }
    }

    /// Returns what the places for pods of several GPUs are worth together.
    pub(super) fn places(&self, group: u32, cpu_milli: i64, memory_mib: i64, n_whole: i64) -> i64 {
        if n_whole < 2 {
            return 0;
        }
        let admitted = self.places.iter().filter(|place| place.groups[group as usize]);
        admitted
            .map(|place| place.weight * copies(&place.demand, cpu_milli, memory_mib, n_whole))
            .sum()
    }

    /// Returns the key of the best way to place `demand` on a node in this state; [`Key::LAST`] if it
    /// doesn't fit.
    pub(super) fn key(&self, demand: &Demand, state: &NodeState, valued: &Valued) -> Key {
        let mut best = Key::LAST;
        self.each_outcome(demand, state, valued, |key, _| best = best.min(key));
        best
    }

    /// Calls `take` with the ways to place `demand` on a node in this state, each with its key, in no
    /// particular order. Never if it doesn't fit.
    pub(super) fn each_outcome(
        &self,
        demand: &Demand,
        state: &NodeState,
        valued: &Valued,
        mut take: impl FnMut(Key, Outcome),
    ) {
        if state.cpu_milli < demand.cpu_milli || state.memory_mib < demand.memory_mib {
            return;
        }
        let want = &*demand.want.of_replicas(state.replicas);
        let mut judge = None;
        want.each_outcome(&state.gpus, |outcome| {
            let judge = judge.get_or_insert_with(|| Judge::new(self, demand, want, state, valued));
            take(judge.key(&outcome), outcome);
        });
    }
}

/// Number of such pods that fit beside each other.
pub(super) fn copies(demand: &Demand, cpu_milli: i64, memory_mib: i64, n_whole: i64) -> i64 {
    let of = |free: i64, each: i64| if each > 0 { free.max(0) / each } else { i64::MAX };
    of(n_whole, demand.want.count())
        .min(of(cpu_milli, demand.cpu_milli))
        .min(of(memory_mib, demand.memory_mib))
}

impl Kind {
    pub(super) fn of(node: &Node, admits: &[Arc<Admits>], replicas: u16) -> Kind {
        let mut bits = vec![0u64; admits.len().div_ceil(64)];
        for (at, admits) in admits.iter().enumerate() {
            bits[at / 64] |= u64::from(admits.node(node)) << (at % 64);
        }
        Kind { admitted: bits.into(), replicas }
    }

    /// Tells whether the node admits what is at this place of [`Prices::admits`].
    pub(super) fn admits(&self, at: usize) -> bool {
        self.admitted.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}
