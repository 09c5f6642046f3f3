//! Index of pod counts: how many pods that a selector selects run on each node.
//!
//! A plugin declares the queries it will ask ([`CountQuery`]); the ledger counts them once and
//! folds every later change, overlays included. Source of the rule which pods count: upstream's
//! PodTopologySpread (same namespace, not terminating, not ended).

use std::collections::BTreeMap;

use crate::types::{LabelSelector, Pod, Text};

use super::changes::Version;
use super::nodes::NodeIdx;

/// Which pods are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountQuery {
    pub namespace: Text,
    pub selector: LabelSelector,
}

impl CountQuery {
    fn counts(&self, pod: &Pod) -> bool {
        !pod.terminating && self.selector.selects(&pod.labels)
    }
}

/// Counts per node of one query.
#[derive(Debug, Default)]
pub struct CountColumn {
    per_node: Vec<u32>,
    version: Version,
    last_used: u64,
}

impl CountColumn {
    pub fn on(&self, node: NodeIdx) -> u32 {
        self.per_node.get(node.at()).copied().unwrap_or(0)
    }

    /// Moves with every change of any count of this query.
    pub fn version(&self) -> Version {
        self.version
    }
}

/// The declared queries; those unused longest go first when there are more than [`QUERIES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    by_namespace: BTreeMap<Text, BTreeMap<LabelSelector, CountColumn>>,
    total: usize,
    clock: u64,
}

pub(crate) const QUERIES_MAX: usize = 4096;

impl Counts {
    pub(crate) fn column(&self, query: &CountQuery) -> Option<&CountColumn> {
        self.by_namespace.get(&query.namespace)?.get(&query.selector)
    }

    /// Marks the query as used; returns false if it must be counted first.
    pub(crate) fn use_again(&mut self, query: &CountQuery) -> bool {
        self.clock += 1;
        let column =
            self.by_namespace.get_mut(&query.namespace).and_then(|q| q.get_mut(&query.selector));
        match column {
            Some(column) => {
                column.last_used = self.clock;
                true
            }
            None => false,
        }
    }

    /// Starts counting `query` from the pods placed now. Cost: O(pods).
    pub(crate) fn start<'a>(
        &mut self,
        query: CountQuery,
        placed: impl Iterator<Item = (&'a Pod, NodeIdx)>,
        version: Version,
    ) {
        if self.total >= QUERIES_MAX {
            self.drop_oldest();
        }
        let mut column = CountColumn { version, last_used: self.clock, ..CountColumn::default() };
        for (pod, node) in placed {
            if pod.namespace == query.namespace && query.counts(pod) {
                bump(&mut column.per_node, node, 1);
            }
        }
        self.by_namespace.entry(query.namespace).or_default().insert(query.selector, column);
        self.total += 1;
    }

    fn drop_oldest(&mut self) {
        let oldest = self
            .by_namespace
            .iter()
            .flat_map(|(ns, queries)| queries.iter().map(move |(s, c)| (c.last_used, ns, s)))
            .min()
            .map(|(_, namespace, selector)| (namespace.clone(), selector.clone()));
        let Some((namespace, selector)) = oldest else { return };
        if let Some(queries) = self.by_namespace.get_mut(&namespace) {
            queries.remove(&selector);
            self.total -= 1;
        }
    }

    /// Folds one pod's arrival (+1) or departure (−1).
    pub(crate) fn fold(&mut self, pod: &Pod, node: NodeIdx, by: i32, version: Version) {
        let Some(queries) = self.by_namespace.get_mut(&pod.namespace) else { return };
        if pod.terminating {
            return;
        }
        for (selector, column) in queries {
            if selector.selects(&pod.labels) {
                bump(&mut column.per_node, node, by);
                column.version = version;
            }
        }
    }
}

fn bump(per_node: &mut Vec<u32>, node: NodeIdx, by: i32) {
    if per_node.len() <= node.at() {
        per_node.resize(node.at() + 1, 0);
    }
    debug_assert!(by >= 0 || per_node[node.at()] > 0, "a pod leaves that was not counted");
    per_node[node.at()] = per_node[node.at()].saturating_add_signed(by);
}
