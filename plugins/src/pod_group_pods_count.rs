//! PodGroupPodsCount: of the placements for a group, the one that holds most of its pods.
//!
//! Source: `plugins/podgrouppodscount` of kube-scheduler 1.37.

use std::sync::Arc;

use berth_core::framework::{Args, PlacementScore, PluginDef, Points, Proposal};
use berth_core::snapshot::Cluster;

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "PodGroupPodsCount",
    summary: "prefers placements that hold more pods of a group",
    missing: None,
    build,
};

struct PodGroupPodsCount;

fn build(_: &Args, points: &mut Points) {
    points.placement_score(Arc::new(PodGroupPodsCount));
}

impl PlacementScore for PodGroupPodsCount {
    fn score(&self, proposal: Proposal<'_>, _: &Cluster) -> i64 {
        i64::from(proposal.running) + i64::from(proposal.fit)
    }

    fn normalize(&self, scores: &mut [i64]) {
        let most = scores.iter().copied().max().unwrap_or(0).max(1);
        scores.iter_mut().for_each(|score| *score = *score * 100 / most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_shares_of_the_most() {
        let mut scores = [4, 8, 3];
        PodGroupPodsCount.normalize(&mut scores);
        assert_eq!(scores, [50, 100, 37]);
    }
}
