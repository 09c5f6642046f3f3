//! A fake plugin that knows topologies: a level is a node label.

use std::sync::Arc;

use berth_core::framework::{
    Hint, HintContext, Interest, NodeSet, Placement, PlacementAsk, PlacementGenerate, PluginDef,
    Reason,
};
use berth_core::snapshot::{Change, Cluster, NodeIdx};
use berth_core::types::Text;
use berth_core::types::group::TopologyConstraint;

use crate::plugins::def;

pub(crate) static RACKS: PluginDef = def("Racks", |_, p| {
    p.placement_generate(Arc::new(Racks));
    p.interest(Arc::new(Racks));
});

struct Racks;

impl PlacementGenerate for Racks {
    fn labels(&self, constraints: &[TopologyConstraint], _: &Cluster) -> Vec<Text> {
        constraints.iter().map(|it| it.level.to_string().into()).collect()
    }

    fn placements(
        &self,
        ask: PlacementAsk<'_>,
        cluster: &Cluster,
    ) -> Result<Vec<Placement>, Reason> {
        let inside = |nodes: &NodeSet| -> NodeSet {
            let within = |node: &_| ask.within.is_none_or(|within| within.contains(*node));
            nodes.iter().filter(within).collect()
        };
        let mut placements = Vec::new();
        for constraint in ask.constraints {
            let label = constraint.level.to_string();
            let peers = ask.peers.iter().filter(|_| constraint.span.is_some());
            let running: Vec<NodeIdx> = ask.running.iter().chain(peers).copied().collect();
            for (value, nodes) in cluster.domains().of(&label) {
                let nodes = inside(nodes);
                if !nodes.is_empty() && running.iter().all(|node| nodes.contains(*node)) {
                    placements.push(Placement { name: value.clone(), nodes, tier: 0 });
                }
            }
            if !constraint.required {
                let all = cluster.nodes().iter().map(|(node, _)| node).collect();
                placements.push(Placement { name: "all".into(), nodes: inside(&all), tier: 1 });
            }
        }
        Ok(placements)
    }
}

impl Interest for Racks {
    fn hint(&self, _: HintContext<'_>, change: &Change) -> Hint {
        match change {
            Change::NodeAdded { .. } | Change::PodFreed { .. } => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}
