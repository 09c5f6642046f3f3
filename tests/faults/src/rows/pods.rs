//! Pods that go, come back or change while their binds are under way.

use std::time::Duration;

use berth_stand::{Patch, try_wait_for};
use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::{gpu_pod, scheduled_condition};
use crate::proxy::{Injection, Requests, Rule};
use crate::scene::{Scene, check};

/// The place of a pod that is gone is free so soon.
const FREE: Duration = Duration::from_secs(5);
const POD_A: &str = "/api/v1/namespaces/default/pods/a";

/// One node, so that all pods contend for it.
fn one_node(scene: &mut Scene) -> Outcome {
    scene.nodes(1, 8)?;
    scene.start_watching_scheduler()
}

const ONE_NODE: Row = Row { prepare: one_node, ..Row::PLAIN };

/// Creates `a`, and holds its first bind.
fn bind_held(scene: &Scene, pod: &Value) -> Outcome<Injection> {
    let held = scene.proxy.inject(Rule::on(Requests::bind_of("a").first()).hold());
    scene.create(pod)?;
    held.wait_held(SOON)?;
    Ok(held)
}

/// Returns what the server said to the first bind of `a` since exchange `from`.
fn first_answer(scene: &Scene, from: usize) -> Outcome<Option<u16>> {
    let answer = || {
        let binds = scene.proxy.exchanges(from);
        binds.iter().find(|e| e.asked.is_bind() && e.asked.name == "a")?.server
    };
    Ok(Some(try_wait_for(SOON, "the server answers the held bind", answer)?))
}

pub(super) const RECREATED: Row = Row {
    id: "F45",
    title: "a pod comes back with another UID and other requests while its bind is under way",
    must: "bind no namesake by the old decision, and the new pod by its own requests",
    repeat: recreated,
    ..ONE_NODE
};

fn recreated(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    // Its successor fits only if the place of the first is free; or not at all.
    let (old, new) = [(4, 8), (8, 1), (2, 9)][scene.draw(3) as usize];
    let held = bind_held(scene, &gpu_pod("a", old))?;
    scene.delete_pod("a")?;
    scene.create_pod("a", new)?;
    let late = scene.repeat().is_multiple_of(2);
    if late {
        ends_right(scene, new)?;
    }
    held.release();
    let answer = first_answer(scene, from)?;
    scene.took_effect(u64::from(answer == Some(409)));
    check(answer == Some(409), format!("the bind of the old pod was answered with {answer:?}"))?;
    ends_right(scene, new)?;
    scene.quiet()?;
    let by_node = scene.gpus_by_node()?;
    let given = by_node.get("n-1").copied().unwrap_or_default();
    let wanted = if new > 8 { 0 } else { u64::from(new) };
    check(given == wanted, format!("{given} GPUs are given, not {wanted}"))
}

fn ends_right(scene: &Scene, gpus: u32) -> Outcome {
    match gpus > 8 {
        true => scene.told("a", "Unschedulable").map(drop),
        false => scene.bound("a").map(drop),
    }
}

pub(super) const DELETED: Row = Row {
    id: "F46",
    title: "pods are deleted while they wait and while their binds are under way",
    must: "forget them; their places are free within 5 s",
    repeat: deleted,
    ..ONE_NODE
};

fn deleted(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let held = bind_held(scene, &gpu_pod("a", 8))?;
    scene.create_pod("waits", 8)?;
    scene.told("waits", "Unschedulable")?;
    scene.create_pod("b", 8)?;
    scene.told("b", "Unschedulable")?;
    // The bind of a may still come: the server must find nobody to bind.
    scene.delete_pod("waits")?;
    scene.delete_pod("a")?;
    let bound = || scene.node_of("b").ok().flatten();
    try_wait_for(FREE, "the place of a deleted pod is taken by another", bound)?;
    held.release();
    let answer = first_answer(scene, from)?;
    scene.took_effect(u64::from(answer == Some(404)));
    check(answer == Some(404), format!("the bind of a pod that is gone: {answer:?}"))
}

pub(super) const CHANGED: Row = Row {
    id: "F48",
    title: "a pod is resized while its bind is under way or while it waits; a gate is taken off",
    must: "look again at what it asks for now; place nothing that has a gate",
    repeat: changed,
    ..ONE_NODE
};

/// The node has 64 CPUs.
fn cpu_pod(cpus: u32) -> Value {
    let mut pod = gpu_pod("a", 1);
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    resources["requests"]["cpu"] = json!(cpus.to_string());
    pod
}

fn resize(scene: &Scene, cpus: u32) -> Outcome {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": cpus.to_string()}}});
    let patch = json!({"spec": {"containers": [container]}});
    scene.api.patch(&format!("{POD_A}/resize"), Patch::Strategic, &patch)?;
    Ok(())
}

fn changed(scene: &mut Scene) -> Outcome {
    match scene.repeat() % 4 {
        0 => resized_to_fit_no_more(scene),
        1 => resized_and_fits_still(scene),
        2 => resized_while_it_waits(scene),
        _ => gate_taken_off(scene),
    }
}

fn resized_to_fit_no_more(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let held = bind_held(scene, &cpu_pod(10))?;
    resize(scene, 100)?;
    held.release();
    let answer = first_answer(scene, from)?;
    scene.took_effect(u64::from(answer == Some(409)));
    scene.told("a", "Unschedulable")?;
    check(scene.node_of("a")?.is_none(), "a was bound by what it asked for before")
}

fn resized_and_fits_still(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let held = bind_held(scene, &cpu_pod(10))?;
    resize(scene, 40)?;
    held.release();
    let answer = first_answer(scene, from)?;
    scene.took_effect(u64::from(answer == Some(409)));
    scene.bound("a")?;
    // All 40 count.
    let mut other = cpu_pod(30);
    other["metadata"]["name"] = json!("b");
    scene.create(&other)?;
    scene.told("b", "Unschedulable").map(drop)
}

fn resized_while_it_waits(scene: &mut Scene) -> Outcome {
    scene.create(&cpu_pod(100))?;
    scene.told("a", "Unschedulable")?;
    resize(scene, 10)?;
    scene.bound("a")?;
    scene.took_effect(1);
    Ok(())
}

fn gate_taken_off(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let mut gated = gpu_pod("a", 8);
    gated["spec"]["schedulingGates"] = json!([{"name": "campaign/one"}, {"name": "campaign/two"}]);
    scene.create(&gated)?;
    // A pod that comes later passes: the gated one has been looked at by then.
    scene.create_pod("b", 8)?;
    scene.bound("b")?;
    let one = json!({"spec": {"schedulingGates": [{"name": "campaign/two", "$patch": "delete"}]}});
    scene.api.patch(POD_A, Patch::Strategic, &one)?;
    scene.delete_pod("b")?;
    scene.quiet()?;
    let tried = scene.proxy.count(from, |e| e.asked.is_bind() && e.asked.name == "a");
    check(tried == 0, "a pod was bound that had a gate")?;
    let condition = scheduled_condition(&scene.read_pod("a")?);
    check(condition["reason"] == "SchedulingGated", format!("a gated pod is told {condition}"))?;
    scene.api.patch(POD_A, Patch::Merge, &json!({"spec": {"schedulingGates": null}}))?;
    scene.bound("a")?;
    scene.took_effect(1);
    Ok(())
}
