//! Nodes that PreFilter plugins leave of all.

use crate::framework::{NodeSet, Reason};
use crate::snapshot::NodeIdx;
use crate::types::Text;

/// Nodes that PreFilter plugins restricted the pod to.
#[derive(Default)]
pub(super) struct Only {
    pub(super) nodes: Option<NodeSet>,
    pub(super) plugins: Vec<&'static str>,
    /// What is said of a node that is left out.
    reason: Reason,
}

impl Only {
    pub(super) fn restrict(&mut self, plugin: &'static str, nodes: Vec<NodeIdx>) {
        let mut set: NodeSet = nodes.into_iter().collect();
        if let Some(known) = &self.nodes {
            set = set.intersection(known);
        }
        self.nodes = Some(set);
        self.plugins.push(plugin);
        let mut names = self.plugins.clone();
        names.sort_unstable();
        let text = format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
        self.reason = Reason::from(Text::from(text));
    }

    pub(super) fn names(&self, plugin: &str) -> bool {
        self.plugins.contains(&plugin)
    }

    pub(super) fn excludes(&self, node: NodeIdx) -> Option<Reason> {
        let nodes = self.nodes.as_ref()?;
        (!nodes.contains(node)).then(|| self.reason.clone())
    }
}
