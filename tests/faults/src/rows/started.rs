//! Gangs that run, and lose a member.

use std::time::{Duration, Instant};

use berth_stand::{Patch, try_wait_for};
use serde_json::json;

use super::Row;
use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::objects::{gpu_node, gpu_pod, member, owned};
use crate::scene::{Scene, check};

/// The members fill both nodes.
const MEMBERS: usize = 4;
/// What a gang has lost is told so soon.
const TOLD: Duration = Duration::from_secs(5);
/// Longer than a scheduler needs to give a place away that it has found free.
const KEPT: Duration = Duration::from_secs(4);
/// Longer than a gang may be bound in part that has not started.
const STAYS: Duration = Duration::from_secs(36);

pub(super) const LOST: Row = Row {
    id: "F29",
    title: "a member of a gang that runs is deleted, or goes with its node",
    must: "tell it within 5 s, take nobody back, keep the place for the member that comes instead",
    waits: true,
    prepare: |scene| {
        scene.nodes(2, 8)?;
        scene.start_watching_scheduler()
    },
    repeat: lost,
    ..Row::PLAIN
};

fn lost(scene: &mut Scene) -> Outcome {
    scene.forget_events()?;
    let pods: Vec<_> = (0..MEMBERS).map(|n| of_gang(&format!("g-{n}"))).collect();
    scene.create_gang("g", &pods)?;
    scene.gang_bound("g", MEMBERS, SOON)?;
    (0..MEMBERS).try_for_each(|n| runs_for_long(scene, &format!("g-{n}")))?;
    scene.create_pod("stranger", 4)?;
    scene.told("stranger", "Unschedulable")?;
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    let lost = format!("g-{}", scene.draw(MEMBERS as u64));
    match scene.repeat() % 3 {
        2 => goes_with_its_node(scene, &lost),
        variant => is_deleted(scene, &lost, if variant == 0 { STAYS } else { KEPT }),
    }
}

fn of_gang(name: &str) -> serde_json::Value {
    owned(member(gpu_pod(name, 4), "g"), "g")
}

/// Its place is kept, and everybody else's as well.
fn is_deleted(scene: &mut Scene, lost: &str, stays: Duration) -> Outcome {
    let place = scene.bound(lost)?;
    let lost_at = Instant::now();
    scene.delete_pod(lost)?;
    is_told_in_time(scene, lost_at)?;
    while lost_at.elapsed() < stays {
        let bound = scene.members_bound("g")?;
        check(bound == MEMBERS - 1, format!("{bound} members are bound that nobody has touched"))?;
        let taken = scene.node_of("stranger")?;
        check(taken.is_none(), "the place was given to a stranger")?;
        std::thread::sleep(Duration::from_millis(200));
    }
    is_replaced(scene, &place)
}

/// Its node comes back, and with it a place for the member that comes instead.
fn goes_with_its_node(scene: &mut Scene, lost: &str) -> Outcome {
    let place = scene.bound(lost)?;
    let of_node = |pod: &serde_json::Value| pod["spec"]["nodeName"] == place.as_str();
    let names = |pod: &serde_json::Value| pod["metadata"]["name"].as_str().map(str::to_owned);
    let members = scene.members("g")?;
    let beside: Vec<String> = members.iter().filter(|pod| of_node(pod)).filter_map(names).collect();
    let lost_at = Instant::now();
    scene.api.delete(&format!("/api/v1/nodes/{place}"))?;
    beside.iter().try_for_each(|name| scene.delete_pod(name))?;
    is_told_in_time(scene, lost_at)?;
    let left = scene.members_bound("g")?;
    check(left == MEMBERS - beside.len(), format!("{left} members are left"))?;
    scene.delete_pod("stranger")?;
    scene.create(&gpu_node(&place, 8))?;
    beside.iter().try_for_each(|name| scene.create(&of_gang(&format!("{name}-anew"))).map(drop))?;
    scene.took_effect(1);
    scene.gang_bound("g", MEMBERS, SOON)
}

fn is_told_in_time(scene: &Scene, lost_at: Instant) -> Outcome {
    let told = || scene.is_told_below("g").then(Instant::now);
    let told = try_wait_for(SOON, "it is told that the gang is below its minimum", told)?;
    let took = told.saturating_duration_since(lost_at);
    check(took < TOLD, format!("that a member is lost was told after {took:?}"))
}

fn is_replaced(scene: &Scene, place: &str) -> Outcome {
    scene.create(&of_gang("g-anew"))?;
    let node = scene.bound("g-anew")?;
    scene.took_effect(1);
    if node != place {
        return Err(Failed::Wrong(format!("{place} was kept, and the new member is on {node}")));
    }
    Ok(())
}

/// The kubelet says that the pod runs, since long ago.
fn runs_for_long(scene: &Scene, name: &str) -> Outcome {
    let container = json!({
        "name": "main", "image": "registry.example/work:1", "imageID": "", "ready": true,
        "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    });
    let status = json!({"status": {"phase": "Running", "containerStatuses": [container]}});
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    scene.api.patch(&path, Patch::Strategic, &status)?;
    Ok(())
}
