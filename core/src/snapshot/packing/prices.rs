//! The prices that a solve has found, and what a node's state is worth by them. Integers only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::Node;

use super::demand::{Admits, Demand};
use super::gpu::{GpuFree, Outcome, Want};
use super::grid::{GRID, PAIRS};
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
    /// By group, pair and cell: what is free of a GPU is worth so much.
    pub(super) values: Vec<i32>,
    pub(super) n_cells: usize,
    pub(super) places: Vec<Place>,
    /// Largest number of GPUs on one node.
    pub(super) gpus_max: usize,
}

/// What is known of a state beside what is free.
#[derive(Clone, Debug)]
pub(super) struct Valued {
    /// Sum over its GPUs, by pair.
    sums: [i32; PAIRS],
    value: i64,
    places: i64,
}

impl Default for Valued {
    fn default() -> Valued {
        Valued { sums: [0; PAIRS], value: 0, places: 0 }
    }
}

impl Prices {
    /// Returns the group of a node, `None` if no node of its kind was there at the solve.
    pub(super) fn group_of(&self, node: &Node) -> Option<u32> {
        self.groups.get(&admitted(&self.admits, node)).copied()
    }

    fn values_of(&self, group: u32, pair: usize) -> &[i32] {
        let start = (group as usize * PAIRS + pair) * self.n_cells;
        &self.values[start..start + self.n_cells]
    }

    fn cell(&self, gpu: GpuFree) -> usize {
        // Partitioned GPUs that were not there at the solve are worth nothing to anybody.
        if gpu.cell() < self.n_cells { gpu.cell() } else { 0 }
    }

    /// Values a state. Cost: O(pairs × GPUs).
    pub(super) fn value(&self, state: &NodeState) -> Valued {
        let Some(group) = state.group else { return Valued::default() };
        let mut sums = [0; PAIRS];
        for (pair, sum) in sums.iter_mut().enumerate() {
            let values = self.values_of(group, pair);
            *sum = state.gpus.iter().map(|gpu| values[self.cell(*gpu)]).sum();
        }
        let worth = |pair: usize| GRID[pair].worth(state.cpu_milli, state.memory_mib, 1);
        let value = (0..PAIRS).map(|pair| worth(pair) + i64::from(sums[pair])).min().unwrap_or(0);
        let places = self.places(group, state.cpu_milli, state.memory_mib, state.n_whole());
        Valued { sums, value, places }
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
        let worth: [i64; PAIRS] = std::array::from_fn(|pair| GRID[pair].worth(cpu, memory, 1));
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
            let value = self.value_after(group, &worth, valued, demand, state, &outcome);
            let mut loss = valued.value - value + valued.places - left;
            if breaks {
                loss += if state.partitioned() { BREAK_COST_PARTITIONED } else { BREAK_COST };
            }
            (key.with_loss(loss.div_euclid(QUANTUM)), outcome)
        });
        outcomes.collect()
    }

    fn value_after(
        &self,
        group: u32,
        worth: &[i64; PAIRS],
        valued: &Valued,
        demand: &Demand,
        state: &NodeState,
        outcome: &Outcome,
    ) -> i64 {
        let changed: Vec<(usize, usize)> = outcome
            .after(&state.gpus, &demand.want)
            .map(|(from, to)| (self.cell(from), self.cell(to)))
            .collect();
        let at = |pair: usize| {
            let values = self.values_of(group, pair);
            let change: i32 = changed.iter().map(|(from, to)| values[*to] - values[*from]).sum();
            worth[pair] + i64::from(valued.sums[pair] + change)
        };
        (0..PAIRS).map(at).min().unwrap_or(0)
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
