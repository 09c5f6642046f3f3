//! What a pod says about the group that it is in, and how far it has got as a member.

use berth_core::types::group::{PLAN_ANNOTATION, PlanNote};
use berth_core::types::{Pod, Timestamp};

use crate::wire::dialect::{self, PodWords};
use crate::wire::field::Field;
use crate::wire::k8s::pod as k8s;
use crate::wire::meta::{Meta, Stamp};
use crate::wire::reading::Reading;

/// Fills in `pod.gang`, only for a pod that is in a group or was bound with one. Call it after
/// identity and owner are known.
pub(super) fn read(
    reading: &mut Reading<'_>,
    meta: &Meta,
    spec: &k8s::PodSpec,
    status: &k8s::PodStatus,
    pod: &mut Pod,
) {
    let words = PodWords {
        meta,
        scheduling_group: &spec.scheduling_group,
        owner: pod.owner.as_ref(),
        uid: &pod.uid,
    };
    let hints = dialect::hints(&words, reading);
    hints.into_iter().for_each(|hint| pod.add_group_hint(hint));
    let plan = meta.annotation(PLAN_ANNOTATION).and_then(PlanNote::parse);
    if plan.is_some() || pod.gang.is_some() {
        let gang = pod.gang.get_or_insert_default();
        gang.plan = plan;
        gang.scheduled = scheduled(status);
        gang.running = running(status);
    }
}

fn scheduled(status: &k8s::PodStatus) -> Option<Timestamp> {
    let is = |field: &Field<String>, text: &str| field.value().is_some_and(|it| it == text);
    let conditions = status.conditions.value().into_iter().flatten();
    let scheduled = conditions
        .filter_map(Field::value)
        .find(|it| is(&it.r#type, "PodScheduled") && is(&it.status, "True"))?;
    scheduled.last_transition_time.value().and_then(Stamp::time)
}

/// A container that runs since nobody knows when has run for long: its group is not taken back.
fn running(status: &k8s::PodStatus) -> Option<Timestamp> {
    let containers = status.container_statuses.value().into_iter().flatten();
    let states = containers.filter_map(|container| container.value()?.state.value());
    let running = states.filter_map(|state| state.running.value());
    let since = |state: &k8s::RunningState| state.started_at.value().and_then(Stamp::time);
    running.map(|state| since(state).unwrap_or_default()).min()
}
