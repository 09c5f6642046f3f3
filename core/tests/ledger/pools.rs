//! Which devices a node sees, and whether they may be granted.

use berth_core::snapshot::devices::gather::{NodePool, PoolState};
use berth_core::snapshot::{Change, Cluster, DeviceChange};
use berth_core::testkit::{self, parse};
use berth_core::types::device::NANOS;
use berth_core::types::{Node, Text};

pub(crate) fn fold(cluster: &mut Cluster, text: &str) -> Vec<Change> {
    let events = parse(text).unwrap_or_else(|error| panic!("{error}"));
    events.into_iter().flat_map(|event| cluster.fold(event)).collect()
}

pub(crate) fn cluster(text: &str) -> Cluster {
    testkit::cluster(text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn node<'a>(cluster: &'a Cluster, name: &str) -> &'a Node {
    let idx = cluster.nodes().index(name).expect("the node is known");
    cluster.nodes().node(idx).expect("it has an object")
}

/// Returns `pool state: devices` for each pool of a node; a device that is held has a star.
pub(crate) fn on(cluster: &Cluster, name: &str) -> Vec<String> {
    let pools = cluster.devices().pools_on(node(cluster, name)).into_iter();
    let shown = |pool: NodePool<'_>| {
        let state = match &pool.state {
            PoolState::Complete => "complete".to_owned(),
            PoolState::Incomplete => "incomplete".to_owned(),
            PoolState::Invalid(text) => format!("invalid ({text})"),
        };
        let devices = pool.devices.iter().map(|device| {
            let star = if device.taken.is_some() { "*" } else { "" };
            format!(" {}{star}", device.device.name)
        });
        format!("{} {state}:{}", pool.name, devices.collect::<String>())
    };
    pools.map(shown).collect()
}

/// Returns what is left of the counter `m` of the set `c` in the node's first pool, in units.
pub(crate) fn left(cluster: &Cluster, name: &str) -> Option<i128> {
    let pools = cluster.devices().pools_on(node(cluster, name));
    let left = pools.first()?.counter_left(cluster.devices(), &"c".into(), &"m".into());
    left.map(|nanos| nanos / NANOS)
}

#[test]
fn each_kind_of_placement_reaches_its_nodes() {
    let cluster = cluster(
        "node a labels=zone=z1\n\
         node b labels=zone=z2\n\
         slice s1 pool=p1 node=a devices=g1\n\
         slice s2 pool=p2 nodes=\"zone in z2,z3\" devices=g2\n\
         slice s3 pool=p3 all devices=g3\n\
         slice s4 pool=p4 per-device devices=\"x node=a; y nodes=zone=z2; z all; w\"\n\
         slice s5 pool=p5 devices=g5",
    );
    assert_eq!(on(&cluster, "a"), ["p1 complete: g1", "p3 complete: g3", "p4 complete: x z"]);
    assert_eq!(on(&cluster, "b"), ["p2 complete: g2", "p3 complete: g3", "p4 complete: y z"]);
}

#[test]
fn a_node_whose_labels_change_sees_other_pools() {
    let mut cluster = cluster(
        "node a labels=zone=z1\n\
         slice s nodes=zone=z2 pool=p devices=g",
    );
    assert!(on(&cluster, "a").is_empty());
    fold(&mut cluster, "node a labels=zone=z2");
    assert_eq!(on(&cluster, "a"), ["p complete: g"]);
}

#[test]
fn pools_are_told_apart_by_driver_and_come_in_order_of_driver_and_name() {
    let cluster = cluster(
        "node a\n\
         slice s1 driver=y.example.com pool=a node=a devices=g\n\
         slice s2 driver=x.example.com pool=b node=a devices=g\n\
         slice s3 driver=x.example.com pool=a node=a devices=g\n\
         claim c allocated=\"r x.example.com/a/g\"",
    );
    let pools = cluster.devices().pools_on(node(&cluster, "a"));
    let told =
        |p: &NodePool<'_>| (p.driver.to_string(), p.name.to_string(), p.devices[0].taken.is_some());
    let told: Vec<_> = pools.iter().map(told).collect();
    let wanted = [("x", "a", true), ("x", "b", false), ("y", "a", false)];
    let wanted = wanted.map(|(d, p, taken)| (format!("{d}.example.com"), p.to_owned(), taken));
    assert_eq!(told, wanted);
}

#[test]
fn devices_come_in_the_order_of_slice_names_then_as_listed() {
    let cluster = cluster(
        "node a\n\
         slice x2 pool=p node=a of=2 devices=\"d; c\"\n\
         slice x1 pool=p node=a of=2 devices=\"b; a\"",
    );
    assert_eq!(on(&cluster, "a"), ["p complete: b a d c"]);
}

