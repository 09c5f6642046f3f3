//! One pod looked at by some plugins' PreFilter and Filter, then by one plugin's scorer.

use std::collections::BTreeMap;

use crate::framework::{
    Cycle, CycleState, NodeSet, Normalize, Points, PreFilterAnswer, PreScoreAnswer, Reason,
    Verdict, Work,
};
use crate::snapshot::{Cluster, NodeIdx};
use crate::types::Pod;

use super::Built;

/// What the plugins say of a pod.
pub(super) struct Look {
    /// PreFilter's answer of the first plugin.
    pub(super) answer: PreFilterAnswer,
    pub(super) state: CycleState,
    /// The first verdict of each node that isn't Fit; a node that no plugin was asked about has
    /// none.
    pub(super) verdicts: BTreeMap<NodeIdx, Verdict>,
}

/// A node's raw score and what it is normalised to.
pub(super) type Scored = (NodeIdx, i64, i64);

impl Look {
    pub(super) fn new(plugins: &[Built], cluster: &Cluster, pod: &Pod) -> Look {
        let mut state = CycleState::default();
        let cycle = Cycle { pod, cluster };
        let mut answers: Vec<PreFilterAnswer> = Vec::new();
        for plugin in plugins {
            let answer = match &plugin.points.pre_filter {
                Some(point) => point.pre_filter(cycle, &mut state),
                None => PreFilterAnswer::Continue,
            };
            answers.push(answer);
        }
        let mut verdicts = BTreeMap::new();
        for (node, _) in cluster.nodes().iter() {
            if let Some(verdict) = verdict_on(plugins, &answers, cycle, &mut state, node) {
                verdicts.insert(node, verdict);
            }
        }
        let answer = answers.into_iter().next().unwrap_or(PreFilterAnswer::Continue);
        Look { answer, state, verdicts }
    }

    pub(super) fn feasible(&self) -> NodeSet {
        self.verdicts.iter().filter(|(_, v)| v.fits()).map(|(node, _)| *node).collect()
    }

    pub(super) fn fits_somewhere(&self) -> bool {
        self.verdicts.values().any(Verdict::fits)
    }

    /// Tells whether the attempt fails: nobody is asked then how room could be made.
    pub(super) fn broken(&self) -> bool {
        self.verdicts.values().any(|verdict| matches!(verdict, Verdict::Broken(_)))
    }

    /// The verdict of any node; those left out by PreFilter can't be helped.
    pub(super) fn verdict(&self, node: NodeIdx) -> Verdict {
        self.verdicts.get(&node).cloned().unwrap_or(Verdict::Unresolvable(Reason::default()))
    }

    /// Returns the scores of the nodes that fit; `None` if the plugin has no scorer or skips.
    pub(super) fn scores(
        &mut self,
        points: &Points,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Option<Vec<Scored>> {
        let scorer = points.score.as_ref()?;
        let cycle = Cycle { pod, cluster };
        let feasible = self.feasible();
        // PreScore and Score may read what PreFilter and Filter kept.
        let state = &mut self.state;
        if let Some(point) = &points.pre_score
            && point.pre_score(cycle, state, &feasible) == PreScoreAnswer::Skip
        {
            return None;
        }
        let raw: Vec<(NodeIdx, i64)> =
            feasible.iter().map(|node| (node, scorer.score(cycle, state, node))).collect();
        let mut normal = raw.clone();
        match scorer.normalizes() {
            Normalize::No => {}
            Normalize::ToMax => to_max(&mut normal, false),
            Normalize::ToMaxReversed => to_max(&mut normal, true),
            Normalize::Own => scorer.normalize(cycle, state, &mut normal),
        }
        Some(
            raw.iter()
                .zip(normal)
                .map(|((node, raw), (_, normal))| (*node, *raw, normal))
                .collect(),
        )
    }
}

fn verdict_on(
    plugins: &[Built],
    answers: &[PreFilterAnswer],
    cycle: Cycle<'_>,
    state: &mut CycleState,
    node: NodeIdx,
) -> Option<Verdict> {
    for (plugin, answer) in plugins.iter().zip(answers) {
        let verdict = match answer {
            PreFilterAnswer::Skip => continue,
            PreFilterAnswer::Only(nodes) if !nodes.contains(&node) => return None,
            PreFilterAnswer::Only(_) | PreFilterAnswer::Continue => match &plugin.points.filter {
                Some(point) => {
                    let mut work = Work::unlimited();
                    let verdict = point.search(cycle, state, node, &mut work);
                    state.put_found(plugin.name, node, work.into_kept());
                    verdict.unwrap_or_else(|| Verdict::Broken("the search did not end".into()))
                }
                None => continue,
            },
            PreFilterAnswer::Unschedulable(reason) | PreFilterAnswer::Pending(reason) => {
                Verdict::Unschedulable(reason.clone())
            }
            PreFilterAnswer::Unresolvable(reason) => Verdict::Unresolvable(reason.clone()),
            PreFilterAnswer::Broken(text) => Verdict::Broken(text.clone()),
        };
        if !verdict.fits() {
            return Some(verdict);
        }
    }
    Some(Verdict::Fit)
}

/// Source: upstream's `DefaultNormalizeScore`.
fn to_max(scores: &mut [(NodeIdx, i64)], reversed: bool) {
    let max = scores.iter().map(|(_, score)| *score).max().unwrap_or(0);
    for (_, score) in scores {
        let scaled = if max == 0 { 0 } else { *score * 100 / max };
        *score = if reversed { 100 - scaled } else { scaled };
    }
}
