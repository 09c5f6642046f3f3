//! NumaTopology: pods don't go to nodes whose kubelet would refuse them, since what they ask for isn't
//! free in one NUMA cell.
//!
//! It speaks of nodes that tell what their kubelet's topology manager does and what each cell has
//! ([`numa`](berth_core::snapshot::numa)). A resource that they don't tell of by cell isn't aligned,
//! nor is anything on other nodes.
//!
//! Source: pkg/kubelet/cm/topologymanager of Kubernetes 1.37; messages of scheduler-plugins'
//! NodeResourceTopologyMatch.

use std::sync::Arc;

use berth_core::framework::{
    Args, Cycle, CycleState, Filter, Hint, HintContext, Interest, PluginDef, Points, PreFilter,
    PreFilterAnswer, Verdict,
};
use berth_core::snapshot::numa::Way;
use berth_core::snapshot::{Change, Cluster, NodeIdx};
use berth_core::types::numa::{Alignment, NumaPolicy, NumaScope, Stage};
use berth_core::types::{NumaReport, Resources};

const NAME: &str = "NumaTopology";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "keeps pods off nodes whose kubelet can't align them to NUMA cells",
    missing: None,
    build,
};

/// Sets of cells that are looked at for one container; of a node with more that matter the kubelet
/// decides.
const SETS_MAX: usize = 4096;

struct NumaTopology;

fn build(_: &Args, points: &mut Points) {
    let plugin = Arc::new(NumaTopology);
    points.pre_filter(plugin.clone());
    points.filter(plugin.clone());
    points.interest(plugin);
}

impl PreFilter for NumaTopology {
    fn pre_filter(&self, cycle: Cycle<'_>, _: &mut CycleState) -> PreFilterAnswer {
        match cycle.pod.spec.alignment {
            Some(_) => PreFilterAnswer::Continue,
            None => PreFilterAnswer::Skip,
        }
    }
}

impl Filter for NumaTopology {
    fn filter(&self, cycle: Cycle<'_>, _: &CycleState, node: NodeIdx) -> Verdict {
        let Some(alignment) = &cycle.pod.spec.alignment else { return Verdict::Fit };
        if !refuses(cycle.cluster, node) {
            return Verdict::Fit;
        }
        let Some(cells) = cycle.cluster.numa_cells(node) else { return Verdict::Fit };
        let report = cells.report;
        let refused = cells.ways().find_map(|way| refusal(alignment, report, way));
        match refused {
            None => Verdict::Fit,
            Some(reason) => Verdict::Unschedulable(reason.into()),
        }
    }
}

impl Interest for NumaTopology {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        let helps = match change {
            Change::NodeAdded { .. } => true,
            Change::NodeUpdated { aspects, .. } => aspects.admission,
            Change::PodFreed { node, .. } => report_of(cx.cluster, *node).is_some(),
            Change::PodUpdated { uid, old, .. } => *uid == cx.pod.uid && old.spec != cx.pod.spec,
            _ => false,
        };
        if helps { Hint::Queue } else { Hint::Skip }
    }
}

fn report_of(cluster: &Cluster, node: NodeIdx) -> Option<&NumaReport> {
    cluster.numa_report(&cluster.nodes().slot(node).name)
}

/// Tells whether the node's kubelet refuses anything at all, for what it has told.
fn refuses(cluster: &Cluster, node: NodeIdx) -> bool {
    report_of(cluster, node).is_some_and(|report| report.policy != NumaPolicy::Lenient)
}

/// Returns why a kubelet would refuse what is to be aligned, if its cells are so.
fn refusal(alignment: &Alignment, report: &NumaReport, way: Way<'_>) -> Option<&'static str> {
    let policy = report.policy;
    let mut desk = Desk::new(report, way, &alignment.pod);
    if report.scope == NumaScope::Pod {
        return desk.place(&alignment.pod, policy).is_none().then_some("cannot align pod");
    }
    for container in &alignment.containers {
        let init = container.stage != Stage::Main;
        let Some(place) = desk.place(&container.amounts, policy) else {
            let (of_init, of_main) = ("cannot align init container", "cannot align container");
            return Some(if init { of_init } else { of_main });
        };
        // What an init container had the next ones get.
        if container.stage != Stage::Init {
            desk.take(&container.amounts, place);
        }
    }
    None
}

/// What the cells of a node have left while the containers of a pod are placed.
struct Desk<'a> {
    columns: Vec<Column<'a>>,
    n_cells: usize,
}

