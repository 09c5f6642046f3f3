//! How much of its capacities a device gives to a request, and how amounts are written.
//!
//! Source: `consumable_capacity.go` of k8s.io/dynamic-resource-allocation 1.37. Where that rounds
//! in int64 or in thousandths, this is exact.

use berth_core::types::Text;
use berth_core::types::claim::DeviceRequest;
use berth_core::types::device::{Capacity, NANOS, PolicyValues, Quantity};

/// Returns what a request takes of each capacity of a device, in the device's order; `None` if the
/// device can't be asked for that much. Names are compared to the letter. Unit: billionths.
pub(super) fn amounts(request: &DeviceRequest, capacity: &[Capacity]) -> Option<Box<[i128]>> {
    let known = |name: &Text| capacity.iter().any(|capacity| capacity.name == *name);
    if !request.capacity.iter().all(|(name, _)| known(name)) {
        return None;
    }
    let of = |capacity: &Capacity| {
        let wanted = request.capacity.iter().find(|(name, _)| *name == capacity.name);
        amount(wanted.map(|(_, wanted)| wanted.nanos), capacity)
    };
    capacity.iter().map(of).collect()
}

fn amount(wanted: Option<i128>, capacity: &Capacity) -> Option<i128> {
    let default = capacity.policy.as_ref().and_then(|policy| policy.default.as_ref());
    let taken = match (wanted, &capacity.policy) {
        (None, _) => default.unwrap_or(&capacity.value).nanos,
        (Some(wanted), None) => wanted,
        (Some(wanted), Some(policy)) => rounded(wanted, &policy.values)?,
    };
    (0..=capacity.value.nanos).contains(&taken).then_some(taken)
}

fn rounded(wanted: i128, values: &PolicyValues) -> Option<i128> {
    match values {
        PolicyValues::Any => Some(wanted),
        PolicyValues::OneOf(values) => {
            values.iter().map(|value| value.nanos).find(|value| *value >= wanted)
        }
        PolicyValues::Range { min, max, step } => {
            let taken = match step {
                _ if wanted <= min.nanos => min.nanos,
                Some(step) if step.nanos > 0 => {
                    let over = wanted.checked_sub(min.nanos)?;
                    let steps = over / step.nanos + i128::from(over % step.nanos != 0);
                    min.nanos.checked_add(steps.checked_mul(step.nanos)?)?
                }
                Some(_) | None => wanted,
            };
            max.as_ref().is_none_or(|max| taken <= max.nanos).then_some(taken)
        }
    }
}

/// Returns an amount of a capacity as it is written to a claim.
pub(super) fn written(nanos: i128, capacity: &Capacity) -> Quantity {
    if nanos == capacity.value.nanos {
        return capacity.value.clone();
    }
    let binary = capacity.value.text.ends_with('i');
    Quantity { nanos, text: canonical(nanos, binary).into() }
}

/// Returns the canonical form of an amount: no fraction, the largest suffix that does.
///
/// Source: `Quantity.CanonicalizeBytes` of k8s.io/apimachinery.
fn canonical(nanos: i128, binary: bool) -> String {
    let whole = nanos % NANOS == 0;
    if binary && whole && (nanos / NANOS).abs() >= 1024 {
        return suffixed(nanos / NANOS, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]);
    }
    match whole {
        true => suffixed(nanos / NANOS, 1000, &["", "k", "M", "G", "T", "P", "E"]),
        false => suffixed(nanos, 1000, &["n", "u", "m"]),
    }
}

fn suffixed(mut amount: i128, base: i128, suffixes: &[&str]) -> String {
    let mut at = 0;
    while amount != 0 && amount % base == 0 && at + 1 < suffixes.len() {
        amount /= base;
        at += 1;
    }
    format!("{amount}{}", suffixes[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::device::RequestPolicy;

    const MI: i128 = NANOS << 20;

    fn quantity(nanos: i128) -> Quantity {
        Quantity { nanos, text: "8Gi".into() }
    }

    fn capacity(values: PolicyValues, default: Option<i128>) -> Capacity {
        let policy = Some(RequestPolicy { default: default.map(quantity), values });
        Capacity { name: "memory".into(), value: quantity(8192 * MI), policy }
    }

    fn range(max: Option<i128>, step: Option<i128>) -> PolicyValues {
        let (max, step) = (max.map(quantity), step.map(quantity));
        PolicyValues::Range { min: quantity(1024 * MI), max, step }
    }

    #[test]
    fn ranges_round_up_from_the_minimum() {
        let capacity = capacity(range(Some(4096 * MI), Some(1024 * MI)), None);
        assert_eq!(amount(Some(1500 * MI), &capacity), Some(2048 * MI));
        assert_eq!(amount(Some(MI), &capacity), Some(1024 * MI));
        assert_eq!(amount(Some(4096 * MI), &capacity), Some(4096 * MI));
        assert_eq!(amount(Some(4097 * MI), &capacity), None);
        assert_eq!(amount(Some(i128::MAX), &capacity), None);
        assert_eq!(amount(None, &capacity), Some(8192 * MI));
    }

    #[test]
    fn without_a_step_the_wish_stands_and_the_value_bounds_it() {
        let capacity = capacity(range(None, None), Some(2048 * MI));
        assert_eq!(amount(Some(1500 * MI), &capacity), Some(1500 * MI));
        assert_eq!(amount(Some(8193 * MI), &capacity), None);
        assert_eq!(amount(None, &capacity), Some(2048 * MI));
    }

    #[test]
    fn listed_values_are_the_only_ones() {
        let values = vec![quantity(1024 * MI), quantity(4096 * MI)];
        let capacity = capacity(PolicyValues::OneOf(values), None);
        assert_eq!(amount(Some(1025 * MI), &capacity), Some(4096 * MI));
        assert_eq!(amount(Some(4097 * MI), &capacity), None);
    }

    #[test]
    fn a_capacity_that_the_device_does_not_have_is_not_given() {
        let capacity = [capacity(PolicyValues::Any, None)];
        let mut request = super::super::testing::request("r");
        request.capacity = vec![("a.com/memory".into(), quantity(MI))];
        assert_eq!(amounts(&request, &capacity), None);
        request.capacity = vec![("memory".into(), quantity(MI))];
        assert_eq!(amounts(&request, &capacity).as_deref(), Some(&[MI][..]));
        request.capacity = vec![("memory".into(), quantity(-MI))];
        assert_eq!(amounts(&request, &capacity), None);
    }

    #[test]
    fn amounts_are_written_as_kubernetes_writes_them() {
        assert_eq!(canonical(2048 * MI, true), "2Gi");
        assert_eq!(canonical(1500 * MI, true), "1500Mi");
        assert_eq!(canonical(1000 * NANOS, true), "1k");
        assert_eq!(canonical(2000 * NANOS, true), "2000");
        assert_eq!(canonical(2000 * NANOS, false), "2k");
        assert_eq!(canonical(NANOS / 2, false), "500m");
        assert_eq!(canonical(0, true), "0");
        assert_eq!(written(8192 * MI, &capacity(PolicyValues::Any, None)).text, "8Gi");
    }
}