#[test]
fn only_the_newest_generation_counts() {
    let mut cluster = cluster("node a\nslice s1 pool=p node=a gen=1 devices=\"old; both\"");
    fold(&mut cluster, "slice s2 pool=p node=a gen=2 devices=\"both; new\"");
    assert_eq!(on(&cluster, "a"), ["p complete: both new"]);
    fold(&mut cluster, "-slice s2");
    assert_eq!(on(&cluster, "a"), ["p complete: old both"]);
}

#[test]
fn a_generation_whose_slices_are_not_all_there_is_incomplete() {
    let mut cluster = cluster("node a\nslice s1 pool=p node=a of=2 devices=g1");
    assert_eq!(on(&cluster, "a"), ["p incomplete: g1"]);
    fold(&mut cluster, "slice s2 pool=p node=a of=2 devices=g2");
    assert_eq!(on(&cluster, "a"), ["p complete: g1 g2"]);
    // The next generation begins with one of its two.
    fold(&mut cluster, "slice s1 pool=p node=a of=2 gen=2 devices=g1");
    assert_eq!(on(&cluster, "a"), ["p incomplete: g1"]);
    // More than there should be are no better.
    fold(&mut cluster, "slice s2 pool=p node=a of=1 gen=2 devices=g2");
    fold(&mut cluster, "slice s1 pool=p node=a of=1 gen=2 devices=g1");
    assert_eq!(on(&cluster, "a"), ["p incomplete: g1 g2"]);
}

#[test]
fn slices_for_other_nodes_count_for_completeness() {
    let mut cluster = cluster(
        "node a\n\
         node b\n\
         slice s1 pool=p node=a of=2 devices=g1",
    );
    assert_eq!(on(&cluster, "a"), ["p incomplete: g1"]);
    fold(&mut cluster, "slice s2 pool=p node=b of=2 devices=g2");
    assert_eq!(on(&cluster, "a"), ["p complete: g1"]);
    assert_eq!(on(&cluster, "b"), ["p complete: g2"]);
}

#[test]
fn a_generation_that_is_replaced_elsewhere_is_outdated_unless_the_node_sees_all_of_it() {
    let mut cluster = cluster(
        "node a\n\
         node b\n\
         slice s1 pool=p node=a of=2 devices=g1\n\
         slice s2 pool=p node=b of=2 gen=2 devices=g2",
    );
    assert!(on(&cluster, "a").is_empty());
    assert_eq!(on(&cluster, "b"), ["p incomplete: g2"]);
    fold(&mut cluster, "slice s1 pool=p node=a of=1 devices=g1");
    assert_eq!(on(&cluster, "a"), ["p complete: g1"]);
}

#[test]
fn slices_that_contradict_each_other_make_the_pool_invalid_for_who_sees_them() {
    let mut cluster = cluster(
        "node a\n\
         node b\n\
         slice s1 pool=p node=a of=2 devices=g\n\
         slice s2 pool=p node=b of=2 devices=g",
    );
    // As upstream: a name must be unique among what one node sees.
    assert_eq!(
        (on(&cluster, "a"), on(&cluster, "b")),
        (vec!["p complete: g".into()], vec!["p complete: g".into()])
    );
    fold(&mut cluster, "slice s2 uid=other pool=p node=a of=2 devices=g");
    assert_eq!(on(&cluster, "a"), ["p invalid (duplicate device name \"g\"): g g"]);
    for (slice, fault) in [
        ("devices=\"g uses=c(m=1)\"", "device \"g\" consumes an unknown counter set \"c\""),
        (
            "devices=\"g uses=c(m=1)\" counters=\"c n=1\"",
            "device \"g\" consumes an unknown counter \"m\" of set \"c\"",
        ),
        ("devices=g counters=\"c m=1; c m=2\"", "duplicate counter set \"c\""),
        ("devices=g problem=\"no such field\"", "no such field"),
    ] {
        fold(&mut cluster, &format!("-slice s2\nslice s1 uid=other pool=p node=a {slice}"));
        assert_eq!(on(&cluster, "a"), [format!("p invalid ({fault}): g")]);
    }
    fold(
        &mut cluster,
        "slice s1 uid=other pool=p node=a devices=\"g uses=c(m=1)\" counters=\"c m=1\"",
    );
    assert_eq!(on(&cluster, "a"), ["p complete: g"]);
}

#[test]
fn what_another_generation_says_contradicts_nothing() {
    let cluster = cluster(
        "node a\n\
         slice s1 pool=p node=a gen=1 devices=g counters=\"c m=1\"\n\
         slice s2 pool=p node=a gen=2 devices=g counters=\"c m=2\"",
    );
    assert_eq!(on(&cluster, "a"), ["p complete: g"]);
    assert_eq!(left(&cluster, "a"), Some(2));
}

