//! Servers that stand still or die under a burst, while one scheduler goes on without an election.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Row;
use super::server::{LONG, burst_under_way, prepare};
use crate::failed::Outcome;
use crate::proxy::{Exchange, Told};
use crate::scene::{Scene, check};

/// The server ends a write by itself at its `?timeout`; the answer needs a moment on top.
const LATE: Duration = Duration::from_millis(1500);

pub(super) const APISERVER_STOPPED: Row = Row {
    id: "F02",
    once: true,
    title: "kube-apiserver stands still for 1 to 8 s in mid-burst",
    must: "wait, keep every reservation, go on; no node too full",
    prepare,
    repeat: apiserver_stopped,
    ..Row::PLAIN
};

fn apiserver_stopped(scene: &mut Scene) -> Outcome {
    let from = burst_under_way(scene)?;
    scene.stand.signal_apiserver("STOP")?;
    sleep(Duration::from_millis(1000 + scene.draw(7000)));
    let open = scene.proxy.count(from, Exchange::is_open);
    scene.stand.signal_apiserver("CONT")?;
    scene.took_effect(u64::from(open > 0));
    scene.all_bound(LONG)
}

pub(super) const ETCD_KILLED: Row = Row {
    id: "F03",
    title: "etcd is killed in mid-burst and comes back after 1 to 3 s",
    must: "read what the server's errors leave open; bind all, each once; no node too full",
    prepare,
    repeat: etcd_killed,
    ..Row::PLAIN
};

fn etcd_killed(scene: &mut Scene) -> Outcome {
    let from = burst_under_way(scene)?;
    scene.stand.kill_etcd();
    sleep(Duration::from_millis(1000 + scene.draw(2000)));
    scene.stand.restart_etcd()?;
    scene.all_bound(LONG)?;
    let failed = |e: &Exchange| {
        e.asked.is_bind()
            && (e.told == Told::Broken || e.server.is_some_and(|status| status >= 400))
    };
    scene.took_effect(u64::from(scene.proxy.count(from, failed) > 0));
    Ok(())
}

pub(super) const ETCD_STOPPED: Row = Row {
    id: "F04",
    title: "etcd stands still for 3 to 8 s in mid-burst",
    must: "get an answer to each write by its timeout, and keep the place of what it leaves open",
    prepare,
    repeat: etcd_stopped,
    ..Row::PLAIN
};

fn etcd_stopped(scene: &mut Scene) -> Outcome {
    let from = burst_under_way(scene)?;
    scene.stand.signal_etcd("STOP")?;
    sleep(Duration::from_millis(3000 + scene.draw(5000)));
    let now = Instant::now();
    let under_way = scene.proxy.exchanges(from);
    scene.stand.signal_etcd("CONT")?;
    let binds = under_way.iter().filter(|exchange| exchange.asked.is_bind());
    let timed_out = |e: &&Exchange| e.server.is_some_and(|status| status >= 500);
    let hit = binds.clone().filter(|e| e.is_open() || timed_out(e)).count();
    scene.took_effect(u64::from(hit > 0));
    let overdue = binds.filter(|e| e.is_open()).find(|e| now.duration_since(e.at) > limit(e));
    let overdue = overdue.map(|exchange| exchange.asked.line());
    check(overdue.is_none(), format!("still without an answer: {overdue:?}"))?;
    scene.all_bound(LONG)
}

/// Returns how long an answer may take. A write that names no time has none.
fn limit(exchange: &Exchange) -> Duration {
    let timeout = exchange.asked.parameter("timeout").unwrap_or_default();
    let milliseconds = timeout.strip_suffix("ms").and_then(|n| n.parse().ok());
    let seconds = timeout.strip_suffix('s').and_then(|n| n.parse().ok()).map(Duration::from_secs);
    let timeout = milliseconds.map(Duration::from_millis).or(seconds);
    timeout.unwrap_or_default() + LATE
}
