//! Claims whose writes are lost, refused or overtaken.

use std::time::Duration;

use berth_stand::try_wait_for;
use serde_json::json;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::{claim, claiming, scheduled_condition};
use crate::proxy::{Ending, Exchange, Fault, Injection, Requests, Rule};
use crate::scene::{CLAIMS, Scene, allocated, check};
use crate::scheduler::Program;

/// Longer than a scheduler needs to draw the wrong conclusion.
const LATE: Duration = Duration::from_secs(3);

fn one_device(scene: &mut Scene) -> Outcome {
    scene.devices(1, 1)?;
    scene.start_watching_scheduler()
}

/// Creates `a` with its claim, and holds the write that allocates to it.
fn grant_held(scene: &Scene) -> Outcome<Injection> {
    let held = scene.proxy.inject(Rule::on(Requests::claim_status("a").first()).hold());
    scene.create_claiming("a")?;
    held.wait_held(SOON)?;
    Ok(held)
}

/// Returns the device that the first write since exchange `from` wants for `a`.
fn wanted(scene: &Scene, from: usize) -> String {
    let exchanges = scene.proxy.exchanges(from);
    let grant = exchanges.iter().find(|e| e.asked.is_claim_status() && e.asked.name == "a");
    let devices = grant.map(|grant| allocated(&grant.asked.json()["status"])).unwrap_or_default();
    devices.into_iter().next().unwrap_or_default()
}

/// Counts the writes to the status of `a` since exchange `from` that the server answered so.
fn answered(scene: &Scene, from: usize, status: u16) -> u64 {
    let meant = |e: &Exchange| e.asked.is_claim_status() && e.asked.name == "a";
    scene.proxy.count(from, |e| meant(e) && e.server == Some(status)) as u64
}

pub(super) const ANSWER_LOST: Row = Row {
    id: "F14d",
    title: "the write that allocates a device is lost, done or not, the watch of claims late",
    must: "keep the device until a read tells; give it to nobody else",
    prepare: one_device,
    waits: true,
    repeat: answer_lost,
    ..Row::PLAIN
};

fn answer_lost(scene: &mut Scene) -> Outcome {
    let fault = match scene.repeat().is_multiple_of(2) {
        true => Fault::CutAnswer(Ending::Close),
        false => Fault::CutRequest(Ending::Close),
    };
    let lost = Rule::on(Requests::claim_status("a").first()).hold().then(fault);
    let lost = scene.proxy.inject(lost);
    scene.create_claiming("a")?;
    lost.wait_held(SOON)?;
    scene.create(&claim("b"))?;
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    let waits = scene.repeat() % 4 >= 2;
    if waits {
        wants_it_too(scene)?;
    }
    let late = scene.proxy.watches("resourceclaims").late(LATE);
    lost.release();
    lost.wait_effective(1, SOON)?;
    scene.took_effect(1);
    if !waits {
        wants_it_too(scene)?;
    }
    scene.is_told(&user)?;
    drop(late);
    scene.each_has_its_own(&["a"])?;
    scene.quiet()?;
    if scene.device_of("b")?.is_some() {
        // That both have it is the auditor's to find.
        return Ok(());
    }
    scene.delete_pod("a")?;
    scene.free_claim("a")?;
    scene.each_has_its_own(&["b"])
}

/// A pod comes for the device that `a` is to have, and is looked at. Its claim is there already.
fn wants_it_too(scene: &Scene) -> Outcome {
    scene.create(&claiming("b", &["b"]))?;
    let looked_at = || {
        let pod = scene.read_pod("b").ok()?;
        let told = scheduled_condition(&pod)["reason"] == "Unschedulable";
        (told || pod["spec"]["nodeName"].is_string()).then_some(())
    };
    Ok(try_wait_for(SOON, "b is told or bound", looked_at)?)
}

pub(super) const CONFLICT: Row = Row {
    id: "F18",
    title: "a claim is touched, allocated by another or made anew, or its device is given away, \
            while it is allocated",
    must: "believe the 409, read again, check that the device is free; else take another",
    prepare: |scene| {
        scene.devices(1, 2)?;
        scene.start_watching_scheduler()
    },
    repeat: conflict,
    ..Row::PLAIN
};

