//! How many pods of a kind a node takes, and how full the nodes of a placement would be.
//!
//! Source of the score: `scorePlacement` of upstream's noderesources/resource_allocation.go (1.37):
//! MostAllocated over the sums of all nodes, by the resources of the scoring strategy.

use berth_core::framework::{Cycle, CycleState, PlacementScore, Proposal, Room};
use berth_core::snapshot::{Cluster, NodeIdx};

use crate::shared::scored::{Basis, Load, sums};

use super::needs::{Needs, free_slots};
use super::strategy::Strategy;
use super::{Fit, NAME};

impl Room for Fit {
    fn room(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> u32 {
        let nodes = cycle.cluster.nodes();
        let of = |needs: &Needs| needs.room(nodes, node).min(free_slots(nodes, node));
        let room = match state.kept::<Needs>(NAME) {
            Some(needs) => of(needs),
            None => of(&self.needs(cycle)),
        };
        u32::try_from(room.max(0)).unwrap_or(u32::MAX)
    }
}

impl PlacementScore for Fit {
    fn score(&self, proposal: Proposal<'_>, cluster: &Cluster) -> i64 {
        let nodes = cluster.nodes();
        let wanted: i64 = proposal.members.iter().map(|(_, n)| i64::from(*n)).sum();
        let share = |amount: i64| amount.saturating_mul(proposal.fit.into()) / wanted.max(1);
        let mut loads = sums(&self.resources, Basis::Nonzero, nodes, &proposal.placement.nodes);
        for (load, resource) in loads.iter_mut().zip(&self.resources) {
            let asked = proposal.members.iter().map(|(pod, n)| {
                resource.asked(&pod.spec.requests, Basis::Nonzero).saturating_mul(i64::from(*n))
            });
            load.after = load.after.saturating_add(share(asked.fold(0, i64::saturating_add)));
        }
        loads.retain(|load: &Load| load.allocatable > 0);
        Strategy::MostAllocated.score(loads.into_iter())
    }
}
