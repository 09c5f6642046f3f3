//! Domains by labels and levels, and where members that run already send the others.

use berth_core::framework::{Placement, PlacementAsk};
use berth_core::snapshot::{Cluster, ClusterEvent, NodeIdx};
use berth_core::types::group::{TopologyConstraint, TopologyLevel};
use berth_core::types::{Node, Text};

use super::*;

/// Two blocks, of which each has a rack r1; b1 has a rack r2 too. One node has no labels.
const NODES: [(&str, &[(&str, &str)]); 5] = [
    ("n1", &[("block", "b1"), ("rack", "r1")]),
    ("n2", &[("block", "b1"), ("rack", "r1")]),
    ("n3", &[("block", "b1"), ("rack", "r2")]),
    ("n4", &[("block", "b2"), ("rack", "r1")]),
    ("n5", &[]),
];

fn cluster(labels: &[&str]) -> Cluster {
    let mut cluster = Cluster::default();
    for (name, labels) in NODES {
        let labels = labels.iter().map(|(k, v)| (Text::from(*k), Text::from(*v))).collect();
        let node = Node { name: name.into(), uid: name.into(), labels, ..Node::default() };
        cluster.fold(ClusterEvent::NodeApplied(node));
    }
    labels.iter().for_each(|label| cluster.declare_domains(&Text::from(*label)));
    cluster
}

fn plugin(levels: &[(&str, Option<&str>)]) -> TopologyPlacementGenerator {
    let level = |(label, name): &(&str, Option<&str>)| Level {
        label: (*label).into(),
        name: name.map(Text::from),
    };
    TopologyPlacementGenerator { levels: levels.iter().map(level).collect() }
}

/// Both levels are known, the smaller one by a name too.
fn both() -> TopologyPlacementGenerator {
    plugin(&[("block", None), ("rack", Some("Rack"))])
}

fn required(level: &str) -> TopologyConstraint {
    TopologyConstraint::required(level.into())
}

fn preferred(level: &str) -> TopologyConstraint {
    TopologyConstraint::preferred(level.into())
}

/// Returns the placements, or the reason, as text: `name@tier: nodes`.
fn ask(
    plugin: &TopologyPlacementGenerator,
    constraints: &[TopologyConstraint],
    running: &[&str],
) -> Vec<String> {
    let cluster = cluster(&["block", "rack", "zone"]);
    let index = |name: &&str| cluster.nodes().index(name).expect("a node of the test");
    let running: Vec<NodeIdx> = running.iter().map(index).collect();
    let ask = PlacementAsk { constraints, within: None, running: &running };
    let shown = |it: &Placement| {
        let names = it.nodes.iter().map(|node| cluster.nodes().slot(node).name.to_string());
        format!("{}@{}: {}", it.name, it.tier, names.collect::<Vec<_>>().join(" "))
    };
    match plugin.placements(ask, &cluster) {
        Ok(placements) => placements.iter().map(shown).collect(),
        Err(reason) => reason.texts.iter().map(Text::to_string).collect(),
    }
}

#[test]
fn a_label_that_no_level_names_cuts_by_its_values_alone() {
    let domains = ask(&plugin(&[]), &[required("rack")], &[]);
    assert_eq!(domains, ["r1@0: n1 n2 n4", "r2@0: n3"]);
    assert!(ask(&plugin(&[]), &[required("zone")], &[]).is_empty());
}

#[test]
fn racks_of_one_name_in_two_blocks_are_two() {
    let domains = ask(&both(), &[required("Rack")], &[]);
    assert_eq!(domains, ["b1/r1@0: n1 n2", "b1/r2@0: n3", "b2/r1@0: n4"]);
}

#[test]
fn a_wish_climbs_to_what_is_required_and_no_further() {
    let climbs = ask(&both(), &[preferred("rack")], &[]);
    let racks = ["b1/r1@0: n1 n2", "b1/r2@0: n3", "b2/r1@0: n4"];
    let blocks = ["b1@1: n1 n2 n3", "b2@1: n4"];
    assert_eq!(climbs, [&racks[..], &blocks, &["all nodes@2: n1 n2 n3 n4 n5"]].concat());
    let within = ask(&both(), &[required("block"), preferred("rack")], &[]);
    let racks = ["b1/r1@0: n1 n2", "b1/r2@0: n3", "b2/r1@0: n4"];
    assert_eq!(within, [&racks[..], &blocks].concat());
    assert_eq!(ask(&plugin(&[]), &[preferred("zone")], &[]), ["all nodes@1: n1 n2 n3 n4 n5"]);
}

#[test]
fn members_that_run_say_where_the_others_go() {
    assert_eq!(ask(&both(), &[required("rack")], &["n2"]), ["b1/r1@0: n1 n2"]);
    let apart = ask(&both(), &[required("rack")], &["n2", "n4"]);
    assert_eq!(apart, ["members of the group run in different domains of rack"]);
    let outside = ask(&both(), &[required("rack")], &["n5"]);
    assert_eq!(outside, ["a member of the group runs on node n5, which has no label rack"]);
    let wish = ask(&both(), &[preferred("rack")], &["n4"]);
    assert_eq!(wish, ["b2/r1@0: n4", "b2@1: n4", "all nodes@2: n1 n2 n3 n4 n5"]);
}

#[test]
fn tiers_count_from_below_without_the_nodes_themselves() {
    let tier =
        |n| TopologyConstraint { level: TopologyLevel::Tier(n), required: true, slice: None };
    let known = plugin(&[("block", None), ("rack", None), (HOSTNAME, None)]);
    assert_eq!(ask(&known, &[tier(2)], &[]), ["b1@0: n1 n2 n3", "b2@0: n4"]);
    let text = "topology tier 3 is not known: the arguments of TopologyPlacementGenerator name \
                levels for 2";
    assert_eq!(ask(&known, &[tier(3)], &[]), [text]);
    // A wish for what nobody knows is none.
    let wish = TopologyConstraint { required: false, ..tier(3) };
    assert_eq!(ask(&known, &[wish], &[]), ["all nodes@0: n1 n2 n3 n4 n5"]);
}

#[test]
fn domains_follow_the_nodes() {
    let mut cluster = cluster(&["rack"]);
    let value = |cluster: &Cluster, name: &str| {
        let found = cluster.domains().of("rack").find(|(_, nodes)| {
            nodes.contains(cluster.nodes().index(name).expect("a node of the test"))
        });
        found.map(|(value, _)| value.to_string())
    };
    let n1 = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| (Text::from(*k), Text::from(*v))).collect();
        Node { name: "n1".into(), uid: "n1".into(), labels, ..Node::default() }
    };
    cluster.fold(ClusterEvent::NodeApplied(n1(&[("rack", "r9")])));
    assert_eq!(value(&cluster, "n1").as_deref(), Some("r9"));
    cluster.fold(ClusterEvent::NodeApplied(n1(&[])));
    assert_eq!(value(&cluster, "n1"), None);
    assert_eq!(cluster.domains().of("rack").count(), 2, "r9 is gone with its last node");
    cluster.fold(ClusterEvent::NodeDeleted { name: "n3".into(), uid: Text::default() });
    assert_eq!(cluster.domains().of("rack").count(), 1);
}
