//! What is known of one class: a verdict and scores per node, brought up to date by looking only
//! at nodes that changed.

mod answers;

use std::collections::BTreeMap;

use crate::framework::{
    Cycle, CycleState, Filter, NodeSet, Normalize, Point, PreFilterAnswer, Profile, Reads, Verdict,
};
use crate::snapshot::{Cluster, IndexRef, NodeIdx, Version};

use super::budget::Budget;
use super::guard::guarded;
use super::judge::{Shape, search_at, shape_of};
use super::only::Only;
use super::timing::{Coded, Timing};

/// Index into [`Table::answers`]; 0 is Fit.
type AnswerId = u16;
const FIT: AnswerId = 0;
/// There is no node at the index, or it has not been looked at.
const NO_NODE: AnswerId = AnswerId::MAX;
const ANSWERS_MAX: usize = AnswerId::MAX as usize - 1;
/// Stands for a filter's index in answers of PreFilter plugins that restricted the nodes.
const BY_PRE_FILTER: usize = usize::MAX;
/// Nodes that are filtered before those that passed are scored: filtering and scoring are timed
/// apart, and a reading of the clock costs about a plugin's call.
const NODES_A_TURN: usize = 128;

pub(crate) struct Table {
    pub(crate) state: CycleState,
    /// Filters that read the node and the class only, by index in the profile, in order.
    narrow: Vec<usize>,
    wide: Vec<WideFilter>,
    answers: Vec<(usize, Verdict)>,
    answer_ids: BTreeMap<(usize, Verdict), AnswerId>,
    narrow_answers: Vec<AnswerId>,
    /// Nodes that pass every filter.
    pub(crate) fit: NodeSet,
    pub(crate) scores: super::scores::Scores,
    deps: Vec<Dependency>,
    only: Only,
    /// What of the log of node changes has been read.
    read_to: Option<u64>,
    /// Nodes that have changed and are still to be looked at.
    pending: NodeSet,
    /// Nodes that were looked at in this refresh, over all its polls.
    looked: NodeSet,
}

/// A filter whose answers depend on more than the node: looked at anew when that moves.
struct WideFilter {
    at: usize,
    /// It counts pods by domains.
    counts: bool,
    answers: Vec<AnswerId>,
    stale: bool,
    /// Nodes that are still to be looked at.
    pending: NodeSet,
}

/// The indexes that a plugin read, as they were.
struct Dependency {
    plugin: &'static str,
    reads: Reads,
    versions: Vec<Version>,
}

/// Why there is no table.
pub(crate) enum Unready {
    /// The budget is used up; the table keeps what it has.
    Paused,
    /// A plugin turned the pod away before any node.
    Rejected { plugin: &'static str, answer: PreFilterAnswer },
}

impl Table {
    /// Runs PreFilter and lays the table out; nothing is known of any node yet.
    pub(crate) fn new(
        profile: &Profile,
        cycle: Cycle<'_>,
        timing: Timing<'_>,
    ) -> Result<Table, Unready> {
        timing.turn(Point::PreFilter);
        let mut state = CycleState::default();
        let mut only = Only::default();
        let mut skipped = Vec::new();
        for at in 0..profile.pre_filter.len() {
            let name = profile.pre_filter[at].name;
            match pre_filter_at(profile, at, cycle, &mut state, timing)? {
                Shape::Skip => skipped.push(name),
                Shape::Continue => {}
                Shape::Only(nodes) => only.restrict(name, nodes),
            }
        }
        timing.turn(Point::PreScore);
        let mut table = Table {
            scores: super::scores::Scores::new(profile, cycle, &mut state, timing),
            state,
            narrow: Vec::new(),
            wide: Vec::new(),
            answers: vec![(0, Verdict::Fit)],
            answer_ids: BTreeMap::new(),
            narrow_answers: Vec::new(),
            fit: NodeSet::default(),
            deps: Vec::new(),
            only,
            read_to: None,
            pending: NodeSet::default(),
            looked: NodeSet::default(),
        };
        table.scores.begin(profile, cycle);
        timing.turn(Point::Filter);
        table.split_filters(profile, cycle, &skipped);
        table.note_dependencies(profile, cycle);
        Ok(table)
    }

