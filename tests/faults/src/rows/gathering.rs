//! Gangs that are not together, or fall apart before anybody of them is bound.

use berth_stand::{Patch, try_wait_for};
use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::{gpu_pod, member, pod_group, scheduled_condition};
use crate::proxy::{Requests, Rule};
use crate::scene::{Scene, check};

/// The members fill both nodes.
const MEMBERS: usize = 4;

pub(super) const FALLS_APART: Row = Row {
    id: "F27",
    title: "a member of a gang has a gate, comes late, or is deleted while the binds are tried",
    must: "bind nobody, say how many are there, hold no place; bind all when all are there",
    waits: true,
    prepare: |scene| {
        scene.nodes(2, 8)?;
        scene.start_watching_scheduler()
    },
    repeat: |scene| match scene.repeat() % 3 {
        0 => is_gated(scene),
        1 => is_deleted(scene),
        _ => comes_late(scene),
    },
    ..Row::PLAIN
};

fn members() -> Vec<Value> {
    (0..MEMBERS).map(|n| member(gpu_pod(&format!("g-{n}"), 4), "g")).collect()
}

fn is_gated(scene: &mut Scene) -> Outcome {
    let mut members = members();
    let gated = usize::try_from(scene.draw(MEMBERS as u64)).unwrap_or_default();
    members[gated]["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    scene.create_gang("g", &members)?;
    let open = (gated + 1) % MEMBERS;
    is_told_that_some_are_missing(scene, &format!("g-{open}"))?;
    scene.took_effect(1);
    holds_nothing(scene)?;
    let path = format!("/api/v1/namespaces/default/pods/g-{gated}");
    scene.api.patch(&path, Patch::Merge, &json!({"spec": {"schedulingGates": null}}))?;
    is_whole(scene)
}

fn comes_late(scene: &mut Scene) -> Outcome {
    let mut members = members();
    let late = members.pop();
    scene.create(&pod_group("g", MEMBERS as u32))?;
    members.iter().try_for_each(|pod| scene.create(pod).map(drop))?;
    is_told_that_some_are_missing(scene, "g-0")?;
    scene.took_effect(1);
    holds_nothing(scene)?;
    late.iter().try_for_each(|pod| scene.create(pod).map(drop))?;
    is_whole(scene)
}

/// The gang has all places when it loses a member; somebody who waits for them gets them.
fn is_deleted(scene: &mut Scene) -> Outcome {
    let held = scene.proxy.inject(Rule::on(Requests::trials()).hold());
    scene.create_gang("g", &members())?;
    held.wait_held(SOON)?;
    scene.create_pod("other", 8)?;
    scene.told("other", "Unschedulable")?;
    let lost = format!("g-{}", scene.draw(MEMBERS as u64));
    scene.delete_pod(&lost)?;
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    held.release();
    scene.took_effect(1);
    scene.bound("other")?;
    let left = if lost == "g-0" { "g-1" } else { "g-0" };
    is_told_that_some_are_missing(scene, left)?;
    check(scene.members_bound("g")? == 0, "members of a gang that fell apart are bound")?;
    scene.delete_pod("other")?;
    scene.create(&member(gpu_pod("g-anew", 4), "g"))?;
    is_whole(scene)
}

/// The first that a member learns is that others are missing: the nodes were not looked at.
fn is_told_that_some_are_missing(scene: &Scene, name: &str) -> Outcome {
    let told = || {
        let pod = scene.read_pod(name).ok()?;
        let condition = scheduled_condition(&pod);
        let told = condition["reason"].is_string() || pod["spec"]["nodeName"].is_string();
        told.then_some(condition)
    };
    let condition = try_wait_for(SOON, &format!("{name} is told something"), told)?;
    let message = condition["message"].as_str().unwrap_or_default();
    let right = condition["reason"] == "NotReadyForScheduling" && message.contains("3 of 4");
    check(right, format!("{name} was told {condition}"))
}

/// A pod that needs the room of the members is bound.
fn holds_nothing(scene: &Scene) -> Outcome {
    check(scene.members_bound("g")? == 0, "members are bound, and one is missing")?;
    scene.create_pod("other", 8)?;
    scene.bound("other")?;
    scene.delete_pod("other")
}

fn is_whole(scene: &Scene) -> Outcome {
    scene.gang_bound("g", MEMBERS, SOON)?;
    scene.notes_agree("g", MEMBERS)
}
