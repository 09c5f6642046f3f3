//! Gangs that can't be bound whole.

use std::time::{Duration, Instant};

use berth_stand::try_wait_for;

use super::Row;
use crate::SOON;
use crate::failed::Outcome;
use crate::objects::{gpu_pod, member, pod_group};
use crate::proxy::{Fault, Requests, Rule};
use crate::scene::Scene;

/// A gang that is bound in part for so long is a violation; the auditor says 30 s.
const PATIENCE: Duration = Duration::from_secs(32);

pub(super) const MEMBER_REFUSED: Row = Row {
    id: "F17",
    title: "one of four members is refused for good",
    must: "roll the gang back within 30 s, say so, let others pass",
    slow: true,
    needs: Some("it needs gangs"),
    repeat: member_refused,
    ..Row::PLAIN
};

fn member_refused(scene: &mut Scene) -> Outcome {
    let status = if scene.repeat().is_multiple_of(2) { 403 } else { 422 };
    let refusal = Fault::Refuse { status, retry_after_s: None };
    let refused = scene.proxy.inject(Rule::on(Requests::bind_of("g-3")).then(refusal));
    scene.create(&pod_group("g", 4))?;
    for n in 0..4 {
        scene.create(&member(gpu_pod(&format!("g-{n}"), 4), "g"))?;
    }
    refused.wait_effective(1, SOON)?;
    scene.took_effect(1);
    // The refusal is no passing trouble: what is left of the gang counts from here.
    scene.faults_ended();
    let begun = Instant::now();
    let over = || (begun.elapsed() > PATIENCE).then_some(());
    Ok(try_wait_for(SOON, "the gang has had its time", over)?)
}
