//! Another scheduler on the same nodes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::gpu_pod;
use crate::scene::{Scene, check};
use crate::scheduler::{Launch, Program, Scheduler};

const OTHER: &str = "other-scheduler";
/// Pods of each.
const PODS: usize = 12;
const NODES: u32 = 4;

pub(super) const BESIDE: Row = Row {
    id: "F47",
    title: "another scheduler places pods on the same nodes",
    must: "count what the other places; make no node too full that it knows of",
    repeat: beside,
    ..Row::PLAIN
};

fn beside(scene: &mut Scene) -> Outcome {
    // The real one takes some seconds to start.
    let rival = scene.repeat().is_multiple_of(5).then(|| start(scene)).transpose()?;
    scene.create_burst(PODS)?;
    for n in 0..PODS {
        let name = format!("other-{n}");
        scene.create(&theirs(&name, 1))?;
        if rival.is_none() {
            bind_by_hand(scene, &name, n)?;
        }
    }
    scene.all_bound(SOON)?;
    scene.took_effect(1);
    drop(rival);
    counts_theirs(scene)
}

fn theirs(name: &str, gpus: u32) -> Value {
    let mut pod = gpu_pod(name, gpus);
    pod["spec"]["schedulerName"] = json!(OTHER);
    pod
}

/// A user who looks where there is room, and then binds: as blind to what is under way as any
/// other scheduler.
fn bind_by_hand(scene: &Scene, pod: &str, n: usize) -> Outcome {
    let given = scene.gpus_by_node()?;
    let room = |node: &String| given.get(node).copied().unwrap_or_default() < 8;
    let nodes: Vec<String> = (1..=NODES).map(|n| format!("n-{n}")).collect();
    let free: Vec<&String> = nodes.iter().filter(|node| room(node)).collect();
    let node = free.get(n % free.len().max(1)).copied().unwrap_or(&nodes[0]);
    scene.bind_from_the_side(pod, node)
}

fn start(scene: &Scene) -> Outcome<Scheduler> {
    Scheduler::start(
        &scene.stand,
        &Launch {
            program: Program::KubeScheduler,
            user: "admin",
            kubeconfig: &scene.stand.kubeconfig_path("admin")?,
            electing: false,
            folder: scene.folder(),
            config: json!({"profiles": [{"schedulerName": OTHER}]}),
            flags: &[],
        },
    )
}

/// The other fills whatever is free; then there is no room for one more pod, until the other gives
/// some back.
fn counts_theirs(scene: &mut Scene) -> Outcome {
    let given: BTreeMap<String, u64> = scene.gpus_by_node()?;
    let mut last = None;
    for node in (1..=NODES).map(|n| format!("n-{n}")) {
        let free = 8u64.saturating_sub(given.get(&node).copied().unwrap_or_default());
        if free > 0 {
            let name = format!("fills-{node}");
            let free = u32::try_from(free).unwrap_or(u32::MAX);
            scene.create(&theirs(&name, free))?;
            scene.bind_from_the_side(&name, &node)?;
            last = Some((name, node));
        }
    }
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    scene.create_pod("late", 1)?;
    scene.told("late", "Unschedulable")?;
    let Some((filler, node)) = last else { return Ok(()) };
    scene.delete_pod(&filler)?;
    let on = scene.bound("late")?;
    check(on == node, format!("late is on {on}, though only {node} had room"))
}
