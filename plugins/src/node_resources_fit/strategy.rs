//! The scoring strategies: 0 to 100 from how full a node would be. Integers, cut as upstream's.
//!
//! Source: upstream's noderesources/{least_allocated,most_allocated,
//! requested_to_capacity_ratio}.go and helper/shape_score.go (1.37). Amounts are at most 2^53
//! (`AMOUNT_MAX`), so that a hundredfold still fits into an i64.

use crate::shared::scored::Load;

const SCORE_MAX: i64 = 100;
const UTILIZATION_MAX: i64 = 100;

/// A point of a RequestedToCapacityRatio shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapePoint {
    /// 0 to 100.
    pub(super) utilization: i64,
    /// 0 to 100: ten times the configuration's score.
    pub(super) score: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Spreads: the share that stays free.
    LeastAllocated,
    /// Packs: the share that is taken.
    MostAllocated,
    /// A function of the share that is taken, linear between points of rising utilization.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

impl Strategy {
    /// Returns the weighted mean over the node's resources; 0 without any.
    pub(super) fn score(&self, loads: impl Iterator<Item = Load>) -> i64 {
        match self {
            Strategy::LeastAllocated => mean(loads, least),
            Strategy::MostAllocated => mean(loads, most),
            Strategy::RequestedToCapacityRatio(shape) => rounded_mean(loads, shape),
        }
    }
}

fn mean(loads: impl Iterator<Item = Load>, rate: fn(Load) -> i64) -> i64 {
    let (sum, weights) =
        loads.fold((0, 0), |(sum, weights), l| (sum + rate(l) * l.weight, weights + l.weight));
    if weights == 0 { 0 } else { sum / weights }
}

fn least(load: Load) -> i64 {
    if load.after > load.allocatable {
        return 0;
    }
    (load.allocatable - load.after) * SCORE_MAX / load.allocatable
}

fn most(load: Load) -> i64 {
    // Pods without requests count as the non-zero defaults, so more than all can be taken.
    load.after.min(load.allocatable) * SCORE_MAX / load.allocatable
}

/// Resources that score 0 count neither above nor below the line.
fn rounded_mean(loads: impl Iterator<Item = Load>, shape: &[ShapePoint]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for load in loads {
        let score = along(shape, utilization(load));
        if score > 0 {
            sum += score * load.weight;
            weights += load.weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

fn utilization(load: Load) -> i64 {
    if load.after > load.allocatable {
        return UTILIZATION_MAX;
    }
    load.after * UTILIZATION_MAX / load.allocatable
}

/// Returns the shape's value at `x`; flat outside its points.
fn along(shape: &[ShapePoint], x: i64) -> i64 {
    let Some(at) = shape.iter().position(|point| x <= point.utilization) else {
        return shape.last().map_or(0, |point| point.score);
    };
    let right = shape[at];
    let Some(left) = at.checked_sub(1).map(|before| shape[before]) else { return right.score };
    let (rise, run) = (right.score - left.score, right.utilization - left.utilization);
    if run == 0 {
        return right.score;
    }
    left.score + rise * (x - left.utilization) / run
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(after: i64, allocatable: i64, weight: i64) -> Load {
        Load { before: 0, after, allocatable, weight }
    }

    fn check(strategy: &Strategy, loads: &[Load], expected: i64) {
        assert_eq!(strategy.score(loads.iter().copied()), expected, "{strategy:?} {loads:?}");
    }

    /// Figures of upstream's least_allocated_test.go and most_allocated_test.go.
    #[test]
    fn least_and_most_allocated_are_cut_twice() {
        let loads = [load(3000, 4000, 1), load(5000, 10000, 1)];
        check(&Strategy::LeastAllocated, &loads, (25 + 50) / 2);
        check(&Strategy::MostAllocated, &loads, (75 + 50) / 2);
        let uneven = [load(3000, 4000, 1), load(5000, 10000, 2)];
        check(&Strategy::LeastAllocated, &uneven, (25 + 50 * 2) / 3);
        check(&Strategy::MostAllocated, &uneven, (75 + 50 * 2) / 3);
        check(&Strategy::LeastAllocated, &[], 0);
    }

    #[test]
    fn more_than_all_scores_nothing_or_everything() {
        check(&Strategy::LeastAllocated, &[load(11, 10, 1)], 0);
        check(&Strategy::MostAllocated, &[load(11, 10, 1)], 100);
    }

    #[test]
    fn the_largest_amounts_do_not_overflow() {
        let most = berth_core::types::resources::AMOUNT_MAX;
        check(&Strategy::LeastAllocated, &[load(0, most, 100)], 100);
        check(&Strategy::MostAllocated, &[load(i64::MAX, most, 100)], 100);
    }

    fn shape(points: &[(i64, i64)]) -> Vec<ShapePoint> {
        points.iter().map(|&(utilization, score)| ShapePoint { utilization, score }).collect()
    }

    /// Figures of upstream's requested_to_capacity_ratio_test.go, `TestBrokenLinearFunction`.
    #[test]
    fn a_shape_is_linear_between_its_points() {
        let rising = shape(&[(10, 1), (90, 9)]);
        for (x, y) in [(-10, 1), (0, 1), (9, 1), (10, 1), (15, 1), (19, 1), (20, 2), (89, 8)] {
            assert_eq!(along(&rising, x), y, "at {x}");
        }
        assert_eq!(along(&rising, 90), 9);
        assert_eq!(along(&rising, 110), 9);
        let bent = shape(&[(0, 2), (40, 10), (100, 0)]);
        for (x, y) in [(-10, 2), (0, 2), (20, 6), (30, 8), (40, 10), (70, 5), (100, 0), (110, 0)] {
            assert_eq!(along(&bent, x), y, "at {x}");
        }
    }

    #[test]
    fn a_ratio_is_rounded_and_zero_scores_are_left_out() {
        let ratio = Strategy::RequestedToCapacityRatio(shape(&[(0, 0), (100, 100)]));
        check(&ratio, &[load(1, 4, 1), load(1, 2, 2)], 42);
        check(&ratio, &[load(0, 4, 5), load(1, 2, 2)], 50);
        check(&ratio, &[load(9, 4, 1)], 100);
        check(&ratio, &[load(1, 2, 1), load(51, 100, 1)], 51);
    }
}
