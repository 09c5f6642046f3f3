//! The prices that a solve has found, and what a node's state is worth by them. Integers only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Node;

use super::demand::{Admits, Demand};
use super::gpu::{GpuFree, Outcome, Want};
use super::grid::{GRID, Lanes, PAIRS, add, least, worths};
use super::key::Key;
use super::states::NodeState;

/// What opening a node costs of which every GPU is free, for who doesn't want all of them. Unit:
/// thousandths of a GPU. Source: chosen with the rule; for partitioned nodes, on MIG mixes.
const BREAK_COST: i64 = 5;
const BREAK_COST_PARTITIONED: i64 = 40;
/// Losses that differ by less than this are equal. Source: chosen with the rule.
const QUANTUM: i64 = 5;

/// Which classes a node admits: one bit for each of [`Prices::admits`].
pub(super) type Admitted = Box<[u64]>;

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
    pub(super) admits: Vec<Arc<Admits>>,
    pub(super) groups: BTreeMap<Admitted, u32>,
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
    sums: Lanes,
    value: i64,
    places: i64,
}

impl Default for Valued {
    fn default() -> Valued {
        Valued { sums: [0; PAIRS + 1], value: 0, places: 0 }
    }
}

impl Prices {
    /// Returns the group of a node, `None` if no node of its kind was there at the solve.
    pub(super) fn group_of(&self, node: &Node) -> Option<u32> {
        self.groups.get(&admitted(&self.admits, node)).copied()
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
    fn values_of(&self, group: u32, gpu: GpuFree) -> &Lanes {
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
        let mut totals = worths(state.cpu_milli, state.memory_mib, 1);
        add(&mut totals, &sums);
        let places = self.places(group, state.cpu_milli, state.memory_mib, state.n_whole());
        Valued { sums, value: i64::from(least(&totals)), places }
    }

    /// Returns what the places for pods of several GPUs are worth together.
    fn places(&self, group: u32, cpu_milli: i64, memory_mib: i64, n_whole: i64) -> i64 {
        if n_whole < 2 {
            return 0;
        }
        let admitted = self.places.iter().filter(|place| place.groups[group as usize]);
        admitted
            .map(|place| place.weight * copies(&place.demand, cpu_milli, memory_mib, n_whole))
            .sum()
    }

    /// Returns the ways to place `demand` on a node in this state, each with its key, in no
    /// particular order. None if it doesn't fit.
    pub(super) fn outcomes(
        &self,
        demand: &Demand,
        state: &NodeState,
        valued: &Valued,
    ) -> Vec<(Key, Outcome)> {
        let cpu = state.cpu_milli - demand.cpu_milli;
        let memory = state.memory_mib - demand.memory_mib;
        if cpu < 0 || memory < 0 {
            return Vec::new();
        }
        let mut rest = valued.sums;
        if state.group.is_some() {
            add(&mut rest, &worths(cpu, memory, 1));
        }
        let whole = state.n_whole();
        let all_free = whole as usize == state.gpus.len() && whole as usize >= self.gpus_max;
        let base = Key::before(state, demand, self.gpus_max);
        let mut places: [Option<i64>; 2] = [None, None];
        let outcomes = demand.want.outcomes(&state.gpus).into_iter().map(|outcome| {
            let key = base.after(&demand.want, state, &outcome);
            let Some(group) = state.group else { return (key, outcome) };
            let breaks = all_free
                && demand.want.count() < self.gpus_max as i64
                && (outcome.from.is_whole() || demand.want == Want::Nothing);
            let opened = if outcome.from.is_whole() { demand.want.count() } else { 0 };
            let left = *places[usize::from(opened > 0)]
                .get_or_insert_with(|| self.places(group, cpu, memory, whole - opened));
            let value = self.value_after(group, &rest, demand, state, &outcome);
            let mut loss = valued.value - value + valued.places - left;
            if breaks {
                loss += if state.partitioned() { BREAK_COST_PARTITIONED } else { BREAK_COST };
            }
            (key.with_loss(loss.div_euclid(QUANTUM)), outcome)
        });
        outcomes.collect()
    }

    /// `rest`: what the node's GPUs are worth as they are, with the CPU and memory that is left.
    fn value_after(
        &self,
        group: u32,
        rest: &Lanes,
        demand: &Demand,
        state: &NodeState,
        outcome: &Outcome,
    ) -> i64 {
        let mut totals = *rest;
        if demand.want != Want::Nothing {
            for (from, to) in outcome.after(&state.gpus, &demand.want) {
                let (from, to) = (self.values_of(group, from), self.values_of(group, to));
                for (lane, total) in totals.iter_mut().enumerate() {
                    *total += to[lane] - from[lane];
                }
            }
        }
        i64::from(least(&totals))
    }
}

/// Number of such pods that fit beside each other.
pub(super) fn copies(demand: &Demand, cpu_milli: i64, memory_mib: i64, n_whole: i64) -> i64 {
    let of = |free: i64, each: i64| if each > 0 { free.max(0) / each } else { i64::MAX };
    of(n_whole, demand.want.count())
        .min(of(cpu_milli, demand.cpu_milli))
        .min(of(memory_mib, demand.memory_mib))
}

/// Shape: one bit for each of `admits`.
pub(super) fn admitted(admits: &[Arc<Admits>], node: &Node) -> Admitted {
    let mut bits = vec![0u64; admits.len().div_ceil(64)];
    for (at, admits) in admits.iter().enumerate() {
        bits[at / 64] |= u64::from(admits.node(node)) << (at % 64);
    }
    bits.into()
}
