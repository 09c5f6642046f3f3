//! Pods by UID, and where each stands.

use crate::types::Pod;

use super::nodes::NodeIdx;

/// Where a pod stands in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has no node, or has ended: it takes nothing.
    Nowhere,
    /// Decided here, not yet seen on the object: it takes its place all the same.
    Assumed(NodeIdx),
    /// `spec.nodeName` names the node.
    Bound(NodeIdx),
}

impl Place {
    pub fn node(self) -> Option<NodeIdx> {
        match self {
            Place::Nowhere => None,
            Place::Assumed(node) | Place::Bound(node) => Some(node),
        }
    }
}

#[derive(Clone, Debug)]
pub struct PodRecord {
    pub pod: Pod,
    pub place: Place,
}
