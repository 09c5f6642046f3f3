//! Raw scores of one class per node, and the choice among the nodes that fit.

use crate::framework::profile::Entry;
use crate::framework::rng::Rng;
use crate::framework::{
    Cycle, CycleState, NodeSet, Normalize, Point, PreScoreAnswer, Profile, Score,
};
use crate::snapshot::{NodeIdx, Version};
use crate::types::Text;

use super::budget::Budget;
use super::guard::guarded;
use super::report::NodeScores;
use super::table::sums_up;
use super::timing::Timing;

const SCORE_MAX: i64 = 100;

pub(crate) struct Scores {
    /// Scorers whose weighted scores are one sum per node.
    summed: Vec<usize>,
    sum: Vec<i32>,
    columns: Vec<Column>,
    /// Scorers that depend on which nodes fit: worked out anew in each choice.
    fresh: Vec<usize>,
    fault: Option<Text>,
}

/// Raw scores that are normalised over the nodes that fit, or that depend on an index.
struct Column {
    at: usize,
    raw: Vec<i64>,
    /// Number of entries that are not 0.
    nonzero: usize,
    versions: Vec<Version>,
}

impl Scores {
    pub(crate) fn new(
        profile: &Profile,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        timing: Timing<'_>,
    ) -> Scores {
        let mut scores = Scores {
            summed: Vec::new(),
            sum: Vec::new(),
            columns: Vec::new(),
            fresh: Vec::new(),
            fault: None,
        };
        let weight_sum: i64 = profile.score.iter().map(|entry| entry.weight).sum();
        let sum_fits = weight_sum.saturating_mul(SCORE_MAX) <= i64::from(i32::MAX);
        for (at, entry) in profile.score.iter().enumerate() {
            let reads = entry.plugin.reads(cycle);
            let prepared = profile.pre_score.iter().position(|p| p.name == entry.name);
            if prepared.is_some() && !reads.indexes.is_empty() {
                scores.fresh.push(at);
                continue;
            }
            if let Some(pre) = prepared {
                match pre_score_at(profile, pre, cycle, state, &NodeSet::default(), timing) {
                    Ok(PreScoreAnswer::Continue) => {}
                    Ok(PreScoreAnswer::Skip) => continue,
                    Err(fault) => scores.fault = Some(fault),
                }
            }
            let normalize = entry.plugin.normalizes();
            if sums_up(normalize, &reads) && sum_fits {
                scores.summed.push(at);
            } else {
                scores.columns.push(Column {
                    at,
                    raw: Vec::new(),
                    nonzero: 0,
                    versions: Vec::new(),
                });
            }
        }
        scores
    }

    /// Notes what the indexes are like before every node is scored.
    pub(crate) fn begin(&mut self, profile: &Profile, cycle: Cycle<'_>) {
        for column in &mut self.columns {
            column.versions = versions(profile, column.at, cycle);
        }
    }

    pub(crate) fn grow(&mut self, capacity: usize) {
        self.sum.resize(capacity, 0);
        for column in &mut self.columns {
            column.raw.resize(capacity, 0);
        }
    }

    /// Scores one node that passes the filters which read only the node.
    pub(crate) fn look_at(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        state: &CycleState,
        node: NodeIdx,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) {
        let mut sum = 0i64;
        for at in &self.summed {
            budget.spend(1);
            let entry = &profile.score[*at];
            let ask = || score_of(entry, cycle, state, node);
            match timing.call(Point::Score, *at, ask) {
                Ok(score) => sum += entry.weight * score,
                Err(fault) => self.fault = Some(fault),
            }
        }
        self.sum[node.at()] = sum as i32;
        for column in &mut self.columns {
            budget.spend(1);
            let entry = &profile.score[column.at];
            let ask = || raw_of(entry, cycle, state, node);
            match timing.call(Point::Score, column.at, ask) {
                Ok(raw) => column.set(node, raw),
                Err(fault) => self.fault = Some(fault),
            }
        }
    }

    /// Works columns out anew whose index has moved, for nodes that pass the filters which read only
    /// the node (`passes`): when others come to pass, they are looked at.
    pub(crate) fn refresh(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        state: &CycleState,
        passes: impl Fn(NodeIdx) -> bool,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) {
        for column in &mut self.columns {
            let entry = &profile.score[column.at];
            let now = versions(profile, column.at, cycle);
            if now == column.versions {
                continue;
            }
            column.versions = now;
            let mut timing = timing;
            for (node, _) in cycle.cluster.nodes().iter().filter(|(node, _)| passes(*node)) {
                budget.spend(1);
                let ask = || raw_of(entry, cycle, state, node);
                match timing.call(Point::Score, column.at, ask) {
                    Ok(raw) => column.set(node, raw),
                    Err(fault) => self.fault = Some(fault),
                }
                timing = timing.unsampled();
            }
        }
    }

