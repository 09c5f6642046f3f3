//! The order of choice, in one number: the least is best.

use super::demand::Demand;
use super::gpu::{GpuFree, Outcome, WHOLE_MILLI, Want};
use super::states::NodeState;

/// Parts, the first above all: a pod without GPUs takes a node with some; how much is lost (as
/// quanta); the node has as many GPUs as any; what is idle afterwards; how broken it is (or how many
/// cores are left).
///
/// Unit of the idle part: thousandths of a GPU. The last part is the largest sum of squares first,
/// which keeps whole GPUs whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(i64);

const LAST_BITS: u32 = 26;
const IDLE_BITS: u32 = 16;
const LOSS_BITS: u32 = 18;
const LAST_MAX: i64 = (1 << LAST_BITS) - 1;
const IDLE_MAX: i64 = (1 << IDLE_BITS) - 1;
const LOSS_MAX: i64 = (1 << LOSS_BITS) - 1;
const LARGE_AT: u32 = LAST_BITS + IDLE_BITS;
const LOSS_AT: u32 = LARGE_AT + 1;
const MISPLACED_AT: u32 = LOSS_AT + LOSS_BITS;
/// No loss.
const LOSS_ZERO: i64 = 1 << (LOSS_BITS - 1);

/// What the keys of all outcomes on a node have in common.
pub(super) struct Base {
    /// Sum over the node's GPUs.
    idle: i64,
    squares: i64,
    cores_left: i64,
    head: i64,
    by_cores: bool,
}

impl Key {
    /// Stands behind every node that takes the pod.
    pub const LAST: Key = Key(i64::MAX);

    /// The number: the least is best. Never negative.
    pub fn number(self) -> i64 {
        self.0
    }

    /// Returns how much is lost, in steps, from the greatest gain there can be.
    pub fn loss_steps(number: i64) -> i64 {
        number >> LOSS_AT
    }

    pub(super) fn before(state: &NodeState, demand: &Demand, gpus_max: usize) -> Base {
        let square = |gpu: &GpuFree| gpu.idle_milli() * gpu.idle_milli();
        let large = !state.gpus.is_empty() && state.n_gpus() >= gpus_max;
        let misplaced = demand.want == Want::Nothing && !state.gpus.is_empty();
        Base {
            idle: state.idle_milli(),
            squares: state.gpus.iter().map(square).sum(),
            cores_left: (state.cpu_milli - demand.cpu_milli).max(0),
            head: i64::from(misplaced) << MISPLACED_AT
                | i64::from(large && state.group.is_some()) << LARGE_AT,
            by_cores: state.group.is_none(),
        }
    }

    pub(super) fn with_loss(self, quanta: i64) -> Key {
        let loss = (quanta + LOSS_ZERO).clamp(0, LOSS_MAX);
        Key(self.0 & !(LOSS_MAX << LOSS_AT) | loss << LOSS_AT)
    }
}

impl Base {
    /// Returns the key of an outcome that loses nothing.
    pub(super) fn after(&self, want: &Want, state: &NodeState, outcome: &Outcome) -> Key {
        let (mut idle, mut squares) = (self.idle, self.squares);
        if *want != Want::Nothing {
            for (from, to) in outcome.after(&state.gpus, want) {
                let (from, to) = (from.idle_milli(), to.idle_milli());
                idle += to - from;
                squares += to * to - from * from;
            }
        }
        let last = match self.by_cores {
            true => self.cores_left.min(LAST_MAX),
            // Down to hundredths of a GPU squared where there are very many GPUs.
            false => (LAST_MAX - squares / squares_unit(state.n_gpus())).max(0),
        };
        Key(self.head | idle.clamp(0, IDLE_MAX) << LAST_BITS | last).with_loss(0)
    }
}

/// Sixty-four whole GPUs fit into the last part as they are; what there is of more is cut.
fn squares_unit(gpus: usize) -> i64 {
    let most = gpus as i64 * WHOLE_MILLI * WHOLE_MILLI;
    most / LAST_MAX + 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn state(group: Option<u32>, gpus: &[i64]) -> NodeState {
        let gpus: Arc<[GpuFree]> = gpus.iter().map(|m| GpuFree::milli(*m)).collect();
        NodeState { group, cpu_milli: 96_000, memory_mib: 1 << 19, gpus, replicas: 1 }
    }

    fn key(state: &NodeState, demand: &Demand, quanta: i64) -> Key {
        let base = Key::before(state, demand, 4);
        let mut keys = Vec::new();
        let take = |outcome| keys.push(base.after(&demand.want, state, &outcome));
        demand.want.each_outcome(&state.gpus, take);
        keys[0].with_loss(quanta)
    }

    #[test]
    fn loss_then_size_then_idle_then_wholeness() {
        let one = Demand { want: Want::whole(1), ..Demand::default() };
        let small = state(Some(0), &[1000, 1000]);
        let large = state(Some(0), &[0, 0, 0, 1000]);
        assert!(key(&large, &one, -1) < key(&small, &one, 0));
        assert!(key(&small, &one, 0) < key(&large, &one, 0));
        let busy = state(Some(0), &[0, 1000]);
        assert!(key(&busy, &one, 3) < key(&small, &one, 3));
        let (broken, whole) = (state(Some(0), &[500, 500, 1000]), state(Some(0), &[0, 1000, 1000]));
        assert!(key(&whole, &one, 0) < key(&broken, &one, 0));
    }

    #[test]
    fn without_prices_fewest_cores_decide_among_equally_idle_nodes() {
        let one = Demand { want: Want::whole(1), ..Demand::default() };
        let fuller = NodeState { cpu_milli: 8_000, ..state(None, &[0, 1000]) };
        assert!(key(&fuller, &one, 0) < key(&state(None, &[0, 1000]), &one, 0));
        assert!(key(&state(None, &[0, 1000]), &one, 0) < key(&state(None, &[1000, 1000]), &one, 0));
    }

    #[test]
    fn a_pod_without_gpus_goes_where_there_are_none() {
        let none = Demand { cpu_milli: 1_000, ..Demand::default() };
        assert!(key(&state(Some(0), &[]), &none, 400) < key(&state(Some(0), &[0, 0]), &none, 0));
    }
}
