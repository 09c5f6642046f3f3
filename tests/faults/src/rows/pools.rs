//! Pools that change while pods wait for their devices.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::Row;
use crate::failed::Outcome;
use crate::objects::{device_class, device_slice};
use crate::scene::{Scene, check};

/// Longer than the auditor forgives a scheduler that has not heard of a pool's change.
const HEARD: Duration = Duration::from_millis(2500);

pub(super) const CHANGED: Row = Row {
    id: "F21",
    title: "a pool rolls to a new generation, is incomplete, or has a device twice, while pods wait",
    must: "give nothing from it until it is whole, nothing of an old generation; then go on",
    prepare: |scene| {
        scene.nodes(1, 0)?;
        scene.create(&device_class())?;
        scene.start_watching_scheduler()
    },
    waits: true,
    repeat: changed,
    ..Row::PLAIN
};

fn changed(scene: &mut Scene) -> Outcome {
    scene.no_slices()?;
    match scene.repeat() % 3 {
        0 => rolls(scene),
        1 => has_a_device_twice(scene),
        _ => has_two_generations(scene),
    }
}

fn publish(scene: &Scene, name: &str, devices: &[&str], pool: &Value) -> Outcome {
    scene.create(&device_slice(name, "n-1", devices, pool)).map(drop)
}

/// Checks that a pod that comes now waits, and so do these.
fn nobody_gets_any(scene: &mut Scene, comes: &str, wait: &[&str]) -> Outcome {
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    sleep(HEARD);
    scene.create_claiming(comes)?;
    scene.told(comes, "Unschedulable")?;
    scene.took_effect(1);
    scene.quiet()?;
    for name in wait.iter().chain([&comes]) {
        let device = scene.device_of(name)?;
        check(device.is_none(), format!("{name} has {device:?}"))?;
    }
    Ok(())
}

/// The new generation comes slice by slice.
fn rolls(scene: &mut Scene) -> Outcome {
    publish(scene, "s-1", &["gpu-0"], &Value::Null)?;
    scene.create_claiming("a")?;
    scene.each_has_its_own(&["a"])?;
    scene.create_claiming("b")?;
    scene.told("b", "Unschedulable")?;
    let pool = json!({"generation": 2, "resourceSliceCount": 2});
    let devices = json!([{"name": "gpu-0"}, {"name": "gpu-1"}, {"name": "gpu-2"}]);
    scene.change_slice("s-1", &json!({"pool": pool, "devices": devices}))?;
    nobody_gets_any(scene, "c", &["b"])?;
    publish(scene, "s-2", &["gpu-3"], &pool)?;
    scene.each_has_its_own(&["a", "b", "c"])
}

/// Two slices of one pool name the same device, until one of them doesn't.
fn has_a_device_twice(scene: &mut Scene) -> Outcome {
    let pool = json!({"resourceSliceCount": 2});
    publish(scene, "s-1", &["gpu-0", "gpu-1"], &pool)?;
    publish(scene, "s-2", &["gpu-1", "gpu-2"], &pool)?;
    nobody_gets_any(scene, "a", &[])?;
    scene.create_claiming("b")?;
    scene.change_slice("s-2", &json!({"devices": [{"name": "gpu-2"}]}))?;
    scene.each_has_its_own(&["a", "b"])
}

/// The driver has published anew and not cleared away yet: what was is not there any more.
fn has_two_generations(scene: &mut Scene) -> Outcome {
    publish(scene, "s-1", &["old-0", "old-1"], &Value::Null)?;
    publish(scene, "s-2", &["new-0"], &json!({"generation": 2}))?;
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    sleep(HEARD);
    scene.create_claiming("a")?;
    scene.each_has_its_own(&["a"])?;
    let has = scene.device_of("a")?.unwrap_or_default();
    check(has == "n-1/new-0", format!("a has {has}"))?;
    nobody_gets_any(scene, "b", &[])?;
    let pool = json!({"generation": 3, "resourceSliceCount": 1});
    let devices = json!([{"name": "new-0"}, {"name": "new-1"}]);
    scene.change_slice("s-2", &json!({"pool": pool, "devices": devices}))?;
    scene.each_has_its_own(&["a", "b"])
}
