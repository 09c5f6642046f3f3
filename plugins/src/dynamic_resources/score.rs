//! Score: nodes that offer a better alternative of `firstAvailable` requests come first, and with
//! `packClaims` those that are left with few free devices of the class.
//!
//! Source: `computeScore` of kube-scheduler 1.37 for the alternatives; packing is Berth's own.

use berth_core::framework::{
    Cycle, CycleState, NodeSet, Normalize, PreScore, PreScoreAnswer, Reads, Score,
};
use berth_core::snapshot::NodeIdx;
use berth_core::types::claim::{DeviceDemand, DeviceRequest, DeviceResult};

use super::allocate::Found;
use super::explain::free_devices;
use super::filter::{FoundAt, Prepared, reads};
use super::{DynamicResources, NAME};

const SCORE_MAX: i64 = 100;
/// With both in play, this share of the score is for packing. Unit: percent.
const PACKING_SHARE: i64 = 10;

impl PreScore for DynamicResources {
    fn pre_score(&self, _: Cycle<'_>, state: &mut CycleState, _: &NodeSet) -> PreScoreAnswer {
        match state.kept::<Prepared>(NAME) {
            Some(prepared) if prepared.scored => PreScoreAnswer::Continue,
            Some(_) | None => PreScoreAnswer::Skip,
        }
    }
}

impl Score for DynamicResources {
    /// Shape: the preference in the upper part, the packing (0 to 100) in the lower.
    fn score(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        let Some(FoundAt { found, .. }) = state.found(NAME, node) else { return 0 };
        let packing = if self.pack_claims { packing(cycle, state, node, found) } else { 0 };
        found.preference * (SCORE_MAX + 1) + packing
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    fn normalize(&self, _: Cycle<'_>, _: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        let preference = |raw: i64| raw / (SCORE_MAX + 1);
        let most = scores.iter().map(|(_, raw)| preference(*raw)).max().unwrap_or(0);
        for (_, raw) in scores {
            let packing = *raw % (SCORE_MAX + 1);
            let preferred = if most == 0 { 0 } else { preference(*raw) * SCORE_MAX / most };
            *raw = match (most, self.pack_claims) {
                (_, false) => preferred,
                (0, true) => packing,
                (_, true) => {
                    (preferred * (SCORE_MAX - PACKING_SHARE) + packing * PACKING_SHARE) / SCORE_MAX
                }
            };
        }
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads(cycle)
    }
}

/// Returns how full the node is with devices that the first request could take, 0 to 100: those of
/// the alternative that it took, with all that the pod gets of that class.
fn packing(cycle: Cycle<'_>, state: &CycleState, node: NodeIdx, found: &Found) -> i64 {
    let Some(prepared) = state.kept::<Prepared>(NAME) else { return 0 };
    let granted = || {
        let claims = prepared.demands.iter().zip(&found.claims);
        claims.flat_map(|(demand, results)| results.iter().filter_map(|r| request_of(demand, r)))
    };
    let Some(first) = granted().next() else { return 0 };
    let Some(object) = cycle.cluster.nodes().node(node) else { return 0 };
    let (free, all) = free_devices(cycle.cluster, object, first);
    let stranded = free.saturating_sub(granted().filter(|of| of.class == first.class).count());
    let share = |n: usize| i64::try_from(n).unwrap_or(i64::MAX / SCORE_MAX);
    if all == 0 { 0 } else { SCORE_MAX - SCORE_MAX * share(stranded) / share(all) }
}

/// Returns the request, or the alternative of one, that a result is for.
fn request_of<'a>(demand: &'a DeviceDemand, result: &DeviceResult) -> Option<&'a DeviceRequest> {
    demand.alternatives().find(|request| request.name == result.request)
}
