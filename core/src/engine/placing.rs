//! Placing one pod on an overlay: PreFilter, Filter, Score, choice, Reserve.

use std::sync::Arc;

use crate::framework::rng::Rng;
use crate::framework::{Cycle, NodeSet, PermitAnswer, PreFilterAnswer, Profile, Reason, Verdict};
use crate::queue::Rejection;
use crate::snapshot::{Cluster, NodeIdx, Overlay, Place};
use crate::types::{Pod, PodUid, Text};

use super::budget::Budget;
use super::classes::{ClassKey, Classes};
use super::guard::guarded;
use super::message::FitError;
use super::report::{NodeScores, Rejected, ReportLevel};
use super::setup::Setup;
use super::table::{Table, Unready, verdict_on};

/// What a member's placing needs to know besides the ledger.
pub(super) struct Placer<'a> {
    pub(super) profile: &'a Profile,
    pub(super) profile_idx: usize,
    pub(super) classes: &'a mut Classes,
    pub(super) setup: &'a Setup,
    pub(super) attempt: u32,
    /// Nodes that a consultant allowed, where one was asked.
    pub(super) allowed: Option<&'a NodeSet>,
}

/// A member that was placed on the overlay.
pub(super) struct Placed {
    pub(super) node: NodeIdx,
    pub(super) feasible: usize,
    pub(super) best: Vec<NodeScores>,
}

/// Why a member was not placed.
pub(super) enum Unplaced {
    Paused,
    /// It fits nowhere.
    Unfit(Box<Unfit>),
    /// A consultant must be asked about these nodes first.
    Ask {
        consultant: usize,
        nodes: NodeSet,
    },
    /// Bad data or a fault.
    Error(Text),
}

#[derive(Default)]
pub(super) struct Unfit {
    pub(super) error: FitError,
    pub(super) rejection: Rejection,
    pub(super) rejected: Vec<Rejected>,
    /// A node was Broken: if nothing fits, this is an error and no lack of room.
    pub(super) broken: Option<Text>,
}