#[test]
fn counter_sets_may_stand_in_slices_of_their_own_also_in_those_for_other_nodes() {
    let mut cluster = cluster(
        "node a\n\
         node b\n\
         slice s1 pool=p node=a of=2 devices=\"g1 uses=c(m=3); g2 uses=c(m=3)\"\n\
         slice s2 pool=p node=b of=2 counters=\"c m=8\"\n\
         claim x allocated=\"r gpu.example.com/p/g1\"",
    );
    assert_eq!(on(&cluster, "a"), ["p complete: g1* g2"]);
    assert_eq!(left(&cluster, "a"), Some(5));
    fold(&mut cluster, "claim y allocated=\"r gpu.example.com/p/g2\"");
    assert_eq!(left(&cluster, "a"), Some(2));
    fold(&mut cluster, "claim x");
    assert_eq!(left(&cluster, "a"), Some(5));
}

#[test]
fn a_held_device_that_is_published_no_more_still_takes_of_the_counters() {
    let mut cluster = cluster(
        "node a\n\
         slice s pool=p node=a devices=\"mig uses=c(m=3); gpu uses=c(m=8)\" counters=\"c m=8\"\n\
         claim x allocated=\"r gpu.example.com/p/mig\"",
    );
    fold(
        &mut cluster,
        "slice s pool=p node=a gen=2 devices=\"gpu uses=c(m=8)\" counters=\"c m=8\"",
    );
    assert_eq!((on(&cluster, "a"), left(&cluster, "a")), (vec!["p complete: gpu".into()], Some(5)));
    // The claim changes in what isn't its devices, then holds one more: it has the first all along.
    fold(&mut cluster, "claim x allocated=\"r gpu.example.com/p/mig ready=Ready\"");
    assert_eq!(left(&cluster, "a"), Some(5));
    fold(&mut cluster, "claim x allocated=\"r gpu.example.com/p/mig; r gpu.example.com/p/other\"");
    assert_eq!(left(&cluster, "a"), Some(5));
    fold(&mut cluster, "-claim x");
    assert_eq!(left(&cluster, "a"), Some(8));
}

/// A process that begins while a slice with a device that somebody holds is away.
#[test]
fn while_a_slice_is_away_its_pool_grants_nothing_and_then_its_devices_count_again() {
    let mut cluster = cluster(
        "node a\n\
         slice sets pool=p node=a of=3 counters=\"c m=8\"\n\
         slice others pool=p node=a of=3 devices=\"gpu uses=c(m=8); half uses=c(m=4)\"\n\
         claim x allocated=\"r gpu.example.com/p/mig\"",
    );
    assert_eq!(on(&cluster, "a"), ["p incomplete: gpu half"], "nobody gets a device of it");
    fold(&mut cluster, "slice parts pool=p node=a of=3 devices=\"mig uses=c(m=3)\"");
    let whole = vec!["p complete: gpu half mig*".to_owned()];
    assert_eq!((on(&cluster, "a"), left(&cluster, "a")), (whole, Some(5)));
    fold(&mut cluster, "-slice parts");
    assert_eq!(on(&cluster, "a"), ["p incomplete: gpu half"]);
    assert_eq!(left(&cluster, "a"), Some(5), "this process remembers");
}

/// What a device takes stands in its slice and nowhere else. Source: the API has no field for it.
#[test]
fn what_a_held_device_takes_is_not_known_where_no_slice_has_ever_shown_it() {
    let mut cluster = cluster(
        "node a\n\
         slice s pool=p node=a gen=2 devices=\"gpu uses=c(m=8)\" counters=\"c m=8\"\n\
         claim x allocated=\"r gpu.example.com/p/mig\"",
    );
    assert_eq!((on(&cluster, "a"), left(&cluster, "a")), (vec!["p complete: gpu".into()], Some(8)));
    let published = "slice s pool=p node=a gen=3 devices=\"gpu uses=c(m=8); mig uses=c(m=3)\" counters=\"c m=8\"";
    fold(&mut cluster, published);
    assert_eq!(left(&cluster, "a"), Some(5));
}

#[test]
fn a_device_that_is_published_again_takes_what_is_said_of_it_last() {
    let mut cluster = cluster(
        "node a\n\
         claim x allocated=\"r gpu.example.com/p/mig\"\n\
         slice s pool=p node=a devices=\"mig uses=c(m=3)\" counters=\"c m=8\"",
    );
    assert_eq!(left(&cluster, "a"), Some(5), "the claim was there before the slice");
    fold(&mut cluster, "slice s pool=p node=a devices=\"mig uses=c(m=9)\" counters=\"c m=8\"");
    assert_eq!(left(&cluster, "a"), Some(-1), "more may be held than there is");
}

