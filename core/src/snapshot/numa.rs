//! Index of NUMA cells: what nodes have told of theirs, and what may be free in each now.
//!
//! A report is a while old: pods have come and gone since. Which cell the kubelet has given to one that
//! came only the next report tells, so what hasn't been told of yet counts against every cell. What pods
//! that are gone had is free in the cells in which they may have been ([`ways`]): what fits must fit in
//! each of these ways. Where they can't be told it counts as in use, but no cell has given away more than
//! all pods that are there take together.
//!
//! A pod counts as told of if it had started when the report came, or when it was first heard of. So do
//! all that are there if none of these has gone and the report has as much in use as they all take.

mod ways;

use std::collections::{BTreeMap, BTreeSet};

use crate::types::numa::{Alignment, NumaCell, NumaPolicy, NumaScope, Stage};
use crate::types::{NumaReport, Pod, PodUid, Resources, Text};

use super::cluster::Cluster;
use super::event::{Change, NodeAspects, older};
use super::nodes::NodeIdx;
use super::pods::Place;
use ways::Item;

#[derive(Debug, Default)]
pub(super) struct Numa {
    by_node: BTreeMap<Text, Told>,
}

/// What pods have in cells, `None` for those that have nothing.
type Counted = BTreeMap<PodUid, Option<Box<Alignment>>>;

#[derive(Debug)]
struct Told {
    report: NumaReport,
    /// Pods that it counts.
    counted: Counted,
}

impl Numa {
    pub(super) fn reports(&self) -> impl Iterator<Item = &NumaReport> {
        self.by_node.values().map(|told| &told.report)
    }
}

/// The NUMA cells of a node as they may be now.
#[derive(Clone, Debug)]
pub struct CellsNow<'a> {
    pub report: &'a NumaReport,
    /// What pods have that it may not have counted.
    uncounted: Resources,
    /// Where something that it counts has gone: what pods have now.
    taken: Option<Resources>,
    /// What each cell has back, in each of the ways in which that may be.
    ways: Vec<Vec<Resources>>,
}

/// One of the ways in which cells may be.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    cells: &'a CellsNow<'a>,
    back: &'a [Resources],
}

impl CellsNow<'_> {
    /// Returns the ways in which the cells may be; at least one.
    pub fn ways(&self) -> impl Iterator<Item = Way<'_>> {
        self.ways.iter().map(|back| Way { cells: self, back })
    }

    /// Returns the only way, if it is known in which cell each pod is.
    pub fn exact(&self) -> Option<Way<'_>> {
        let known = self.uncounted.is_zero() && self.ways.len() == 1;
        self.ways().next().filter(|_| known)
    }
}

impl Way<'_> {
    /// Returns what a cell, by its place in the report, surely has left of a resource.
    pub fn free(&self, at: usize, resource: &str) -> i64 {
        let Some(cell) = self.cells.report.cells.get(at) else { return 0 };
        let allocatable = cell.allocatable.amount(resource);
        let back = self.back.get(at).map_or(0, |back| back.amount(resource));
        let told = cell.available.amount(resource) + back - self.cells.uncounted.amount(resource);
        let taken = self.cells.taken.as_ref();
        let least = taken.map_or(0, |taken| allocatable - taken.amount(resource));
        told.max(least).clamp(0, allocatable)
    }
}

