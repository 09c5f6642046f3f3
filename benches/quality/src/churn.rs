//! Pods that come and go: Poisson arrivals of the trace's mix, each with a lifetime. A pod that finds
//! no place leaves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use berth_core::framework::rng::Rng;

use crate::fill::{Run, percent};
use crate::trace::{SIZE_CLASSES, TracePod};

/// How long pods stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetimes {
    Exponential,
    /// As the trace says, cut at 100,000 s, about the 99th percentile.
    Trace,
}

/// Unit: seconds.
const LONGEST: i64 = 100_000;

pub(crate) struct Churn {
    /// What would be in use if nobody were refused. Unit: percent of the GPUs.
    pub(crate) load: i64,
    pub(crate) lifetimes: Lifetimes,
    /// Length of the run, and of its last part, which is measured. Unit: mean lifetimes.
    pub(crate) length: f64,
    pub(crate) measured: f64,
}

/// What one run showed, on average over the time that is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Churned {
    /// Unit: percent of the GPUs.
    pub(crate) allocated: f64,
    /// Nodes with eight free GPUs.
    pub(crate) whole_nodes: f64,
    pub(crate) roomy_nodes: f64,
    /// Share of the pods of each size that found no place. Unit: percent.
    pub(crate) refused: [f64; SIZE_CLASSES.len()],
    /// Number of pods for eight GPUs.
    pub(crate) n_eight: i64,
    /// CPU time. Unit: microseconds a pod.
    pub(crate) micros: f64,
}

/// A point in time, in millionths of a mean lifetime.
type Moment = i64;
const LIFETIME: f64 = 1e6;
/// The cluster is looked at so often in a lifetime.
const LOOKS: i64 = 200;

pub(crate) fn churn(run: &Run<'_>, churn: &Churn) -> Churned {
    let mut stage = run.stage();
    let mut rng = Rng::stream(run.seed, "churn", "", 0);
    let (gap, mean) = (mean_gap(run, churn), mean_stay(run.pods));
    let end = (churn.length * LIFETIME) as Moment;
    let from = ((churn.length - churn.measured) * LIFETIME) as Moment;
    let mut leaving: BinaryHeap<Reverse<(Moment, usize)>> = BinaryHeap::new();
    let mut churned = Churned::default();
    let mut sizes = [(0i64, 0i64); SIZE_CLASSES.len()];
    let (mut now, mut looked, mut looks, mut arrived) = (0.0, from, 0, 0u32);
    loop {
        now += exponential(&mut rng) * gap;
        if now as Moment >= end {
            break;
        }
        while let Some(Reverse((at, pod))) = leaving.peek().copied()
            && at <= now as Moment
        {
            leaving.pop();
            stage.depart(pod);
        }
        let pod = &run.pods[rng.below(run.pods.len() as u64) as usize];
        let stays = match churn.lifetimes {
            Lifetimes::Exponential => exponential(&mut rng),
            Lifetimes::Trace => seconds(pod) / mean,
        };
        let placed = stage.arrive(pod);
        arrived += 1;
        if let Some(number) = placed {
            leaving.push(Reverse(((now + stays * LIFETIME) as Moment, number)));
        }
        if now as Moment >= from {
            let size = &mut sizes[pod.size_class()];
            size.0 += 1;
            size.1 += i64::from(placed.is_none());
        }
        if now as Moment >= looked {
            looked += LIFETIME as i64 / LOOKS;
            looks += 1;
            let look = stage.look();
            churned.allocated += percent(look.allocated_milli, run.capacity_milli());
            churned.whole_nodes += look.whole_nodes as f64;
            churned.roomy_nodes += look.roomy_nodes as f64;
        }
    }
    let looks = f64::from(looks.max(1));
    churned.allocated /= looks;
    churned.whole_nodes /= looks;
    churned.roomy_nodes /= looks;
    churned.refused = sizes.map(|(all, refused)| percent(refused, all));
    churned.n_eight = sizes[5].0;
    churned.micros = stage.took.as_secs_f64() * 1e6 / f64::from(arrived.max(1));
    churned
}

/// Returns the mean time between arrivals.
fn mean_gap(run: &Run<'_>, churn: &Churn) -> f64 {
    let mean = mean_stay(run.pods);
    let held = |pod: &TracePod| {
        let stay = match churn.lifetimes {
            Lifetimes::Exponential => 1.0,
            Lifetimes::Trace => seconds(pod) / mean,
        };
        pod.total_milli() as f64 * stay
    };
    let of_one = run.pods.iter().map(held).sum::<f64>() / run.pods.len() as f64;
    of_one * LIFETIME / (run.capacity_milli() as f64 * churn.load as f64 / 100.0)
}

fn seconds(pod: &TracePod) -> f64 {
    pod.seconds.clamp(1, LONGEST) as f64
}

fn mean_stay(pods: &[TracePod]) -> f64 {
    pods.iter().map(seconds).sum::<f64>() / pods.len() as f64
}

fn exponential(rng: &mut Rng) -> f64 {
    let unit = ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -unit.ln()
}
