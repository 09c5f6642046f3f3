//! A scheduler that ends while it writes: asked to, or killed.

use berth_stand::try_wait_for;

use super::Row;
use super::election::{
    self, burst_under_way, start, successor, take, waited_after_release, was_left,
};
use crate::failed::Outcome;
use crate::proxy::{Exchange, Requests, Rule};
use crate::scene::{Scene, check};
use crate::stage::{REPLICAS, Setting};
use crate::{ELECTION, SOON};

pub(super) const TERMINATED: Row = Row {
    id: "F39",
    title: "SIGTERM to the leader in mid-burst",
    must: "end what was sent, release the Lease, exit 0; the next one binds the rest at once",
    setting: Setting::ELECTING,
    prepare: election::prepare,
    repeat: terminated,
    ..Row::PLAIN
};

fn terminated(scene: &mut Scene) -> Outcome {
    let old = scene.leader()?;
    let (slow, from) = burst_under_way(scene)?;
    let under_way = scene.proxy.count(from, |e| e.asked.is_bind() && e.is_open());
    scene.took_effect(u64::from(under_way > 0));
    let code = take(scene, &old)?.terminate()?;
    check(code == Some(0), format!("its exit code is {code:?}"))?;
    let left = scene.proxy.count(from, was_left);
    check(left == 0, format!("{left} binds were left before their answers came"))?;
    let new = successor(scene, &old)?;
    let waited = waited_after_release(scene, from, &new)?;
    check(waited < ELECTION.lease_duration, format!("the next one waited {waited:?}"))?;
    drop(slow);
    scene.all_bound(SOON)?;
    start(scene, &old)
}

pub(super) const KILLED: Row = Row {
    id: "F40",
    title: "SIGKILL before a bind or a condition arrives, once it is done, and after its answer",
    must: "a new process binds every pod, none twice, and tells the one that has no place",
    repeat: killed,
    ..Row::PLAIN
};

/// Where a write stands when its sender dies.
enum At {
    Sent,
    Done,
    Answered,
}

fn killed(scene: &mut Scene) -> Outcome {
    let at = match scene.repeat() % 3 {
        0 => At::Sent,
        1 => At::Done,
        _ => At::Answered,
    };
    let writes = match scene.repeat() % 6 < 3 {
        true => Requests::binds().nth(1 + scene.draw(16)),
        false => Requests::writes().name("big").when(|a| a.subresource == "status").first(),
    };
    let rule = match at {
        At::Sent => Rule::on(writes).hold(),
        At::Done | At::Answered => Rule::on(writes).hold_answer(),
    };
    let held = scene.proxy.inject(rule);
    let from = scene.proxy.n_exchanges();
    // More than a node has.
    scene.create_pod("big", 9)?;
    scene.create_burst(16)?;
    held.wait_held(SOON)?;
    if let At::Answered = at {
        held.release();
        let heard = |e: &Exchange| e.server.is_some() && e.is_open();
        let told = || (scene.proxy.count(from, heard) == 0).then_some(());
        try_wait_for(SOON, "the answer is out", told)?;
    }
    // Dropping it kills it.
    scene.schedulers.clear();
    let closed = || (scene.proxy.count(from, Exchange::is_open) == 0).then_some(());
    try_wait_for(SOON, "its connections are closed", closed)?;
    scene.took_effect(1);
    drop(held);
    start(scene, REPLICAS[0])?;
    scene.told("big", "Unschedulable")?;
    scene.delete_pod("big")?;
    scene.all_bound(SOON)
}