#[test]
fn a_shared_device_takes_of_the_counters_once() {
    let mut cluster = cluster(
        "node a\n\
         slice s pool=p node=a devices=\"g shared mem:80Gi uses=c(m=3)\" counters=\"c m=8\"\n\
         claim x allocated=\"r gpu.example.com/p/g share=1 takes=mem=10Gi\"\n\
         claim y allocated=\"r gpu.example.com/p/g share=2 takes=mem=20Gi\"",
    );
    let consumed = |cluster: &Cluster| {
        let pools = cluster.devices().pools_on(node(cluster, "a"));
        let taken = pools[0].devices[0].taken.expect("it is held");
        (taken.dedicated(), taken.consumed("mem") >> 30)
    };
    assert_eq!((left(&cluster, "a"), consumed(&cluster)), (Some(5), (false, 30_000_000_000)));
    fold(&mut cluster, "-claim x");
    assert_eq!((left(&cluster, "a"), consumed(&cluster)), (Some(5), (false, 20_000_000_000)));
    fold(&mut cluster, "-claim y");
    assert_eq!((left(&cluster, "a"), on(&cluster, "a")), (Some(8), vec!["p complete: g".into()]));
}

#[test]
fn administrators_take_nothing() {
    let cluster = cluster(
        "node a\n\
         slice s pool=p node=a devices=\"g uses=c(m=3)\" counters=\"c m=8\"\n\
         claim x allocated=\"r gpu.example.com/p/g admin\"",
    );
    assert_eq!((on(&cluster, "a"), left(&cluster, "a")), (vec!["p complete: g".into()], Some(8)));
}

#[test]
fn rules_taint_the_devices_that_they_select_and_an_absent_selector_selects_none() {
    let mut cluster = cluster(
        "node a\n\
         slice s pool=p node=a devices=\"g1 taint=own:NoExecute taint=told:None; g2; g3\"\n\
         taintrule t1 device=g2 pool=p driver=gpu.example.com taint=sick=yes:NoSchedule\n\
         taintrule t2 device=g3 pool=other taint=sick:NoSchedule\n\
         taintrule t3 taint=nobody:NoSchedule",
    );
    let taints = |cluster: &Cluster| -> Vec<Vec<Text>> {
        let devices = cluster.devices();
        let pools = devices.pools_on(node(cluster, "a"));
        let keys = pools[0].devices.iter().map(|device| {
            devices.taints(device.slice, device.device).map(|taint| taint.key.clone()).collect()
        });
        keys.collect()
    };
    let texts = |keys: &[&str]| keys.iter().map(|key| Text::from(*key)).collect::<Vec<_>>();
    assert_eq!(taints(&cluster), [texts(&["own"]), texts(&["sick"]), texts(&[])]);
    fold(&mut cluster, "taintrule t3 everything taint=all:NoSchedule\n-taintrule t1");
    assert_eq!(taints(&cluster), [texts(&["own", "all"]), texts(&["all"]), texts(&["all"])]);
}

#[test]
fn a_device_that_two_claims_hold_is_told_once_as_soon_as_it_is_known() {
    let mut cluster = cluster("claim x allocated=\"r gpu.example.com/p/g; r gpu.example.com/p/h\"");
    let conflicts = |changes: Vec<Change>| -> Vec<String> {
        let told = changes.into_iter().filter_map(|change| match change {
            Change::Devices(DeviceChange::Conflict(c)) => {
                Some(format!("{} {} {}", c.id, c.claims[0], c.claims[1]))
            }
            _ => None,
        });
        told.collect()
    };
    let told = conflicts(fold(&mut cluster, "claim y allocated=\"r gpu.example.com/p/g\""));
    assert_eq!(told, ["gpu.example.com/p/g claim-x claim-y"]);
    // What changes beside it is no news of it.
    let told = "claim y allocated=\"r gpu.example.com/p/g ready=R; r gpu.example.com/p/i\"";
    assert_eq!(conflicts(fold(&mut cluster, told)), Vec::<String>::new());
    let told = conflicts(fold(&mut cluster, "claim z allocated=\"r gpu.example.com/p/g admin\""));
    assert_eq!(told, Vec::<String>::new());
    // Each still holds it when the other lets go.
    fold(&mut cluster, "-claim x\nnode a\nslice s pool=p node=a devices=\"g; h\"");
    assert_eq!(on(&cluster, "a"), ["p complete: g* h"]);
}

#[test]
fn a_slice_that_moves_to_another_pool_leaves_the_old_one() {
    let mut cluster = cluster("node a\nslice s pool=p node=a devices=g");
    fold(&mut cluster, "slice s pool=q node=a devices=g");
    assert_eq!(on(&cluster, "a"), ["q complete: g"]);
}
