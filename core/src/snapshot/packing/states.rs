//! The distinct states of nodes: nodes of which as much is free are looked at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::gpu::GpuFree;
use super::prices::{Prices, Valued};

/// What of a node's state decides about its worth.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeState {
    /// Nodes of one group admit the same demands; `None`: its kind is not known to the prices.
    pub(super) group: Option<u32>,
    pub cpu_milli: i64,
    pub memory_mib: i64,
    /// Ascending. Where GPUs are given out in replicas, an entry is a replica.
    pub gpus: Arc<[GpuFree]>,
    /// Of each GPU, by a device plugin that shares them by time; 1 where none does.
    pub replicas: u16,
}

impl NodeState {
    pub fn idle_milli(&self) -> i64 {
        self.gpus.iter().map(|gpu| gpu.idle_milli()).sum()
    }

    pub(super) fn n_gpus(&self) -> usize {
        self.gpus.len() / usize::from(self.replicas.max(1))
    }

    /// Number of GPUs of which nothing is taken. Replicas are given out one by one.
    pub(super) fn n_whole(&self) -> i64 {
        self.gpus.iter().filter(|gpu| gpu.is_whole()).count() as i64
    }

    pub(super) fn partitioned(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.free_slices().is_some())
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) state: NodeState,
    /// Number of nodes that are in it.
    pub(super) nodes: u32,
    pub(super) valued: Valued,
}

/// States by dense index; an index is used again once no node is in the state.
#[derive(Debug, Default)]
pub(super) struct States {
    slots: Vec<Option<Slot>>,
    by_state: BTreeMap<NodeState, u32>,
    free: Vec<u32>,
    /// Indices in the order in which states were put there, since `epoch` moved.
    made: Vec<u32>,
    /// Moves when everything that was worked out for states is void.
    epoch: u64,
}

/// The log begins anew after so many entries.
const MADE_MAX: usize = 1 << 16;

impl States {
    pub(super) fn slot(&self, at: u32) -> Option<&Slot> {
        self.slots.get(at as usize)?.as_ref()
    }

    /// Returns every index, with its state if there is one.
    pub(super) fn slots(&self) -> &[Option<Slot>] {
        &self.slots
    }

    /// One more node is in this state.
    pub(super) fn enter(&mut self, state: NodeState, prices: &Prices) -> u32 {
        if let Some(at) = self.by_state.get(&state).copied() {
            if let Some(slot) = &mut self.slots[at as usize] {
                slot.nodes += 1;
            }
            return at;
        }
        let valued = prices.value(&state);
        let slot = Some(Slot { state: state.clone(), nodes: 1, valued });
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.by_state.insert(state, at);
        if self.made.len() == MADE_MAX {
            self.epoch += 1;
            self.made.clear();
        }
        self.made.push(at);
        at
    }

    /// One node less is in this state.
    pub(super) fn leave(&mut self, at: u32) {
        let Some(slot) = self.slots.get_mut(at as usize).and_then(Option::as_mut) else { return };
        slot.nodes -= 1;
        if slot.nodes == 0 {
            self.by_state.remove(&slot.state);
            self.slots[at as usize] = None;
            self.free.push(at);
        }
    }

    /// Takes the place of `old`: nothing that was worked out for its states holds here.
    pub(super) fn follow(&mut self, old: &States) {
        self.epoch += old.epoch + 1;
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the indices at which states were put after the first `read` of this epoch.
    pub(super) fn made_since(&self, read: usize) -> &[u32] {
        self.made.get(read..).unwrap_or_default()
    }

    pub(super) fn n_made(&self) -> usize {
        self.made.len()
    }
}
