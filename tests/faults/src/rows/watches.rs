//! Watches that end, lag or lie.

use std::time::Duration;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::proxy::Ending;
use crate::scene::Scene;

pub(super) const ENDED: Row = Row {
    id: "F06",
    title: "all watches end every 1 to 3 s in a burst",
    must: "go on from the last version; list nothing again",
    waits: true,
    repeat: ended,
    ..Row::PLAIN
};

/// Pods that come before each of the endings.
const WAVE: usize = 8;
const WAVES: usize = 3;

fn ended(scene: &mut Scene) -> Outcome {
    for wave in 0..WAVES {
        for pod in 0..WAVE {
            scene.create_pod(&format!("p-{wave}-{pod}"), 1)?;
        }
        let all = scene.proxy.watches("");
        let closed = match scene.draw(3) {
            0 => all.end(),
            1 => all.cut(Ending::Close),
            _ => all.cut(Ending::Alert),
        };
        scene.took_effect(closed);
        // The fault's rhythm; nothing is awaited.
        std::thread::sleep(Duration::from_millis(1000 + scene.draw(2000)));
    }
    scene.all_bound(SOON)
}
