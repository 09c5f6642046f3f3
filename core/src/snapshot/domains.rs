//! Nodes by the values of labels: the domains of a topology, such as racks.
//!
//! An index is kept for a label once it has been declared, and follows nodes from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::{Node, Text};

use super::node_set::NodeSet;
use super::nodes::{NodeIdx, Nodes};

/// Labels that are kept at a time. Users name them: with more, all are dropped and begun anew. One
/// question needs fewer: a constraint has at most 16 levels above it, and a group a few constraints.
const LABELS_MAX: usize = 256;

/// Domains by label.
#[derive(Debug, Default)]
pub struct Domains {
    of: BTreeMap<Text, BTreeMap<Text, NodeSet>>,
}

impl Domains {
    /// Returns the nodes of each value of a label, in order of values; nothing for a label that
    /// wasn't declared.
    pub fn of(&self, label: &str) -> impl Iterator<Item = (&Text, &NodeSet)> {
        self.of.get(label).into_iter().flatten()
    }

    /// Keeps an index for `label` from now on. Cost: O(nodes) the first time.
    pub(super) fn declare(&mut self, label: &Text, nodes: &Nodes) {
        if self.of.contains_key(label) {
            return;
        }
        if self.of.len() >= LABELS_MAX {
            self.of.clear();
        }
        let mut values: BTreeMap<Text, NodeSet> = BTreeMap::new();
        for (at, node) in nodes.iter() {
            if let Some(value) = node.labels.value(label) {
                values.entry(value.clone()).or_default().insert(at);
            }
        }
        self.of.insert(label.clone(), values);
    }

    /// A node has come, changed or gone. Cost: O(labels kept).
    pub(super) fn replace(&mut self, at: NodeIdx, old: Option<&Node>, new: Option<&Arc<Node>>) {
        for (label, values) in &mut self.of {
            let was = old.and_then(|node| node.labels.value(label));
            let is = new.and_then(|node| node.labels.value(label));
            if was == is {
                continue;
            }
            if let Some(was) = was
                && let Some(nodes) = values.get_mut(was)
            {
                nodes.remove(at);
                if nodes.is_empty() {
                    values.remove(was);
                }
            }
            if let Some(is) = is {
                values.entry(is.clone()).or_default().insert(at);
            }
        }
    }
}
