//! ComputeDomains: pods whose claims are for one channel share GPU memory over NVLink, which works
//! inside one clique of nodes only.
//!
//! A ComputeDomain has one template for the claims of its pods; so members that name one template, or
//! one claim, are in one domain. Source: NVIDIA/k8s-dra-driver-gpu, ComputeDomain and its DeviceClasses.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::framework::{Reason, Shared};
use berth_core::snapshot::devices::entries::PodClaimState;
use berth_core::snapshot::{Cluster, NodeSet};
use berth_core::types::group::TopologyConstraint;
use berth_core::types::{Pod, Text};

/// The class of a channel: what a pod needs to be in a ComputeDomain.
const CHANNEL: &str = "compute-domain-default-channel.nvidia.com";
/// The node label for nodes that share an NVLink fabric.
const CLIQUE: &str = "nvidia.com/gpu.clique";

/// What is made of ComputeDomains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ComputeDomains {
    pub(super) inside: Inside,
    /// No clique has pods of two of them.
    pub(super) exclusive: bool,
}

/// Whether members that share one are kept in one clique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Inside {
    #[default]
    Required,
    Preferred,
    Ignored,
}

/// A ComputeDomain, by what its pods name: namespace, template or claim, and which of the two.
type Domain = (Text, Text, bool);

impl ComputeDomains {
    /// Members that share one belong into one clique. Where no node is in any there are none to
    /// keep to.
    pub(super) fn shared(self, members: &[&Pod], cluster: &Cluster) -> Vec<Shared> {
        let level = Text::from(CLIQUE);
        let constraint = match self.inside {
            Inside::Required => TopologyConstraint::required(level),
            Inside::Preferred => TopologyConstraint::preferred(level),
            Inside::Ignored => return Vec::new(),
        };
        let mut domains: BTreeMap<Domain, Vec<usize>> = BTreeMap::new();
        for (at, pod) in members.iter().enumerate() {
            for domain in domains_of(pod, cluster) {
                domains.entry(domain).or_default().push(at);
            }
        }
        domains.retain(|_, members| members.len() > 1);
        let labelled =
            || cluster.nodes().iter().any(|(_, node)| node.labels.value(CLIQUE).is_some());
        if domains.is_empty() || !labelled() {
            return Vec::new();
        }
        let shared = |((_, name, _), members): (Domain, Vec<usize>)| {
            let name = format!("ComputeDomain {name}").into();
            Shared { name, members, constraint: constraint.clone() }
        };
        domains.into_iter().map(shared).collect()
    }

    /// Takes the cliques out that pods of other ComputeDomains are in, and returns how many. Their label
    /// must have been declared, as it is wherever some share one. Cost: O(pods on nodes that are in
    /// cliques).
    pub(super) fn leave_to_others(
        self,
        nodes: &mut NodeSet,
        members: &[&Pod],
        cluster: &Cluster,
    ) -> usize {
        if !self.exclusive || self.inside == Inside::Ignored {
            return 0;
        }
        let own: BTreeSet<Domain> =
            members.iter().flat_map(|pod| domains_of(pod, cluster)).collect();
        if own.is_empty() {
            return 0;
        }
        let mut n_taken = 0;
        for (_, clique) in cluster.domains().of(CLIQUE) {
            let mut pods = clique.iter().flat_map(|node| cluster.pods_on(node));
            let taken = pods.any(|pod| domains_of(pod, cluster).any(|it| !own.contains(&it)));
            if taken {
                *nodes = nodes.difference(clique);
                n_taken += 1;
            }
        }
        n_taken
    }

    /// What a group is told that finds no clique, as so many are others'.
    pub(super) fn all_taken(n_taken: usize) -> Reason {
        let text = format!(
            "{n_taken} of the domains of {CLIQUE} have pods of another ComputeDomain, and none is left; \
             wait until one of those is done, or set exclusiveCliques: false in \
             TopologyPlacementGeneratorArgs to share them"
        );
        Reason::from(Text::from(text))
    }
}

/// Returns the ComputeDomains that a pod has a channel of: one, as a rule.
fn domains_of(pod: &Pod, cluster: &Cluster) -> impl Iterator<Item = Domain> {
    let entries = pod.spec.claims.iter().filter(|entry| {
        let PodClaimState::Claim(key) = cluster.claim_of(pod, entry) else { return false };
        let Some(record) = cluster.devices().claim(&key) else { return false };
        record.claim.spec.demand.alternatives().any(|wanted| wanted.class == CHANNEL)
    });
    entries.map(|entry| (pod.namespace.clone(), entry.source.clone(), entry.from_template))
}

#[cfg(test)]
mod tests;
