//! Binds whose fate their sender does not learn, or does not expect.

use std::time::Duration;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::{Ending, Fault, Requests, Rule};
use crate::scene::{Scene, check};

/// Longer than a scheduler needs to draw the wrong conclusion.
const LATE: Duration = Duration::from_secs(3);

/// Room for one pod of 8 GPUs.
fn one_node(scene: &mut Scene) -> Outcome {
    scene.nodes(1, 8)?;
    scene.start_watching_scheduler()
}

pub(super) const ANSWER_LOST: Row = Row {
    id: "F14",
    title: "a bind is committed, its answer lost, the watch of pods late",
    must: "keep the place until a read tells; bind nobody else to it",
    prepare: one_node,
    repeat: answer_lost,
    ..Row::PLAIN
};

fn answer_lost(scene: &mut Scene) -> Outcome {
    committed_in_doubt(scene, Fault::CutAnswer(Ending::Close))
}

/// The bind of `a` is committed and `fault` hides it, while `b` waits for the same place.
fn committed_in_doubt(scene: &mut Scene, fault: Fault) -> Outcome {
    let hidden = Rule::on(Requests::bind_of("a").first()).hold().then(fault);
    let hidden = scene.proxy.inject(hidden);
    scene.create_pod("a", 8)?;
    hidden.wait_held(SOON)?;
    scene.create_pod("b", 8)?;
    scene.told("b", "Unschedulable")?;
    let late = scene.proxy.watches("pods").late(LATE);
    hidden.release();
    hidden.wait_effective(1, SOON)?;
    scene.took_effect(1);
    // Only when the watch has told of a's node is the time of doubt over.
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)?;
    drop(late);
    check(scene.node_of("a")?.is_some(), "the committed bind is not in the store")?;
    scene.quiet()?;
    scene.delete_pod("a")?;
    scene.bound("b").map(drop)
}

pub(super) const CALLED_STALE: Row = Row {
    id: "F03b",
    title: "a bind is committed and answered with 409, the watch of pods late",
    must: "not take a 409 for a no, as a server whose etcd went away says it of what was done",
    prepare: one_node,
    repeat: called_stale,
    ..Row::PLAIN
};

fn called_stale(scene: &mut Scene) -> Outcome {
    committed_in_doubt(scene, Fault::ReplaceStatus(409))
}

pub(super) const REQUEST_LOST: Row = Row {
    id: "F15",
    title: "a bind is lost before the server sees it",
    must: "find out that it was lost, then bind the pod once",
    waits: true,
    repeat: request_lost,
    ..Row::PLAIN
};

fn request_lost(scene: &mut Scene) -> Outcome {
    let ending = if scene.repeat().is_multiple_of(2) { Ending::Close } else { Ending::Alert };
    let cut = scene
        .proxy
        .inject(Rule::on(Requests::bind_of("p-0").first()).then(Fault::CutRequest(ending)));
    scene.create_burst(8)?;
    cut.wait_effective(1, SOON)?;
    scene.took_effect(1);
    scene.all_bound(SOON)
}

pub(super) const BOUND_ELSEWHERE: Row = Row {
    id: "F16",
    title: "a pod is bound elsewhere while its bind is under way",
    must: "believe the server's 409, free the place, bind the next pod there",
    prepare: |scene| {
        scene.nodes(2, 8)?;
        scene.start_watching_scheduler()
    },
    repeat: bound_elsewhere,
    ..Row::PLAIN
};

fn bound_elsewhere(scene: &mut Scene) -> Outcome {
    let held = scene.proxy.inject(Rule::on(Requests::bind_of("a").first()).hold());
    let from = scene.proxy.n_exchanges();
    scene.create_pod("a", 8)?;
    held.wait_held(SOON)?;
    let binds = scene.proxy.exchanges(from);
    let target = binds.iter().find_map(|exchange| exchange.asked.target()).unwrap_or_default();
    let other = if target == "n-1" { "n-2" } else { "n-1" };
    scene.bind_from_the_side("a", other)?;
    held.release();
    held.wait_effective(1, SOON)?;
    scene.create_pod("b", 8)?;
    let node = scene.bound("b")?;
    let answers = scene.proxy.exchanges(from);
    let refused = |e: &&crate::proxy::Exchange| e.asked.target().is_some() && e.server == Some(409);
    scene.took_effect(u64::from(answers.iter().find(refused).is_some()));
    check(node == target, format!("b is on {node}, though {target} is free"))?;
    let stays = scene.node_of("a")?;
    check(stays.as_deref() == Some(other), format!("a was bound to {other} and is on {stays:?}"))
}
