//! Watches that tell things in another order than they happened, twice, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use berth_stand::Patch;
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
    let done = Arc::new(AtomicBool::new(false));
    let swallow = scene.proxy.watches("pods").user("replica-1").edit(move |event| {
        let is_it = event["type"] == "DELETED" && event["object"]["metadata"]["name"] == "a";
        match is_it && !done.swap(true, SeqCst) {
            true => Edit::Swallow,
            false => Edit::Pass,
        }
    });
    scene.delete_pod("a")?;
    swallow.wait_effective(1, SOON)?;
    scene.took_effect(1);
    scene.create_pod("a", 7)?;
    scene.create_pod("c", 1)?;
    let nodes = [scene.bound("a")?, scene.bound("c")?];
    check(nodes[0] == nodes[1], "a and c share the place that was freed")
}
