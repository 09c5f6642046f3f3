//! NodeResourcesBalancedAllocation: prefers nodes on which the pod evens out how full each
//! resource is.
//!
//! Source: upstream's noderesources/balanced_allocation.go (1.37). Extended resources that only
//! DRA provides are not weighed yet.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, NodeSet, PluginDef, PreScore, PreScoreAnswer, Score,
};
use berth_core::snapshot::NodeIdx;

use crate::shared::field::{duplicate, invalid};
use crate::shared::scored::{Asked, Basis, Load, Weighted, read_resources};

const NAME: &str = "NodeResourcesBalancedAllocation";
const SCORE_MAX: i64 = 100;

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "prefers nodes on which the pod evens out how full each resource is",
    missing: None,
    build: |args, points| {
        let plugin = Arc::new(read(args));
        points.pre_score(plugin.clone());
        points.score(plugin);
    },
};

#[derive(Clone, Debug, PartialEq, Eq)]
struct BalancedAllocation {
    resources: Vec<Weighted>,
}

/// Reads NodeResourcesBalancedAllocationArgs.
///
/// Source: `ValidateNodeResourcesBalancedAllocationArgs`, which takes the resources as a set
/// without weights.
fn read(args: &Args) -> BalancedAllocation {
    let resources = read_resources(args, |entry, resource| {
        if resource.weight != 1 {
            entry.error("weight", invalid(resource.weight, "must be 1"));
        }
    });
    for (at, resource) in resources.iter().enumerate() {
        if resources[..at].iter().any(|earlier| earlier.name == resource.name) {
            args.error(&format!("resources[{at}].name"), duplicate(&resource.name));
        }
    }
    BalancedAllocation { resources }
}

impl BalancedAllocation {
    fn asked(&self, cycle: Cycle<'_>) -> Asked {
        let requests = &cycle.pod.spec.requests;
        Asked::of(requests, &self.resources, Basis::Real, cycle.cluster.nodes())
    }
}

impl PreScore for BalancedAllocation {
    fn pre_score(
        &self,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        _feasible: &NodeSet,
    ) -> PreScoreAnswer {
        let asked = self.asked(cycle);
        if asked.is_nothing() {
            // Such pods would all go to the one best balanced node (kubernetes#129138).
            return PreScoreAnswer::Skip;
        }
        state.put(NAME, asked);
        PreScoreAnswer::Continue
    }
}

impl Score for BalancedAllocation {
    fn score(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        let nodes = cycle.cluster.nodes();
        match state.kept::<Asked>(NAME) {
            Some(asked) => rate(asked.loads(nodes, node)),
            None => rate(self.asked(cycle).loads(nodes, node)),
        }
    }
}

/// Returns about 75 where the pod changes nothing, up to 100 where it evens things out, down to 50
/// where it unbalances them.
fn rate(loads: impl Iterator<Item = Load> + Clone) -> i64 {
    let with = balance(loads.clone().map(|l| share(l.after, l.allocatable)));
    let without = balance(loads.map(|l| share(l.before, l.allocatable)));
    SCORE_MAX / 2 + (SCORE_MAX / 2 + with - without) / 2
}

fn share(taken: i64, allocatable: i64) -> f64 {
    (taken as f64 / allocatable as f64).min(1.0)
}

/// Returns 100 where all shares are equal, down to 50 where half are 0 and half 1. The order of the
/// operations is upstream's, so that cutting to an integer gives the same.
fn balance(shares: impl Iterator<Item = f64> + Clone) -> i64 {
    let deviation = match shares.clone().count() {
        0 | 1 => 0.0,
        // Of two shares, the second minus (the first minus 0).
        2 => (shares.fold(0.0, |difference: f64, share| share - difference) / 2.0).abs(),
        n => {
            let n = n as f64;
            let mean = shares.clone().fold(0.0, |sum, share| sum + share) / n;
            let squares = shares.fold(0.0, |sum, s| sum + (s - mean) * (s - mean));
            (squares / n).sqrt()
        }
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

#[cfg(test)]
mod tests {
    use berth_core::types::Value;

    use super::*;

    fn load(before: i64, pod: i64, allocatable: i64) -> Load {
        Load { before, after: before + pod, allocatable, weight: 1 }
    }

    fn check(loads: &[Load], expected: i64) {
        assert_eq!(rate(loads.iter().copied()), expected, "{loads:?}");
    }

    /// Figures of upstream's balanced_allocation_test.go (1.37), but for the last three.
    #[test]
    fn a_pod_that_evens_out_scores_above_75_and_one_that_unbalances_below() {
        check(&[load(0, 3000, 4000), load(0, 5000, 10000)], 50 + (50 + 87 - 100) / 2);
        check(&[load(0, 3000, 6000), load(0, 5000, 10000)], 75);
        check(&[load(3000, 3000, 10000), load(0, 5000, 20000)], 73);
        check(&[load(3000, 3000, 10000), load(5000, 5000, 20000)], 74);
        check(&[load(3000, 3000, 10000), load(5000, 5000, 50000)], 70);
        check(&[load(3000, 0, 3000), load(0, 5000, 5000)], 100);
        check(&[load(0, 1, 2), load(1, 0, 2)], 87);
        check(&[], 75);
        check(&[load(3, 1, 4)], 75);
    }

    #[test]
    fn more_than_two_resources_go_by_their_standard_deviation() {
        assert_eq!(balance([0.0, 0.0, 1.0, 1.0].into_iter()), 50);
        assert_eq!(balance([0.2, 0.5, 0.8].into_iter()), 75);
        check(&[load(9, 9, 4), load(4, 0, 4), load(4, 4, 4)], 75);
    }

    fn errors(resources: Vec<(&str, i64)>) -> Vec<String> {
        let entry = |(name, weight): (&str, i64)| {
            Value::map([("name", Value::text(name)), ("weight", Value::Int(weight))])
        };
        let list = Value::List(resources.into_iter().map(entry).collect());
        let value = Value::map([("resources", list)]);
        let args = Args::new("args", &value);
        read(&args);
        args.finish();
        args.take_errors().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn resources_are_a_set_without_weights() {
        assert_eq!(errors(vec![("cpu", 1), ("nvidia.com/gpu", 0)]), Vec::<String>::new());
        assert_eq!(
            errors(vec![("cpu", 2), ("cpu", 1)]),
            [
                "args.resources[0].weight: Invalid value: 2: must be 1",
                "args.resources[1].name: Duplicate value: \"cpu\"",
            ]
        );
    }
}