    /// Number of scorers that are asked about every candidate in each choice.
    pub(crate) fn fresh_len(&self) -> usize {
        self.fresh.len()
    }

    /// Chooses the best of `candidates`; equals are chosen among by `rng`.
    ///
    /// # Errors
    /// A plugin failed, or scored outside 0 to 100.
    pub(crate) fn pick(
        &self,
        profile: &Profile,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        candidates: &NodeSet,
        rng: &mut Rng,
        timing: Timing<'_>,
    ) -> Result<NodeIdx, Text> {
        if candidates.len() == 1
            && let Some(node) = candidates.iter().next()
        {
            return Ok(node);
        }
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let added = self.added(profile, cycle, state, candidates, timing)?;
        let sum = |node: NodeIdx| i64::from(self.sum[node.at()]);
        let tied = match added.is_empty() {
            true => best_of(candidates, |_, node| sum(node)),
            false => best_of(candidates, |order, node| {
                added.iter().fold(sum(node), |total, column| total + column[order])
            }),
        };
        let chosen = rng.below(tied.len() as u64);
        let chosen = tied.get(chosen as usize).copied();
        chosen.ok_or_else(|| Text::from("no candidate to choose from"))
    }

    /// Returns the weighted, normalised scores of everything that isn't in `sum`, one entry a
    /// candidate; columns that give every node the same are left out.
    fn added(
        &self,
        profile: &Profile,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        candidates: &NodeSet,
        timing: Timing<'_>,
    ) -> Result<Vec<Vec<i64>>, Text> {
        let mut added = Vec::new();
        for column in self.columns.iter().filter(|column| column.matters(profile)) {
            let scores = column.over(candidates);
            added.push(weigh(profile, column.at, cycle, state, scores)?);
        }
        for at in &self.fresh {
            let scores = self.fresh_scores(profile, *at, cycle, state, candidates, timing)?;
            if let Some(scores) = scores {
                added.push(weigh(profile, *at, cycle, state, scores)?);
            }
        }
        Ok(added)
    }

    fn fresh_scores(
        &self,
        profile: &Profile,
        at: usize,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        candidates: &NodeSet,
        mut timing: Timing<'_>,
    ) -> Result<Option<Vec<(NodeIdx, i64)>>, Text> {
        let entry = &profile.score[at];
        let Some(pre) = profile.pre_score.iter().position(|p| p.name == entry.name) else {
            return Ok(None);
        };
        timing.turn(Point::PreScore);
        let answer = pre_score_at(profile, pre, cycle, state, candidates, timing);
        timing.turn(Point::Score);
        if answer? == PreScoreAnswer::Skip {
            return Ok(None);
        }
        let score = |node| {
            let ask = || raw_of(entry, cycle, state, node);
            let raw = timing.call(Point::Score, at, ask)?;
            timing = timing.unsampled();
            Ok((node, raw))
        };
        candidates.iter().map(score).collect::<Result<Vec<_>, Text>>().map(Some)
    }

