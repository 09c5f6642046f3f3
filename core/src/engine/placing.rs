//! Placing one pod on an overlay: PreFilter, Filter, Score, choice, Reserve.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::framework::rng::Rng;
use crate::framework::{Cycle, CycleState, NodeSet, Placement, Point, Profile, Work};
use crate::snapshot::{Cluster, Mark, NodeIdx, Overlay, Place, Version};
use crate::types::{Pod, PodUid, Text};

use super::budget::Budget;
use super::classes::{ClassKey, Classes};
use super::guard::guarded;
use super::judge::verdict_on;
use super::report::{NodeScores, ReportLevel};
use super::setup::Setup;
use super::table::{Table, Unready};
use super::timing::{Code, Timing};
use super::unfit::{Unplaced, refused};

/// What a member's placing needs to know besides the ledger.
pub(super) struct Placer<'a> {
    pub(super) profile: &'a Profile,
    pub(super) profile_idx: usize,
    pub(super) classes: &'a mut Classes,
    pub(super) setup: &'a Setup,
    pub(super) timing: Timing<'a>,
    pub(super) attempt: u32,
    /// Which stream breaks ties.
    pub(super) ties: u32,
    /// More members of the class follow: its table is worth keeping at once.
    pub(super) group: bool,
    /// How often a table was begun anew.
    pub(super) laid_out: u32,
    /// Steps that may still be taken to have devices looked at by selectors.
    pub(super) selecting: u64,
    /// Nodes that consultants allowed, by member and index of the consultant.
    pub(super) allowed: BTreeMap<(PodUid, usize), NodeSet>,
    /// The pod goes to a node that is in all of these.
    pub(super) within: Vec<Arc<Placement>>,
    /// The pod goes to one of these, as more members of its group may be there; `None` for any.
    pub(super) open: Option<NodeSet>,
    /// The class that was looked at last, and whether nothing but the node and what is on it decides
    /// about it.
    pub(super) last_class: (u32, bool),
    /// Pods of that class fit or not by how many there are in a domain: others may let them in.
    pub(super) counts_pods: bool,
    /// Whether there are further ways on some node was not found out.
    pub(super) unproven: bool,
}

/// A member that was placed on the overlay.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) node: NodeIdx,
    /// By which of the ways that there are on the node.
    pub(super) nth: u32,
    pub(super) feasible: usize,
    pub(super) best: Vec<NodeScores>,
    pub(super) class: u32,
    /// Nothing but the node and what is on it decides about such pods.
    pub(super) independent: bool,
    /// The overlay before it was placed.
    pub(super) mark: Mark,
    /// The node's version then.
    pub(super) before: Version,
    /// The nodes that counted then; `None` for all.
    pub(super) within: Option<Arc<NodeSet>>,
}

/// A node that was chosen for a pod, which has no place there as yet.
struct Chosen {
    node: NodeIdx,
    feasible: usize,
    best: Vec<NodeScores>,
}

/// Passes over integer columns are charged as one step for so many nodes: 4 ns against 100 ns.
pub(super) const NODES_A_STEP: usize = 25;

