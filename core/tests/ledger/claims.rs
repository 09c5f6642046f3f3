//! Claims in the ledger: what a plan holds, and when it is let go.

use std::sync::Arc;

use berth_core::snapshot::{Change, Cluster, DeviceChange, Overlay};
use berth_core::testkit::claims;
use berth_core::types::claim::Allocation;
use berth_core::types::{ClaimKey, PodUid};

use crate::pools::{cluster, fold, on};

const ONE_GPU: &str = "node a\n\
    slice s pool=p node=a devices=\"g; h\"\n\
    claim c";

fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: name.into() }
}

fn uid(name: &str) -> PodUid {
    PodUid(name.into())
}

fn grant(device: &str) -> Arc<Allocation> {
    let result = claims::result(&format!("r gpu.example.com/p/{device}"));
    let results = vec![result.expect("it is well formed")];
    Arc::new(Allocation { results, ..Allocation::default() })
}

/// A plan of `pod` for the claim `c` is committed.
fn plan(cluster: &mut Cluster, pod: &str, device: &str) -> bool {
    let mut overlay = Overlay::new(cluster);
    let planned = overlay.plan_claim(&key("c"), &grant(device), &uid(pod));
    overlay.commit();
    planned
}

fn freed(changes: &[Change]) -> usize {
    let freed = |change: &&Change| {
        matches!(change, Change::Devices(DeviceChange::Claim { deallocated: true, .. }))
    };
    changes.iter().filter(freed).count()
}

#[test]
fn a_plan_holds_its_devices_until_it_is_forgotten() {
    let mut cluster = cluster(ONE_GPU);
    assert!(plan(&mut cluster, "x", "g"));
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"]);
    assert_eq!(freed(&cluster.forget_claims(&uid("x"))), 1, "others may try for it");
    assert_eq!(on(&cluster, "a"), ["p complete: g h"]);
    assert!(cluster.forget_claims(&uid("x")).is_empty());
}

#[test]
fn a_second_pod_joins_the_same_allocation_and_no_other() {
    let mut cluster = cluster(ONE_GPU);
    assert!(plan(&mut cluster, "x", "g"));
    assert!(!plan(&mut cluster, "y", "h"), "another allocation is on its way");
    assert!(plan(&mut cluster, "y", "g"));
    assert_eq!(freed(&cluster.forget_claims(&uid("x"))), 0);
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"], "one still needs it");
    assert_eq!(freed(&cluster.forget_claims(&uid("y"))), 1);
    assert_eq!(on(&cluster, "a"), ["p complete: g h"]);
}

#[test]
fn nothing_is_planned_for_a_claim_that_is_allocated_or_not_there() {
    let mut cluster = cluster(ONE_GPU);
    fold(&mut cluster, "claim c allocated=\"r gpu.example.com/p/h\"");
    assert!(!plan(&mut cluster, "x", "g"));
    fold(&mut cluster, "-claim c");
    assert!(!plan(&mut cluster, "x", "g"));
    assert_eq!(on(&cluster, "a"), ["p complete: g h"]);
}

#[test]
fn there_is_no_moment_in_which_a_device_looks_free_between_plan_and_watch() {
    let mut cluster = cluster(ONE_GPU);
    plan(&mut cluster, "x", "g");
    fold(&mut cluster, "claim c rv=2 protected");
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"], "the finalizer is there");
    fold(&mut cluster, "claim c rv=3 protected allocated=\"r gpu.example.com/p/g\" reserved=x");
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"]);
    assert!(cluster.devices().planned_by(&uid("x")).next().is_none(), "it is the server's now");
    assert!(cluster.forget_claims(&uid("x")).is_empty());
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"], "and stays so");
}

#[test]
fn where_the_server_has_another_allocation_both_are_held_until_the_plan_is_forgotten() {
    let mut cluster = cluster(ONE_GPU);
    plan(&mut cluster, "x", "g");
    fold(&mut cluster, "claim c rv=2 allocated=\"r gpu.example.com/p/h\"");
    assert_eq!(on(&cluster, "a"), ["p complete: g* h*"]);
    cluster.forget_claims(&uid("x"));
    assert_eq!(on(&cluster, "a"), ["p complete: g h*"]);
}

