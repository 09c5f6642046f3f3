//! A server that has too much to do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::{Fault, Injection, Requests, Rule};
use crate::scene::{Scene, check};
use crate::scheduler::Program;

pub(super) const FULL: Row = Row {
    id: "F10",
    title: "429 and 503 with Retry-After to a fifth of the writes",
    must: "wait as long as the server says, then send again; lose no pod",
    waits: true,
    repeat: full,
    ..Row::PLAIN
};

const RETRY_AFTER: Duration = Duration::from_secs(1);

fn full(scene: &mut Scene) -> Outcome {
    let from = scene.proxy.n_exchanges();
    let refused = [refuse(scene, 429), refuse(scene, 503)];
    scene.create_burst(32)?;
    scene.all_bound(SOON)?;
    scene.took_effect(refused.iter().map(Injection::effective).sum());
    if scene.program == Program::Berth { waits_as_told(scene, from) } else { Ok(()) }
}

/// Refuses every tenth write to a pod. What this rule does not choose, the next one sees.
fn refuse(scene: &Scene, status: u16) -> Injection {
    let writes = Requests::writes().resource("pods").user("replica-1").every(10);
    scene.proxy.inject(Rule::on(writes).then(Fault::Refuse { status, retry_after_s: Some(1) }))
}

/// No bind that was answered with 429 came again before its time.
fn waits_as_told(scene: &Scene, from: usize) -> Outcome {
    let mut told: BTreeMap<String, Instant> = BTreeMap::new();
    for exchange in scene.proxy.exchanges(from) {
        let pod = exchange.asked.name.clone();
        if !exchange.asked.is_bind() {
            continue;
        }
        if let Some(at) = told.remove(&pod) {
            let waited = exchange.at.duration_since(at);
            check(waited >= RETRY_AFTER, format!("{pod} was bound again after {waited:?}"))?;
        }
        if exchange.told == crate::proxy::Told::Status(429)
            && let Some(at) = exchange.told_at
        {
            told.insert(pod, at);
        }
    }
    Ok(())
}
