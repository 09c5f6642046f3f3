//! Hand-written histories of claims and pools.

use serde_json::{Value, json};

use crate::builder::{Builder, result};
use crate::report::Invariant::{I1, I14};

/// Pool `p` has devices `x` and `y`.
fn with_pool() -> Builder {
    let mut history = Builder::new();
    history.pool("p", &["x", "y"]);
    history
}

/// A share of a device that takes so much of its memory.
fn share(device: &str, id: &str, memory: &str) -> Value {
    let mut share = result(device);
    share["shareID"] = json!(id);
    share["consumedCapacity"] = json!({"memory": memory});
    share
}

fn give(history: &mut Builder, claim: &str, results: Value) {
    let results: Vec<Value> = results.as_array().expect("results").clone();
    history.claim_given("berth-0", claim, &[], &results);
}

#[test]
fn a_device_in_two_claims_is_convicted() {
    let mut history = with_pool();
    history.claim_as("c", &[], &["p/x"]).claim_as("d", &[], &["p/y"]).acquit();
    history.claim_as("e", &[], &["p/x"]);
    let text = history.convict(I1);
    let expected = "default/e gets dr/p/x by berth-0: it is given 2 times, to default/c, default/e";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn a_device_twice_in_one_claim_is_convicted() {
    let mut history = with_pool();
    history.claim_as("c", &[], &["p/x", "p/x"]);
    assert_eq!(history.judge().of(I1).len(), 2);
}

#[test]
fn pools_of_one_name_and_devices_of_one_name_are_told_apart() {
    let mut history = with_pool();
    history.pool("q", &["x"]).claim_as("c", &[], &["p/x"]).claim_as("d", &[], &["q/x"]).acquit();
    let other = json!({"driver": "other", "pool": {"name": "p"}, "devices": [{"name": "x"}]});
    history.slice("other", other);
    let mut of_other = result("p/x");
    of_other["driver"] = json!("other");
    give(&mut history, "e", json!([of_other]));
    history.acquit();
}

#[test]
fn admin_access_takes_a_device_from_nobody() {
    let mut history = with_pool();
    let mut admin = result("p/x");
    admin["adminAccess"] = json!(true);
    give(&mut history, "monitor", json!([admin]));
    history.claim_as("c", &[], &["p/x"]);
    give(&mut history, "monitor-2", json!([admin]));
    history.acquit();
}

#[test]
fn what_was_deallocated_or_whose_claim_is_gone_may_be_given_to_another() {
    let mut history = with_pool();
    history.claim_as("c", &[], &["p/x"]).claim("c", &[]);
    history.claim_as("d", &[], &["p/x"]).claim_gone("d");
    history.claim_as("e", &[], &["p/x"]).acquit();
}

#[test]
fn a_claim_that_is_to_go_keeps_what_it_has() {
    let mut history = with_pool();
    history.claim_as("c", &[], &["p/x"]);
    history.claim_with("c", json!({"metadata": {"deletionTimestamp": "2026-11-29T23:00:00Z"}}));
    history.claim_as("d", &[], &["p/x"]).convict(I1);
}

#[test]
fn shares_are_right_up_to_the_capacity() {
    let mut history = Builder::new();
    let device = json!({
        "name": "x", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "8Gi"}},
    });
    history.class(json!([])).slice("p", json!({"pool": {"name": "p"}, "devices": [device]}));
    give(&mut history, "c", json!([share("p/x", "1", "4Gi")]));
    give(&mut history, "d", json!([share("p/x", "2", "4Gi")]));
    history.acquit();
    history.claim("d", &[]);
    give(&mut history, "e", json!([share("p/x", "3", "5Gi")]));
    let text = history.convict(I1);
    assert!(text.contains("memory 9663676416 of 8589934592 are given"), "{text}");
}

#[test]
fn a_share_beside_the_whole_device_is_convicted() {
    let mut history = with_pool();
    history.claim_as("c", &[], &["p/x"]);
    give(&mut history, "d", json!([share("p/x", "1", "1Gi")]));
    history.convict(I1);
}

