//! Nodes that go, change or come back while binds to them are under way.

use std::time::{Duration, Instant};

use berth_stand::{Patch, try_wait_for};
use serde_json::{Value, json};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::gpu_node;
use crate::proxy::{Fault, Injection, Requests, Rule};
use crate::scene::{Scene, check};
use crate::scheduler::Program;

/// A decision that is older than 2 s is too old to be sent.
const OLD: Duration = Duration::from_millis(2500);
/// More binds than are sent at a time: some are decided and wait behind those that are held.
const MANY: usize = 40;
/// Longer than that too.
const FULL: Fault = Fault::Refuse { status: 429, retry_after_s: Some(3) };
/// So many of them are sent.
const SENT: u64 = 32;
/// What happens to a bind that stays in a node's way is noticed so soon.
const NOTICED: Duration = Duration::from_secs(5);

/// How a burst of binds is kept from its node.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// They are sent, and do not arrive yet.
    Held,
    /// So many that some are not even sent, for so long that what was decided is old.
    Queued,
    /// The server is too full, and names a time that is longer than a decision lasts.
    PutOff,
}

struct UnderWay {
    injection: Injection,
    how: How,
    /// Binds that may be done whatever becomes of the node: they are sent already.
    sent: u64,
}

impl UnderWay {
    /// Has only `n-1`, and a burst of binds to it.
    fn begin(scene: &mut Scene, gpus: u32) -> Outcome<UnderWay> {
        for node in ["n-1", "n-2"] {
            remove(scene, node)?;
        }
        scene.create(&gpu_node("n-1", gpus))?;
        let how = [How::Queued, How::PutOff, How::Held][scene.repeat() as usize % 3];
        let pods = if how == How::Queued { MANY } else { 1 + scene.draw(4) as usize };
        let binds = Requests::binds();
        let rule = match how {
            How::Held | How::Queued => Rule::on(binds).hold(),
            How::PutOff => Rule::on(binds.first_n(pods as u64)).then(FULL),
        };
        let injection = scene.proxy.inject(rule);
        scene.create_burst(pods)?;
        let wanted = if how == How::Queued { SENT } else { pods as u64 };
        let happened = || (injection.held().max(injection.effective()) >= wanted).then_some(());
        try_wait_for(SOON, "the binds are kept back", happened)?;
        let sent = injection.held();
        Ok(UnderWay { injection, how, sent })
    }

    /// The change is told; lets go the binds that are held, all or some of them when they are old.
    fn end(self, scene: &mut Scene) -> Outcome {
        told(scene)?;
        if self.how == How::Queued {
            let begun = Instant::now();
            let over = || (begun.elapsed() > OLD).then_some(());
            try_wait_for(SOON, "what was decided is old", over)?;
        }
        drop(self.injection);
        Ok(())
    }
}

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{node}")
}

fn remove(scene: &Scene, node: &str) -> Outcome {
    if scene.api.find(&path(node))?.is_some() {
        scene.api.delete_now(&path(node))?;
    }
    Ok(())
}

/// Waits until the scheduler has been told of everything.
fn told(scene: &mut Scene) -> Outcome {
    let user = scene.scheduler()?.user.clone();
    scene.is_told(&user)
}

/// Returns how many binds to a node were done since exchange `from`.
fn n_done_on(scene: &Scene, from: usize, node: &str) -> usize {
    scene.proxy.count(from, |exchange| {
        exchange.asked.target().as_deref() == Some(node) && exchange.server == Some(201)
    })
}

/// Pods that are created now go to `n-2`.
fn later_pods_avoid_it(scene: &mut Scene) -> Outcome {
    for n in 0..3 {
        let name = format!("later-{n}");
        scene.create_pod(&name, 1)?;
        let node = scene.bound(&name)?;
        check(node == "n-2", format!("{name} was created afterwards and is on {node}"))?;
    }
    Ok(())
}

const WATCHED: Row = Row { prepare: Scene::start_watching_scheduler, ..Row::PLAIN };

pub(super) const GONE: Row = Row {
    id: "F32",
    title: "a node is deleted while binds to it are under way",
    must: "send nothing more to it, notice within 5 s who is bound to a node that is gone",
    repeat: gone,
    ..WATCHED
};

fn gone(scene: &mut Scene) -> Outcome {
    let (from, written) = (scene.proxy.n_exchanges(), scene.scheduler()?.log().len());
    let under_way = UnderWay::begin(scene, 64)?;
    remove(scene, "n-1")?;
    scene.create(&gpu_node("n-2", 64))?;
    scene.took_effect(1);
    under_way.end(scene)?;
    scene.all_bound(SOON)?;
    if scene.program == Program::Berth && n_done_on(scene, from, "n-1") > 0 {
        let scheduler = scene.scheduler()?;
        let noticed = || scheduler.log().get(written..)?.contains(BOUND_TO_NOTHING).then_some(());
        try_wait_for(NOTICED, "berth notices pods on a node that is gone", noticed)?;
    }
    later_pods_avoid_it(scene)
}

const BOUND_TO_NOTHING: &str = "bound to a node that is gone";

pub(super) const CHANGED: Row = Row {
    id: "F33",
    title: "a node is cordoned, tainted or shrinks while binds to it are under way",
    must: "send nothing more to it that is not sent already",
    repeat: changed,
    ..WATCHED
};

fn changed(scene: &mut Scene) -> Outcome {
    let under_way = UnderWay::begin(scene, 64)?;
    let (subresource, change): (&str, Value) = match scene.draw(3) {
        0 => ("", json!({"spec": {"unschedulable": true}})),
        1 => ("", json!({"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}})),
        _ => ("/status", json!({"status": {"allocatable": {"nvidia.com/gpu": "0"}}})),
    };
    scene.api.patch(&format!("{}{subresource}", path("n-1")), Patch::Merge, &change)?;
    scene.create(&gpu_node("n-2", 64))?;
    scene.took_effect(1);
    under_way.end(scene)?;
    scene.all_bound(SOON)?;
    later_pods_avoid_it(scene)
}

pub(super) const RECREATED: Row = Row {
    id: "F34",
    title: "a node comes back with the same name, another UID and another size, amid binds",
    must: "give nothing of the new node twice, and all of it once",
    repeat: recreated,
    ..WATCHED
};

/// The binds name the node, so the new one gets the pods that were sent to the old one.
fn recreated(scene: &mut Scene) -> Outcome {
    let under_way = UnderWay::begin(scene, 64)?;
    let sent = under_way.sent;
    // With one GPU more than is on its way there; with less; with room for all.
    let size = [sent + 1, sent.div_ceil(2).max(1), 80][scene.draw(3) as usize];
    remove(scene, "n-1")?;
    scene.create(&gpu_node("n-1", u32::try_from(size).unwrap_or(u32::MAX)))?;
    scene.create_pod("later-0", 1)?;
    scene.create_pod("later-1", 1)?;
    scene.took_effect(1);
    under_way.end(scene)?;
    let pods = scene.api.list("/api/v1/namespaces/default/pods")?.len() as u64;
    // What was sent already comes, whether there is room or not; others only where there is.
    let expected = pods.min(size.max(sent));
    let bound = || (scene.n_bound().ok()? as u64 == expected).then_some(());
    try_wait_for(SOON, &format!("{expected} of {pods} pods are bound"), bound)?;
    scene.quiet()?;
    let on_it = scene.gpus_by_node()?.get("n-1").copied().unwrap_or_default();
    check(on_it == expected, format!("{on_it} GPUs of {size} are given, {sent} were sent before"))
}