    fn split_filters(&mut self, profile: &Profile, cycle: Cycle<'_>, skipped: &[&'static str]) {
        for (at, entry) in profile.filter.iter().enumerate() {
            if skipped.contains(&entry.name) {
                continue;
            }
            let reads = reads_of(profile, entry.name, entry.plugin.as_ref(), cycle).indexes;
            if reads.is_empty() {
                self.narrow.push(at);
            } else {
                self.wide.push(WideFilter {
                    at,
                    counts: reads.iter().any(|index| matches!(index, IndexRef::Counts(_))),
                    answers: Vec::new(),
                    stale: true,
                    pending: NodeSet::default(),
                });
            }
        }
    }

    fn note_dependencies(&mut self, profile: &Profile, cycle: Cycle<'_>) {
        for entry in &profile.pre_filter {
            let mut reads = entry.plugin.reads(cycle);
            if let Some(filter) = profile.filter.iter().find(|f| f.name == entry.name) {
                reads.indexes.extend(filter.plugin.reads(cycle).indexes);
            }
            self.depend(entry.name, reads, cycle.cluster);
        }
        for wide in &self.wide {
            let entry = &profile.filter[wide.at];
            if !profile.pre_filter.iter().any(|p| p.name == entry.name) {
                let reads = entry.plugin.reads(cycle);
                let versions = versions(cycle.cluster, &reads.indexes);
                self.deps.push(Dependency { plugin: entry.name, reads, versions });
            }
        }
    }

    fn depend(&mut self, plugin: &'static str, reads: Reads, cluster: &Cluster) {
        if !reads.indexes.is_empty() {
            let versions = versions(cluster, &reads.indexes);
            self.deps.push(Dependency { plugin, reads, versions });
        }
    }

    /// Tells whether nothing but a node and what is on it decides about the class.
    pub(crate) fn independent(&self) -> bool {
        self.wide.is_empty() && self.deps.is_empty()
    }

    /// Brings the table up to date with the ledger. Counts in `laid_out` if that is begun anew.
    ///
    /// # Errors
    /// [`Unready::Paused`] with everything kept that was worked out so far, or
    /// [`Unready::Rejected`] if PreFilter turns the pod away by what its indexes say now.
    pub(crate) fn refresh(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        budget: &mut Budget,
        timing: Timing<'_>,
        laid_out: &mut u32,
    ) -> Result<(), Unready> {
        if self.dependencies_moved(profile, cycle, timing)? {
            *laid_out += 1;
            *self = Table::new(profile, cycle, timing)?;
        }
        timing.turn(Point::Filter);
        self.refresh_narrow(profile, cycle, budget, timing)?;
        self.refresh_wide(profile, cycle, budget, timing)?;
        if !self.fit.is_empty() {
            timing.turn(Point::Score);
        }
        let answers = &self.narrow_answers;
        let passes = |node: NodeIdx| answers[node.at()] == FIT;
        self.scores.refresh(profile, cycle, &self.state, passes, budget, timing);
        self.looked = NodeSet::default();
        Ok(())
    }

