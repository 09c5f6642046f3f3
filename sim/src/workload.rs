//! A random cluster and what its users do, from a seed.
//!
//! Demand is well above capacity, so that pods wait for each other; about half of them end.

mod shape;

use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::{Node, Pod, PodSpec, Span, Taint, TaintEffect, Text, Timestamp};

pub use shape::{ELSEWHERE, GPU, SCHEDULER, ZONE};

/// What a user or controller does.
#[derive(Clone, Debug)]
pub enum Action {
    Create(Box<Pod>),
    /// Removes the gates of the pod of this name.
    Ungate(Text),
    /// Deletes the pod of this name.
    Delete(Text),
    AddNode(Box<Node>),
    Cordon {
        node: Text,
        on: bool,
    },
    Taint {
        node: Text,
        on: bool,
    },
    /// The device plugin of the node reports this many GPUs.
    Report {
        node: Text,
        gpus: i64,
    },
    /// Gives the pod of this name a toleration of every taint of nodes of ours.
    Tolerate(Text),
}

/// What happens when, faults apart.
#[derive(Debug)]
pub struct Workload {
    /// Ascending.
    pub actions: Vec<(Timestamp, Action)>,
}

/// Users act within this from the start.
pub const USERS: Span = Span::from_secs(150);

/// The taint that comes and goes.
pub fn passing_taint() -> Taint {
    Taint { key: "maintenance".into(), value: Text::default(), effect: TaintEffect::NoSchedule }
}

impl Workload {
    pub fn of(seed: u64, start: Timestamp) -> Workload {
        let mut rng = Rng::stream(seed, "workload", "", 0);
        let mut actions = Vec::new();
        let nodes = shape::nodes(&mut rng);
        let names: Vec<Text> = nodes.iter().map(|node| node.name.clone()).collect();
        for node in nodes.into_iter().chain([shape::elsewhere()]) {
            actions.push((start, Action::AddNode(Box::new(node))));
        }
        pods(&mut rng, start, &mut actions);
        for _ in 0..rng.below(7) {
            let node = names[rng.below(names.len() as u64) as usize].clone();
            let from = start + Span(rng.below(USERS.0));
            let until = from + Span(rng.below(40_000));
            let what = rng.below(3);
            for (at, on) in [(from, true), (until, false)] {
                let node = node.clone();
                let action = match what {
                    0 => Action::Taint { node, on },
                    1 => Action::Cordon { node, on },
                    _ => Action::Report { node, gpus: if on { 0 } else { 8 } },
                };
                actions.push((at, action));
            }
        }
        actions.sort_by_key(|(at, _)| *at);
        Workload { actions }
    }
}

/// Pods come in bursts, so that decisions and binds overlap.
fn pods(rng: &mut Rng, start: Timestamp, actions: &mut Vec<(Timestamp, Action)>) {
    let specs: Vec<Arc<PodSpec>> = (0..6 + rng.below(5)).map(|_| shape::spec(rng)).collect();
    let count = 60 + rng.below(61);
    let mut at = start + Span(rng.below(2000));
    let mut burst = 1 + rng.below(8);
    for number in 0..count {
        let spec = specs[rng.below(specs.len() as u64) as usize].clone();
        let pod = shape::pod(rng, number, spec);
        let name = pod.name.clone();
        if !pod.gates.is_empty() {
            let open = at + Span(rng.below(60_000));
            actions.push((open, Action::Ungate(name.clone())));
        }
        if rng.below(15) == 0 {
            let then = at + Span(rng.below(60_000));
            actions.push((then, Action::Tolerate(name.clone())));
        }
        if rng.below(10) == 0 {
            let after = [50, 2000, 60_000][rng.below(3) as usize];
            actions.push((at + Span(rng.below(after)), Action::Delete(name)));
        }
        actions.push((at, Action::Create(Box::new(pod))));
        burst -= 1;
        if burst == 0 {
            burst = 1 + rng.below(8);
            at = at + Span(rng.below(2 * burst * USERS.0 / count));
        }
    }
}
