//! What a placement on a node in one state loses, and the key that follows.

use super::demand::Demand;
use super::gpu::{Outcome, Want};
use super::grid::{Lanes, add, least, worths};
use super::key::{Base, Key};
use super::prices::{Prices, Valued};
use super::states::NodeState;

/// What opening a node costs of which every GPU is free, for who doesn't want all of them. Unit:
/// thousandths of a GPU. Source: chosen with the rule; for partitioned nodes, on MIG mixes.
const BREAK_COST: i64 = 5;
const BREAK_COST_PARTITIONED: i64 = 40;
/// Losses that differ by less than this are equal. Source: chosen with the rule.
const QUANTUM: i64 = 5;

/// Judges the ways to place one demand on nodes in one state: what they have in common is worked out
/// once.
pub(super) struct Judge<'a> {
    prices: &'a Prices,
    want: &'a Want,
    state: &'a NodeState,
    valued: &'a Valued,
    base: Base,
    /// CPU and memory that is left.
    cpu_milli: i64,
    memory_mib: i64,
    /// What the node's GPUs are worth as they are, with that.
    rest: Lanes,
    whole: i64,
    all_free: bool,
    /// What places for pods of several GPUs are worth then, without and with whole GPUs taken.
    places: [Option<i64>; 2],
}

impl<'a> Judge<'a> {
    /// `want`: what is taken on such a node. CPU and memory must be there.
    pub(super) fn new(
        prices: &'a Prices,
        demand: &Demand,
        want: &'a Want,
        state: &'a NodeState,
        valued: &'a Valued,
    ) -> Judge<'a> {
        let cpu_milli = state.cpu_milli - demand.cpu_milli;
        let memory_mib = state.memory_mib - demand.memory_mib;
        let mut rest = valued.sums;
        if state.group.is_some() {
            add(&mut rest, &worths::<1>(cpu_milli, memory_mib));
        }
        let whole = state.n_whole();
        let n_gpus = state.n_gpus();
        Judge {
            prices,
            want,
            state,
            valued,
            base: Key::before(state, demand, prices.gpus_max),
            cpu_milli,
            memory_mib,
            rest,
            whole,
            all_free: whole as usize == n_gpus && n_gpus >= prices.gpus_max,
            places: [None, None],
        }
    }

    pub(super) fn key(&mut self, outcome: &Outcome) -> Key {
        let key = self.base.after(self.want, self.state, outcome);
        let Some(group) = self.state.group else { return key };
        let mut loss = self.valued.value - self.value_after(group, outcome);
        loss += self.valued.places - self.places_after(group, outcome);
        let breaks = self.all_free
            && self.want.count() < self.prices.gpus_max as i64
            && (outcome.from.is_whole() || *self.want == Want::Nothing);
        if breaks {
            loss += if self.state.partitioned() { BREAK_COST_PARTITIONED } else { BREAK_COST };
        }
        key.with_loss(loss.div_euclid(QUANTUM))
    }

    fn places_after(&mut self, group: u32, outcome: &Outcome) -> i64 {
        let opened = if outcome.from.is_whole() { self.want.count() } else { 0 };
        let Judge { prices, cpu_milli, memory_mib, whole, places, .. } = self;
        let after = || prices.places(group, *cpu_milli, *memory_mib, *whole - opened);
        *places[usize::from(opened > 0)].get_or_insert_with(after)
    }

    fn value_after(&self, group: u32, outcome: &Outcome) -> i64 {
        let mut totals = self.rest;
        if *self.want != Want::Nothing {
            for (from, to) in outcome.after(&self.state.gpus, self.want) {
                let from = self.prices.values_of(group, from);
                let to = self.prices.values_of(group, to);
                for (lane, total) in totals.iter_mut().enumerate() {
                    *total += to[lane] - from[lane];
                }
            }
        }
        i64::from(least(&totals))
    }
}
