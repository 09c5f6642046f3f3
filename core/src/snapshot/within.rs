//! The nodes among which a member of a group is being placed: what is counted by domains for it is
//! counted there, as if there were no others.
//!
//! Source: a group's placement in upstream's snapshot (1.37), which alone PreFilter plugins see.

use std::sync::Arc;

use super::changes::Version;
use super::cluster::Cluster;
use super::node_set::NodeSet;

#[derive(Debug, Default)]
pub(super) struct Within {
    nodes: Option<Arc<NodeSet>>,
    version: Version,
    /// The last nodes, with their version: a group's members come back to them.
    last: Option<(Arc<NodeSet>, Version)>,
}

impl Within {
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Everything counts again.
    pub(super) fn leave(&mut self) {
        (self.nodes, self.version) = (None, Version::default());
    }
}

impl Cluster {
    /// Returns the nodes that count for the pod being looked at; `None` for all.
    pub fn within(&self) -> Option<&Arc<NodeSet>> {
        self.within.nodes.as_ref()
    }

    pub(super) fn keep_within(&mut self, nodes: Option<Arc<NodeSet>>) {
        let Some(nodes) = nodes.filter(|nodes| nodes.len() < self.nodes.len()) else {
            return self.within.leave();
        };
        let known = self.within.last.as_ref().filter(|(last, _)| *last == nodes);
        let version = match known {
            Some((_, version)) => *version,
            None => self.nodes.fresh_version(),
        };
        self.within = Within { nodes: Some(nodes.clone()), version, last: Some((nodes, version)) };
    }
}
