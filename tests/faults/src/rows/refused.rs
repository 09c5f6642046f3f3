//! Gangs of which one member is refused for good, by a rule of the proxy's or by a policy.

use std::time::{Duration, Instant};

use berth_stand::{FakeKubelet, try_wait_for};
use serde_json::Value;

use super::Row;
use super::refusal::{By, REFUSED, Refusal, WHY, is_of_refused, is_refusal};
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::{gpu_pod, member, owned, pod_group, scheduled_condition};
use crate::proxy::{Exchange, Fault, Requests, Rule};
use crate::scene::{JobController, Scene, check};
use crate::scheduler::Program;

const MEMBERS: usize = 4;
/// Longer than a gang waits between two attempts, also after many of them.
const ANEW: Duration = Duration::from_secs(12);
/// A gang that is bound in part has had its time: 30 s, and what is added when somebody is deleted.
const HAD_ITS_TIME: Duration = Duration::from_secs(36);
/// Binds of the refused member in a minute, tried or sent.
const A_MINUTE_MAX: usize = 10;

pub(super) const BY_THE_PROXY: Row = Row {
    id: "F17",
    title: "one of four members is refused for good, by 403 or 422; with and without a controller",
    must: "take the gang back within 30 s or bind nothing of it, say why, let others pass",
    slow: true,
    waits: true,
    repeat: |scene| match scene.repeat() % 3 {
        0 => made_anew(scene, By::Proxy),
        1 => found_before(scene, By::Proxy),
        _ => found_too_late(scene),
    },
    ..Row::PLAIN
};

pub(super) const BY_A_POLICY: Row = Row {
    id: "F17p",
    title: "a ValidatingAdmissionPolicy refuses one of four members; with and without a controller",
    must: "as F17: take the gang back within 30 s or bind nothing of it, say why, let others pass",
    slow: true,
    waits: true,
    repeat: |scene| match scene.repeat() % 2 {
        0 => found_before(scene, By::Policy),
        _ => made_anew(scene, By::Policy),
    },
    ..Row::PLAIN
};

/// The members of the gang; half a node each.
fn members() -> Vec<Value> {
    (0..MEMBERS).map(|n| member(gpu_pod(&format!("g-{n}"), 4), "g")).collect()
}

/// The members have a controller: three are bound and taken back, and those that it makes instead are
/// not bound while the fourth is refused.
fn made_anew(scene: &mut Scene, by: By) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let refusal = Refusal::begin(scene, by, either_status(scene))?;
    let _kubelet = FakeKubelet::start(scene.api.clone());
    scene.create(&pod_group("g", MEMBERS as u32))?;
    let pods = members().into_iter().map(|pod| owned(pod, "g")).collect();
    let _controller = JobController::start(scene.api.clone(), pods)?;
    is_refused(scene, from)?;
    // The refusal is no passing trouble: what is left of the gang counts from here.
    scene.faults_ended();
    is_told_why(scene)?;
    others_pass(scene)?;
    let taken_back = || (scene.members_bound("g").ok()? == 0).then_some(());
    try_wait_for(SOON, "the gang is taken back", taken_back)?;
    deleted_as_said(scene, from)?;
    scene.stays_unbound("g", ANEW)?;
    is_asked_seldom(scene, from)?;
    ends(scene, refusal)
}

/// The members have none: that one is refused is found before any is bound.
fn found_before(scene: &mut Scene, by: By) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let refusal = Refusal::begin(scene, by, either_status(scene))?;
    let _kubelet = FakeKubelet::start(scene.api.clone());
    scene.create_gang("g", &members())?;
    let before = uids(scene)?;
    is_refused(scene, from)?;
    scene.faults_ended();
    is_told_why(scene)?;
    others_pass(scene)?;
    if scene.program != Program::Berth {
        // Others don't ask before; they may take the gang back.
        std::thread::sleep(HAD_ITS_TIME);
        return refusal.end(scene);
    }
    scene.stays_unbound("g", ANEW)?;
    let sent = |e: &Exchange| e.asked.is_bind() && e.asked.name.starts_with("g-");
    let sent = scene.proxy.count(from, sent);
    check(sent == 0, format!("{sent} binds of the gang were sent"))?;
    check(uids(scene)? == before, "a member was deleted that nobody makes anew")?;
    is_asked_seldom(scene, from)?;
    ends(scene, refusal)
}