impl Told {
    fn now(&self, cluster: &Cluster, node: NodeIdx) -> CellsNow<'_> {
        let (mut uncounted, mut taken) = (Resources::default(), Resources::default());
        let mut here = BTreeSet::new();
        for pod in cluster.pods_on(node) {
            let counted = self.counted.contains_key(&pod.uid);
            if counted {
                here.insert(&pod.uid);
            }
            let Some(alignment) = &pod.spec.alignment else { continue };
            taken.add(&alignment.pod);
            if !counted {
                uncounted.add(&alignment.pod);
            }
        }
        let complete = here.len() == self.counted.len();
        if complete && self.explains(&taken) {
            uncounted = Resources::default();
        }
        let ways = if complete { None } else { self.ways(|uid| here.contains(uid)) };
        let as_told = || vec![Vec::new()];
        CellsNow {
            report: &self.report,
            uncounted,
            taken: (!complete).then_some(taken),
            ways: ways.unwrap_or_else(as_told),
        }
    }

    /// Returns what each cell may have back of what is gone, where everything is in one cell.
    fn ways(&self, here: impl Fn(&PodUid) -> bool) -> Option<Vec<Vec<Resources>>> {
        if self.report.policy != NumaPolicy::SingleCell {
            return None;
        }
        let mut items = Vec::new();
        for (uid, alignment) in &self.counted {
            let Some(alignment) = alignment else { continue };
            let here = here(uid);
            if self.report.scope == NumaScope::Pod {
                items.push(Item { here, amounts: alignment.pod.clone() });
                continue;
            }
            // What init containers had, others may have, or not.
            if alignment.containers.iter().any(|own| own.stage == Stage::Init) {
                return None;
            }
            let all = alignment.containers.iter();
            items.extend(all.map(|own| Item { here, amounts: own.amounts.clone() }));
        }
        ways::ways(&self.report, &items)
    }

    /// Tells whether as much is in use as that.
    fn explains(&self, taken: &Resources) -> bool {
        let used = |name: &str| -> i64 {
            let of = |cell: &NumaCell| cell.allocatable.amount(name) - cell.available.amount(name);
            self.report.cells.iter().map(of).sum()
        };
        let mut told = taken.iter().filter(|(name, _)| self.report.has(name));
        told.all(|(name, amount)| used(name) >= amount)
    }
}

impl Cluster {
    /// Returns what a node has told of its NUMA cells.
    pub fn numa_report(&self, node: &str) -> Option<&NumaReport> {
        self.numa.by_node.get(node).map(|told| &told.report)
    }

    /// Returns the NUMA cells of a node, if it has told of them. It depends on the node's version.
    /// Cost: O(pods of the node).
    pub fn numa_cells(&self, node: NodeIdx) -> Option<CellsNow<'_>> {
        if self.numa.by_node.is_empty() {
            return None;
        }
        Some(self.numa.by_node.get(&self.nodes.slot(node).name)?.now(self, node))
    }

    pub(super) fn apply_numa_report(&mut self, report: NumaReport) -> Vec<Change> {
        let known = self.numa.by_node.get(&report.node);
        let late = |known: &NumaReport| {
            known.uid == report.uid && older(report.resource_version, known.resource_version)
        };
        if known.is_some_and(|told| late(&told.report)) {
            return Vec::new();
        }
        let node = report.node.clone();
        let told = self.told(report);
        let same = known.is_some_and(|known| {
            known.report.says_the_same(&told.report) && known.counted == told.counted
        });
        self.numa.by_node.insert(node.clone(), told);
        if same { Vec::new() } else { self.numa_moved(&node) }
    }

    pub(super) fn delete_numa_report(&mut self, node: &Text, uid: &Text) -> Vec<Change> {
        let known = self.numa_report(node).is_some_and(|it| uid.is_empty() || it.uid == *uid);
        if !known {
            return Vec::new();
        }
        self.numa.by_node.remove(node);
        self.numa_moved(node)
    }

    /// Notes a pod that is heard of for the first time.
    pub(super) fn note_in_numa_report(&mut self, pod: &Pod, place: Place) {
        let (Place::Bound(node), Some(_)) = (place, pod.started) else { return };
        if let Some(told) = self.numa.by_node.get_mut(&self.nodes.slot(node).name) {
            told.counted.insert(pod.uid.clone(), pod.spec.alignment.clone());
        }
    }

    fn told(&self, report: NumaReport) -> Told {
        let node = self.nodes.index(&report.node);
        let here: Vec<&Pod> = node.into_iter().flat_map(|node| self.pods_on(node)).collect();
        let mut taken = Resources::default();
        let aligned = here.iter().filter_map(|pod| pod.spec.alignment.as_ref());
        aligned.for_each(|alignment| taken.add(&alignment.pod));
        let mut told = Told { report, counted: Counted::new() };
        let all = told.explains(&taken);
        let counted = here.into_iter().filter(|pod| all || pod.started.is_some());
        told.counted = counted.map(|pod| (pod.uid.clone(), pod.spec.alignment.clone())).collect();
        told
    }

    fn numa_moved(&mut self, node: &str) -> Vec<Change> {
        let Some(node) = self.nodes.index(node) else { return Vec::new() };
        self.nodes.touch(node);
        let aspects = NodeAspects { admission: true, ..NodeAspects::default() };
        let old = self.nodes.node(node).cloned();
        old.map(|old| Change::NodeUpdated { node, old, aspects }).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
