//! Answers that end too early, or come in pieces.

use std::time::Duration;

use berth_stand::try_wait_for;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::gpu_node;
use crate::proxy::{Fault, Injection, Requests, Rule};
use crate::scene::{Scene, check};

/// More than one page. All but the last have no GPU to speak of.
const NODES: usize = 520;
/// By its name on the last page: whoever believes in a part of the list sees no room.
const LAST: &str = "z";
const CREATORS: usize = 8;
/// In the middle of an object.
const CUT: usize = 100_000;
const PIECE: usize = 16 << 10;
const PAUSE: Duration = Duration::from_millis(50);

pub(super) const SPOILED: Row = Row {
    id: "F11",
    title: "a page of a list expires or is cut, a body is slow, a watch is cut within an event",
    must: "begin the list again; believe nothing of which the rest is missing",
    prepare,
    repeat: spoiled,
    ..Row::PLAIN
};

fn prepare(scene: &mut Scene) -> Outcome {
    let names: Vec<String> = (0..NODES).map(|n| format!("n-{n}")).collect();
    let api = &scene.api;
    std::thread::scope(|scope| {
        let create = |names: &[String]| {
            names.iter().try_for_each(|name| api.create_object(&gpu_node(name, 1)).map(drop))
        };
        let shares = names.chunks(NODES.div_ceil(CREATORS));
        let creators: Vec<_> = shares.map(|names| scope.spawn(move || create(names))).collect();
        let mut ended = creators.into_iter().map(|creator| creator.join());
        ended.try_for_each(|ended| ended.expect("a creator does not panic"))
    })?;
    scene.create(&gpu_node(LAST, 8)).map(drop)
}

fn spoiled(scene: &mut Scene) -> Outcome {
    scene.schedulers.clear();
    let from = scene.proxy.n_exchanges();
    scene.create_pod("a", 8)?;
    let spoiled = match scene.repeat() % 4 {
        0 => page_expires(scene),
        1 => scene.proxy.inject(list("nodes").then(Fault::Truncate(CUT))),
        2 => scene.proxy.inject(list("nodes").then(Fault::Slow { bytes: PIECE, pause: PAUSE })),
        _ => return watch_cut(scene),
    };
    scene.start_scheduler(1)?;
    spoiled.wait_effective(1, SOON)?;
    scene.took_effect(1);
    if scene.repeat() % 4 < 2 {
        scene.list_was_spoiled("replica-1", "nodes");
    }
    scene.bound("a")?;
    believed_nothing(scene, from)
}

fn list(resource: &str) -> Rule {
    Rule::on(Requests::lists(resource).user("replica-1").first())
}

/// What the server says when it has forgotten the version of the first page.
fn page_expires(scene: &Scene) -> Injection {
    let page = Requests::all().resource("nodes").query_contains("continue=").first();
    scene.proxy.inject(Rule::on(page).then(Fault::Refuse { status: 410, retry_after_s: None }))
}

/// Nobody said that there is no room, since there always was.
fn believed_nothing(scene: &Scene, from: usize) -> Outcome {
    let told = scene.proxy.count(from, |exchange| {
        exchange.asked.is_write() && exchange.asked.subresource == "status"
    });
    check(told == 0, "a was told that there is no room, though there always was")
}

/// The first watch of pods is cut in the middle of the event that tells of `b`.
fn watch_cut(scene: &mut Scene) -> Outcome {
    let watch = Requests::all().when(|asked| asked.is_watch()).resource("pods").user("replica-1");
    let bytes = 100 + scene.draw(300) as usize;
    let cut = scene.proxy.inject(Rule::on(watch.first()).then(Fault::Truncate(bytes)));
    scene.start_scheduler(1)?;
    try_wait_for(SOON, "the watch is open", || (cut.chosen() > 0).then_some(()))?;
    scene.bound("a")?;
    scene.delete_pod("a")?;
    scene.create_pod("b", 8)?;
    cut.wait_effective(1, SOON)?;
    scene.took_effect(1);
    scene.bound("b").map(drop)
}
