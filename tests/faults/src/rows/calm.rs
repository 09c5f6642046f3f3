//! The control run: no fault at all. Whoever is convicted here is wrong by daylight, or the
//! auditor is.

use std::time::Duration;

use berth_stand::Patch;
use serde_json::{Value, json};

use super::Row;
use crate::failed::Outcome;
use crate::objects::{gpu_node, gpu_pod};
use crate::scene::{Scene, check};

/// Longer than the auditor forgives a scheduler that has not heard of a node's change, or of others'
/// binds.
const HEARD: Duration = Duration::from_millis(2500);
/// One GPU in each of four nodes stays free.
const PODS: usize = 28;

const NODES: &str = "/api/v1/nodes";
const POD: &str = "/api/v1/namespaces/default/pods";

pub(super) const CONTROL: Row = Row {
    id: "F00",
    title: "no fault: pods end and are deleted, nodes come, change and go, others place pods too",
    must: "place what fits, tell the others why, give nothing twice",
    repeat: control,
    ..Row::PLAIN
};

fn control(scene: &mut Scene) -> Outcome {
    scene.create_burst(PODS)?;
    scene.all_bound(crate::SOON)?;
    pods_that_have_ended_make_room(scene)?;
    pods_that_are_ending_do_not(scene)?;
    nodes_that_are_gone_or_cordoned_take_nobody(scene)?;
    nodes_that_shrink_have_less(scene)?;
    what_others_place_counts(scene)?;
    ["n-6", "n-7", "n-8"].iter().try_for_each(|name| delete_node(scene, name))?;
    scene.took_effect(1);
    Ok(())
}

fn pods_that_have_ended_make_room(scene: &Scene) -> Outcome {
    scene.create_pod("big", 8)?;
    scene.told("big", "Unschedulable")?;
    for pod in scene.api.list(POD)? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if pod["spec"]["nodeName"] == "n-1" {
            let ended = json!({"status": {"phase": "Succeeded"}});
            scene.api.patch(&format!("{POD}/{name}/status"), Patch::Merge, &ended)?;
        }
    }
    let node = scene.bound("big")?;
    check(node == "n-1", format!("big is on {node}, which is not empty"))
}

fn pods_that_are_ending_do_not(scene: &Scene) -> Outcome {
    scene.api.delete(&format!("{POD}/big"))?;
    scene.create_pod("next", 8)?;
    scene.told("next", "Unschedulable")?;
    scene.delete_pod("big")?;
    scene.bound("next").map(drop)
}

fn nodes_that_are_gone_or_cordoned_take_nobody(scene: &Scene) -> Outcome {
    scene.create(&gpu_node("n-5", 8))?;
    scene.quiet()?;
    delete_node(scene, "n-5")?;
    let mut cordoned = gpu_node("n-6", 8);
    cordoned["spec"] = json!({"unschedulable": true});
    scene.create(&cordoned)?;
    std::thread::sleep(HEARD);
    scene.create_pod("after", 8)?;
    scene.told("after", "Unschedulable")?;
    let open = json!({"spec": {"unschedulable": null}});
    scene.api.patch(&format!("{NODES}/n-6"), Patch::Merge, &open)?;
    let node = scene.bound("after")?;
    check(node == "n-6", format!("after is on {node}"))
}

fn nodes_that_shrink_have_less(scene: &Scene) -> Outcome {
    scene.create(&gpu_node("n-7", 8))?;
    scene.quiet()?;
    let less = json!({"status": {"allocatable": {"nvidia.com/gpu": "2"}}});
    scene.api.patch(&format!("{NODES}/n-7/status"), Patch::Merge, &less)?;
    std::thread::sleep(HEARD);
    scene.create_pod("late", 4)?;
    scene.told("late", "Unschedulable")?;
    scene.delete_pod("late")
}

fn what_others_place_counts(scene: &Scene) -> Outcome {
    scene.create(&gpu_node("n-8", 8))?;
    let mut foreign: Value = gpu_pod("foreign", 8);
    foreign["spec"]["schedulerName"] = json!("other-scheduler");
    scene.create(&foreign)?;
    scene.bind_from_the_side("foreign", "n-8")?;
    scene.quiet()?;
    std::thread::sleep(HEARD);
    scene.create_pod("mine", 8)?;
    scene.told("mine", "Unschedulable").map(drop)
}

fn delete_node(scene: &Scene, name: &str) -> Outcome {
    scene.api.delete_now(&format!("{NODES}/{name}"))?;
    Ok(())
}
