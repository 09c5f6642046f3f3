//! Filling an empty cluster beyond what it has: nobody leaves, nobody comes again.

use std::time::Duration;

use crate::policy::{Options, Policy, expect};
use crate::stage::Stage;
use crate::trace::{SIZE_CLASSES, TraceNode, TracePod, arrivals};

/// Demand at the end, as a share of the cluster. Source: the FGD paper. Unit: percent.
const DEMAND: i64 = 130;
/// Where whole nodes are counted. Unit: percent of the cluster that is allocated.
const LOADS: [i64; 3] = [50, 70, 85];

/// What one run showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filled {
    /// Share of the GPUs that is not allocated at the end. Unit: percent.
    pub(crate) unallocated: f64,
    /// Nodes with eight free GPUs when so much was allocated.
    pub(crate) whole_nodes: [i64; 3],
    pub(crate) roomy_nodes: [i64; 3],
    /// Share of the pods of each size that found no place. Unit: percent.
    pub(crate) refused: [f64; SIZE_CLASSES.len()],
    /// Demand that had come when the first pod was refused. Unit: percent.
    pub(crate) first_refusal: f64,
    /// CPU time. Unit: microseconds a pod.
    pub(crate) micros: f64,
    /// As `micros`, of the pods that found a place: nothing is to be explained there.
    pub(crate) micros_placed: f64,
}

pub(crate) struct Run<'a> {
    pub(crate) nodes: &'a [TraceNode],
    pub(crate) pods: &'a [TracePod],
    pub(crate) policy: Policy,
    pub(crate) prior: bool,
    pub(crate) options: &'a Options,
    pub(crate) seed: u64,
}

impl Run<'_> {
    pub(crate) fn stage(&self) -> Stage {
        expect(self.pods);
        let prior = if self.prior { self.pods } else { &[] };
        let profile = self.policy.profile(prior, self.options);
        Stage::new(self.nodes, profile, self.seed)
    }

    pub(crate) fn capacity_milli(&self) -> i64 {
        self.nodes.iter().map(|node| 1000 * node.gpus).sum()
    }
}

pub(crate) fn fill(run: &Run<'_>) -> Filled {
    let capacity = run.capacity_milli();
    let arrivals = arrivals(run.pods, capacity * DEMAND / 100, run.seed);
    let mut stage = run.stage();
    let mut filled = Filled { whole_nodes: [-1; 3], roomy_nodes: [-1; 3], ..Filled::default() };
    let mut sizes = [(0u32, 0u32); SIZE_CLASSES.len()];
    let (mut allocated, mut asked) = (0, 0);
    let (mut placed, mut took_placed) = (0u32, Duration::ZERO);
    for pod in &arrivals {
        asked += pod.total_milli();
        let size = &mut sizes[pod.size_class()];
        size.0 += 1;
        let before = stage.took;
        match stage.arrive(pod) {
            Some(_) => {
                allocated += pod.total_milli();
                placed += 1;
                took_placed += stage.took - before;
            }
            None => {
                size.1 += 1;
                if filled.first_refusal == 0.0 {
                    filled.first_refusal = percent(asked, capacity);
                }
            }
        }
        for (at, load) in LOADS.iter().enumerate() {
            if filled.whole_nodes[at] < 0 && allocated * 100 >= capacity * load {
                let look = stage.look();
                filled.whole_nodes[at] = look.whole_nodes;
                filled.roomy_nodes[at] = look.roomy_nodes;
            }
        }
    }
    assert_eq!(stage.look().allocated_milli, allocated, "both book-keepings agree");
    filled.unallocated = 100.0 - percent(allocated, capacity);
    filled.refused = sizes.map(|(all, refused)| percent(i64::from(refused), i64::from(all)));
    filled.micros = stage.took.as_secs_f64() * 1e6 / arrivals.len() as f64;
    filled.micros_placed = took_placed.as_secs_f64() * 1e6 / f64::from(placed.max(1));
    filled
}

pub(crate) fn percent(part: i64, all: i64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}
