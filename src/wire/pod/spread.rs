//! Topology spread constraints.

use berth_core::types::SpreadConstraint;

use super::SPEC;
use crate::wire::field::{Field, List};
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

pub(super) fn read(
    reading: &mut Reading<'_>,
    list: &Field<List<k8s::SpreadConstraint>>,
) -> Vec<SpreadConstraint> {
    let mut constraints = Vec::new();
    reading.each(&SPEC.field("topologySpreadConstraints"), list, |reading, at, wire| {
        constraints.push(constraint(reading, at, wire));
    });
    constraints
}

fn constraint(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    wire: &k8s::SpreadConstraint,
) -> SpreadConstraint {
    let keys_at = at.field("matchLabelKeys");
    let min_domains_at = at.field("minDomains");
    SpreadConstraint {
        max_skew: at_least_one(reading, &at.field("maxSkew"), &wire.max_skew).unwrap_or(1),
        topology_key: reading.required_text(&at.field("topologyKey"), &wire.topology_key),
        hard: is_hard(reading, &at.field("whenUnsatisfiable"), &wire.when_unsatisfiable),
        selector: reading.label_selector(&at.field("labelSelector"), &wire.label_selector),
        min_domains: match wire.min_domains {
            Field::Absent => None,
            _ => at_least_one(reading, &min_domains_at, &wire.min_domains),
        },
        honor_node_affinity: honors(
            reading,
            &at.field("nodeAffinityPolicy"),
            &wire.node_affinity_policy,
            true,
        ),
        honor_node_taints: honors(
            reading,
            &at.field("nodeTaintsPolicy"),
            &wire.node_taints_policy,
            false,
        ),
        match_label_keys: reading.texts(&keys_at, &wire.match_label_keys),
    }
}

fn at_least_one(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<i64>) -> Option<i32> {
    reading.required(at, field)?;
    let number = reading.int32(at, field)?;
    if number < 1 {
        reading.problem(at, "must be at least 1");
        return None;
    }
    Some(number)
}

fn is_hard(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<String>) -> bool {
    match reading.opt(at, field).map_or("", String::as_str) {
        "" | "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            reading.unknown(at, other);
            true
        }
    }
}

fn honors(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<String>, default: bool) -> bool {
    match reading.opt(at, field).map_or("", String::as_str) {
        "" => default,
        "Honor" => true,
        "Ignore" => false,
        other => {
            reading.unknown(at, other);
            default
        }
    }
}
