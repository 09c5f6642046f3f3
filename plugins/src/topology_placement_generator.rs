//! TopologyPlacementGenerator: a group that must stay together goes into one domain of a topology.
//!
//! A domain is made of the nodes that have the same value of a label. Where the arguments name levels
//! above that label, nodes in one domain agree in those too, so racks of the same name in two blocks
//! are two racks.
//!
//! Source of the verdicts: `plugins/topologyaware` of kube-scheduler 1.37, which knows one required
//! label. Preferred levels are those of Kueue's topology-aware scheduling: where no domain of one
//! holds the group, the level above is tried.

mod args;
mod domains;
mod hints;

use std::sync::Arc;

use berth_core::framework::{
    Args, Placement, PlacementAsk, PlacementGenerate, PluginDef, Points, Reason,
};
use berth_core::snapshot::{Cluster, NodeSet};
use berth_core::types::Text;
use berth_core::types::group::{TopologyConstraint, TopologyLevel};

use args::Level;
use domains::Domain;

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
}

fn build(args: &Args, points: &mut Points) {
    let plugin = Arc::new(TopologyPlacementGenerator { levels: args::read(args) });
    points.placement_generate(plugin.clone());
    points.interest(plugin);
}

impl PlacementGenerate for TopologyPlacementGenerator {
    fn labels(&self, constraints: &[TopologyConstraint]) -> Vec<Text> {
        let named = constraints.iter().filter_map(|it| self.label(&it.level).ok());
        self.levels.iter().map(|level| level.label.clone()).chain(named).collect()
    }

    /// Cost: O(nodes) for each level that is asked for.
    fn placements(
        &self,
        ask: PlacementAsk<'_>,
        cluster: &Cluster,
    ) -> Result<Vec<Placement>, Reason> {
        let everything = || cluster.nodes().iter().map(|(node, _)| node).collect();
        let start = Domain {
            name: "all nodes".into(),
            nodes: ask.within.cloned().unwrap_or_else(everything),
        };
        let mut required = vec![start];
        for constraint in ask.constraints.iter().filter(|it| it.required) {
            let label = self.label(&constraint.level)?;
            required = self.cut(&required, &label, cluster);
            if !ask.running.is_empty() {
                required = vec![running_in(required, &label, &ask, cluster)?];
            }
        }
        // A wish for a level that nobody knows is no reason to wait.
        let mut wishes = ask.constraints.iter().filter(|it| !it.required);
        let wished = wishes.find_map(|wish| self.label(&wish.level).ok());
        let tiers = wished.map_or_else(Vec::new, |label| self.tiers(&label, ask.constraints));
        let mut placements = Vec::new();
        for (tier, label) in (0..).zip(&tiers) {
            let mut domains = self.cut(&required, label, cluster);
            domains.retain(|it| ask.running.iter().all(|node| it.nodes.contains(*node)));
            placements.extend(domains.into_iter().map(|it| it.placement(tier)));
        }
        let last = tiers.len() as u32;
        placements.extend(required.into_iter().map(|it| it.placement(last)));
        Ok(placements)
    }
}

impl TopologyPlacementGenerator {
    /// Returns the node label of a level.
    ///
    /// # Errors
    /// It is none.
    fn label(&self, level: &TopologyLevel) -> Result<Text, Reason> {
        match level {
            TopologyLevel::Named(name) => {
                let known = self.levels.iter().find(|level| level.name.as_ref() == Some(name));
                Ok(known.map_or_else(|| name.clone(), |level| level.label.clone()))
            }
            TopologyLevel::Tier(tier) => self.tier(*tier),
        }
    }

    fn tier(&self, tier: u32) -> Result<Text, Reason> {
        let mut above_nodes = self.levels.iter().rev().filter(|level| &*level.label != HOSTNAME);
        let nth = (tier as usize).checked_sub(1).and_then(|at| above_nodes.nth(at));
        nth.map(|level| level.label.clone()).ok_or_else(|| {
            let known = self.levels.iter().filter(|level| &*level.label != HOSTNAME).count();
            let text = format!(
                "topology tier {tier} is not known: the arguments of {NAME} name levels for {known}"
            );
            Reason::from(Text::from(text))
        })
    }

    /// Returns the labels to be tried one after the other: the wished one, and those of larger
    /// domains as far as they are inside what is required.
    fn tiers(&self, wished: &Text, constraints: &[TopologyConstraint]) -> Vec<Text> {
        let required: Vec<Text> = constraints
            .iter()
            .filter(|it| it.required)
            .filter_map(|it| self.label(&it.level).ok())
            .collect();
        let above = self.above(wished).iter().rev().map(|level| level.label.clone());
        let chain = std::iter::once(wished.clone()).chain(above);
        chain.take_while(|label| !required.contains(label)).collect()
    }

    /// Returns the levels of larger domains, the largest first.
    fn above(&self, label: &Text) -> &[Level] {
        let at = self.levels.iter().position(|level| level.label == *label).unwrap_or(0);
        &self.levels[..at]
    }

    fn cut(&self, domains: &[Domain], label: &Text, cluster: &Cluster) -> Vec<Domain> {
        let above: Vec<&Text> = self.above(label).iter().map(|level| &level.label).collect();
        domains::cut(domains, label, &above, cluster)
    }
}

impl Domain {
    fn placement(self, tier: u32) -> Placement {
        Placement { name: self.name, nodes: self.nodes, tier }
    }
}

/// Members that run already say where the others go.
fn running_in(
    domains: Vec<Domain>,
    label: &Text,
    ask: &PlacementAsk<'_>,
    cluster: &Cluster,
) -> Result<Domain, Reason> {
    let inside = |nodes: &NodeSet| ask.running.iter().all(|node| nodes.contains(*node));
    if let Some(domain) = domains.iter().find(|it| inside(&it.nodes)) {
        return Ok(domain.clone());
    }
    let nodes = cluster.nodes();
    let outside = ask
        .running
        .iter()
        .find(|node| nodes.node(**node).is_none_or(|object| object.labels.value(label).is_none()));
    let text = match outside {
        Some(node) => {
            let name = &nodes.slot(*node).name;
            format!("a member of the group runs on node {name}, which has no label {label}")
        }
        None => format!("members of the group run in different domains of {label}"),
    };
    Err(Reason::from(Text::from(text)))
}

#[cfg(test)]
mod tests;
