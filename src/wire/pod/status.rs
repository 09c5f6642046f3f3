//! What a pod's status tells the scheduler.

use berth_core::types::{Condition, Phase, Pod, Text};

use crate::wire::field::Field;
use crate::wire::k8s::pod as k8s;
use crate::wire::meta::{parse_time, timestamp};
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

pub(super) const STATUS: Path<'static> = Path::Root("status");

/// Fills in what stands in the status. Call it after `pod.node_name` is known.
pub(super) fn read(reading: &mut Reading<'_>, status: &k8s::PodStatus, pod: &mut Pod) {
    pod.phase = phase(reading, &status.phase, pod.node_name.is_some());
    pod.refused = refused(reading, status, pod.phase);
    let nominated_at = STATUS.field("nominatedNodeName");
    pod.nominated_node = reading.opt_text(&nominated_at, &status.nominated_node_name);
    let started_at = STATUS.field("startTime");
    if let Some(text) = reading.opt(&started_at, &status.start_time) {
        pod.started = parse_time(text).as_ref().map(timestamp);
        if pod.started.is_none() {
            reading.problem(&started_at, "is not a time");
        }
    }
    pod.unscheduled = unscheduled(reading, status);
    pod.claim_statuses = claim_statuses(reading, status);
}

/// Reasons for which a kubelet refuses a pod that another pod of the same spec would be refused for.
/// Source: the kubelet's topology manager and device manager.
const REFUSALS: [&str; 2] = ["TopologyAffinityError", "UnexpectedAdmissionError"];

fn refused(reading: &mut Reading<'_>, status: &k8s::PodStatus, phase: Phase) -> Option<Text> {
    let reason = reading.opt_text(&STATUS.field("reason"), &status.reason)?;
    (phase == Phase::Failed && REFUSALS.iter().any(|known| reason == *known)).then_some(reason)
}

/// A phase that isn't known never counts as ended: the pod keeps what it holds.
fn phase(reading: &mut Reading<'_>, phase: &Field<String>, placed: bool) -> Phase {
    let at = STATUS.field("phase");
    let unended = if placed { Phase::Running } else { Phase::Pending };
    match reading.opt(&at, phase).map_or("", String::as_str) {
        "" | "Pending" => Phase::Pending,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        // The node can't be reached.
        "Unknown" => unended,
        other => {
            reading.unknown(&at, other);
            unended
        }
    }
}

fn unscheduled(reading: &mut Reading<'_>, status: &k8s::PodStatus) -> Option<Condition> {
    let at = STATUS.field("conditions");
    let mut unscheduled = None;
    reading.each(&at, &status.conditions, |reading, at, condition| {
        if is(&condition.r#type, "PodScheduled") && is(&condition.status, "False") {
            unscheduled = Some(Condition {
                reason: reading.text(&at.field("reason"), &condition.reason),
                message: reading.text(&at.field("message"), &condition.message),
            });
        }
    });
    unscheduled
}

/// Returns the claims made from the pod's templates; none where the pod does without.
fn claim_statuses(reading: &mut Reading<'_>, status: &k8s::PodStatus) -> Vec<(Text, Option<Text>)> {
    let at = STATUS.field("resourceClaimStatuses");
    let mut statuses = Vec::new();
    reading.each(&at, &status.resource_claim_statuses, |reading, at, status| {
        let name = reading.required_text(&at.field("name"), &status.name);
        // Hardly two pods share one.
        let claim = reading.opt(&at.field("resourceClaimName"), &status.resource_claim_name);
        statuses.push((name, claim.map(|claim| Text::from(claim.as_str()))));
    });
    statuses
}

/// Tells whether the node has said that it can never grant the resize that is asked for.
pub(super) fn resize_is_infeasible(status: &k8s::PodStatus) -> bool {
    let conditions = status.conditions.value().into_iter().flatten();
    let pending = conditions
        .filter_map(Field::value)
        .find(|condition| is(&condition.r#type, "PodResizePending"));
    pending.is_some_and(|condition| is(&condition.reason, "Infeasible"))
}

fn is(field: &Field<String>, text: &str) -> bool {
    field.value().is_some_and(|value| value == text)
}
