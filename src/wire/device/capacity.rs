//! Amounts: capacities with their policies, and counters.

use std::sync::Arc;

use berth_core::types::Text;
use berth_core::types::device::{Capacity, PolicyValues, Quantity, RequestPolicy};

use crate::wire::field::{Field, Map};
use crate::wire::k8s::device as k8s;
use crate::wire::problem::{Path, shown};
use crate::wire::quantity::Exact;
use crate::wire::reading::Reading;

/// Returns the amount of a field, None if there is none; one that can't be read is a problem.
fn exact(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<Exact>) -> Option<Quantity> {
    let exact = reading.opt(at, field)?;
    let Some(nanos) = exact.nanos else {
        reading.problem(at, format_args!("\"{}\" is not a quantity", shown(&exact.text)));
        return None;
    };
    Some(Quantity { nanos, text: reading.tables.intern(&exact.text) })
}

fn required(reading: &mut Reading<'_>, at: &Path<'_>, field: &Field<Exact>) -> Option<Quantity> {
    if field.is_absent() {
        reading.problem(at, "is missing");
    }
    exact(reading, at, field)
}

/// Returns amounts by name, sorted.
pub(in crate::wire) fn amounts(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    map: &Field<Map<Exact>>,
) -> Vec<(Text, Quantity)> {
    let mut amounts = Vec::new();
    for (name, amount) in reading.opt(at, map).into_iter().flatten() {
        if let Some(amount) = required(reading, &at.key(name), amount) {
            amounts.push((reading.tables.intern(name), amount));
        }
    }
    amounts
}

/// Returns counters by name, sorted.
pub(super) fn counters(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    map: &Field<Map<k8s::Counter>>,
) -> Arc<[(Text, Quantity)]> {
    let mut counters = Vec::new();
    for (name, counter) in reading.opt(at, map).into_iter().flatten() {
        let at = at.key(name);
        let Some(counter) = reading.required(&at, counter) else { continue };
        if let Some(value) = required(reading, &at.field("value"), &counter.value) {
            counters.push((reading.tables.intern(name), value));
        }
    }
    reading.tables.counters(counters)
}

/// Returns capacities by name, sorted.
pub(super) fn capacities(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    map: &Field<Map<k8s::DeviceCapacity>>,
) -> Arc<[Capacity]> {
    let mut capacities = Vec::new();
    for (name, capacity) in reading.opt(at, map).into_iter().flatten() {
        let at = at.key(name);
        let Some(capacity) = reading.required(&at, capacity) else { continue };
        let Some(value) = required(reading, &at.field("value"), &capacity.value) else { continue };
        let at = at.field("requestPolicy");
        let policy = reading.opt(&at, &capacity.request_policy);
        let policy = policy.map(|policy| request_policy(reading, &at, policy));
        capacities.push(Capacity { name: reading.tables.intern(name), value, policy });
    }
    reading.tables.capacities(capacities)
}

fn request_policy(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    policy: &k8s::RequestPolicy,
) -> RequestPolicy {
    let default = exact(reading, &at.field("default"), &policy.default);
    let values_at = at.field("validValues");
    let mut values = Vec::new();
    for (i, value) in
        reading.opt(&values_at, &policy.valid_values).into_iter().flatten().enumerate()
    {
        values.extend(required(reading, &values_at.index(i), value));
    }
    values.sort();
    let range_at = at.field("validRange");
    let range = reading.opt(&range_at, &policy.valid_range);
    let values = match (values.is_empty(), range) {
        (true, None) => PolicyValues::Any,
        (false, None) => PolicyValues::OneOf(values),
        (true, Some(range)) => valid_range(reading, &range_at, range),
        (false, Some(_)) => {
            reading.problem(at, "must say only one of validValues and validRange");
            PolicyValues::OneOf(values)
        }
    };
    RequestPolicy { default, values }
}

fn valid_range(reading: &mut Reading<'_>, at: &Path<'_>, range: &k8s::ValidRange) -> PolicyValues {
    let step_at = at.field("step");
    let step = exact(reading, &step_at, &range.step);
    if step.as_ref().is_some_and(|step| step.nanos <= 0) {
        reading.problem(&step_at, "must be greater than 0");
    }
    PolicyValues::Range {
        min: required(reading, &at.field("min"), &range.min).unwrap_or_default(),
        max: exact(reading, &at.field("max"), &range.max),
        step: step.filter(|step| step.nanos > 0),
    }
}
