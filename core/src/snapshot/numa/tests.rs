//! What counts as free in a cell, while pods come and go between reports.

use std::sync::Arc;

use super::*;
use crate::snapshot::{ClusterEvent, Overlay};
use crate::types::numa::{AlignedContainer, Alignment};
use crate::types::pod::PodSpec;
use crate::types::{Node, Timestamp};

const GPU: &str = "nvidia.com/gpu";

fn gpus(n: i64) -> Resources {
    let mut resources = Resources::default();
    resources.set(&GPU.into(), n);
    resources
}

/// Two cells of four GPUs, with so many available.
fn report(version: u64, available: [i64; 2]) -> ClusterEvent {
    let cell =
        |(number, available)| NumaCell { number, allocatable: gpus(4), available: gpus(available) };
    ClusterEvent::NumaReportApplied(Box::new(NumaReport {
        node: "n".into(),
        resource_version: version,
        policy: NumaPolicy::SingleCell,
        cells: (0..).zip(available).map(cell).collect(),
        ..NumaReport::default()
    }))
}

fn pod(uid: &str, n: i64, on: Option<&str>, started: bool) -> ClusterEvent {
    let container = AlignedContainer { amounts: gpus(n), ..AlignedContainer::default() };
    let spec = PodSpec { alignment: Alignment::of(vec![container]), ..PodSpec::default() };
    ClusterEvent::PodApplied(Box::new(Pod {
        uid: PodUid(uid.into()),
        node_name: on.map(Text::from),
        spec: Arc::new(spec),
        started: started.then_some(Timestamp(1)),
        ..Pod::default()
    }))
}

fn gone(uid: &str) -> ClusterEvent {
    ClusterEvent::PodDeleted { uid: PodUid(uid.into()) }
}

fn cluster(events: Vec<ClusterEvent>) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.fold(ClusterEvent::NodeApplied(Node { name: "n".into(), ..Node::default() }));
    for event in events {
        cluster.fold(event);
    }
    cluster
}

/// In each way in which they may be.
fn ways(cluster: &Cluster) -> Vec<[i64; 2]> {
    let cells = cluster.numa_cells(cluster.nodes().index("n").unwrap()).unwrap();
    cells.ways().map(|way| [0, 1].map(|at| way.free(at, GPU))).collect()
}

#[track_caller]
fn free(cluster: &Cluster) -> [i64; 2] {
    let ways = ways(cluster);
    assert_eq!(ways.len(), 1, "{ways:?}");
    ways[0]
}

#[test]
fn a_pod_that_came_since_counts_against_every_cell_until_it_is_told_of() {
    let mut cluster = cluster(vec![report(1, [4, 4]), pod("a", 3, None, false)]);
    assert_eq!(free(&cluster), [4, 4]);
    let node = cluster.nodes().index("n").unwrap();
    let mut overlay = Overlay::new(&mut cluster);
    overlay.assume(&PodUid("a".into()), node);
    assert_eq!(free(overlay.cluster()), [1, 1]);
    overlay.commit();
    cluster.fold(pod("a", 3, Some("n"), false));
    assert_eq!(free(&cluster), [1, 1]);
    // A report from before it started, and one after.
    cluster.fold(report(2, [4, 4]));
    assert_eq!(free(&cluster), [1, 1]);
    cluster.fold(pod("a", 3, Some("n"), true));
    assert_eq!(free(&cluster), [1, 1], "what was told before it started doesn't count it");
    cluster.fold(report(3, [4, 1]));
    assert_eq!(free(&cluster), [4, 1]);
}

#[test]
fn a_report_that_came_before_the_news_of_the_start_is_told_by_its_amounts() {
    let mut cluster = cluster(vec![report(1, [4, 4]), pod("a", 3, Some("n"), false)]);
    assert_eq!(free(&cluster), [1, 1]);
    cluster.fold(report(2, [4, 1]));
    assert_eq!(free(&cluster), [4, 1]);
}

#[test]
fn what_ended_is_free_in_whichever_cell_it_may_have_been() {
    let started = |uid: &str| pod(uid, 3, Some("n"), true);
    let mut cluster = cluster(vec![started("a"), started("b"), report(1, [1, 1])]);
    cluster.fold(gone("a"));
    assert_eq!(ways(&cluster), [[1, 4], [4, 1]]);
    // One has come in its place: it may be in either.
    cluster.fold(pod("c", 1, Some("n"), false));
    assert_eq!(ways(&cluster), [[0, 3], [3, 0]]);
    cluster.fold(gone("b"));
    assert_eq!(ways(&cluster), [[3, 3]]);
    cluster.fold(gone("c"));
    assert_eq!(ways(&cluster), [[4, 4]]);
}

