//! The index: what nodes stand for, followed through changes.

use super::*;
use crate::snapshot::{ClusterEvent, Overlay};
use crate::types::Text;
use crate::types::numa::{AlignedContainer, Alignment, NumaCell};
use crate::types::pod::PodSpec;
use crate::types::topology::{Nic, pcie};
use crate::types::{Node, NumaReport, PodRequests, PodUid};

const GPU: &str = "nvidia.com/gpu";

fn pairs(len: usize) -> Arc<NodeTopology> {
    let bandwidth = |a: usize, b: usize| if a / 2 == b / 2 { 600 } else { pcie::SYSTEM };
    Arc::new(NodeTopology::new(len, bandwidth, Vec::new(), Vec::new()))
}

fn node(name: &str, gpus: i64, topology: Option<Arc<NodeTopology>>) -> Node {
    let mut node = Node { name: name.into(), topology, pods_max: 110, ..Node::default() };
    node.allocatable.set(&GPU.into(), gpus);
    node
}

fn cluster(nodes: Vec<Node>) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.set_fabric(FabricRules::default());
    for node in nodes {
        cluster.fold(ClusterEvent::NodeApplied(node));
    }
    cluster
}

fn pod(uid: &str, gpus: i64, on: Option<&str>) -> Pod {
    let mut pod = Pod { uid: PodUid(uid.into()), node_name: on.map(Text::from), ..Pod::default() };
    let mut usage = PodRequests::default();
    usage.real.set(&GPU.into(), gpus);
    let amounts = usage.real.clone();
    let container = AlignedContainer { amounts, ..AlignedContainer::default() };
    let alignment = Alignment::of(vec![container]);
    pod.spec = Arc::new(PodSpec { alignment, ..PodSpec::default() });
    pod.usage = Arc::new(usage);
    pod
}

fn place(cluster: &mut Cluster, uid: &str, gpus: i64, on: &str) {
    cluster.fold(ClusterEvent::PodApplied(Box::new(pod(uid, gpus, Some(on)))));
}

fn share(cluster: &Cluster, size: usize, node: &str) -> Option<i64> {
    let at = cluster.nodes().index(node).unwrap();
    cluster.fabric().unwrap().standing(cluster, size, at).map(|standing| standing.share)
}

#[test]
fn of_counted_gpus_the_worst_free_set_is_what_counts() {
    let mut cluster = cluster(vec![
        node("pairs", 8, Some(pairs(8))),
        node("unknown", 8, None),
        node("other", 4, Some(pairs(8))),
        node("shares", 16, Some(pairs(8))),
    ]);
    cluster.declare_gpus(2);
    assert_eq!(share(&cluster, 2, "pairs"), Some(100));
    place(&mut cluster, "a", 3, "pairs");
    cluster.declare_gpus(2);
    assert_eq!(share(&cluster, 2, "pairs"), Some(100), "of five two are a pair");
    place(&mut cluster, "b", 1, "pairs");
    assert_eq!(share(&cluster, 2, "pairs"), Some(2), "of four none may be");
    place(&mut cluster, "c", 3, "pairs");
    assert_eq!(share(&cluster, 2, "pairs"), None);
    // Half of its GPUs are healthy; of shares it is not known whose they are.
    assert_eq!(share(&cluster, 2, "other"), Some(2));
    assert_eq!(share(&cluster, 2, "shares"), Some(100));
    assert_eq!(share(&cluster, 2, "unknown"), Some(100));
}

#[test]
fn gpus_of_which_nothing_else_is_known_are_in_the_cells_that_are_told_of() {
    let cell = |(number, available)| {
        let mut cell = NumaCell { number, ..NumaCell::default() };
        cell.allocatable.set(&GPU.into(), 4);
        cell.available.set(&GPU.into(), available);
        cell
    };
    let report = |node: &str, available: [i64; 2]| {
        let cells = (0..).zip(available).map(cell).collect();
        let report = NumaReport { node: node.into(), cells, ..NumaReport::default() };
        ClusterEvent::NumaReportApplied(Box::new(report))
    };
    let names = ["split", "whole", "silent", "linked"];
    let mut cluster = cluster(names.map(|name| node(name, 8, None)).to_vec());
    cluster.fold(ClusterEvent::NodeApplied(node("linked", 8, Some(pairs(8)))));
    cluster.declare_gpus(4);
    names.iter().for_each(|name| place(&mut cluster, &format!("on-{name}"), 4, name));
    cluster.fold(report("split", [2, 2]));
    cluster.fold(report("whole", [0, 4]));
    cluster.fold(report("linked", [2, 2]));
    cluster.declare_gpus(4);
    let ranked = ["split", "whole", "silent"].map(|name| share(&cluster, 4, name));
    assert_eq!(ranked, [Some(81), Some(100), Some(100)]);
    cluster.declare_gpus(2);
    let ranked = ["split", "linked"].map(|name| share(&cluster, 2, name));
    assert_eq!(ranked, [Some(100), Some(2)], "of four of those that are linked none may be a pair");
    // One more that isn't told of yet: it is known how many are free, but not where.
    place(&mut cluster, "more", 1, "whole");
    cluster.declare_gpus(2);
    assert_eq!(share(&cluster, 2, "whole"), Some(100), "of any three two are in one cell");
    let at = cluster.nodes().index("whole").unwrap();
    assert_eq!(cluster.gpus_of(at).unwrap().free, Free::Count(3));
}

