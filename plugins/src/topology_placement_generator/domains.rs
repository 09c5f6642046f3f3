//! Cutting a set of nodes into the domains of a level.

use std::collections::BTreeMap;

use berth_core::snapshot::{Cluster, NodeIdx, NodeSet};
use berth_core::types::Text;

/// Nodes that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) name: Text,
    pub(super) nodes: NodeSet,
}

/// Cuts domains up by a label that was declared: nodes stay together that agree in it, and in the
/// labels `above` it. Nodes without the label are in no domain. Order: by domain, then value.
/// Cost: O(nodes · labels).
pub(super) fn cut(
    domains: &[Domain],
    label: &Text,
    above: &[&Text],
    cluster: &Cluster,
) -> Vec<Domain> {
    let values: Vec<(&Text, &NodeSet)> = cluster.domains().of(label).collect();
    let mut of_node: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    if domains.len() > 1 {
        let all = domains.iter().enumerate();
        of_node.extend(all.flat_map(|(at, it)| it.nodes.iter().map(move |node| (node, at))));
    }
    let mut parts: BTreeMap<(usize, &Text, Vec<Option<&Text>>), NodeSet> = BTreeMap::new();
    let nodes = cluster.nodes();
    for (value, members) in values {
        for node in members.iter() {
            let of = match domains {
                [only] => only.nodes.contains(node).then_some(0),
                _ => of_node.get(&node).copied(),
            };
            let Some(of) = of else { continue };
            let labels = nodes.node(node).map(|object| &object.labels);
            let path = above.iter().map(|label| labels?.value(label)).collect();
            parts.entry((of, value, path)).or_default().insert(node);
        }
    }
    let domain = |((_, value, path), nodes): ((usize, &Text, Vec<Option<&Text>>), NodeSet)| {
        let path: Vec<&str> = path.into_iter().flatten().chain([value]).map(|it| &**it).collect();
        Domain { name: path.join("/").into(), nodes }
    };
    parts.into_iter().map(domain).collect()
}
