//! Plays the claim controller on ResourceClaims: a pod that is gone holds none any more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Drops pods that are gone from `reservedFor`; where nobody is left, clears the allocation.
///
/// A claim that was allocated without any reservation is left alone.
pub(super) fn release(claims: &mut BTreeMap<String, Value>, gone: &BTreeSet<&str>) {
    for status in claims.values_mut().filter_map(|claim| claim.get_mut("status")) {
        let Some(reserved) = status.get_mut("reservedFor").and_then(Value::as_array_mut) else {
            continue;
        };
        let n_before = reserved.len();
        reserved.retain(|user| !user["uid"].as_str().is_some_and(|uid| gone.contains(uid)));
        let emptied = n_before > 0 && reserved.is_empty();
        if emptied && let Some(status) = status.as_object_mut() {
            status.remove("allocation");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_allocation_goes_with_the_last_pod_that_held_it() {
        let claim = |uids: &[&str]| {
            let reserved: Vec<Value> = uids.iter().map(|uid| json!({"uid": uid})).collect();
            json!({"status": {"allocation": {}, "reservedFor": reserved}})
        };
        let mut claims = BTreeMap::from([
            ("alone".to_owned(), claim(&["a"])),
            ("shared".to_owned(), claim(&["a", "b"])),
            ("unreserved".to_owned(), claim(&[])),
        ]);
        release(&mut claims, &BTreeSet::from(["a"]));
        let allocated = |name: &str| claims[name].pointer("/status/allocation").is_some();
        assert_eq!(["alone", "shared", "unreserved"].map(allocated), [false, true, true]);
    }
}