struct Column<'a> {
    resource: &'a str,
    allocatable: Vec<i64>,
    free: Vec<i64>,
}

/// Cells, by their place in the report.
type CellSet = u64;

fn members(set: CellSet) -> impl Iterator<Item = usize> {
    (0..64).filter(move |cell| set >> cell & 1 == 1)
}

impl Column<'_> {
    fn sum(of: &[i64], set: CellSet) -> i64 {
        members(set).filter_map(|cell| of.get(cell)).sum()
    }

    /// Returns the fewest cells that would hold so much if nothing were in use.
    fn cells_needed(&self, amount: i64) -> Option<usize> {
        let mut most = self.allocatable.clone();
        most.sort_unstable_by_key(|amount| std::cmp::Reverse(*amount));
        let mut sum = 0;
        (1..).zip(most).find_map(|(n, most)| {
            sum += most;
            (sum >= amount).then_some(n)
        })
    }
}

impl<'a> Desk<'a> {
    fn new(report: &NumaReport, way: Way<'_>, wanted: &'a Resources) -> Desk<'a> {
        let cells = &report.cells;
        let column = |(resource, _)| Column {
            resource,
            allocatable: cells.iter().map(|it| it.allocatable.amount(resource)).collect(),
            free: (0..cells.len()).map(|at| way.free(at, resource)).collect(),
        };
        let told = wanted.iter().filter(|(resource, _)| report.has(resource));
        Desk { columns: told.map(column).collect(), n_cells: cells.len() }
    }

    /// Returns the cells that a kubelet would give; `None` if it would refuse. Of sets of the fewest
    /// cells it is the lowest.
    fn place(&self, amounts: &Resources, policy: NumaPolicy) -> Option<CellSet> {
        let wanted: Vec<(&Column<'_>, i64)> = self
            .columns
            .iter()
            .map(|column| (column, amounts.amount(column.resource)))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        let Some((first, amount)) = wanted.first() else { return Some(0) };
        // All resources are to be on the same cells, and none on more than it needs.
        let size = first.cells_needed(*amount)?;
        let alike = wanted.iter().all(|(column, n)| column.cells_needed(*n) == Some(size));
        if !alike || policy == NumaPolicy::SingleCell && size > 1 {
            return None;
        }
        let holds = |set: &CellSet| wanted.iter().all(|(it, n)| Column::sum(&it.free, *set) >= *n);
        let mut sets = sets(self.n_cells, size);
        match sets.by_ref().take(SETS_MAX).find(holds) {
            None if sets.next().is_some() => Some(0),
            found => found,
        }
    }

    /// Takes from the lowest cells first.
    fn take(&mut self, amounts: &Resources, set: CellSet) {
        for column in &mut self.columns {
            let mut rest = amounts.amount(column.resource);
            for cell in members(set) {
                if let Some(free) = column.free.get_mut(cell) {
                    let taken = rest.min(*free);
                    *free -= taken;
                    rest -= taken;
                }
            }
        }
    }
}

/// Returns all sets of so many of `n` cells, the lowest first.
fn sets(n: usize, size: usize) -> impl Iterator<Item = CellSet> {
    let first = if size <= n && (1..=64).contains(&size) { CellSet::MAX >> (64 - size) } else { 0 };
    let within = move |set: &CellSet| *set != 0 && (n >= 64 || *set >> n == 0);
    // The next larger number with as many ones.
    let next = |set: &CellSet| {
        let lowest = set & set.wrapping_neg();
        let carried = set.checked_add(lowest).filter(|_| *set != 0)?;
        Some((set ^ carried) >> 2 >> lowest.trailing_zeros() | carried)
    };
    std::iter::successors(Some(first), next).take_while(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_come_lowest_first_and_each_once() {
        let all = |n, size| sets(n, size).collect::<Vec<_>>();
        assert_eq!(all(4, 1), [1, 2, 4, 8]);
        assert_eq!(all(4, 2), [3, 5, 6, 9, 10, 12]);
        assert_eq!(all(3, 3), [7]);
        assert_eq!(all(64, 64), [CellSet::MAX]);
        assert_eq!(all(64, 1).len(), 64);
        assert_eq!((all(2, 3).len(), all(0, 0).len()), (0, 0));
    }
}
