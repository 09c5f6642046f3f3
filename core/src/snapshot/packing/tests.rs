//! The index follows the ledger, overlays too, and finds prices when enough is known.

use crate::snapshot::{ClusterEvent, Overlay};
use crate::types::{Node, PodRequests, PodSpec, Resources, Text};

use super::*;

fn resources(cpu: i64, gpus: i64) -> Resources {
    let mut resources =
        Resources { cpu_milli: cpu * 1000, memory_bytes: cpu << 32, ..Resources::default() };
    resources.set(&"nvidia.com/gpu".into(), gpus);
    resources
}

fn node(name: &str, gpus: i64) -> ClusterEvent {
    ClusterEvent::NodeApplied(Node {
        name: name.into(),
        uid: name.into(),
        allocatable: resources(96, gpus),
        pods_max: 110,
        ..Node::default()
    })
}

fn pod(name: &str, gpus: i64, on: Option<&str>) -> Pod {
    let requests = PodRequests { real: resources(8 * gpus, gpus), ..PodRequests::default() };
    Pod {
        uid: PodUid(name.into()),
        name: name.into(),
        usage: Arc::new(requests.clone()),
        spec: Arc::new(PodSpec { requests, ..PodSpec::default() }),
        node_name: on.map(Text::from),
        ..Pod::default()
    }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.set_packing(PackingRules::default());
    for (name, gpus) in [("a", 8), ("b", 8), ("c", 2)] {
        cluster.fold(node(name, gpus));
    }
    cluster
}

fn demand(cluster: &Cluster, pod: &Pod) -> Arc<Demand> {
    Arc::new(cluster.packing().unwrap().demand(pod, cluster))
}

/// Returns the number of the key of each node, looked up and worked out anew.
fn keys(cluster: &mut Cluster, demand: &Arc<Demand>) -> Vec<i64> {
    cluster.declare_demand(demand);
    let packing = cluster.packing().unwrap();
    let class = packing.class(demand);
    let key = |class, name| {
        let node = cluster.nodes().index(name).unwrap();
        packing.key(cluster, class, demand, node).number()
    };
    let looked_up: Vec<i64> = ["a", "b", "c"].map(|name| key(class, name)).to_vec();
    assert_eq!(looked_up, ["a", "b", "c"].map(|name| key(None, name)), "looked up and anew");
    looked_up
}

/// Lets prices be found, a few steps at a time.
fn solve(cluster: &mut Cluster) -> u32 {
    while cluster.packing_waits() {
        assert!(cluster.advance_packing(50) > 0, "it gets on");
    }
    cluster.packing().unwrap().solves()
}

#[test]
fn keys_follow_an_overlay_and_come_back_with_it() {
    let mut cluster = cluster();
    let (one, three) = (pod("one", 1, None), pod("three", 3, None));
    cluster.fold(ClusterEvent::PodApplied(Box::new(three.clone())));
    let wanted = demand(&cluster, &one);
    let before = keys(&mut cluster, &wanted);
    let a = cluster.nodes().index("a").unwrap();
    let mut overlay = Overlay::new(&mut cluster);
    assert!(overlay.assume(&three.uid, a));
    let mut changed = Vec::new();
    overlay.declare_all(|cluster| changed = keys(cluster, &wanted));
    assert!(changed[0] < before[0], "five idle GPUs are better than eight");
    assert_eq!(changed[1..], before[1..]);
    drop(overlay);
    assert_eq!(keys(&mut cluster, &wanted), before);
}

#[test]
fn prices_are_found_when_enough_pods_have_come_and_each_counts_once() {
    let mut cluster = cluster();
    let wanted = demand(&cluster, &pod("p", 1, None));
    let version = cluster.packing().unwrap().version();
    for at in 0..FIRST_AFTER - 1 {
        let uid = PodUid(format!("p-{at}").into());
        cluster.count_demand(&uid, &wanted);
        cluster.count_demand(&uid, &wanted);
    }
    assert_eq!(solve(&mut cluster), 0, "one is missing");
    cluster.count_demand(&PodUid("last".into()), &wanted);
    assert_eq!(solve(&mut cluster), 1);
    assert_ne!(cluster.packing().unwrap().version(), version);
    let keys = keys(&mut cluster, &wanted);
    assert!(keys[2] < keys[0], "a small node is used up before a large one is opened");
    let a = cluster.nodes().index("a").unwrap();
    let book = cluster.packing().unwrap().book(a).unwrap();
    assert_eq!((book.gpus_max, book.pairs.len()), (8, 31));
}

#[test]
fn pods_that_were_placed_before_are_learned_from() {
    let mut cluster = cluster();
    for at in 0..FIRST_AFTER {
        let pod = pod(&format!("p-{at}"), i64::from(at < 10), Some("b"));
        cluster.fold(ClusterEvent::PodApplied(Box::new(pod)));
    }
    assert_eq!(solve(&mut cluster), 1);
}

#[test]
fn a_prior_is_enough_for_prices() {
    let mut cluster = Cluster::default();
    let wanted = Demand { want: Want::whole(2), cpu_milli: 16_000, ..Demand::default() };
    let prior = vec![(wanted.clone(), 1)];
    cluster.set_packing(PackingRules { prior, ..PackingRules::default() });
    cluster.fold(node("a", 8));
    assert_eq!(solve(&mut cluster), 0, "nobody has asked what nodes there are");
    cluster.declare_demand(&Arc::new(wanted));
    assert_eq!(solve(&mut cluster), 1);
}