fn conflict(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let held = grant_held(scene)?;
    let planned = wanted(scene, from);
    let (node, device) = planned.split_once('/').unwrap_or_default();
    let other = if device == "gpu-0" { "gpu-1" } else { "gpu-0" };
    let touched = json!({"metadata": {"labels": {"touched": "yes"}}});
    let mut expected = planned.clone();
    match scene.repeat() % 4 {
        0 => scene.change_claim("a", "", &touched)?,
        1 => {
            expected = format!("{node}/{other}");
            scene.allocate_from_the_side("a", node, other)?;
        }
        2 => {
            expected = format!("{node}/{other}");
            given_away(scene, node, device)?;
            scene.change_claim("a", "", &touched)?;
        }
        _ => {
            scene.force_claim("a")?;
            scene.create(&claim("a"))?;
        }
    }
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    held.release();
    scene.each_has_its_own(&["a"])?;
    let has = scene.device_of("a")?.unwrap_or_default();
    let anew = scene.repeat() % 4 == 3;
    check(anew || has == expected, format!("a has {has}, not {expected}"))?;
    let conflicts = answered(scene, from, 409);
    scene.took_effect(u64::from(conflicts > 0));
    check(conflicts > 0, "the write that was overtaken was not refused")?;
    if scene.repeat() % 4 != 2 {
        // Nothing is left behind of what was not to be.
        scene.create_claiming("b")?;
        scene.each_has_its_own(&["a", "b"])?;
    }
    Ok(())
}

/// Another claim gets the device, and whoever plans with it says that he knows.
fn given_away(scene: &mut Scene, node: &str, device: &str) -> Outcome {
    let written = scene.scheduler()?.log().len();
    scene.create(&claim("theirs"))?;
    scene.allocate_from_the_side("theirs", node, device)?;
    if scene.program != Program::Berth {
        return Ok(());
    }
    let scheduler = scene.scheduler()?;
    let noticed = || scheduler.log().get(written..)?.contains(TWICE).then_some(());
    Ok(try_wait_for(SOON, "berth notices that a device is in two claims", noticed)?)
}

const TWICE: &str = "allocated to resource claims default/a and default/theirs at once";

pub(super) const TAKEN_AWAY: Row = Row {
    id: "F20",
    title: "a claim is deleted, by force or not, or its devices are taken from it, in mid-plan",
    must: "bind nobody by it who is not bound yet; give its device on when the claim is gone",
    prepare: one_device,
    repeat: taken_away,
    ..Row::PLAIN
};

fn taken_away(scene: &mut Scene) -> Outcome {
    match scene.repeat() % 4 {
        0 => deleted_when_the_bind_is_sent(scene),
        1 => deleted_before_it_is_given(scene, false),
        2 => deleted_before_it_is_given(scene, true),
        _ => deallocated_before_the_bind(scene),
    }
}

/// The finalizer keeps the claim, and the claim its device, until the pod is gone.
fn deleted_when_the_bind_is_sent(scene: &mut Scene) -> Outcome {
    let held = scene.proxy.inject(Rule::on(Requests::bind_of("a").first()).hold());
    scene.create_claiming("a")?;
    held.wait_held(SOON)?;
    scene.api.delete(&format!("{CLAIMS}/a"))?;
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    scene.create_claiming("b")?;
    scene.told("b", "Unschedulable")?;
    held.release();
    scene.each_has_its_own(&["a"])?;
    scene.took_effect(1);
    scene.quiet()?;
    check(scene.device_of("b")?.is_none(), "the device of a claim that is to go is given to b")?;
    scene.delete_pod("a")?;
    scene.free_claim("a")?;
    scene.each_has_its_own(&["b"])
}

fn deleted_before_it_is_given(scene: &mut Scene, by_force: bool) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let held = grant_held(scene)?;
    match by_force {
        true => scene.force_claim("a")?,
        false => drop(scene.api.delete(&format!("{CLAIMS}/a"))?),
    }
    held.release();
    scene.create_claiming("b")?;
    scene.each_has_its_own(&["b"])?;
    let refused = answered(scene, from, 409) + answered(scene, from, 404);
    scene.took_effect(u64::from(refused > 0));
    scene.quiet()?;
    let binds = scene.proxy.count(from, |e| e.asked.is_bind() && e.asked.name == "a");
    check(binds == 0, "a was bound, though its claim was to go")?;
    if !by_force {
        scene.free_claim("a")?;
    }
    scene.create(&claim("a"))?;
    scene.delete_pod("b")?;
    scene.free_claim("b")?;
    scene.each_has_its_own(&["a"])
}

/// The plan learns that its claim was taken back before it has sent the bind.
fn deallocated_before_the_bind(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let held = scene.proxy.inject(Rule::on(Requests::claim_status("a").first()).hold_answer());
    scene.create_claiming("a")?;
    held.wait_held(SOON)?;
    scene.deallocate_from_the_side("a")?;
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    held.release();
    scene.took_effect(1);
    scene.each_has_its_own(&["a"])?;
    let exchanges = scene.proxy.exchanges(from);
    let mut of_a = exchanges.iter().filter(|e| e.asked.name == "a");
    let grants = |e: &&Exchange| !allocated(&e.asked.json()["status"]).is_empty();
    let before: Vec<_> = of_a.by_ref().take_while(|e| !e.asked.is_bind()).filter(grants).collect();
    check(before.len() > 1, "a was bound when its claim had been taken back")
}
