//! Score of soft constraints: fewer selected pods in a node's domains are better.

use berth_core::framework::{
    Cycle, CycleState, NodeSet, Normalize, PreScore, PreScoreAnswer, Reads, Score,
};
use berth_core::snapshot::NodeIdx;

use super::constraints::{Constraint, Hardness};
use super::domains::{Counter, Domains, survey};
use super::{PodTopologySpread, SCORE_LAYOUT, SCORE_STATE};

const SCORE_MAX: i64 = 100;
/// Raw scores are 0 or more.
const IGNORED: i64 = -1;

/// Raw scores of the nodes that fit; [`IGNORED`] for nodes that lack a key.
///
/// Such a score depends on how many domains the nodes that fit are in, so on all of them.
struct Raw {
    of_node: Vec<i64>,
}

impl Raw {
    fn on(&self, node: NodeIdx) -> i64 {
        self.of_node.get(node.at()).copied().unwrap_or(IGNORED)
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        feasible: &NodeSet,
    ) -> PreScoreAnswer {
        let constraints = self.constraints(cycle.pod, cycle.cluster, Hardness::Soft);
        if constraints.is_empty() {
            return PreScoreAnswer::Skip;
        }
        let all_keys = self.scores_need_all_keys(cycle.pod);
        let raw = raw_scores(cycle, &constraints, feasible, all_keys, state);
        state.put(SCORE_STATE, raw);
        PreScoreAnswer::Continue
    }
}

impl Score for PodTopologySpread {
    fn score(&self, _cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> i64 {
        state.kept::<Raw>(SCORE_STATE).map_or(0, |raw| raw.on(node).max(0))
    }

    fn normalizes(&self) -> Normalize {
        Normalize::Own
    }

    /// Goes by what PreScore worked out for exactly these nodes, since a raw score that was kept
    /// from another cycle may stem from another set of nodes.
    fn normalize(&self, _cycle: Cycle<'_>, state: &CycleState, scores: &mut [(NodeIdx, i64)]) {
        let Some(raw) = state.kept::<Raw>(SCORE_STATE) else { return };
        for (node, score) in scores.iter_mut() {
            *score = raw.on(*node);
        }
        normalize(scores);
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        self.reads_of(cycle, Hardness::Soft)
    }
}

/// Turns raw scores round, so that the fewest pods give the most; ignored nodes get 0.
fn normalize(scores: &mut [(NodeIdx, i64)]) {
    let valid = || scores.iter().map(|(_, score)| *score).filter(|score| *score != IGNORED);
    let (min, max) = (valid().min().unwrap_or(0), valid().max().unwrap_or(0));
    for (_, score) in scores {
        *score = match *score {
            IGNORED => 0,
            _ if max == 0 => SCORE_MAX,
            raw => {
                let turned = i128::from(SCORE_MAX) * (i128::from(max) + i128::from(min))
                    - i128::from(SCORE_MAX) * i128::from(raw);
                i64::try_from(turned / i128::from(max)).unwrap_or(0)
            }
        };
    }
}

fn raw_scores(
    cycle: Cycle<'_>,
    constraints: &[Constraint],
    feasible: &NodeSet,
    all_keys: bool,
    state: &mut CycleState,
) -> Raw {
    let surveys = survey(cycle, constraints, None, all_keys, state, SCORE_LAYOUT);
    let ignored = |node: NodeIdx| all_keys && surveys.iter().any(|s| s.of(node).is_none());
    let scored: Vec<NodeIdx> = feasible.iter().filter(|node| !ignored(*node)).collect();
    let terms: Vec<Term<'_>> = constraints
        .iter()
        .zip(&surveys)
        .map(|(constraint, domains)| Term::of(cycle, constraint, domains, &scored))
        .collect();
    let mut of_node = vec![IGNORED; cycle.cluster.nodes().capacity()];
    for node in scored {
        let sum = terms.iter().fold(0.0, |sum, term| sum + term.score(node));
        of_node[node.at()] = f64::round(sum) as i64;
    }
    Raw { of_node }
}

/// What one constraint adds to a node's raw score.
struct Term<'a> {
    domains: &'a Domains,
    /// Counts of the node itself, where the domain is the host.
    host: Option<Counter<'a>>,
    /// ln(domains + 2), so that many small domains do not water down few large ones.
    weight: f64,
    /// `maxSkew` − 1: a larger skew that is tolerated lets differences count for less.
    shift: f64,
}

impl<'a> Term<'a> {
    fn of(
        cycle: Cycle<'a>,
        constraint: &Constraint,
        domains: &'a Domains,
        scored: &[NodeIdx],
    ) -> Term<'a> {
        let query = constraint.query(&cycle.pod.namespace);
        let by_hostname = constraint.by_hostname();
        let size = if by_hostname { scored.len() } else { domains_among(domains, scored) };
        Term {
            domains,
            host: by_hostname.then(|| Counter::of(cycle.cluster, query)),
            weight: (size.saturating_add(2) as f64).ln(),
            shift: (constraint.max_skew - 1) as f64,
        }
    }

    fn score(&self, node: NodeIdx) -> f64 {
        let Some(domain) = self.domains.of(node) else { return 0.0 };
        let count = match &self.host {
            Some(counter) => counter.on(node),
            None => self.domains.count(domain),
        };
        count as f64 * self.weight + self.shift
    }
}

/// Number of domains that `nodes` are in; lacking the label is a domain too.
fn domains_among(domains: &Domains, nodes: &[NodeIdx]) -> usize {
    let mut seen = vec![false; domains.capacity()];
    for node in nodes {
        if let Some(domain) = domains.of_any(*node)
            && let Some(seen) = seen.get_mut(domain as usize)
        {
            *seen = true;
        }
    }
    seen.iter().filter(|seen| **seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &[i64], expected: &[i64]) {
        let mut scores: Vec<(NodeIdx, i64)> =
            raw.iter().enumerate().map(|(at, raw)| (NodeIdx(at as u32), *raw)).collect();
        normalize(&mut scores);
        let found: Vec<i64> = scores.iter().map(|(_, score)| *score).collect();
        assert_eq!(found, expected, "{raw:?}");
    }

    #[test]
    fn the_fewest_pods_score_100_and_ignored_nodes_0() {
        check(&[2, 4, IGNORED], &[100, 50, 0]);
        check(&[0, 5], &[100, 0]);
        check(&[0, 0], &[100, 100]);
        check(&[IGNORED], &[0]);
        check(&[3, 4, 7], &[100, 85, 42]);
    }
}
