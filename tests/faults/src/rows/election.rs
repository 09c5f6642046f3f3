//! What rows with a Lease share: two schedulers, who of them leads, and a burst that takes a while.

use std::time::Duration;

use berth_stand::try_wait_for;

use super::server::n_answered;
use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::proxy::{Exchange, Injection, Requests, Rule, Told};
use crate::scene::{Scene, holder};
use crate::scheduler::Scheduler;
use crate::stage::REPLICAS;

/// Places, and pods of a burst: as many, so that a place that is lost or given twice shows.
const NODES: u32 = 20;
pub(super) const PODS: usize = 160;
/// Each bind takes so long at least, so that a burst is not over before the fault comes.
const SLOW: Duration = Duration::from_millis(100);

/// Makes the nodes and two schedulers. Which of them leads first is chance.
pub(super) fn prepare(scene: &mut Scene) -> Outcome {
    scene.nodes(NODES, 8)?;
    for (n, user) in REPLICAS.iter().enumerate().take(2) {
        scene.start_scheduler(n + 1)?;
        scene.watching(user)?;
    }
    scene.leader().map(drop)
}

/// Waits until a scheduler other than this user's holds the Lease, and returns its user.
pub(super) fn successor(scene: &Scene, of: &str) -> Outcome<String> {
    let taken = || scene.leader().ok().filter(|user| user != of);
    Ok(try_wait_for(SOON, "another scheduler leads", taken)?)
}

/// Begins a burst of slow binds, waits until a part of it that differs from repeat to repeat is
/// bound, and returns what makes them slow and the number of the burst's first exchange.
pub(super) fn burst_under_way(scene: &Scene) -> Outcome<(Injection, usize)> {
    let slow = scene.proxy.inject(Rule::on(Requests::binds()).delay(SLOW));
    let from = scene.proxy.n_exchanges();
    scene.create_burst(PODS)?;
    let enough = 1 + usize::try_from(scene.draw(PODS as u64 / 4)).unwrap_or_default();
    let begun = || (n_answered(scene, from) >= enough).then_some(());
    try_wait_for(SOON, "the burst has begun", begun)?;
    Ok((slow, from))
}

/// Takes a user's scheduler out of those that run.
pub(super) fn take(scene: &mut Scene, user: &str) -> Outcome<Scheduler> {
    let at = scene.schedulers.iter().position(|scheduler| scheduler.user == user);
    let none = || Failed::Wrong(format!("no scheduler of {user} runs"));
    at.map(|at| scene.schedulers.remove(at)).ok_or_else(none)
}

/// Starts a user's scheduler again, and waits until it watches.
pub(super) fn start(scene: &mut Scene, user: &str) -> Outcome {
    // The watches of the one before must not be taken for this one's.
    let closed = || (scene.proxy.watches("").user(user).n_open() == 0).then_some(());
    try_wait_for(SOON, "the old watches are closed", closed)?;
    let at = REPLICAS.iter().position(|replica| *replica == user).unwrap_or_default();
    scene.start_scheduler(at + 1)?;
    scene.watching(user)
}

/// Returns how many binds of a user were done.
pub(super) fn n_bound_by(scene: &Scene, user: &str, from: usize) -> usize {
    let done = |e: &Exchange| e.asked.user == user && e.asked.is_bind() && e.server == Some(201);
    scene.proxy.count(from, done)
}

/// Returns the writes that a user has sent from there on, one a line.
pub(super) fn writes_of(scene: &Scene, user: &str, from: usize) -> String {
    let exchanges = scene.proxy.exchanges(from);
    let writes = exchanges.iter().filter(|e| e.asked.user == user && e.asked.is_write());
    let told = |e: &Exchange| format!("{} ({:?})", e.asked.line(), e.told);
    writes.map(told).collect::<Vec<_>>().join("\n")
}

/// Returns how long after the Lease was released the new leader took it.
pub(super) fn waited_after_release(scene: &Scene, from: usize, new: &str) -> Outcome<Duration> {
    let exchanges = scene.proxy.exchanges(from);
    let released = exchanges.iter().find(|e| holder(e).is_some_and(|holder| holder.is_empty()));
    let taken = exchanges.iter().find(|e| e.asked.user == new && holder(e).is_some());
    let (Some(released), Some(taken)) = (released, taken) else {
        return Err(Failed::Wrong("the Lease was not released".to_owned()));
    };
    Ok(taken.at.saturating_duration_since(released.at))
}

/// Tells whether its sender hung up before it was answered.
pub(super) fn was_left(exchange: &Exchange) -> bool {
    exchange.asked.is_bind() && exchange.told == Told::Gone
}
