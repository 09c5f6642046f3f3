//! TopologyPlacementGenerator: a group that must stay together goes into one domain of a topology.
//!
//! A domain is made of the nodes that have the same value of a label, or that a HyperNode lists. Where
//! the arguments or an object name levels above that label, nodes in one domain agree in those too, so
//! racks of the same name in two blocks are two racks.
//!
//! Source of the verdicts: `plugins/topologyaware` of kube-scheduler 1.37, which knows one required
//! label. Preferred levels are those of Kueue's topology-aware scheduling: where no domain of one
//! holds the group, the level above is tried.

mod args;
mod compute_domains;
mod domains;
mod hints;
mod levels;

use std::sync::Arc;

use berth_core::framework::{
    Args, Placement, PlacementAsk, PlacementGenerate, PluginDef, Points, Reason, Shared,
};
use berth_core::snapshot::{Cluster, NodeIdx, NodeSet};
use berth_core::types::group::TopologyConstraint;
use berth_core::types::tree::Level;
use berth_core::types::{Pod, Text};

use compute_domains::ComputeDomains;
use domains::Domain;
use levels::Meant;

const NAME: &str = "TopologyPlacementGenerator";
const HOSTNAME: &str = "kubernetes.io/hostname";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "puts a group that must stay together into one domain of a topology",
    missing: None,
    build,
};

struct TopologyPlacementGenerator {
    /// From the largest domains to the smallest.
    levels: Vec<Level>,
    compute_domains: ComputeDomains,
}

fn build(args: &Args, points: &mut Points) {
    let plugin = Arc::new(TopologyPlacementGenerator {
        levels: args::levels(args),
        compute_domains: args::compute_domains(args),
    });
    points.placement_generate(plugin.clone());
    points.interest(plugin);
}

impl PlacementGenerate for TopologyPlacementGenerator {
    fn labels(&self, constraints: &[TopologyConstraint], cluster: &Cluster) -> Vec<Text> {
        let meant = constraints.iter().filter_map(|it| self.meant(&it.level, cluster).ok());
        meant.flat_map(Meant::labels).collect()
    }

    fn shared(&self, members: &[&Pod], cluster: &Cluster) -> Vec<Shared> {
        self.compute_domains.shared(members, cluster)
    }

    /// Cost: O(nodes) for each level that is asked for.
    fn placements(
        &self,
        ask: PlacementAsk<'_>,
        cluster: &Cluster,
    ) -> Result<Vec<Placement>, Reason> {
        let everything = || cluster.nodes().iter().map(|(node, _)| node).collect();
        let mut nodes = ask.within.cloned().unwrap_or_else(everything);
        let n_taken = self.compute_domains.leave_to_others(&mut nodes, ask.members, cluster);
        let start = Domain { name: "all nodes".into(), nodes };
        let (mut required, mut levels) = (vec![start], Vec::new());
        for constraint in ask.constraints.iter().filter(|it| it.required) {
            let meant = self.meant(&constraint.level, cluster)?;
            required = meant.cut(&required, cluster);
            let running = running(&ask, constraint);
            if !running.is_empty() {
                required = vec![running_in(required, &meant, &running, cluster)?];
            }
            levels.push(meant);
        }
        let wish = ask.constraints.iter().find(|it| !it.required);
        let running = wish.map_or_else(|| ask.running.to_vec(), |wish| running(&ask, wish));
        let tiers = self.tiers(ask.constraints, &levels, cluster);
        let mut placements = Vec::new();
        for (tier, meant) in (0..).zip(&tiers) {
            let mut domains = meant.cut(&required, cluster);
            domains.retain(|it| running.iter().all(|node| it.nodes.contains(*node)));
            placements.extend(domains.into_iter().map(|it| it.placement(tier)));
        }
        let last = tiers.len() as u32;
        placements.extend(required.into_iter().map(|it| it.placement(last)));
        if placements.is_empty() && n_taken > 0 {
            return Err(ComputeDomains::all_taken(n_taken));
        }
        Ok(placements)
    }
}

impl TopologyPlacementGenerator {
    /// Returns what is to be tried one after the other: the wished level, and larger domains as far
    /// as they are inside what is required.
    fn tiers(
        &self,
        constraints: &[TopologyConstraint],
        required: &[Meant],
        cluster: &Cluster,
    ) -> Vec<Meant> {
        let mut wishes = constraints.iter().filter(|it| !it.required);
        let wished = wishes.find_map(|wish| self.wished(&wish.level, cluster));
        let chain = wished.into_iter().flat_map(|wished| wished.and_above(cluster));
        chain.take_while(|meant| !required.iter().any(|it| it.reached_by(meant))).collect()
    }
}

impl Domain {
    fn placement(self, tier: u32) -> Placement {
        Placement { name: self.name, nodes: self.nodes, tier }
    }
}

/// Returns the nodes of the pods that a constraint is about and that run already.
fn running(ask: &PlacementAsk<'_>, constraint: &TopologyConstraint) -> Vec<NodeIdx> {
    let peers = ask.peers.iter().filter(|_| constraint.span.is_some());
    ask.running.iter().chain(peers).copied().collect()
}

/// Pods that run already say where the others go.
fn running_in(
    domains: Vec<Domain>,
    level: &Meant,
    running: &[NodeIdx],
    cluster: &Cluster,
) -> Result<Domain, Reason> {
    let inside = |nodes: &NodeSet| running.iter().all(|node| nodes.contains(*node));
    if let Some(domain) = domains.iter().find(|it| inside(&it.nodes)) {
        return Ok(domain.clone());
    }
    let all = Domain { name: Text::default(), nodes: running.iter().copied().collect() };
    let known: Vec<Domain> = level.cut(std::slice::from_ref(&all), cluster);
    let outside = running.iter().find(|node| !known.iter().any(|it| it.nodes.contains(**node)));
    let text = match (outside, level) {
        (None, _) => format!("members of the group run in different domains of {level}"),
        (Some(node), Meant::Label { label, .. }) => {
            let name = &cluster.nodes().slot(*node).name;
            format!("a member of the group runs on node {name}, which has no label {label}")
        }
        (Some(node), Meant::Tier(_)) => {
            let name = &cluster.nodes().slot(*node).name;
            format!("a member of the group runs on node {name}, which is in no {level}")
        }
    };
    Err(Reason::from(Text::from(text)))
}

#[cfg(test)]
mod tests;
