//! Whether the devices of a claim agree where they must, and differ where they must.

use std::collections::BTreeSet;

use berth_core::types::claim::{ConstraintKind, DeviceConstraint};
use berth_core::types::device::AttributeValue;

use super::super::instance::Instance;
use super::{Findings, Placed, Wrong};

/// One value of an attribute, lists apart; the texts of versions aren't strings.
type Single = (&'static str, String);

pub(super) fn check(
    instance: &Instance,
    claim: usize,
    placed: &[Placed<'_>],
    found: &mut Findings,
) {
    for constraint in &instance.claims[claim].demand.constraints {
        let covered = placed.iter().filter(|one| covers(constraint, &one.request.name));
        let values: Option<Vec<BTreeSet<Single>>> =
            covered.map(|one| values(constraint, one)).collect();
        let holds = values.is_some_and(|values| match constraint.kind {
            ConstraintKind::Match => common(&values),
            ConstraintKind::Distinct => disjoint(&values),
            ConstraintKind::Unknown => false,
        });
        if !holds {
            found.add(Wrong::Constraint, format!("claim {claim}: {constraint:?}"));
        }
    }
}

fn covers(constraint: &DeviceConstraint, request: &str) -> bool {
    let parent = request.split('/').next();
    let names = &constraint.requests;
    names.is_empty() || names.iter().any(|name| *name == request || Some(&**name) == parent)
}

/// Returns what the device has of the attribute, `None` if nothing.
fn values(constraint: &DeviceConstraint, one: &Placed<'_>) -> Option<BTreeSet<Single>> {
    let name = &*constraint.attribute;
    let device = one.offered.device;
    let published = |name: &str| device.attributes().find(|(known, _)| *known == name);
    let bare = name.strip_prefix(&format!("{}/", one.offered.slice.driver));
    let (_, value) = published(name).or_else(|| published(bare?))?;
    let singles = singles(value);
    (!singles.is_empty()).then_some(singles)
}

fn singles(value: &AttributeValue) -> BTreeSet<Single> {
    match value {
        AttributeValue::Bool(value) => BTreeSet::from([("bool", value.to_string())]),
        AttributeValue::Int(value) => BTreeSet::from([("int", value.to_string())]),
        AttributeValue::String(value) => BTreeSet::from([("string", value.to_string())]),
        AttributeValue::Version(value) => BTreeSet::from([("version", value.to_string())]),
        AttributeValue::Bools(values) => values.iter().map(|v| ("bool", v.to_string())).collect(),
        AttributeValue::Ints(values) => values.iter().map(|v| ("int", v.to_string())).collect(),
        AttributeValue::Strings(values) => {
            values.iter().map(|v| ("string", v.to_string())).collect()
        }
        AttributeValue::Versions(values) => {
            values.iter().map(|v| ("version", v.to_string())).collect()
        }
    }
}

fn common(values: &[BTreeSet<Single>]) -> bool {
    let Some((first, rest)) = values.split_first() else { return true };
    first.iter().any(|single| rest.iter().all(|other| other.contains(single)))
}

fn disjoint(values: &[BTreeSet<Single>]) -> bool {
    let pairs = values.iter().enumerate();
    pairs
        .flat_map(|(at, a)| values[..at].iter().map(move |b| (a, b)))
        .all(|(a, b)| a.is_disjoint(b))
}
