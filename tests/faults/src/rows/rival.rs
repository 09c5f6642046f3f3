//! Another scheduler on the same nodes, or for the same claim.

use std::collections::BTreeMap;

use berth_stand::try_wait_for;
use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::{claim, claiming, gpu_pod};
use crate::proxy::{Exchange, Requests, Rule};
use crate::scene::{Scene, check};
use crate::scheduler::{Launch, Program, Scheduler};

const OTHER: &str = "other-scheduler";
/// Pods of each.
const PODS: usize = 12;
const NODES: u32 = 4;

pub(super) const BESIDE: Row = Row {
    id: "F47",
    title: "another scheduler places pods on the same nodes, and binds pods of ours",
    must: "count what the other places; make no node too full that it knows of; say who else is there",
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
    counts_theirs(scene)?;
    is_said(scene, "another scheduler places pods on a node that we use")?;
    installed_twice(scene)
}

/// Somebody binds pods of ours: more than any node has, so that it isn't us.
fn installed_twice(scene: &Scene) -> Outcome {
    for name in ["twice-1", "twice-2"] {
        scene.create_pod(name, 9)?;
        scene.told(name, "Unschedulable")?;
        scene.bind_from_the_side(name, "n-1")?;
    }
    is_said(scene, "somebody else has bound a pod of ours")?;
    ["twice-1", "twice-2"].iter().try_for_each(|name| scene.delete_pod(name))
}

/// Waits until Berth's log has the line: it comes once a minute.
fn is_said(scene: &Scene, line: &str) -> Outcome {
    let berth = scene.schedulers.iter().find(|scheduler| scheduler.program == Program::Berth);
    let Some(berth) = berth else { return Ok(()) };
    Ok(try_wait_for(SOON, line, || berth.log().contains(line).then_some(()))?)
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

/// Starts the real kube-scheduler for pods of [`OTHER`], past the proxy.
fn start(scene: &Scene) -> Outcome<Scheduler> {
    Scheduler::start(
        &scene.stand,
        &Launch {
            program: Program::KubeScheduler,
            user: "admin",
            kubeconfig: &scene.stand.kubeconfig_path("admin")?,
            election: None,
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

pub(super) const SHARED_CLAIM: Row = Row {
    id: "F23",
    title: "a pod of kube-scheduler's has the claim that a pod of ours shares, while we allocate it",
    must: "one wins; the loser lets everything go, and comes to where the claim is",
    prepare: |scene| {
        scene.devices(2, 3)?;
        scene.start_watching_scheduler()?;
        scene.beside = Some(start(scene)?);
        Ok(())
    },
    repeat: shared_claim,
    ..Row::PLAIN
};

/// Each pod has a claim of its own beside the shared one, and would rather be on another node than
/// the other. A node has just enough devices for both.
fn shared_claim(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    ["shared", "ours", "theirs"]
        .iter()
        .try_for_each(|name| scene.create(&claim(name)).map(drop))?;
    let write = Requests::claim_status("shared").user("replica-1").first();
    let held = scene.proxy.inject(Rule::on(write).hold());
    scene.create(&preferring("a", &["ours", "shared"], "n-1"))?;
    held.wait_held(SOON)?;
    let mut other = preferring("b", &["shared", "theirs"], "n-2");
    other["spec"]["schedulerName"] = json!(OTHER);
    scene.create(&other)?;
    let won = scene.bound("b")?;
    held.release();
    let node = scene.bound("a")?;
    let lost = |e: &Exchange| {
        e.asked.is_claim_status() && e.asked.name == "shared" && e.server == Some(409)
    };
    scene.took_effect(scene.proxy.count(from, lost) as u64);
    check(node == won, format!("a is on {node}, its claim on {won}"))?;
    for claim in ["shared", "ours", "theirs"] {
        let device = scene.device_of(claim)?.unwrap_or_default();
        let here = device.starts_with(&format!("{won}/"));
        check(here, format!("{claim} has {device:?}, its pods are on {won}"))?;
    }
    Ok(())
}

fn preferring(name: &str, claims: &[&str], node: &str) -> Value {
    let mut pod = claiming(name, claims);
    let on_node = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    pod["spec"]["affinity"] = json!({"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchFields": [on_node]}},
        ],
    }});
    pod
}
