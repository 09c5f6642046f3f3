//! The index follows the ledger, overlays too, and finds prices when enough is known.

use crate::snapshot::{ClusterEvent, Overlay};
use crate::types::{Labels, Node, PodRequests, PodSpec, Resources, Text};

use super::finding::{FIRST_AFTER, STEPS_A_NODE};
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

/// As the devices of a driver that shares them.
#[test]
fn gpus_that_annotations_divide_are_gpus_of_which_so_much_is_free() {
    let text = "node a cpu=8 mem=8Gi labels=berth.dev/gpu-fractions=true,nvidia.com/gpu.count=3,nvidia.com/gpu.memory=1000
        node b cpu=8 mem=8Gi alibabacloud.com/gpu-count=1 labels=nvidia.com/gpu.memory=2000
        node c cpu=8 mem=8Gi
        pod x on=a share=505 gpus=1
        pod y on=a share=250MiB gpus=0
        pod p share=300MiB
        pod q share=1000x2";
    let mut cluster = Cluster::default();
    cluster.set_packing(PackingRules::default());
    cluster.keep_gpu_shares();
    crate::testkit::parse(text).unwrap().into_iter().for_each(|event| drop(cluster.fold(event)));
    let of = |cluster: &Cluster, name: &str| {
        demand(cluster, &cluster.pod(&PodUid(name.into())).unwrap().pod)
    };
    let wanted = of(&cluster, "q");
    cluster.declare_demand(&wanted);
    let packing = cluster.packing().unwrap();
    let at = |name| cluster.nodes().index(name).unwrap();
    let free = |name| packing.state(at(name)).unwrap().gpus.to_vec();
    assert_eq!(free("a"), [495, 750, 1000].map(GpuFree::milli));
    assert_eq!((free("b"), free("c")), (vec![GpuFree::milli(1000)], Vec::new()));
    let want = |name| of(&cluster, name).want.clone();
    assert_eq!(want("q"), Want::Gpus { count: 2, milli: 1000 });
    assert_eq!(want("p"), Want::Gpus { count: 1, milli: 150 }, "of the largest GPU");
    let admits = |name| wanted.admits.node(cluster.nodes().node(at(name)).unwrap());
    assert_eq!(["a", "b", "c"].map(admits), [true, true, false]);
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

/// A node of eight GPUs, each of which a device plugin gives out in four replicas as `resource`.
fn sharing(name: &str, resource: &str) -> ClusterEvent {
    let mut allocatable = resources(96, 0);
    allocatable.set(&resource.into(), 32);
    let replicas = ("nvidia.com/gpu.replicas".into(), "4".into());
    ClusterEvent::NodeApplied(Node {
        name: name.into(),
        uid: name.into(),
        labels: Labels::new(vec![replicas]),
        allocatable,
        pods_max: 110,
        ..Node::default()
    })
}

#[test]
fn a_replica_is_a_part_of_a_gpu() {
    let mut cluster = cluster();
    cluster.fold(sharing("shared", "nvidia.com/gpu"));
    cluster.fold(ClusterEvent::PodApplied(Box::new(pod("there", 3, Some("shared")))));
    let wanted = demand(&cluster, &pod("p", 1, None));
    cluster.declare_demand(&wanted);
    let shared = cluster.nodes().index("shared").unwrap();
    let state = cluster.packing().unwrap().state(shared).unwrap();
    assert_eq!((state.n_gpus(), state.idle_milli()), (8, 8 * 1000 - 3 * 250));
    for at in 0..FIRST_AFTER {
        cluster.count_demand(&PodUid(format!("p-{at}").into()), &wanted);
    }
    assert_eq!(solve(&mut cluster), 1);
    let packing = cluster.packing().unwrap();
    assert_eq!(packing.gpus_max(), 8, "not as many as there are replicas");
    let (plain, book) = (cluster.nodes().index("a").unwrap(), packing.book(shared).unwrap());
    assert_eq!(book.values[0][24], 0, "less than a replica is nothing");
    assert!((1..=250).contains(&book.values[0][25]), "{} for a quarter", book.values[0][25]);
    assert!(packing.book(plain).unwrap().values[0][100] > 250, "there it is a whole GPU");
    cluster.declare_demand(&wanted);
    let packing = cluster.packing().unwrap();
    let class = packing.class(&wanted);
    let taken = |node| {
        let (_, way) = packing.outcomes(class, &wanted, node).remove(0);
        way.from.idle_milli() - way.to.idle_milli()
    };
    assert_eq!((taken(shared), taken(plain)), (250, 1000));
}

#[test]
fn who_asks_for_shared_gpus_is_expected_only_where_there_are_some() {
    let mut cluster = cluster();
    cluster.fold(sharing("shared", "nvidia.com/gpu.shared"));
    let mut asks = pod("p", 0, None);
    let mut requests = PodRequests::default();
    requests.real.set(&"nvidia.com/gpu.shared".into(), 1);
    asks.spec = Arc::new(PodSpec { requests, ..PodSpec::default() });
    let wanted = demand(&cluster, &asks);
    cluster.declare_demand(&wanted);
    for at in 0..FIRST_AFTER {
        cluster.count_demand(&PodUid(format!("p-{at}").into()), &wanted);
    }
    assert_eq!(solve(&mut cluster), 1);
    let packing = cluster.packing().unwrap();
    let worth = |name, cell: usize| {
        let node = cluster.nodes().index(name).unwrap();
        packing.book(node).unwrap().values[0][cell]
    };
    assert_eq!((worth("a", 100), worth("shared", 25) > 0), (0, true));
}

/// Nodes of which a quarter are sharing theirs, and enough pods for prices.
fn large() -> (Cluster, Arc<Demand>) {
    let mut cluster = Cluster::default();
    cluster.set_packing(PackingRules::default());
    for at in 0..LARGE {
        let name = format!("n-{at:03}");
        cluster.fold(match at % 4 {
            0 => sharing(&name, "nvidia.com/gpu"),
            _ => node(&name, 8),
        });
    }
    let wanted = demand(&cluster, &pod("p", 1, None));
    cluster.declare_demand(&wanted);
    for at in 0..FIRST_AFTER {
        cluster.count_demand(&PodUid(format!("p-{at}").into()), &wanted);
    }
    (cluster, wanted)
}

const LARGE: u64 = 400;

#[test]
fn prices_are_the_same_in_one_go_and_in_many() {
    let (mut at_once, _) = large();
    assert!(at_once.advance_packing(u64::MAX) > 0);
    assert!(!at_once.packing_waits());
    let (mut sliced, _) = large();
    let mut most = 0;
    while sliced.packing_waits() {
        most = most.max(sliced.advance_packing(10));
    }
    assert!(most < LARGE * STEPS_A_NODE / 4, "{most} steps are not one slice of many");
    let books = |cluster: &Cluster| {
        let of = |at| cluster.packing().unwrap().book(NodeIdx(at)).unwrap();
        [of(0), of(1)]
    };
    assert_eq!(books(&sliced), books(&at_once));
}

#[test]
fn what_changes_while_prices_are_found_is_as_if_it_had_been_so() {
    let (mut cluster, wanted) = large();
    let mut placed = 0;
    while cluster.packing_waits() {
        cluster.advance_packing(100);
        placed += 1;
        let on = format!("n-{:03}", placed * 7 % LARGE);
        let pod = pod(&format!("placed-{placed}"), 1, Some(&on));
        if placed < 200 {
            cluster.fold(ClusterEvent::PodApplied(Box::new(pod)));
            // Somebody asks, so that the index is brought up to date meanwhile.
            cluster.declare_demand(&wanted);
        }
        if placed == 50 {
            cluster.fold(node("new", 8));
        }
    }
    assert!(placed > 50, "it took {placed} slices");
    cluster.declare_demand(&wanted);
    let packing = cluster.packing().unwrap();
    let class = packing.class(&wanted);
    assert!(packing.solves() > 0);
    for at in 0..=LARGE as u32 {
        let key = |class| packing.key(&cluster, class, &wanted, NodeIdx(at));
        assert_eq!(key(class), key(None), "node {at}, looked up and anew");
    }
}