    /// Returns the scores of the best `count` candidates, plugin by plugin, best first.
    pub(crate) fn best(
        &self,
        profile: &Profile,
        cycle: Cycle<'_>,
        state: &mut CycleState,
        candidates: &NodeSet,
        count: usize,
        timing: Timing<'_>,
    ) -> Result<Vec<NodeScores>, Text> {
        let mut parts: Vec<(&'static str, Vec<i64>)> = Vec::new();
        for at in &self.summed {
            let entry = &profile.score[*at];
            let weighed =
                |node| score_of(entry, cycle, state, node).map(|score| score * entry.weight);
            parts.push((entry.name, candidates.iter().map(weighed).collect::<Result<_, _>>()?));
        }
        for column in &self.columns {
            let scores = column.over(candidates);
            let name = profile.score[column.at].name;
            parts.push((name, weigh(profile, column.at, cycle, state, scores)?));
        }
        for at in &self.fresh {
            let scores = self.fresh_scores(profile, *at, cycle, state, candidates, timing)?;
            if let Some(scores) = scores {
                let name = profile.score[*at].name;
                parts.push((name, weigh(profile, *at, cycle, state, scores)?));
            }
        }
        let order = |name: &str| profile.score.iter().position(|entry| entry.name == name);
        parts.sort_by_key(|(name, _)| order(name));
        let mut rows: Vec<NodeScores> = Vec::with_capacity(candidates.len());
        for (at, node) in candidates.iter().enumerate() {
            let by_plugin: Vec<_> =
                parts.iter().map(|(name, column)| (*name, column[at])).collect();
            let total = by_plugin.iter().map(|(_, score)| score).sum();
            let node = cycle.cluster.nodes().slot(node).name.clone();
            rows.push(NodeScores { node, total, by_plugin });
        }
        rows.sort_by(|a, b| b.total.cmp(&a.total).then(a.node.cmp(&b.node)));
        rows.truncate(count);
        Ok(rows)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.sum.capacity() * size_of::<i32>()
            + self.columns.iter().map(|c| c.raw.capacity()).sum::<usize>() * size_of::<i64>()
    }
}

/// Returns the nodes with the highest total, in order. `total` gets a node's place among the
/// candidates too.
fn best_of(candidates: &NodeSet, total: impl Fn(usize, NodeIdx) -> i64) -> Vec<NodeIdx> {
    let (mut best, mut tied) = (i64::MIN, Vec::new());
    for (order, node) in candidates.iter().enumerate() {
        let total = total(order, node);
        if total > best {
            best = total;
            tied.clear();
        }
        if total == best {
            tied.push(node);
        }
    }
    tied
}

fn versions(profile: &Profile, at: usize, cycle: Cycle<'_>) -> Vec<Version> {
    let reads = profile.score[at].plugin.reads(cycle);
    reads.indexes.iter().map(|index| cycle.cluster.index_version(index)).collect()
}

impl Column {
    /// Tells whether the column can give two nodes different scores. Zeros stay equal, unless the
    /// plugin itself makes scores of them.
    fn matters(&self, profile: &Profile) -> bool {
        self.nonzero > 0 || profile.score[self.at].plugin.normalizes() == Normalize::Own
    }

    fn set(&mut self, node: NodeIdx, raw: i64) {
        let entry = &mut self.raw[node.at()];
        self.nonzero = self.nonzero + usize::from(raw != 0) - usize::from(*entry != 0);
        *entry = raw;
    }

    fn over(&self, candidates: &NodeSet) -> Vec<(NodeIdx, i64)> {
        candidates.iter().map(|node| (node, self.raw[node.at()])).collect()
    }
}

/// Normalises and weighs raw scores.
fn weigh(
    profile: &Profile,
    at: usize,
    cycle: Cycle<'_>,
    state: &CycleState,
    mut scores: Vec<(NodeIdx, i64)>,
) -> Result<Vec<i64>, Text> {
    let entry = &profile.score[at];
    match entry.plugin.normalizes() {
        Normalize::No => {}
        Normalize::ToMax => to_max(&mut scores, false),
        Normalize::ToMaxReversed => to_max(&mut scores, true),
        Normalize::Own => {
            guarded(entry.name, || entry.plugin.normalize(cycle, state, &mut scores))?;
        }
    }
    let weighed =
        |(_, score): (NodeIdx, i64)| in_range(entry.name, score).map(|s| s * entry.weight);
    scores.into_iter().map(weighed).collect()
}

/// Source: `DefaultNormalizeScore` of upstream's plugins/helper.
fn to_max(scores: &mut [(NodeIdx, i64)], reversed: bool) {
    let max = scores.iter().map(|(_, score)| *score).max().unwrap_or(0);
    for (_, score) in scores {
        let part = if max == 0 { 0 } else { SCORE_MAX * *score / max };
        *score = if reversed { SCORE_MAX - part } else { part };
    }
}

fn pre_score_at(
    profile: &Profile,
    at: usize,
    cycle: Cycle<'_>,
    state: &mut CycleState,
    candidates: &NodeSet,
    timing: Timing<'_>,
) -> Result<PreScoreAnswer, Text> {
    let entry = &profile.pre_score[at];
    entry.calls.count();
    let ask = || guarded(entry.name, || entry.plugin.pre_score(cycle, state, candidates));
    timing.call(Point::PreScore, at, ask)
}

fn raw_of(
    entry: &Entry<dyn Score>,
    cycle: Cycle<'_>,
    state: &CycleState,
    node: NodeIdx,
) -> Result<i64, Text> {
    entry.calls.count();
    guarded(entry.name, || entry.plugin.score(cycle, state, node))
}

fn score_of(
    entry: &Entry<dyn Score>,
    cycle: Cycle<'_>,
    state: &CycleState,
    node: NodeIdx,
) -> Result<i64, Text> {
    raw_of(entry, cycle, state, node).and_then(|score| in_range(entry.name, score))
}

fn in_range(name: &str, score: i64) -> Result<i64, Text> {
    if (0..=SCORE_MAX).contains(&score) {
        return Ok(score);
    }
    let text = format!("plugin {name} returns an invalid score {score}, it should be in 0 to 100");
    Err(Text::from(text))
}