#[test]
fn nodes_whose_cards_are_called_otherwise_share_what_is_worked_out() {
    let cards = |name: &str| {
        let nic = Nic { name: name.into(), gbs: [pcie::SWITCH].into() };
        Some(Arc::new((*pairs(8)).clone().with_nics([nic])))
    };
    let nodes = vec![node("a", 8, cards("eth0")), node("b", 8, cards("eth1"))];
    let mut cluster = cluster(nodes);
    cluster.declare_gpus(2);
    let fabric = cluster.fabric().unwrap();
    assert_eq!((fabric.built.len(), fabric.lists.len()), (1, 1));
    let name = |node: &str| {
        let gpus = fabric.gpus(&cluster, cluster.nodes().index(node).unwrap()).unwrap();
        gpus.topology.unwrap().nics()[0].name.clone()
    };
    assert_eq!(["a", "b"].map(name), ["eth0", "eth1"]);
}

#[test]
fn what_is_assumed_counts_and_leaves_no_trace() {
    let mut cluster = cluster(vec![node("pairs", 8, Some(pairs(8)))]);
    cluster.fold(ClusterEvent::PodApplied(Box::new(pod("p", 4, None))));
    cluster.declare_gpus(2);
    let at = cluster.nodes().index("pairs").unwrap();
    let mut overlay = Overlay::new(&mut cluster);
    overlay.assume(&PodUid("p".into()), at);
    assert_eq!(share(overlay.cluster(), 2, "pairs"), Some(2));
    drop(overlay);
    assert_eq!(share(&cluster, 2, "pairs"), Some(100));
}

#[test]
fn a_look_up_says_what_a_fresh_reading_says() {
    let mut kept = cluster(vec![node("a", 8, Some(pairs(8))), node("b", 6, Some(pairs(6)))]);
    let mut uid = 0;
    for (node, gpus) in [("a", 1), ("b", 2), ("a", 2), ("b", 1), ("a", 1)] {
        uid += 1;
        for size in 1..=4 {
            kept.declare_gpus(size);
        }
        place(&mut kept, &format!("p{uid}"), gpus, node);
        let mut fresh = cluster(vec![]);
        for (_, node) in kept.nodes().iter() {
            fresh.fold(ClusterEvent::NodeApplied(Node::clone(node)));
        }
        for record in kept.pods() {
            fresh.fold(ClusterEvent::PodApplied(Box::new(record.pod.clone())));
        }
        for size in 1..=4 {
            for node in ["a", "b"] {
                let outdated = share(&kept, size, node);
                kept.declare_gpus(size);
                fresh.declare_gpus(size);
                let known = (share(&kept, size, node), share(&fresh, size, node));
                assert_eq!((known.0, known.1), (outdated, outdated), "{size} on {node}");
            }
        }
    }
}

#[test]
fn topologies_without_end_are_bounded() {
    let odd = |at: u16| {
        let bandwidth = move |a: usize, b: usize| if (a, b) == (0, 1) { 100 + at } else { 16 };
        Arc::new(NodeTopology::new(6, bandwidth, Vec::new(), Vec::new()))
    };
    let n_nodes = LISTS_MAX as u16 + 100;
    let nodes = (0..n_nodes).map(|at| node(&format!("n{at}"), 6, Some(odd(at))));
    let mut cluster = cluster(nodes.collect());
    for size in 1..=3 {
        cluster.declare_gpus(size);
    }
    assert_eq!(cluster.fabric().unwrap().lists.len(), LISTS_MAX);
    assert!((0..n_nodes).all(|at| share(&cluster, 2, &format!("n{at}")) == Some(100)));
    for at in 0..n_nodes {
        let event = node(&format!("n{at}"), 6, Some(odd(0)));
        cluster.fold(ClusterEvent::NodeApplied(event));
    }
    cluster.declare_gpus(4);
    cluster.fold(ClusterEvent::NodeApplied(node("fresh", 6, Some(odd(1)))));
    cluster.declare_gpus(4);
    assert_eq!(share(&cluster, 4, "fresh"), Some(100));
}