impl Placer<'_> {
    /// Places the pod on the best node.
    pub(super) fn place(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        budget: &mut Budget,
    ) -> Result<Placed, Unplaced> {
        self.place_next(overlay, pod, None, &mut NodeSet::default(), budget)
    }

    /// Places the pod by the way that comes after `after`, on the same node if there is one, else on
    /// the best node that was not `tried`. A node without a further way is added to those.
    pub(super) fn place_next(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        after: Option<(NodeIdx, u32)>,
        tried: &mut NodeSet,
        budget: &mut Budget,
    ) -> Result<Placed, Unplaced> {
        let (class, mut table) = self.looked_at(overlay, pod, budget)?;
        let result = self.next(overlay, pod, &mut table, after, tried, budget);
        if !matches!(result, Err(Unplaced::Error(_))) {
            // After an error nothing of the table is trusted: the next attempt starts afresh.
            self.classes.put(class, table, self.group);
        }
        result
    }

    /// Returns how many nodes fit.
    pub(super) fn count_fit(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        budget: &mut Budget,
    ) -> Result<usize, Unplaced> {
        let (class, table) = self.looked_at(overlay, pod, budget)?;
        let fit = table.fit.len();
        self.classes.put(class, table, self.group);
        Ok(fit)
    }

    /// Takes the place that the pod had before, by the same way. False, with the overlay as it was,
    /// if that can't be done; with `check` also if a filter says no.
    pub(super) fn place_as_before(
        &mut self,
        overlay: &mut Overlay<'_>,
        uid: &PodUid,
        placed: &mut Placed,
        check: bool,
        budget: &mut Budget,
    ) -> bool {
        let Some(pod) = overlay.cluster().pod(uid).map(|record| record.pod.clone()) else {
            return false;
        };
        let cycle = Cycle { pod: &pod, cluster: overlay.cluster() };
        if check && !verdict_on(self.profile, cycle, placed.node).fits() {
            return false;
        }
        let table = match self.classes.take(placed.class) {
            Some(table) => table,
            None => match Table::new(self.profile, cycle, self.timing) {
                Ok(table) => Box::new(table),
                Err(_) => return false,
            },
        };
        let mark = overlay.checkpoint();
        placed.before = overlay.cluster().nodes().slot(placed.node).version;
        let way = (placed.node, placed.nth);
        // It was found within a poll, and is found again.
        let mut own = Budget::new(u64::MAX);
        let reserved = self.reserve(overlay, &pod, &table.state, way, &mut own);
        budget.spend(own.spent());
        self.classes.put(placed.class, table, self.group);
        placed.mark = mark;
        if !matches!(reserved, Ok(true)) {
            overlay.rollback(mark);
            return false;
        }
        true
    }

    /// Returns the pod's class and the number of the class's table.
    pub(super) fn class_of(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        budget: &mut Budget,
    ) -> Result<u32, Unplaced> {
        let key = ClassKey::of(pod, self.profile_idx, self.profile, overlay.cluster())
            .map_err(Unplaced::Error)?;
        let mut declared = false;
        let selecting = &mut self.selecting;
        overlay.declare_all(|cluster| {
            declared = key.declare(cluster, &pod.uid, budget, selecting);
        });
        if !declared {
            return Err(Unplaced::Paused);
        }
        Ok(self.classes.id(key))
    }

    /// Returns the table of the pod's class, brought up to date.
    pub(super) fn looked_at(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        budget: &mut Budget,
    ) -> Result<(u32, Box<Table>), Unplaced> {
        // What a class remembers needs no PreFilter; finding it is what stands for the point then.
        self.timing.turn(Point::PreFilter);
        let class = self.class_of(overlay, pod, budget)?;
        self.last_class = (class, false);
        let mut table = match self.table(class, overlay.cluster(), pod) {
            Ok(table) => table,
            Err(unready) => return Err(self.unready(unready, overlay.cluster())),
        };
        self.last_class = (class, table.independent());
        self.counts_pods = table.counts_pods();
        let cycle = Cycle { pod, cluster: overlay.cluster() };
        if let Err(unready) =
            table.refresh(self.profile, cycle, budget, self.timing, &mut self.laid_out)
        {
            let paused = matches!(unready, Unready::Paused);
            let result = self.unready(unready, overlay.cluster());
            if paused {
                self.classes.put(class, table, true);
            }
            return Err(result);
        }
        Ok((class, table))
    }

    fn next(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        table: &mut Table,
        after: Option<(NodeIdx, u32)>,
        tried: &mut NodeSet,
        budget: &mut Budget,
    ) -> Result<Placed, Unplaced> {
        if let Some((node, nth)) = after {
            budget.spend(1);
            let again = Chosen { node, feasible: table.fit.len(), best: Vec::new() };
            match self.take(overlay, pod, table, again, nth + 1, budget) {
                Ok(Some(placed)) => return Ok(placed),
                Ok(None) => {}
                Err(Unplaced::Unfit(_)) => self.unproven = true,
                Err(unplaced) => return Err(unplaced),
            }
            tried.insert(node);
        }
        loop {
            let chosen = self.choose(overlay, pod, table, tried, budget)?;
            let node = chosen.node;
            match self.take(overlay, pod, table, chosen, 0, budget) {
                Ok(Some(placed)) => return Ok(placed),
                // A group tries its other nodes; a pod of its own is told what Reserve said.
                Ok(None) | Err(Unplaced::Unfit(_)) if self.group => tried.insert(node),
                Ok(None) => return Err(Unplaced::Error("Reserve has no way to go".into())),
                Err(unplaced) => return Err(unplaced),
            }
        }
    }

    /// Takes the place on the overlay by the `nth` way; `None`, with the overlay as it was, if there
    /// are not so many.
    fn take(
        &self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        table: &Table,
        chosen: Chosen,
        nth: u32,
        budget: &mut Budget,
    ) -> Result<Option<Placed>, Unplaced> {
        let (class, independent) = self.last_class;
        let mark = overlay.checkpoint();
        let before = overlay.cluster().nodes().slot(chosen.node).version;
        let Chosen { node, feasible, best } = chosen;
        let reserved = self.reserve(overlay, pod, &table.state, (node, nth), budget);
        if !matches!(reserved, Ok(true)) {
            overlay.rollback(mark);
            return reserved.map(|_| None);
        }
        let within = overlay.cluster().within().cloned();
        Ok(Some(Placed { node, nth, feasible, best, class, independent, mark, before, within }))
    }

    pub(super) fn last_class(&self) -> (u32, bool) {
        self.last_class
    }

    pub(super) fn seed(&self) -> u64 {
        self.setup.seed
    }

    fn table(&mut self, class: u32, cluster: &Cluster, pod: &Pod) -> Result<Box<Table>, Unready> {
        match self.classes.take(class) {
            Some(table) => Ok(table),
            None => {
                self.laid_out += 1;
                Table::new(self.profile, Cycle { pod, cluster }, self.timing).map(Box::new)
            }
        }
    }

    fn choose(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        table: &mut Table,
        tried: &NodeSet,
        budget: &mut Budget,
    ) -> Result<Chosen, Unplaced> {
        let crowded = self.crowded(overlay, pod, table);
        budget.spend((table.fit.len() / NODES_A_STEP + crowded.len()) as u64);
        let mut candidates = table.fit.clone();
        for (node, ..) in &crowded {
            candidates.remove(*node);
        }
        candidates = candidates.difference(tried);
        for placement in &self.within {
            candidates = candidates.intersection(&placement.nodes);
        }
        if let Some(open) = &self.open {
            candidates = candidates.intersection(open);
        }
        for (consultant, who) in self.setup.consultants.iter().enumerate() {
            if candidates.is_empty() || !who.interested(pod) {
                continue;
            }
            match self.allowed.get(&(pod.uid.clone(), consultant)) {
                Some(allowed) => {
                    candidates = candidates.intersection(allowed);
                }
                None => return Err(Unplaced::Ask { consultant, nodes: candidates }),
            }
        }
        if candidates.is_empty() {
            return Err(self.unfit(overlay.cluster(), pod, table, &crowded, tried));
        }
        self.pick(overlay, pod, table, candidates, budget)
    }

    fn pick(
        &self,
        overlay: &Overlay<'_>,
        pod: &Pod,
        table: &mut Table,
        candidates: NodeSet,
        budget: &mut Budget,
    ) -> Result<Chosen, Unplaced> {
        let feasible = candidates.len();
        let candidates = match self.meant_for(overlay.cluster(), pod, &candidates) {
            meant if !meant.is_empty() => meant,
            _ => self.sample(candidates, overlay.cluster(), pod, table.restricted_to()),
        };
        budget.spend((candidates.len() * table.scores.fresh_len()) as u64);
        let cycle = Cycle { pod, cluster: overlay.cluster() };
        let mut rng = Rng::stream(self.setup.seed, "tie-break", &pod.uid.0, u64::from(self.ties));
        self.timing.turn(Point::Score);
        let node = table
            .scores
            .pick(self.profile, cycle, &mut table.state, &candidates, &mut rng, self.timing)
            .map_err(Unplaced::Error)?;
        let best = if self.setup.report >= ReportLevel::Scores {
            table
                .scores
                .best(
                    self.profile,
                    cycle,
                    &mut table.state,
                    &candidates,
                    5,
                    self.timing.unsampled(),
                )
                .map_err(Unplaced::Error)?
        } else {
            Vec::new()
        };
        Ok(Chosen { node, feasible, best })
    }

    /// Cuts the candidates down where a percentage is set. Source: `numFeasibleNodesToFind` of
    /// upstream's schedule_one.go, but 0 means all; the part starts at a place of the pod's own.
    fn sample(
        &self,
        candidates: NodeSet,
        cluster: &Cluster,
        pod: &Pod,
        restricted_to: Option<usize>,
    ) -> NodeSet {
        let percentage = match self.profile.percentage_of_nodes_to_score {
            0 => self.setup.percentage_of_nodes_to_score,
            own => own,
        };
        let nodes = restricted_to.unwrap_or(cluster.nodes().len());
        if !(1..100).contains(&percentage) || nodes < 100 {
            return candidates;
        }
        let target = (nodes * percentage as usize / 100).max(100);
        if candidates.len() <= target {
            return candidates;
        }
        let attempt = u64::from(self.attempt);
        let mut rng = Rng::stream(self.setup.seed, "sample", &pod.uid.0, attempt);
        let start = rng.below(candidates.len() as u64) as usize;
        candidates.iter().cycle_from(start).take(target).collect()
    }

    /// Takes the place on the overlay, then asks the Reserve plugins for the `nth` way. Returns
    /// whether there are so many.
    fn reserve(
        &self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        state: &CycleState,
        (node, nth): (NodeIdx, u32),
        budget: &mut Budget,
    ) -> Result<bool, Unplaced> {
        self.timing.turn(Point::Reserve);
        if !overlay.assume(&pod.uid, node) {
            return Err(Unplaced::Error(Text::from("the pod has a place already")));
        }
        let mut found = nth == 0;
        for (at, entry) in self.profile.reserve.iter().enumerate() {
            let mut work = Work::new(budget.remaining(), None);
            let ask = || {
                guarded(entry.name, || {
                    // Where several plugins know other ways, the first one's are gone through.
                    if !found {
                        match entry.plugin.reserve_other(pod, overlay, state, node, nth, &mut work)
                        {
                            Some(Ok(true)) => {
                                found = true;
                                return Some(Ok(()));
                            }
                            Some(Ok(false)) => {}
                            Some(Err(reason)) => return Some(Err(reason)),
                            None => return None,
                        }
                    }
                    Some(entry.plugin.reserve(pod, overlay, state, node, &mut work))
                })
            };
            let answer = self.timing.call(Point::Reserve, at, ask);
            budget.spend(work.spent());
            match answer {
                Ok(Some(Ok(()))) => {}
                Ok(None) => return Err(Unplaced::Paused),
                Ok(Some(Err(reason))) => {
                    self.timing.went(Point::Reserve, Code::Unschedulable);
                    return Err(refused(entry.name, &reason));
                }
                Err(fault) => {
                    self.timing.went(Point::Reserve, Code::Error);
                    return Err(Unplaced::Error(fault));
                }
            }
        }
        Ok(found)
    }
}

/// Starts an iterator of known length at its `start`-th item and goes round once.
trait CycleFrom: Iterator + Sized {
    fn cycle_from(self, start: usize) -> std::vec::IntoIter<Self::Item>;
}

impl<I: Iterator> CycleFrom for I {
    fn cycle_from(self, start: usize) -> std::vec::IntoIter<I::Item> {
        let mut items: Vec<I::Item> = self.collect();
        items.rotate_left(start);
        items.into_iter()
    }
}

/// Tells whether a pod may still be looked at: it is there, has no place, and is not on its way
/// out.
pub(super) fn may_be_placed(cluster: &Cluster, uid: &PodUid) -> bool {
    cluster.pod(uid).is_some_and(|record| {
        record.place == Place::Nowhere && !record.pod.terminating && !record.pod.finished()
    })
}
