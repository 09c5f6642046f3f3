//! Two pictures side by side.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::snapshot::{Cluster, ClusterEvent};
use berth_core::types::{Node, Pod, PodUid, Text};

use super::differ::{Verdict, judge, miscounted, misplaced};
use super::picture::{Content, Id, Negative, Picture};
use super::{SURE, look, sure};

fn node(name: &str, version: u64) -> Node {
    Node { name: name.into(), uid: "u".into(), resource_version: version, ..Node::default() }
}

fn pod(name: &str, version: u64, node: Option<&str>) -> Pod {
    Pod {
        uid: PodUid(name.into()),
        namespace: "ns".into(),
        name: name.into(),
        resource_version: version,
        node_name: node.map(Text::from),
        ..Pod::default()
    }
}

fn cluster(nodes: &[Node], pods: &[Pod]) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.fold(ClusterEvent::NodeApplied(node.clone()));
    }
    for pod in pods {
        cluster.fold(ClusterEvent::PodApplied(Box::new(pod.clone())));
    }
    cluster
}

fn picture(cluster: &Cluster) -> Picture {
    Negative::of_cluster(cluster).develop()
}

fn said(nodes: &[Node], pods: &[Pod]) -> BTreeMap<Id, Content> {
    picture(&cluster(nodes, pods)).objects
}

/// Looks so often as it takes to be sure, at a server and a ledger that stay as they are.
fn differences(server: &BTreeMap<Id, Content>, ledger: &Picture) -> Vec<String> {
    let mut doubts = BTreeMap::new();
    let mut ids: BTreeSet<Id> = server.keys().chain(ledger.objects.keys()).cloned().collect();
    for _ in 0..SURE {
        look(&mut doubts, &ids, server, ledger);
        ids = doubts.keys().cloned().collect();
    }
    let line =
        |(id, d): (Id, super::Difference)| format!("{}: {} | {}", id.key, d.ledger, d.server);
    sure(doubts).map(line).collect()
}

#[test]
fn what_is_equal_is_no_difference() {
    let (nodes, pods) = ([node("n1", 3)], [pod("a", 4, Some("n1")), pod("b", 5, None)]);
    let ledger = picture(&cluster(&nodes, &pods));
    assert_eq!(differences(&said(&nodes, &pods), &ledger), [""; 0]);
    assert_eq!((miscounted(&ledger), misplaced(&ledger)), (vec![], vec![]));
}

#[test]
fn what_is_missing_surplus_old_or_different_is_named() {
    let tainted = Node { unschedulable: true, ..node("n1", 3) };
    let ledger_pods = [pod("a", 4, Some("n1")), pod("behind", 5, None), pod("extra", 7, None)];
    let ledger = picture(&cluster(&[node("n1", 3)], &ledger_pods));
    let server_pods =
        [pod("a", 4, Some("n1")), pod("behind", 6, Some("n1")), pod("missed", 8, None)];
    let found = differences(&said(&[tainted], &server_pods), &ledger);
    assert_eq!(
        found,
        [
            "n1: unschedulable=false | unschedulable=true",
            "ns/behind: resourceVersion=5 node=None | resourceVersion=6 node=Some(\"n1\")",
            "ns/extra: resourceVersion=7 node=none phase=Pending | absent",
            "ns/missed: absent | resourceVersion=8 node=none phase=Pending",
        ]
    );
}

#[test]
fn one_that_has_moved_on_since_is_not_judged() {
    let (old, new) = (Content::Pod(Box::new(pod("a", 4, None))), pod("a", 6, Some("n1")));
    let new = Content::Pod(Box::new(new));
    assert_eq!(judge(Some(&new), Some(&old), 0), Verdict::Moving);
    assert_eq!(judge(Some(&new), Some(&old), 4), Verdict::Moving);
    // The ledger knew of 5 before the server was asked, which says 4: it has lost something.
    assert!(matches!(judge(Some(&new), Some(&old), 5), Verdict::Differs(_)));
    assert!(matches!(judge(Some(&old), Some(&new), 0), Verdict::Differs(_)));
}

#[test]
fn only_what_differs_several_times_in_a_row_counts() {
    let behind = picture(&cluster(&[], &[pod("a", 4, None)]));
    let caught_up = picture(&cluster(&[], &[pod("a", 9, None)]));
    let server = said(&[], &[pod("a", 6, None)]);
    let ids: BTreeSet<Id> = server.keys().cloned().collect();
    let mut doubts = BTreeMap::new();
    look(&mut doubts, &ids, &server, &behind);
    look(&mut doubts, &ids, &server, &behind);
    look(&mut doubts, &ids, &server, &caught_up);
    assert_eq!(doubts.values().map(|doubt| doubt.in_a_row).collect::<Vec<_>>(), [0]);
    assert_eq!(sure(doubts).count(), 0);
}

#[test]
fn an_assumed_pod_is_no_difference() {
    let mut cluster = cluster(&[node("n1", 3)], &[pod("a", 4, None)]);
    let n1 = cluster.nodes().index("n1").unwrap();
    let mut overlay = berth_core::snapshot::Overlay::new(&mut cluster);
    overlay.assume(&PodUid("a".into()), n1);
    overlay.commit();
    let ledger = picture(&cluster);
    assert_eq!(ledger.assumed.len(), 1);
    let server = said(&[node("n1", 3)], &[pod("a", 4, None)]);
    assert_eq!(differences(&server, &ledger), [""; 0]);
    assert_eq!((miscounted(&ledger), misplaced(&ledger)), (vec![], vec![]));
}

#[test]
fn a_wrong_sum_and_a_wrong_place_are_named() {
    let mut ledger = picture(&cluster(&[node("n1", 3)], &[pod("a", 4, Some("n1"))]));
    ledger.taken.get_mut("n1").unwrap().pods = 2;
    let wrong = miscounted(&ledger);
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].1.ledger.contains("pods: 2") && wrong[0].1.server.contains("pods: 1"));
    ledger.places.clear();
    assert_eq!(misplaced(&ledger)[0].1.ledger, "counted on no node");
}

#[test]
fn comparisons_take_a_hundredth_of_the_time_at_most() {
    use std::time::Duration;
    let pauses = [0, 1, 6, 30].map(|took| super::pause_after(Duration::from_secs(took)).as_secs());
    assert_eq!(pauses, [600, 600, 600, 3000]);
}
