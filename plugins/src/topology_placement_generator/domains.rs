//! Cutting a set of nodes into the domains of a level.

use berth_core::snapshot::{Cluster, NodeSet};
use berth_core::types::Text;

/// Nodes that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    /// The value of its label, behind those of the levels above.
    pub(super) name: Text,
    pub(super) nodes: NodeSet,
}

/// What is done with nodes that have no value of a label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    AreTogether,
    AreLeftOut,
}

/// Cuts domains up by HyperNodes of one tier and those below it that are in none of it.
/// Cost: domains · HyperNodes, and the span of the nodes of each.
pub(super) fn cut_by_tier(domains: &[Domain], tier: u32, cluster: &Cluster) -> Vec<Domain> {
    let mut parts = Vec::new();
    for domain in domains {
        for (name, nodes) in cluster.topologies().hyper_nodes().domains(tier) {
            let both = nodes.intersection(&domain.nodes);
            if !both.is_empty() {
                parts.push(Domain { name: name.clone(), nodes: both });
            }
        }
    }
    parts
}

/// Cuts domains up by a label that was declared: nodes stay together that agree in it, and in the
/// labels `above` it. Nodes without the label are in no domain. Order: by domain, then values.
/// Cost: for each label, domains · values, and the span of each value's nodes.
pub(super) fn cut(
    domains: &[Domain],
    label: &Text,
    above: &[Text],
    cluster: &Cluster,
) -> Vec<Domain> {
    let mut parts = Vec::new();
    for domain in domains {
        let mut inside = vec![Domain { name: Text::default(), nodes: domain.nodes.clone() }];
        for label in above {
            inside = by_label(inside, label, Others::AreTogether, cluster);
        }
        parts.extend(by_label(inside, label, Others::AreLeftOut, cluster));
    }
    parts
}

fn by_label(parts: Vec<Domain>, label: &Text, others: Others, cluster: &Cluster) -> Vec<Domain> {
    let mut cut = Vec::new();
    for Domain { name, nodes } in parts {
        let mut left = nodes.len();
        let mut rest = nodes.clone();
        for (value, members) in cluster.domains().of(label) {
            if left == 0 {
                break;
            }
            let both = members.intersection(&nodes);
            if both.is_empty() {
                continue;
            }
            left -= both.len();
            if others == Others::AreTogether {
                rest = rest.difference(&both);
            }
            let name =
                if name.is_empty() { value.clone() } else { format!("{name}/{value}").into() };
            cut.push(Domain { name, nodes: both });
        }
        if others == Others::AreTogether && left > 0 {
            cut.push(Domain { name, nodes: rest });
        }
    }
    cut
}