#[test]
fn a_share_that_plan_and_server_have_in_common_is_held_once_and_stays() {
    let mut cluster = cluster(
        "node a\n\
         slice s pool=p node=a devices=\"g shared mem:80Gi; h shared mem:80Gi\"\n\
         claim c",
    );
    let share = |device| {
        let text = format!("r gpu.example.com/p/{device} share=1 takes=mem=10Gi");
        claims::result(&text).expect("it is well formed")
    };
    let both = Allocation { results: vec![share("g"), share("h")], ..Allocation::default() };
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.plan_claim(&key("c"), &Arc::new(both), &uid("x")));
    overlay.commit();
    let real = "claim c rv=2 allocated=\"r gpu.example.com/p/g share=1 takes=mem=10Gi\"";
    fold(&mut cluster, real);
    cluster.forget_claims(&uid("x"));
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"]);
}

#[test]
fn a_claim_that_is_going_holds_its_devices_until_it_is_gone() {
    let mut cluster = cluster(ONE_GPU);
    fold(&mut cluster, "claim c terminating allocated=\"r gpu.example.com/p/g\"");
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"]);
    fold(&mut cluster, "-claim c");
    assert_eq!(on(&cluster, "a"), ["p complete: g h"]);
}

#[test]
fn a_plan_for_a_claim_that_is_gone_or_another_holds_nothing() {
    for (event, seen) in
        [("-claim c", "p complete: g h"), ("claim c uid=another rv=9", "p complete: g h")]
    {
        let mut cluster = cluster(ONE_GPU);
        plan(&mut cluster, "x", "g");
        fold(&mut cluster, event);
        assert_eq!(on(&cluster, "a"), [seen]);
        assert!(cluster.devices().planned_by(&uid("x")).next().is_none());
        assert!(cluster.forget_claims(&uid("x")).is_empty());
    }
}

#[test]
fn an_allocation_without_devices_that_is_taken_back_is_told_as_well() {
    // A pod that shares the claim was turned away while it was on its way.
    let mut cluster = cluster(ONE_GPU);
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.plan_claim(&key("c"), &Arc::default(), &uid("x")));
    overlay.commit();
    assert_eq!(freed(&cluster.forget_claims(&uid("x"))), 1);
}

#[test]
fn what_a_pod_plans_twice_is_undone_once() {
    let mut cluster = cluster(ONE_GPU);
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.plan_claim(&key("c"), &grant("g"), &uid("x")));
    let mark = overlay.checkpoint();
    assert!(overlay.plan_claim(&key("c"), &grant("g"), &uid("x")));
    overlay.rollback(mark);
    assert_eq!(on(overlay.cluster(), "a"), ["p complete: g* h"]);
    drop(overlay);
    assert_eq!(on(&cluster, "a"), ["p complete: g h"]);
}

#[test]
fn plans_outlast_an_eviction_that_is_taken_back() {
    let mut cluster = cluster(&format!("{ONE_GPU}\npod victim on=a"));
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.evict(&uid("victim")));
    assert!(overlay.plan_claim(&key("c"), &grant("g"), &uid("x")));
    overlay.commit();
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"]);
    let idx = cluster.nodes().index("a").expect("it is known");
    assert_eq!(cluster.pods_on(idx).count(), 1);
}

#[test]
fn a_late_event_of_a_predecessor_brings_nothing_back() {
    let mut cluster = cluster(ONE_GPU);
    fold(&mut cluster, "claim c uid=second rv=5");
    let late = fold(&mut cluster, "claim c rv=4 allocated=\"r gpu.example.com/p/g\"");
    assert!(late.is_empty(), "{late:?}");
    fold(&mut cluster, "slice s uid=second rv=6 pool=p node=a devices=h");
    let late = fold(&mut cluster, "slice s rv=3 pool=p node=a devices=\"g; h\"");
    assert!(late.is_empty(), "{late:?}");
    assert_eq!(on(&cluster, "a"), ["p complete: h"]);
}

#[test]
fn an_older_class_or_rule_changes_nothing() {
    let mut cluster =
        cluster("deviceclass k rv=5 select=shared\ntaintrule t rv=5 taint=a:NoSchedule");
    for late in ["deviceclass k rv=4 select=true", "taintrule t rv=4 taint=b:NoSchedule"] {
        assert!(fold(&mut cluster, late).is_empty(), "{late}");
    }
    assert_eq!(&*cluster.devices().class("k").expect("it is known").selectors[0], "shared");
}
