//! Connections that are open and dead.

use std::time::Duration;

use berth_stand::{Patch, try_wait_for};
use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::gpu_node;
use crate::proxy::Exchange;
use crate::scene::{Scene, check};
use crate::scheduler::Program;

/// Servers send a bookmark a minute: three are missing by then.
const NOTICED: Duration = Duration::from_secs(240);

pub(super) const HALF_OPEN: Row = Row {
    id: "F08",
    title: "watches are open and bring nothing: all of them, or those of nodes and every new one",
    must: "notice by the bookmarks that are missing, say so, and begin nothing on what may be old",
    slow: true,
    waits: true,
    repeat: half_open,
    ..Row::PLAIN
};

fn half_open(scene: &mut Scene) -> Outcome {
    match scene.repeat().is_multiple_of(2) {
        true => all_silent(scene),
        false => nodes_silent(scene),
    }
}

/// A connection that died: a new one brings what was missed.
fn all_silent(scene: &mut Scene) -> Outcome {
    let user = scene.scheduler()?.user.clone();
    let silent = scene.proxy.watches("").user(&user).black_hole();
    let from = scene.proxy.n_exchanges();
    scene.create(&gpu_node("n-late", 16))?;
    scene.create_pod("large", 16)?;
    let missed = has_missed(scene, &user, "pods")? && has_missed(scene, &user, "nodes")?;
    for resource in ["pods", "nodes"] {
        let anew = |e: &Exchange| e.asked.is_watch() && e.asked.resource == resource;
        let again = || (scene.proxy.count(from, anew) > 0).then_some(());
        try_wait_for(NOTICED, &format!("{resource} are watched anew"), again)?;
    }
    check(scene.n_bound()? == 0, "bound before anything was heard of")?;
    scene.took_effect(u64::from(missed));
    drop(silent);
    excuse_lists(scene, &user, from);
    scene.all_bound(SOON)?;
    scene.delete_pod("large")?;
    scene.api.delete_now("/api/v1/nodes/n-late")?;
    Ok(())
}

/// Something between us and the server keeps back what new watches bring too: only a list tells.
fn nodes_silent(scene: &mut Scene) -> Outcome {
    let user = scene.scheduler()?.user.clone();
    let silent = scene.proxy.watches("nodes").user(&user).black_hole();
    let (from, told) = (scene.proxy.n_exchanges(), n_told(scene, "nodes"));
    cordon(scene, true)?;
    let missed = has_missed(scene, &user, "nodes")?;
    is_told_of(scene, "nodes", told)?;
    // Any bind from here on would be on a node that is cordoned.
    scene.create_pod("waits", 1)?;
    let lists = |e: &Exchange| e.asked.begins_watch() && e.asked.resource == "nodes";
    let listed = || (scene.proxy.count(from, lists) > 0).then_some(());
    try_wait_for(NOTICED, "nodes are listed anew", listed)?;
    scene.took_effect(u64::from(missed));
    scene.told("waits", "Unschedulable")?;
    drop(silent);
    excuse_lists(scene, &user, from);
    cordon(scene, false)?;
    scene.all_bound(SOON)
}

/// What was listed while watches brought nothing had to be: new ones, of whatever kind, were silent too.
fn excuse_lists(scene: &mut Scene, user: &str, from: usize) {
    for Exchange { asked, .. } in scene.proxy.exchanges(from) {
        if asked.user == user && asked.begins_watch() {
            scene.list_was_spoiled(user, &asked.resource);
        }
    }
}

/// Waits until the scheduler says that what it knows of the resource may be old, once more than `before`.
fn is_told_of(scene: &Scene, resource: &str, before: usize) -> Outcome {
    let told = || (n_told(scene, resource) > before).then_some(());
    let berth = scene.program == Program::Berth;
    let waited = berth.then(|| try_wait_for(NOTICED, &format!("{resource} are called old"), told));
    Ok(waited.transpose().map(drop)?)
}

fn n_told(scene: &Scene, resource: &str) -> usize {
    let line = format!("nothing is heard: what is known may be old resource={resource} ");
    scene.schedulers.first().map_or(0, |scheduler| scheduler.log().matches(&line).count())
}

/// Tells whether the user's watches have not brought what there is.
fn has_missed(scene: &Scene, user: &str, resource: &str) -> Outcome<bool> {
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
    let objects = scene.api.list(&format!("/api/v1/{resource}"))?;
    let newest: u64 = objects.iter().filter_map(version).max().unwrap_or_default();
    Ok(scene.proxy.watches(resource).user(user).delivered() < newest)
}

fn cordon(scene: &Scene, cordoned: bool) -> Outcome {
    for node in scene.api.list("/api/v1/nodes")? {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let patch = json!({"spec": {"unschedulable": cordoned}});
        scene.api.patch(&format!("/api/v1/nodes/{name}"), Patch::Merge, &patch)?;
    }
    Ok(())
}
