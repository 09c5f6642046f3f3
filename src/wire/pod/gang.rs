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
    true_since(status, "PodScheduled")
}

fn true_since(status: &k8s::PodStatus, condition: &str) -> Option<Timestamp> {
    let is = |field: &Field<String>, text: &str| field.value().is_some_and(|it| it == text);
    let conditions = status.conditions.value().into_iter().flatten();
    let holds = conditions
        .filter_map(Field::value)
        .find(|it| is(&it.r#type, condition) && is(&it.status, "True"))?;
    holds.last_transition_time.value().and_then(Stamp::time)
}

/// Returns since when some container has been started, whatever became of it: one that is started anew
/// in place has begun all the same. Of one that was started more than once the object tells the last
/// two times only, so that it counts from when the pod was ready for it. One that runs since nobody
/// knows when has run for long: its group is not taken back.
fn running(status: &k8s::PodStatus) -> Option<Timestamp> {
    let containers = status.container_statuses.value().into_iter().flatten();
    containers.filter_map(|container| started(container.value()?, status)).min()
}

fn started(container: &k8s::ContainerStatus, status: &k8s::PodStatus) -> Option<Timestamp> {
    if container.restart_count.value().is_some_and(|count| *count > 0) {
        return Some(true_since(status, "Initialized").unwrap_or_default());
    }
    let state = container.state.value()?;
    let begun = state.running.value().or(state.terminated.value())?;
    Some(begun.started_at.value().and_then(Stamp::time).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn since(containers: Value) -> Option<u64> {
        let status = json!({
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:09:00Z"},
                {"type": "Initialized", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"},
            ],
            "containerStatuses": containers,
        });
        let status: k8s::PodStatus = serde_json::from_value(status).unwrap();
        running(&status).map(|at| at.0 / 1000)
    }

    fn at(state: &str, minute: u32, restarts: u32) -> Value {
        let started = format!("1970-01-01T00:{minute:02}:00Z");
        json!({"name": "c", "restartCount": restarts, "state": {state: {"startedAt": started}}})
    }

    #[test]
    fn what_has_been_started_has_begun_whatever_became_of_it() {
        assert_eq!(since(json!([])), None);
        assert_eq!(since(json!([{"name": "c", "state": {"waiting": {}}}])), None);
        assert_eq!(since(json!([at("running", 7, 0), at("running", 5, 0)])), Some(300));
        assert_eq!(since(json!([at("running", 7, 0), at("terminated", 3, 0)])), Some(180));
    }

    /// A rank that crashed is started anew in place, and its group has run for hours all the same.
    #[test]
    fn a_container_that_is_started_anew_sets_no_clock_back() {
        assert_eq!(since(json!([at("running", 8, 1)])), Some(60));
        let crashing = json!({"name": "c", "restartCount": 5, "state": {"waiting": {}}});
        assert_eq!(since(json!([crashing])), Some(60));
        let untold = json!([{"name": "c", "state": {"running": {}}}]);
        assert_eq!(since(untold), Some(0), "nobody knows when: for long");
    }
}
