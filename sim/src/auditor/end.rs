//! What must be so when nothing happens any more.

use std::collections::BTreeMap;

use berth_core::engine::Engine;
use berth_core::snapshot::Place;
use berth_core::types::Pod;

use crate::world::World;

use super::claims::Book;
use super::{model, solve};

/// I5: every ungated pod that fits somewhere is bound.
pub(super) fn misplaced(world: &World, book: &Book) -> Option<String> {
    let ready = |pod: &&Pod| alone(pod) && waits(pod) && solve::unready(book, pod).is_none();
    for pod in world.pods().filter(ready) {
        let free = world.nodes().find(|node| {
            model::reasons(world, pod, node).is_empty() && solve::solvable(book, pod, node)
        });
        if let Some(node) = free {
            let said = pod.unscheduled.as_ref().map(|c| c.message.as_str());
            return Some(format!("{} waits but fits on {} ({said:?})", pod.name, node.name));
        }
    }
    None
}

/// Groups are judged as a whole: see [`super::whole`].
fn alone(pod: &Pod) -> bool {
    pod.group_hints().is_empty()
}

fn waits(pod: &Pod) -> bool {
    pod.node_name.is_none() && pod.gates.is_empty() && !pod.finished() && !pod.terminating
}

/// I5: what a waiting pod is told is true, counts and all.
pub(super) fn untrue(world: &World, book: &Book) -> Option<String> {
    for pod in world.pods().filter(|pod| alone(pod) && pod.node_name.is_none()) {
        let Some(said) = &pod.unscheduled else {
            return Some(format!("{} waits and is not told why", pod.name));
        };
        let (reason, message) = match waits(pod) {
            true if solve::unready(book, pod).is_some() => ("NotReadyForScheduling", String::new()),
            true => ("Unschedulable", expected(world, pod)),
            false => ("SchedulingGated", String::from("Scheduling is blocked")),
        };
        // Whoever waits for a claim that goes has been looked at, to let go of it.
        let turned_away = reason == "NotReadyForScheduling" && said.reason == "Unschedulable";
        if (said.reason != reason && !turned_away) || !said.message.starts_with(&message) {
            let told = format!("{}: {}", said.reason, said.message);
            return Some(format!("{} is told {told:?}, true is {message:?}", pod.name));
        }
    }
    None
}

/// The message up to its reasons, as kube-scheduler words it; of pods with claims, which are turned
/// away for reasons that only a search for devices knows, up to the number of nodes.
fn expected(world: &World, pod: &Pod) -> String {
    let nodes = world.nodes().count();
    if !pod.spec.claims.is_empty() {
        return format!("0/{nodes} nodes are available: ");
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for node in world.nodes() {
        for text in model::reasons(world, pod, node) {
            *counts.entry(text).or_default() += 1;
        }
    }
    let mut parts: Vec<String> =
        counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
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