/// Halves and the whole of a card with two slices of memory, and the counters in a slice of their
/// own.
fn with_partitions() -> Builder {
    let part = |name: &str, slices: &str| {
        let counters = json!({"slices": {"value": slices}});
        json!({"name": name, "consumesCounters": [{"counterSet": "card", "counters": counters}]})
    };
    let devices = [part("half-0", "1"), part("half-1", "1"), part("whole", "2")];
    let sets = json!([{"name": "card", "counters": {"slices": {"value": "2"}}}]);
    let pool = json!({"name": "p", "resourceSliceCount": 2});
    let mut history = Builder::new();
    history.class(json!([])).slice("p-1", json!({"pool": pool, "devices": devices}));
    history.slice("p-2", json!({"pool": pool, "sharedCounters": sets}));
    history
}

#[test]
fn partitions_take_no_more_counters_than_there_are() {
    let mut history = with_partitions();
    history.claim_as("c", &[], &["p/half-0"]).claim_as("d", &[], &["p/half-1"]).acquit();
    history.claim("d", &[]).claim_as("e", &[], &["p/whole"]);
    let text = history.convict(I1);
    assert!(text.contains("counter card/slices 3 of 2 are given"), "{text}");
}

#[test]
fn a_partition_that_is_given_holds_its_counters_when_no_slice_shows_it_any_more() {
    let mut history = with_partitions();
    history.claim_as("c", &[], &["p/whole"]);
    let counters = json!({"slices": {"value": "1"}});
    let half = json!({"name": "half-0", "consumesCounters":
        [{"counterSet": "card", "counters": counters}]});
    let pool = json!({"name": "p", "resourceSliceCount": 2});
    history.slice("p-1", json!({"pool": pool, "devices": [half]})).wait(10.0);
    history.claim_as("d", &[], &["p/half-0"]).convict(I1);
}

#[test]
fn what_others_give_is_load_and_must_be_known_after_a_while() {
    let mut history = with_pool();
    history.claim_by("other", "theirs", &[], &["p/x"]).wait(1.0);
    // It was sent before that could be known.
    history.claim_as("c", &[], &["p/x"]);
    let report = history.acquit();
    assert_eq!((report.allocations, report.foreign_allocations), (1, 1));
    history.claim_by("other", "theirs-2", &[], &["p/y"]).wait(3.0);
    history.claim_as("d", &[], &["p/y"]).convict(I1);

    let mut history = with_pool();
    history.claim_as("c", &[], &["p/x"]).claim_by("other", "theirs", &[], &["p/x"]).acquit();
}

#[test]
fn pods_that_join_a_claim_allocate_nothing() {
    let mut history = with_pool();
    history.claim_as("c", &["a".to_owned()], &["p/x"]);
    history.slice_gone("p").wait(10.0);
    history.claim_as("c", &["a".to_owned(), "b".to_owned()], &["p/x"]);
    let report = history.acquit();
    assert_eq!(report.allocations, 1);
}

#[test]
fn an_incomplete_pool_gives_nothing() {
    let mut history = with_pool();
    let pool = json!({"name": "q", "resourceSliceCount": 2});
    history.slice("q-1", json!({"pool": pool, "devices": [{"name": "x"}]})).wait(10.0);
    history.claim_as("c", &[], &["q/x"]);
    let text = history.convict(I14);
    assert!(text.ends_with("dr/q/x by berth-0: its pool has 1 of 2 slices of generation 1"));

    let mut history = with_pool();
    history.slice("q-1", json!({"pool": pool, "devices": [{"name": "x"}]}));
    history.slice("q-2", json!({"pool": pool, "devices": [{"name": "y"}]})).wait(10.0);
    history.claim_as("c", &[], &["q/x", "q/y"]).acquit();
}

#[test]
fn an_old_generation_gives_nothing_beside_a_new_one() {
    let mut history = with_pool();
    let pool = json!({"name": "p", "generation": 2});
    history.slice("p-new", json!({"pool": pool, "devices": [{"name": "z"}]})).wait(1.0);
    // What is new may be unknown for a moment.
    history.claim_as("c", &[], &["p/x"]).wait(3.0).acquit();
    history.claim_as("d", &[], &["p/z"]).acquit();
    history.claim_as("e", &[], &["p/y"]);
    assert!(history.convict(I14).ends_with("it is of generation 1, its pool of 2"));
}