    /// Runs PreFilter again for plugins whose indexes moved. Returns whether an answer changed so
    /// that the table must be laid out anew.
    fn dependencies_moved(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        timing: Timing<'_>,
    ) -> Result<bool, Unready> {
        for dep in &mut self.deps {
            let now = versions(cycle.cluster, &dep.reads.indexes);
            if now == dep.versions {
                continue;
            }
            dep.versions = now;
            for wide in &mut self.wide {
                wide.stale |= profile.filter[wide.at].name == dep.plugin;
            }
            let Some(at) = profile.pre_filter.iter().position(|e| e.name == dep.plugin) else {
                continue;
            };
            let shape = pre_filter_at(profile, at, cycle, &mut self.state, timing)?;
            let was_run = self.narrow.iter().chain(self.wide.iter().map(|w| &w.at));
            let was_run = was_run.copied().any(|at| profile.filter[at].name == dep.plugin);
            match shape {
                Shape::Continue if was_run && !self.only.names(dep.plugin) => {}
                Shape::Skip if !was_run => {}
                Shape::Continue | Shape::Skip | Shape::Only(_) => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Looks at the nodes that have changed, at all of them the first time. Each is looked at once,
    /// over as many polls as it takes.
    fn refresh_narrow(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) -> Result<(), Unready> {
        let nodes = cycle.cluster.nodes();
        self.grow(nodes.capacity());
        match self.read_to.and_then(|from| nodes.changed_since(from)) {
            Some(changed) => changed.for_each(|node| self.pending.insert(node)),
            None => self.pending = (0..nodes.capacity()).map(|at| NodeIdx(at as u32)).collect(),
        }
        self.read_to = Some(nodes.log_end());
        let pending: Vec<NodeIdx> = self.pending.iter().collect();
        let (mut filtering, mut scoring) = (timing, timing);
        for nodes in pending.chunks(NODES_A_TURN) {
            timing.turn(Point::Filter);
            let mut n_looked = 0;
            while n_looked < nodes.len()
                && budget.left()
                && self.filter(profile, cycle, nodes[n_looked], budget, filtering)
            {
                filtering = filtering.unsampled();
                n_looked += 1;
            }
            let narrow = &self.narrow_answers;
            let passed = nodes[..n_looked].iter().filter(|node| narrow[node.at()] == FIT);
            for (at, node) in passed.enumerate() {
                if at == 0 {
                    timing.turn(Point::Score);
                }
                self.scores.look_at(profile, cycle, &self.state, *node, budget, scoring);
                scoring = scoring.unsampled();
            }
            if n_looked < nodes.len() {
                return Err(Unready::Paused);
            }
        }
        Ok(())
    }

    fn grow(&mut self, capacity: usize) {
        self.narrow_answers.resize(capacity, NO_NODE);
        for wide in &mut self.wide {
            wide.answers.resize(capacity, FIT);
        }
        self.scores.grow(capacity);
    }

    /// Returns false if a search on the node has to go on at the next poll.
    fn filter(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        node: NodeIdx,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) -> bool {
        let answer = if cycle.cluster.nodes().node(node).is_none() {
            Some(NO_NODE)
        } else {
            self.narrow_answer(profile, cycle, node, budget, timing)
        };
        let Some(answer) = answer else { return false };
        self.narrow_answers[node.at()] = answer;
        if answer == FIT {
            self.fit.insert(node);
        } else {
            self.fit.remove(node);
        }
        self.pending.remove(node);
        self.looked.insert(node);
        true
    }

    fn narrow_answer(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        node: NodeIdx,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) -> Option<AnswerId> {
        if let Some(reason) = self.only.excludes(node) {
            return Some(self.answer_id(BY_PRE_FILTER, Verdict::Unresolvable(reason)));
        }
        for at in 0..self.narrow.len() {
            let at = self.narrow[at];
            let state = &mut self.state;
            let ask = || search_at(profile, at, cycle, state, node, budget);
            let verdict = timing.call(Point::Filter, at, ask)?;
            if !verdict.fits() {
                return Some(self.answer_id(at, verdict));
            }
        }
        Some(FIT)
    }

    fn answer_id(&mut self, at: usize, verdict: Verdict) -> AnswerId {
        let key = (at, verdict);
        if let Some(id) = self.answer_ids.get(&key) {
            return *id;
        }
        if self.answers.len() >= ANSWERS_MAX {
            // Only Broken texts can differ so often; the last one speaks for the rest.
            return (self.answers.len() - 1) as AnswerId;
        }
        let id = self.answers.len() as AnswerId;
        self.answers.push(key.clone());
        self.answer_ids.insert(key, id);
        id
    }

    fn refresh_wide(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        budget: &mut Budget,
        mut timing: Timing<'_>,
    ) -> Result<(), Unready> {
        if self.wide.is_empty() {
            return Ok(());
        }
        timing.turn(Point::Filter);
        for wide in &mut self.wide {
            if std::mem::take(&mut wide.stale) {
                wide.pending = (0..wide.answers.len()).map(|at| NodeIdx(at as u32)).collect();
            }
            self.looked.iter().for_each(|node| wide.pending.insert(node));
        }
        self.looked = NodeSet::default();
        let nodes: NodeSet = self.wide.iter().flat_map(|wide| wide.pending.iter()).collect();
        for node in nodes.iter() {
            if !budget.left() || !self.look_wide(profile, cycle, node, budget, timing) {
                return Err(Unready::Paused);
            }
            timing = timing.unsampled();
        }
        Ok(())
    }

    /// Returns false if a search on the node has to go on at the next poll.
    fn look_wide(
        &mut self,
        profile: &Profile,
        cycle: Cycle<'_>,
        node: NodeIdx,
        budget: &mut Budget,
        timing: Timing<'_>,
    ) -> bool {
        let narrow = self.narrow_answers[node.at()];
        // Filters after the one that turned the node away are not asked.
        let end = match narrow {
            NO_NODE => 0,
            FIT => usize::MAX,
            id => match self.answers[usize::from(id)].0 {
                BY_PRE_FILTER => 0,
                at => at,
            },
        };
        let mut fits = narrow == FIT;
        for at in 0..self.wide.len() {
            let filter = self.wide[at].at;
            if filter < end && self.wide[at].pending.contains(node) {
                let state = &mut self.state;
                let ask = || search_at(profile, filter, cycle, state, node, budget);
                let Some(verdict) = timing.call(Point::Filter, filter, ask) else { return false };
                let id = if verdict.fits() { FIT } else { self.answer_id(filter, verdict) };
                self.wide[at].answers[node.at()] = id;
            }
            self.wide[at].pending.remove(node);
            fits &= filter >= end || self.wide[at].answers[node.at()] == FIT;
        }
        if fits {
            self.fit.insert(node);
        } else {
            self.fit.remove(node);
        }
        true
    }

    pub(crate) fn bytes(&self) -> usize {
        let nodes = self.narrow_answers.capacity();
        let wide = self.wide.len() * nodes * size_of::<AnswerId>();
        // Each answer is kept twice, with its texts: about this much.
        let answers = self.answers.len() * 256;
        nodes * size_of::<AnswerId>()
            + wide
            + 3 * nodes / 8
            + answers
            + self.scores.bytes()
            + 512
            + self.state.n_found() * 256
    }
}

fn pre_filter_at(
    profile: &Profile,
    at: usize,
    cycle: Cycle<'_>,
    state: &mut CycleState,
    timing: Timing<'_>,
) -> Result<Shape, Unready> {
    let entry = &profile.pre_filter[at];
    entry.calls.count();
    let ask = || guarded(entry.name, || entry.plugin.pre_filter(cycle, state));
    shape_of(timing.call(Point::PreFilter, at, ask)).map_err(|answer| {
        timing.went(Point::PreFilter, answer.code());
        Unready::Rejected { plugin: entry.name, answer }
    })
}

fn reads_of(profile: &Profile, name: &str, filter: &dyn Filter, cycle: Cycle<'_>) -> Reads {
    let mut reads = filter.reads(cycle);
    if let Some(pre) = profile.pre_filter.iter().find(|entry| entry.name == name) {
        reads.indexes.extend(pre.plugin.reads(cycle).indexes);
    }
    reads
}

fn versions(cluster: &Cluster, indexes: &[IndexRef]) -> Vec<Version> {
    indexes.iter().map(|index| cluster.index_version(index)).collect()
}

/// Tells whether a scorer's column can be merged into one sum.
pub(crate) fn sums_up(normalize: Normalize, reads: &Reads) -> bool {
    normalize == Normalize::No && reads.indexes.is_empty()
}
