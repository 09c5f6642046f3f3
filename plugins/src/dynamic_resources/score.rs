//! Score: nodes that offer a better alternative of `firstAvailable` requests come first, and with
//! `packClaims` those where least is left over of the devices that the first request could take. Devices
//! that the index of packing counts are left to the plugin that goes by it.
//!
//! Source: `computeScore` of kube-scheduler 1.37 for the alternatives; packing is Berth's own.

use berth_core::framework::{
    Cycle, CycleState, NodeSet, Normalize, PreScore, PreScoreAnswer, Reads, Score,
};
use berth_core::snapshot::NodeIdx;

use super::filter::{FoundAt, Prepared, reads};
use super::{DynamicResources, NAME};

const SCORE_MAX: i64 = 100;
/// With both in play, this share of the score is for packing. Unit: percent.
const PACKING_SHARE: i64 = 10;
/// One step of preference in the raw score; what is left over counts up to one less.
const STEP: i64 = 1_000_000_000;

impl PreScore for DynamicResources {
    fn pre_score(&self, _: Cycle<'_>, state: &mut CycleState, _: &NodeSet) -> PreScoreAnswer {
        match state.kept::<Prepared>(NAME) {
            Some(prepared) if prepared.scored => PreScoreAnswer::Continue,
            Some(_) | None => PreScoreAnswer::Skip,
        }
    }
}

impl Score for DynamicResources {
    /// Shape: steps of preference, less what is left over.
    fn score(&self, _: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        let Some(FoundAt { found, .. }) = state.found(NAME, node) else { return 0 };
        let left_over = i64::try_from(found.left_over).unwrap_or(i64::MAX);
        found.preference * STEP - left_over.min(STEP - 1)
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    /// For packing the nodes that are left with least get 100, those with most 0.
    fn normalize(&self, _: Cycle<'_>, state: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        let packs = state.kept::<Prepared>(NAME).is_some_and(|prepared| prepared.packs);
        let preference = |raw: i64| (raw + STEP - 1).div_euclid(STEP);
        let left_over = |raw: i64| preference(raw) * STEP - raw;
        let best = scores.iter().map(|(_, raw)| preference(*raw)).max().unwrap_or(0);
        let all_left = scores.iter().map(|(_, raw)| left_over(*raw));
        let (least, most) = (all_left.clone().min().unwrap_or(0), all_left.max().unwrap_or(0));
        for (_, raw) in scores {
            let packing = match most - least {
                0 => SCORE_MAX,
                range => (most - left_over(*raw)) * SCORE_MAX / range,
            };
            let preferred = if best == 0 { 0 } else { preference(*raw) * SCORE_MAX / best };
            *raw = match (best, packs) {
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
