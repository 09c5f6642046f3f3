//! Watches that tell things in another order than they happened, twice, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use berth_stand::{Patch, try_wait_for};
use serde_json::json;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::gpu_node;
use crate::proxy::Edit;
use crate::scene::{Scene, check};

/// One kind is told so much later than the other.
const LATE: Duration = Duration::from_millis(700);

pub(super) const DISORDER: Row = Row {
    id: "F44",
    title: "kinds are told late against each other, events come twice, a deletion never",
    must: "end at what the server has, and give nothing twice on the way there",
    prepare: |scene| {
        scene.nodes(2, 8)?;
        scene.start_watching_scheduler()
    },
    repeat: disorder,
    ..Row::PLAIN
};

fn disorder(scene: &mut Scene) -> Outcome {
    match scene.repeat() % 4 {
        0 => late(scene, "nodes"),
        1 => late(scene, "pods"),
        2 => twice(scene),
        _ => deletion_swallowed(scene),
    }
}

/// The cluster changes while one kind is told late: a node more, pods that go, pods that come.
fn late(scene: &mut Scene, resource: &str) -> Outcome {
    scene.create_burst(12)?;
    scene.all_bound(SOON)?;
    let late = scene.proxy.watches(resource).late(LATE);
    scene.create(&gpu_node("n-3", 8))?;
    for n in 0..8 {
        scene.create_pod(&format!("new-{n}"), 2)?;
        scene.delete_pod(&format!("p-{n}"))?;
    }
    scene.all_bound(SOON)?;
    scene.took_effect(u64::from(late.effective() > 0));
    drop(late);
    // Pods that are bound to it go with the others.
    scene.api.delete_now("/api/v1/nodes/n-3")?;
    Ok(())
}

/// Every event comes twice.
fn twice(scene: &mut Scene) -> Outcome {
    let twice = scene.proxy.watches("").edit(|_| Edit::Duplicate);
    scene.create_burst(16)?;
    scene.all_bound(SOON)?;
    let label = json!({"metadata": {"labels": {"repeat": scene.repeat().to_string()}}});
    scene.api.patch("/api/v1/nodes/n-1", Patch::Merge, &label)?;
    for n in 0..8 {
        scene.delete_pod(&format!("p-{n}"))?;
        scene.create_pod(&format!("new-{n}"), 1)?;
    }
    scene.all_bound(SOON)?;
    scene.took_effect(u64::from(twice.effective() > 0));
    Ok(())
}

/// A pod goes unheard, and a namesake comes that needs its place.
fn deletion_swallowed(scene: &mut Scene) -> Outcome {
    for name in ["a", "b"] {
        scene.create_pod(name, 8)?;
        scene.bound(name)?;
    }
    goes_unheard(scene, "a")?;
    scene.create_pod("a", 7)?;
    scene.create_pod("c", 1)?;
    let nodes = [scene.bound("a")?, scene.bound("c")?];
    check(nodes[0] == nodes[1], "a and c share the place that was freed")
}

/// Deletes a pod of which the scheduler is not told that it went.
fn goes_unheard(scene: &mut Scene, pod: &'static str) -> Outcome {
    let done = Arc::new(AtomicBool::new(false));
    let swallow = scene.proxy.watches("pods").user("replica-1").edit(move |event| {
        let is_it = event["type"] == "DELETED" && event["object"]["metadata"]["name"] == pod;
        match is_it && !done.swap(true, SeqCst) {
            true => Edit::Swallow,
            false => Edit::Pass,
        }
    });
    scene.delete_pod(pod)?;
    swallow.wait_effective(1, SOON)?;
    scene.took_effect(1);
    Ok(())
}

pub(super) const UNTOLD: Row = Row {
    id: "F44-alone",
    title: "a deletion is never told, and nothing else happens that would show it",
    must: "find it by comparing what it knows with the server, unasked, and say so",
    slow: true,
    waits: true,
    prepare: |scene| scene.nodes(2, 8),
    repeat: untold,
    ..Row::PLAIN
};

/// The first comparison is made a minute after the start.
const COMPARED: Duration = Duration::from_secs(120);

fn untold(scene: &mut Scene) -> Outcome {
    scene.start_watching_scheduler()?;
    scene.create_pod("gone", 8)?;
    scene.bound("gone")?;
    let found = |scene: &mut Scene| -> Outcome<usize> {
        let log = scene.scheduler()?.log();
        let mut lines = log.lines().filter(|line| line.contains("ledger and API server differ"));
        Ok(lines.by_ref().filter(|line| line.contains("object=default/gone")).count())
    };
    let before = found(scene)?;
    goes_unheard(scene, "gone")?;
    let says = || (found(scene).ok()? > before).then_some(());
    try_wait_for(COMPARED, "it says that its ledger differs from the server", says)?;
    // A new one reads everything again, as the log's reader is told to make it do.
    scene.schedulers.clear();
    scene.start_watching_scheduler()?;
    scene.create_pod("next", 8)?;
    scene.bound("next")?;
    scene.schedulers.clear();
    Ok(())
}