#[test]
fn a_newcomer_is_not_taken_for_one_that_ended() {
    let mut cluster = cluster(vec![
        pod("a", 2, Some("n"), true),
        pod("b", 2, Some("n"), true),
        report(1, [0, 4]),
        gone("a"),
    ]);
    assert_eq!(free(&cluster), [2, 4]);
    cluster.fold(pod("c", 2, Some("n"), false));
    // As much is in use as is told, but it may be two in each.
    assert_eq!(free(&cluster), [0, 2]);
}

#[test]
fn sizes_tell_where_something_was() {
    let started = |uid: &str, n| pod(uid, n, Some("n"), true);
    let events = vec![started("a", 3), started("b", 2), started("c", 1), report(1, [0, 2])];
    let mut cluster = cluster(events);
    cluster.fold(gone("c"));
    // Two and one would leave one of the first cell, and three don't fit into the second.
    assert_eq!(free(&cluster), [1, 2]);
    cluster.fold(gone("a"));
    assert_eq!(free(&cluster), [4, 2]);
}

#[test]
fn where_it_cannot_be_told_nothing_is_free_before_the_next_report_says_so() {
    let events = (0..2).map(|at| pod(&format!("p{at}"), 3, Some("n"), true));
    // More is told to be free than there can be with both.
    let mut cluster = cluster(events.chain([report(1, [1, 2])]).collect());
    cluster.fold(gone("p0"));
    assert_eq!(free(&cluster), [1, 2]);
    cluster.fold(gone("p1"));
    assert_eq!(free(&cluster), [4, 4], "but an empty node is empty");
}

#[test]
fn many_that_are_alike_are_no_trouble() {
    let events = (0..64).map(|at| {
        let ClusterEvent::PodApplied(mut pod) = pod(&format!("p{at}"), 1, Some("n"), true) else {
            panic!("a pod")
        };
        let amounts = Resources { cpu_milli: 1000 * (at % 7), ..Resources::default() };
        let container = AlignedContainer { amounts, ..AlignedContainer::default() };
        let alignment = Alignment::of(vec![container]);
        pod.spec = Arc::new(PodSpec { alignment, ..PodSpec::default() });
        ClusterEvent::PodApplied(pod)
    });
    let cell = |number| NumaCell {
        number,
        allocatable: Resources { cpu_milli: 200_000, ..Resources::default() },
        available: Resources { cpu_milli: 100_000, ..Resources::default() },
    };
    let report = NumaReport {
        node: "n".into(),
        policy: NumaPolicy::SingleCell,
        cells: (0..8).map(cell).collect(),
        ..NumaReport::default()
    };
    let mut cluster = cluster(events.collect());
    cluster.fold(ClusterEvent::NumaReportApplied(Box::new(report)));
    cluster.fold(gone("p13"));
    let cells = cluster.numa_cells(cluster.nodes().index("n").unwrap()).unwrap();
    let free: Vec<i64> = cells.ways().map(|way| way.free(0, "cpu")).collect();
    assert_eq!(free, [100_000], "there are too many ways, so none counts");
}

#[test]
fn the_order_in_which_a_start_lists_things_makes_no_difference() {
    let pods = || vec![pod("a", 3, Some("n"), true), pod("b", 1, Some("n"), true)];
    let first = cluster([pods(), vec![report(1, [0, 4])]].concat());
    let last = cluster([vec![report(1, [0, 4])], pods()].concat());
    assert_eq!((free(&first), free(&last)), ([0, 4], [0, 4]));
}

#[test]
fn an_older_report_and_another_ones_end_change_nothing() {
    let mut cluster = cluster(vec![report(5, [4, 1])]);
    cluster.fold(report(4, [4, 4]));
    assert_eq!(free(&cluster), [4, 1]);
    let deleted = |uid: &str| ClusterEvent::NumaReportDeleted { node: "n".into(), uid: uid.into() };
    cluster.fold(deleted("other"));
    assert!(cluster.numa_report("n").is_some());
    assert_eq!(cluster.fold(deleted("")).len(), 1);
    assert!(cluster.numa_report("n").is_none());
    assert!(cluster.fold(deleted("")).is_empty());
}