#[test]
fn another_nodes_new_generation_takes_nothing_from_a_node_that_has_all_of_the_old() {
    let mut history = Builder::new();
    let of = |node: &str, generation: u32, device: &str| {
        json!({
            "nodeName": node, "pool": {"name": "p", "generation": generation},
            "devices": [{"name": device}],
        })
    };
    history.class(json!([])).slice("1", of("n-1", 1, "x")).slice("2", of("n-2", 2, "y")).wait(10.0);
    history.claim_as("c", &[], &["p/x"]).claim_as("d", &[], &["p/y"]).acquit();
}

#[test]
fn a_pool_that_contradicts_itself_gives_nothing() {
    let twice = json!([{"name": "x"}, {"name": "y"}, {"name": "x"}]);
    let counters = json!([{"counterSet": "nowhere", "counters": {"c": {"value": "1"}}}]);
    let unknown = json!([{"name": "y"}, {"name": "x", "consumesCounters": counters}]);
    let odd = json!([{"name": "y"}, {"name": "x", "capacity": {"memory": {"value": "much"}}}]);
    for devices in [twice, unknown, odd] {
        let mut history = Builder::new();
        history.class(json!([])).slice("p", json!({"pool": {"name": "p"}, "devices": devices}));
        history.wait(10.0).claim_as("c", &[], &["p/y"]).convict(I14);
    }
}

#[test]
fn a_device_that_is_not_there_or_gone_is_given_to_nobody() {
    let mut history = with_pool();
    history.claim_as("c", &[], &["p/z"]);
    assert!(history.convict(I14).ends_with("no slice of its pool has it"));

    let mut history = with_pool();
    history.slice_gone("p").wait(1.0).claim_as("c", &[], &["p/x"]).acquit();
    history.wait(3.0).claim_as("d", &[], &["p/y"]).convict(I14);
}

#[test]
fn a_class_that_is_gone_or_odd_gives_nothing() {
    let mut history = with_pool();
    history.class_gone().wait(3.0).claim_as("c", &[], &["p/x"]);
    assert!(history.convict(I14).ends_with("class gpu is not there"));

    let mut history = with_pool();
    history.class(json!([{"stars": "libra"}])).wait(3.0).claim_as("c", &[], &["p/x"]);
    assert!(history.convict(I14).ends_with("class gpu can't be read"));
}

#[test]
fn a_taint_keeps_away_who_does_not_tolerate_it() {
    let tainted = |effect: &str| {
        let taints = json!([{"key": "broken", "value": "v", "effect": effect}]);
        json!({"pool": {"name": "p"}, "devices": [{"name": "x", "taints": taints}]})
    };
    let tolerating = |toleration: Value| {
        let mut result = result("p/x");
        result["tolerations"] = json!([toleration]);
        json!([result])
    };
    for (effect, toleration, is_right) in [
        ("NoSchedule", json!({"key": "other", "operator": "Exists"}), false),
        ("NoExecute", json!({"key": "broken", "operator": "Equal", "value": "w"}), false),
        ("NoSchedule", json!({"key": "broken", "operator": "Exists"}), true),
        ("NoExecute", json!({"operator": "Exists"}), true),
        ("None", json!({"key": "other", "operator": "Exists"}), true),
    ] {
        let mut history = Builder::new();
        history.class(json!([])).slice("p", tainted(effect)).wait(10.0);
        give(&mut history, "c", tolerating(toleration.clone()));
        let report = history.judge();
        assert_eq!(report.of(I14).is_empty(), is_right, "{effect} {toleration}: {report}");
    }
}

#[test]
fn a_taint_rule_counts_as_the_devices_own_taint() {
    let mut history = with_pool();
    history.pool("q", &["x"]).taint_rule("r", "q").wait(10.0);
    history.claim_as("c", &[], &["p/x"]).acquit();
    history.claim_as("d", &[], &["q/x"]);
    assert!(history.convict(I14).ends_with("its taint broken is not tolerated"));
}

#[test]
fn nothing_is_given_that_nobody_asked_for() {
    let mut history = with_pool();
    let mut result = result("p/x");
    result["request"] = json!("another");
    give(&mut history, "c", json!([result]));
    assert!(history.convict(I14).ends_with("it has no request another"));
}
