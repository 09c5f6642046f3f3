//! What every node is worth at new prices, worked out a few nodes at a time while the old ones hold.

use std::sync::Arc;

use super::NodeEntry;
use super::drafting::Groups;
use super::prices::Prices;
use super::states::{NodeState, States};

#[derive(Debug)]
pub(super) struct Valuing {
    prices: Prices,
    groups: Groups,
    states: States,
    nodes: Vec<Option<NodeEntry>>,
}

impl Valuing {
    pub(super) fn new(prices: Prices, groups: Groups) -> Valuing {
        Valuing { prices, groups, states: States::default(), nodes: Vec::new() }
    }

    /// The node to be valued next.
    pub(super) fn at(&self) -> usize {
        self.nodes.len()
    }

    /// Values the next node. `states`: those of the old prices.
    pub(super) fn value(&mut self, entry: Option<&NodeEntry>, states: &States) {
        let valued = self.valued(self.nodes.len(), entry, states);
        self.nodes.push(valued);
    }

    fn valued(
        &mut self,
        at: usize,
        entry: Option<&NodeEntry>,
        states: &States,
    ) -> Option<NodeEntry> {
        let entry = entry?;
        let state = &states.slot(entry.slot)?.state;
        let known = self.groups.of(at, &entry.object);
        let group = known.or_else(|| self.prices.group_of(&entry.object, state.replicas));
        let state = NodeState { group, ..state.clone() };
        let slot = self.states.enter(state, &self.prices);
        Some(NodeEntry { version: entry.version, object: Arc::clone(&entry.object), group, slot })
    }

    /// Has the new prices hold. Nodes that have changed since they were valued are valued anew.
    pub(super) fn finish(
        mut self,
        nodes: &mut Vec<Option<NodeEntry>>,
        states: &mut States,
        prices: &mut Prices,
    ) {
        for (at, entry) in nodes.iter().enumerate() {
            let version = |entry: Option<&NodeEntry>| entry.map(|entry| entry.version);
            let known = self.nodes.get(at).and_then(Option::as_ref);
            if version(known) != version(entry.as_ref()) {
                let outdated = known.map(|known| known.slot);
                let valued = self.valued(at, entry.as_ref(), states);
                if let Some(slot) = outdated {
                    self.states.leave(slot);
                }
                self.nodes.resize(self.nodes.len().max(at + 1), None);
                self.nodes[at] = valued;
            }
        }
        self.nodes.resize(nodes.len(), None);
        self.states.follow(states);
        *nodes = self.nodes;
        *states = self.states;
        *prices = self.prices;
    }
}
