//! The API server and etcd: killed, stopped, started again.

use std::time::Duration;

use berth_stand::try_wait_for;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::Told;
use crate::scene::Scene;

/// As many GPUs as pods, so that a place that is lost shows as a pod that waits, and one that is
/// given twice as a node too full.
const NODES: u32 = 50;
const PODS: usize = 400;
/// The server needs time to come back, on a machine that is busy.
pub(super) const LONG: Duration = Duration::from_secs(120);

pub(super) const KILLED: Row = Row {
    id: "F01",
    title: "kube-apiserver is killed in mid-burst and comes back after 1 to 3 s",
    must: "keep every reservation, resume, bind all; no node too full",
    once: true,
    prepare,
    repeat: killed,
    ..Row::PLAIN
};

/// Makes room for a burst, without a place to spare.
pub(super) fn prepare(scene: &mut Scene) -> Outcome {
    scene.nodes(NODES, 8)?;
    scene.start_watching_scheduler()
}

/// Begins a burst that fills all nodes, waits until a part of it that differs from repeat to repeat
/// is bound, and returns the number of its first exchange.
pub(super) fn burst_under_way(scene: &mut Scene) -> Outcome<usize> {
    let from = scene.proxy.n_exchanges();
    // The burst begins at once for the scheduler, whatever creating the pods takes.
    scene.scheduler()?.signal("STOP")?;
    scene.create_burst(PODS)?;
    scene.scheduler()?.signal("CONT")?;
    let enough = PODS / 8 + usize::try_from(scene.draw(PODS as u64 / 2)).unwrap_or_default();
    let begun = || (n_answered(scene, from) >= enough).then_some(());
    try_wait_for(SOON, "the burst has begun", begun)?;
    Ok(from)
}

fn killed(scene: &mut Scene) -> Outcome {
    let from = burst_under_way(scene)?;
    scene.stand.kill_apiserver();
    let down = Duration::from_millis(1000 + scene.draw(2000));
    std::thread::sleep(down);
    scene.stand.restart_apiserver()?;
    let unanswered = scene
        .proxy
        .count(from, |exchange| exchange.asked.is_bind() && exchange.told == Told::Broken);
    scene.took_effect(u64::from(unanswered > 0));
    // Nodes that are too full are the auditor's to find.
    scene.all_bound(LONG)
}

/// Returns how many binds have been answered.
pub(super) fn n_answered(scene: &Scene, from: usize) -> usize {
    scene.proxy.count(from, |exchange| {
        exchange.asked.is_bind() && matches!(exchange.told, Told::Status(_))
    })
}