impl Placer<'_> {
    pub(super) fn place(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        budget: &mut Budget,
    ) -> Result<Placed, Unplaced> {
        let key = ClassKey::of(pod, self.profile_idx, self.profile, overlay.cluster());
        overlay.declare_all(|cluster| key.declare(cluster));
        let class = self.classes.id(key);
        let mut table = match self.table(class, overlay.cluster(), pod) {
            Ok(table) => table,
            Err(unready) => return Err(self.unready(unready, overlay.cluster())),
        };
        let cycle = Cycle { pod, cluster: overlay.cluster() };
        if let Err(unready) = table.refresh(self.profile, cycle, budget) {
            let paused = matches!(unready, Unready::Paused);
            let result = self.unready(unready, overlay.cluster());
            if paused {
                self.classes.put(class, table, true);
            }
            return Err(result);
        }
        let result = self.choose(overlay, pod, &mut table);
        self.classes.put(class, table, false);
        let placed = result?;
        self.reserve(overlay, pod, placed.node)?;
        Ok(placed)
    }

    fn table(&mut self, class: u32, cluster: &Cluster, pod: &Pod) -> Result<Box<Table>, Unready> {
        match self.classes.take(class) {
            Some(table) => Ok(table),
            None => Table::new(self.profile, Cycle { pod, cluster }).map(Box::new),
        }
    }

    fn unready(&self, unready: Unready, cluster: &Cluster) -> Unplaced {
        let (plugin, answer) = match unready {
            Unready::Paused => return Unplaced::Paused,
            Unready::Rejected { plugin, answer } => (plugin, answer),
        };
        let mut unfit = Unfit::default();
        unfit.error.nodes = cluster.nodes().len();
        let reason = match answer {
            PreFilterAnswer::Unschedulable(reason) | PreFilterAnswer::Unresolvable(reason) => {
                unfit.rejection.plugins.push(plugin);
                reason
            }
            PreFilterAnswer::Pending(reason) => {
                unfit.rejection.pending.push(plugin);
                reason
            }
            PreFilterAnswer::Broken(text) => return Unplaced::Error(text),
            PreFilterAnswer::Continue | PreFilterAnswer::Only(_) | PreFilterAnswer::Skip => {
                Reason::default()
            }
        };
        let text = Text::from(reason.texts.join(", "));
        let nodes = unfit.error.nodes;
        unfit.rejected.push(Rejected { plugin, reason: text.clone(), nodes });
        unfit.error.pre_filter = Some(text);
        Unplaced::Unfit(Box::new(unfit))
    }

    fn choose(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        table: &mut Table,
    ) -> Result<Placed, Unplaced> {
        let crowded = self.crowded(overlay, pod, table);
        let nominated = overlay.cluster().nomination(&pod.uid);
        let mut candidates = table.fit.clone();
        for (node, _) in &crowded {
            candidates.remove(*node);
        }
        if let Some(allowed) = self.allowed {
            candidates = candidates.iter().filter(|node| allowed.contains(*node)).collect();
        }
        if candidates.is_empty() {
            return Err(self.unfit(overlay.cluster(), pod, table, &crowded));
        }
        if let Some(consultant) = self.to_ask(pod) {
            return Err(Unplaced::Ask { consultant, nodes: candidates });
        }
        let feasible = candidates.len();
        let candidates = match nominated {
            Some(node) if candidates.contains(node) => [node].into_iter().collect(),
            _ => self.sample(candidates, overlay.cluster(), pod),
        };
        let cycle = Cycle { pod, cluster: overlay.cluster() };
        let attempt = u64::from(self.attempt);
        let mut rng = Rng::stream(self.setup.seed, "tie-break", &pod.uid.0, attempt);
        let node = table
            .scores
            .pick(self.profile, cycle, &mut table.state, &candidates, &mut rng)
            .map_err(Unplaced::Error)?;
        let best = if self.setup.report >= ReportLevel::Scores {
            table
                .scores
                .best(self.profile, cycle, &mut table.state, &candidates, 5)
                .map_err(Unplaced::Error)?
        } else {
            Vec::new()
        };
        Ok(Placed { node, feasible, best })
    }

    /// Returns the first interested consultant, unless its answer is there.
    fn to_ask(&self, pod: &Pod) -> Option<usize> {
        if self.allowed.is_some() {
            return None;
        }
        self.setup.consultants.iter().position(|consultant| consultant.interested(pod))
    }

    /// Returns the nodes that fit only if pods nominated there, of this priority or above, are
    /// left out of account, with the verdict that counts them in. Never cached.
    fn crowded(
        &self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        table: &Table,
    ) -> Vec<(NodeIdx, Verdict)> {
        let nodes: Vec<NodeIdx> =
            overlay.cluster().nominated_nodes().filter(|node| table.fit.contains(*node)).collect();
        let mut crowded = Vec::new();
        for node in nodes {
            let others: Vec<PodUid> = overlay
                .cluster()
                .nominated_on(node)
                .filter(|other| other.uid != pod.uid && other.priority >= pod.priority)
                .map(|other| other.uid.clone())
                .collect();
            if others.is_empty() {
                continue;
            }
            let mark = overlay.checkpoint();
            for other in &others {
                overlay.assume(other, node);
            }
            let cycle = Cycle { pod, cluster: overlay.cluster() };
            let verdict = verdict_on(self.profile, cycle, node);
            overlay.rollback(mark);
            if !verdict.fits() {
                crowded.push((node, verdict));
            }
        }
        crowded
    }

    /// Cuts the candidates down where a percentage is set. Source: `numFeasibleNodesToFind` of
    /// upstream's schedule_one.go, but 0 means all; the part starts at a place of the pod's own.
    fn sample(&self, candidates: NodeSet, cluster: &Cluster, pod: &Pod) -> NodeSet {
        let percentage = match self.profile.percentage_of_nodes_to_score {
            0 => self.setup.percentage_of_nodes_to_score,
            own => own,
        };
        let nodes = cluster.nodes().len();
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

    fn unfit(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        table: &Table,
        crowded: &[(NodeIdx, Verdict)],
    ) -> Unplaced {
        let mut unfit = Unfit::default();
        unfit.error.nodes = cluster.nodes().len();
        let mut plugins: Vec<&'static str> = Vec::new();
        for (plugin, verdict, nodes) in table.rejections(self.profile) {
            unfit.note(plugin, verdict, nodes);
            if plugin.is_empty() {
                plugins.extend(table.restricting_plugins());
            } else {
                plugins.push(plugin);
            }
        }
        for (_, verdict) in crowded {
            unfit.note("", verdict, 1);
        }
        if !crowded.is_empty() {
            // Room comes back when a nominated pod is bound elsewhere or goes: resources tell.
            plugins.extend(self.profile.filter.iter().map(|entry| entry.name));
        }
        if let Some(allowed) = self.allowed {
            let refused = table.fit.iter().filter(|node| !allowed.contains(*node)).count();
            let verdict = Verdict::Unschedulable(Reason::of("node(s) refused by extender"));
            unfit.note("Extender", &verdict, refused);
        }
        plugins.sort_unstable();
        plugins.dedup();
        unfit.rejection = Rejection { plugins, pending: Vec::new() };
        if let Some(text) = unfit.broken.take() {
            return Unplaced::Error(text);
        }
        let cycle = Cycle { pod, cluster };
        for entry in &self.profile.explain {
            let turned_away = unfit.rejection.plugins.contains(&entry.name);
            let told = || entry.plugin.explain(cycle, &table.state);
            if turned_away && let Ok(Some(text)) = guarded(entry.name, told) {
                unfit.error.numbers.push(text);
            }
        }
        Unplaced::Unfit(Box::new(unfit))
    }

    /// Takes the place on the overlay, then asks the Reserve plugins.
    fn reserve(&self, overlay: &mut Overlay<'_>, pod: &Pod, node: NodeIdx) -> Result<(), Unplaced> {
        if !overlay.assume(&pod.uid, node) {
            return Err(Unplaced::Error(Text::from("the pod has a place already")));
        }
        for entry in &self.profile.reserve {
            match guarded(entry.name, || entry.plugin.reserve(pod, overlay, node)) {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => return Err(refused(entry.name, &reason, overlay.cluster())),
                Err(fault) => return Err(Unplaced::Error(fault)),
            }
        }
        Ok(())
    }

    /// Asks the Permit plugins. Returns a wait for the first that wants one.
    ///
    /// # Errors
    /// A plugin rejects the placement, or failed.
    pub(super) fn permit(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        node: NodeIdx,
        now: crate::types::Timestamp,
    ) -> Result<Option<crate::framework::plan::Wait>, Unplaced> {
        for entry in &self.profile.permit {
            let answer = guarded(entry.name, || entry.plugin.permit(pod, cluster, node, now));
            match answer {
                Ok(PermitAnswer::Allow) => {}
                Ok(PermitAnswer::Wait { until, reason }) => {
                    return Ok(Some(crate::framework::plan::Wait {
                        condition: Arc::new(super::plans::Permitted {
                            permits: self.profile.permit.iter().map(|e| e.plugin.clone()).collect(),
                            pod: pod.uid.clone(),
                            node,
                            asked: now,
                        }),
                        deadline: until.min(now + super::plans::PERMIT_MAX),
                        on_expiry: reason,
                    }));
                }
                Ok(PermitAnswer::Reject(reason)) => {
                    return Err(refused(entry.name, &reason, cluster));
                }
                Err(fault) => return Err(Unplaced::Error(fault)),
            }
        }
        Ok(None)
    }
}

fn refused(plugin: &'static str, reason: &Reason, cluster: &Cluster) -> Unplaced {
    let mut unfit = Unfit { rejection: Rejection::by(plugin), ..Unfit::default() };
    unfit.error.nodes = cluster.nodes().len();
    unfit.note(plugin, &Verdict::Unschedulable(reason.clone()), 1);
    Unplaced::Unfit(Box::new(unfit))
}

impl Unfit {
    fn note(&mut self, plugin: &'static str, verdict: &Verdict, nodes: usize) {
        if nodes == 0 {
            return;
        }
        self.error.count(verdict, nodes);
        let texts = match verdict {
            Verdict::Fit => return,
            Verdict::Unschedulable(reason) | Verdict::Unresolvable(reason) => &reason.texts[..],
            Verdict::Broken(text) => {
                self.broken.get_or_insert_with(|| {
                    Text::from(format!("running {plugin:?} filter plugin: {text}"))
                });
                std::slice::from_ref(text)
            }
        };
        let row = |reason: &Text| Rejected { plugin, reason: reason.clone(), nodes };
        self.rejected.extend(texts.iter().map(row));
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