/// The members have none, and nobody can tell before: three are bound, and stay. That they are fewer
/// than they must be is told, and lasts as long as the refusal.
fn found_too_late(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    scene.forget_events()?;
    // What a webhook that has side effects makes of a trial.
    let untold = Fault::Refuse { status: 400, retry_after_s: None };
    let untold = scene.proxy.inject(Rule::on(Requests::trials()).then(untold));
    let refusal = Refusal::begin(scene, By::Proxy, either_status(scene))?;
    let _kubelet = FakeKubelet::start(scene.api.clone());
    scene.create_gang("g", &members())?;
    let before = uids(scene)?;
    is_refused(scene, from)?;
    is_told_why(scene)?;
    others_pass(scene)?;
    let begun = Instant::now();
    while begun.elapsed() < HAD_ITS_TIME {
        std::thread::sleep(Duration::from_millis(200));
        check(uids(scene)? == before, "a member was deleted that nobody makes anew")?;
    }
    let told = || scene.is_told_below("g").then_some(());
    try_wait_for(SOON, "it is told that the gang is below its minimum", told)?;
    let bound = scene.members_bound("g")?;
    check(bound == MEMBERS - 1, format!("{bound} members are bound"))?;
    is_asked_seldom(scene, from)?;
    drop(untold);
    refusal.end(scene)?;
    scene.faults_ended();
    scene.gang_bound("g", MEMBERS, SOON)
}

fn either_status(scene: &Scene) -> u16 {
    if scene.draw(2) == 0 { 403 } else { 422 }
}

fn is_refused(scene: &Scene, from: usize) -> Outcome {
    let refused = || (scene.proxy.count(from, is_refusal) > 0).then_some(());
    try_wait_for(SOON, "a member is refused", refused)?;
    scene.took_effect(1);
    Ok(())
}

/// The refused member learns what the server said.
fn is_told_why(scene: &Scene) -> Outcome {
    let told = || {
        let members = scene.members("g").ok()?;
        let of_refused = |pod: &&Value| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with(REFUSED)
        };
        let condition = scheduled_condition(members.iter().find(of_refused)?);
        let message = condition["message"].as_str().unwrap_or_default();
        WHY.iter().any(|why| message.contains(why)).then_some(())
    };
    Ok(try_wait_for(SOON, "the refused member is told why", told)?)
}

/// Another gang and a pod that come now are bound though the gang still waits.
fn others_pass(scene: &Scene) -> Outcome {
    scene.create_pod("later", 4)?;
    let other = |n| member(gpu_pod(&format!("h-{n}"), 4), "h");
    scene.create_gang("h", &[other(0), other(1)])?;
    scene.bound("later")?;
    scene.gang_bound("h", 2, SOON)?;
    let whole = scene.members_bound("g")?;
    check(whole < MEMBERS, "the gang is whole, though a member is refused")
}

/// Whoever was deleted was told why, and was meant by the UID.
fn deleted_as_said(scene: &Scene, from: usize) -> Outcome {
    let exchanges = scene.proxy.exchanges(from);
    let deletes = exchanges.iter().filter(|e| {
        e.asked.method == "DELETE" && e.asked.resource == "pods" && e.server == Some(200)
    });
    let mut deleted = Vec::new();
    for delete in deletes {
        let name = &delete.asked.name;
        let by_uid = delete.asked.json()["preconditions"]["uid"].is_string();
        check(by_uid, format!("{name} was deleted whoever it is"))?;
        let told = |e: &Exchange| {
            let text = String::from_utf8_lossy(&e.asked.body);
            let said = text.contains("DisruptionTarget") && text.contains("GangIncomplete");
            e.asked.name == *name && e.at < delete.at && e.server == Some(200) && said
        };
        check(exchanges.iter().any(told), format!("{name} was deleted without a word"))?;
        deleted.push(name.clone());
    }
    let only = deleted.iter().all(|name| name.starts_with("g-") && !name.starts_with(REFUSED));
    check(only && deleted.len() == MEMBERS - 1, format!("deleted were {deleted:?}"))
}

/// In no minute was the refused member sent, or tried, more often than this.
fn is_asked_seldom(scene: &Scene, from: usize) -> Outcome {
    let exchanges = scene.proxy.exchanges(from);
    let of_refused = exchanges.iter().filter(|e| is_of_refused(&e.asked));
    let mut times: Vec<Instant> = of_refused.map(|e| e.at).collect();
    times.sort();
    let minute = Duration::from_secs(60);
    let within = |(n, begin): (usize, &Instant)| {
        times.partition_point(|at| at.saturating_duration_since(*begin) < minute) - n
    };
    let most = times.iter().enumerate().map(within).max().unwrap_or_default();
    check(most <= A_MINUTE_MAX, format!("the refused member was asked for {most} times a minute"))
}

fn uids(scene: &Scene) -> Outcome<Vec<String>> {
    let members = scene.members("g")?;
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    Ok(members.iter().map(uid).collect())
}

/// In half of the repeats the refusal ends first, and the gang is bound as a whole.
fn ends(scene: &Scene, refusal: Refusal) -> Outcome {
    if !(scene.repeat() / 3).is_multiple_of(2) {
        scene.stays_unbound("g", Duration::ZERO)?;
        return refusal.end(scene);
    }
    refusal.end(scene)?;
    scene.gang_bound("g", MEMBERS, SOON)?;
    scene.notes_agree("g", MEMBERS)
}
