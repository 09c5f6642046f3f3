//! What must be so when nothing happens any more.

use std::collections::BTreeMap;

use berth_core::engine::Engine;
use berth_core::snapshot::Place;
use berth_core::types::Pod;

use crate::world::World;

use super::model;

/// I5: every ungated pod that fits somewhere is bound.
pub(super) fn misplaced(world: &World) -> Option<String> {
    for pod in world.pods().filter(|pod| waits(pod)) {
        let free = world.nodes().find(|node| model::reasons(world, pod, node).is_empty());
        if let Some(node) = free {
            let said = pod.unscheduled.as_ref().map(|c| c.message.as_str());
            return Some(format!("{} waits but fits on {} ({said:?})", pod.name, node.name));
        }
    }
    None
}

fn waits(pod: &Pod) -> bool {
    pod.node_name.is_none() && pod.gates.is_empty() && !pod.finished() && !pod.terminating
}

/// I5: what a waiting pod is told is true, counts and all.
pub(super) fn untrue(world: &World) -> Option<String> {
    for pod in world.pods().filter(|pod| pod.node_name.is_none()) {
        let Some(said) = &pod.unscheduled else {
            return Some(format!("{} waits and is not told why", pod.name));
        };
        let (reason, message) = match waits(pod) {
            true => ("Unschedulable", expected(world, pod)),
            false => ("SchedulingGated", String::from("Scheduling is blocked")),
        };
        if said.reason != reason || !said.message.starts_with(&message) {
            let told = format!("{}: {}", said.reason, said.message);
            return Some(format!("{} is told {told:?}, true is {message:?}", pod.name));
        }
    }
    None
}

/// The message up to its reasons, as kube-scheduler words it.
fn expected(world: &World, pod: &Pod) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for node in world.nodes() {
        for text in model::reasons(world, pod, node) {
            *counts.entry(text).or_default() += 1;
        }
    }
    let mut parts: Vec<String> =
        counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort();
    format!("0/{} nodes are available: {}.", world.nodes().count(), parts.join(", "))
}

/// I11: the ledger is the world, and nothing is under way.
pub(super) fn differs(world: &World, engine: &Engine) -> Option<String> {
    let (plans, unconfirmed) = engine.under_way();
    if (plans, unconfirmed) != (0, 0) {
        return Some(format!("{plans} plans and {unconfirmed} unconfirmed binds are left"));
    }
    let ledger = engine.cluster();
    for record in ledger.pods() {
        let uid = &record.pod.uid;
        if matches!(record.place, Place::Assumed(_)) {
            return Some(format!("{uid} is assumed"));
        }
        let Some(pod) = world.pod_by_uid(uid) else {
            return Some(format!("{uid} is in the ledger, not in the world"));
        };
        let place = record.place.node().map(|node| ledger.nodes().slot(node).name.clone());
        let wanted = pod.node_name.clone().filter(|_| !pod.finished());
        if place != wanted {
            return Some(format!("{uid} is on {wanted:?}, in the ledger on {place:?}"));
        }
        if record.pod.resource_version != pod.resource_version {
            return Some(format!("{uid} is outdated in the ledger"));
        }
    }
    if ledger.pods().count() != world.pods().count() {
        return Some("the world has more pods than the ledger".to_owned());
    }
    let nodes = ledger.nodes();
    for node in world.nodes() {
        let known = nodes.index(&node.name).and_then(|idx| nodes.node(idx));
        if known.is_none_or(|known| known.resource_version != node.resource_version) {
            return Some(format!("{} is missing or outdated in the ledger", node.name));
        }
    }
    (nodes.len() != world.nodes().count()).then(|| "the ledger has a node too many".to_owned())
}
