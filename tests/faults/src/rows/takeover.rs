//! How soon another leads, with the times of the Lease that kube-scheduler has by default.

use std::time::{Duration, Instant};

use super::Row;
use super::election::{self, start, successor, take, waited_after_release};
use crate::failed::{Failed, Outcome};
use crate::proxy::Exchange;
use crate::scene::{Scene, check, holder};
use crate::stage::Setting;

/// From the kill to the new leader's Lease and to its first bind: the Lease lives for 15 s.
const AFTER_A_KILL: Duration = Duration::from_secs(20);
/// From the write that frees the Lease to the one that takes it.
const AFTER_A_RELEASE: Duration = Duration::from_secs(1);

pub(super) const TAKEOVER: Row = Row {
    id: "F40-lease",
    title: "with the default Lease times the leader is killed, and its successor asked to end",
    must: "lead and bind within 20 s of the kill, lead within 1 s of the release",
    slow: true,
    waits: true,
    setting: Setting::ELECTING_BY_DEFAULT,
    prepare: election::prepare,
    repeat: takeover,
    ..Row::PLAIN
};

/// Both times are those that the proxy has noted of requests, so nothing hangs on how often we look.
fn takeover(scene: &mut Scene) -> Outcome {
    let old = scene.leader()?;
    scene.create_pod("before", 1)?;
    scene.bound("before")?;
    let from = scene.proxy.n_exchanges();
    let killed = Instant::now();
    // Dropping it kills it.
    drop(take(scene, &old)?);
    scene.create_pod("after", 1)?;
    let new = successor(scene, &old)?;
    scene.bound("after")?;
    let taken = first(scene, from, &new, |e| holder(e).is_some())?.duration_since(killed);
    let bound = first(scene, from, &new, |e| e.asked.is_bind())?.duration_since(killed);
    start(scene, &old)?;
    scene.took_effect(1);
    let late = format!("the Lease was taken {taken:?} after the kill, a pod bound {bound:?}");
    check(taken.max(bound) <= AFTER_A_KILL, late)?;

    let from = scene.proxy.n_exchanges();
    let code = take(scene, &new)?.terminate()?;
    check(code == Some(0), format!("its exit code is {code:?}"))?;
    let next = successor(scene, &new)?;
    let waited = waited_after_release(scene, from, &next)?;
    scene.create_pod("released", 1)?;
    scene.bound("released")?;
    start(scene, &new)?;
    check(waited <= AFTER_A_RELEASE, format!("the next one waited {waited:?}"))
}

/// Returns when a user sent the first such request.
fn first(
    scene: &Scene,
    from: usize,
    user: &str,
    is_it: impl Fn(&Exchange) -> bool,
) -> Outcome<Instant> {
    let exchanges = scene.proxy.exchanges(from);
    let first = exchanges.iter().find(|e| e.asked.user == user && is_it(e));
    first.map(|e| e.at).ok_or_else(|| Failed::Wrong(format!("{user} has sent nothing like it")))
}
