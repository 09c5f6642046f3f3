//! Claims whose scheduler dies before it has bound their pod.

use berth_stand::{Patch, try_wait_for};
use serde_json::json;

use super::Row;
use super::election::{start, successor, take};
use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::proxy::{Exchange, Requests, Rule};
use crate::scene::{CLAIMS, Scene, check};
use crate::stage::{REPLICAS, Setting};

pub(super) const KILLED: Row = Row {
    id: "F19",
    title: "SIGKILL to the leader between its writes to a claim and the bind",
    must: "the next one, waiting or new, binds the pod with what the claim has, or frees it, in 60 s",
    setting: Setting::ELECTING,
    prepare: |scene| {
        scene.devices(2, 1)?;
        start_both(scene)
    },
    repeat: killed,
    ..Row::PLAIN
};

pub(super) fn start_both(scene: &mut Scene) -> Outcome {
    for user in REPLICAS.iter().take(2) {
        start(scene, user)?;
    }
    scene.leader().map(drop)
}

/// How far the leader comes.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// The finalizer is on, nothing is allocated.
    Protected,
    /// The device is allocated, and nobody was told.
    Allocated,
    /// The bind is on its way, and never arrives.
    Bound,
    /// The same, and the node takes nobody any more.
    Cordoned,
}

fn killed(scene: &mut Scene) -> Outcome {
    let until = [Until::Protected, Until::Allocated, Until::Bound, Until::Cordoned];
    let until = until[scene.repeat() as usize % 4];
    let rule = match until {
        Until::Protected => Rule::on(Requests::claim_status("a").first()).hold(),
        Until::Allocated => Rule::on(Requests::claim_status("a").first()).hold_answer(),
        Until::Bound | Until::Cordoned => Rule::on(Requests::bind_of("a").first()).hold(),
    };
    let held = scene.proxy.inject(rule);
    let old = scene.leader()?;
    scene.create_claiming("a")?;
    held.wait_held(SOON)?;
    let anew = scene.draw(2) == 0;
    match anew {
        true => scene.schedulers.clear(),
        // Dropping it kills it.
        false => drop(take(scene, &old)?),
    }
    let open = |e: &Exchange| e.is_open() && e.asked.user == old;
    let closed = || (scene.proxy.count(0, open) == 0).then_some(());
    try_wait_for(SOON, "its connections are closed", closed)?;
    scene.took_effect(1);
    drop(held);
    let had = scene.device_of("a")?;
    if until == Until::Cordoned {
        cordon(scene, had.as_deref(), true)?;
    }
    match anew {
        true => start_both(scene)?,
        false => drop(successor(scene, &old)?),
    }
    ends_right(scene, until, had.as_deref())?;
    if until == Until::Cordoned {
        cordon(scene, had.as_deref(), false)?;
    }
    // Both devices can be had: nothing is left behind.
    scene.create_claiming("b")?;
    scene.each_has_its_own(&["a", "b"])?;
    if anew { Ok(()) } else { start(scene, &old) }
}

fn ends_right(scene: &Scene, until: Until, had: Option<&str>) -> Outcome {
    scene.each_has_its_own(&["a"])?;
    let has = scene.device_of("a")?;
    let claim = scene.api.get(&format!("{CLAIMS}/a"))?;
    let consumers = claim["status"]["reservedFor"].as_array().map_or(0, Vec::len);
    check(consumers == 1, format!("the claim is reserved {consumers} times"))?;
    match until {
        Until::Protected => check(had.is_none(), "the held write came to the server"),
        Until::Allocated | Until::Bound => {
            check(has.as_deref() == had, format!("a had {had:?} and has {has:?}"))
        }
        Until::Cordoned => check(has.as_deref() != had, "a is on a node that takes nobody"),
    }
}

fn cordon(scene: &Scene, device: Option<&str>, cordoned: bool) -> Outcome {
    let none = || Failed::Wrong("nothing was allocated".to_owned());
    let (node, _) = device.and_then(|device| device.split_once('/')).ok_or_else(none)?;
    let patch = json!({"spec": {"unschedulable": cordoned}});
    scene.api.patch(&format!("/api/v1/nodes/{node}"), Patch::Merge, &patch)?;
    Ok(())
}
