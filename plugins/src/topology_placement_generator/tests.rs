//! Domains by labels and levels, and where members that run already send the others.

use berth_core::framework::{Placement, PlacementAsk};
use berth_core::snapshot::{Cluster, ClusterEvent, GroupEvent, NodeIdx};
use berth_core::types::group::{TopologyConstraint, TopologyLevel};
use berth_core::types::tree::{NodeMatch, TopologyShape};
use berth_core::types::{HyperNode, Node, Text, TopologyKey, TopologyObject};

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
    let levels = levels.iter().map(level).collect();
    TopologyPlacementGenerator { levels, compute_domains: ComputeDomains::default() }
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
    ask_of(plugin, constraints, running, &cluster(&["block", "rack", "zone"]))
}

fn ask_of(
    plugin: &TopologyPlacementGenerator,
    constraints: &[TopologyConstraint],
    running: &[&str],
    cluster: &Cluster,
) -> Vec<String> {
    let index = |name: &&str| cluster.nodes().index(name).expect("a node of the test");
    let running: Vec<NodeIdx> = running.iter().map(index).collect();
    let ask =
        PlacementAsk { constraints, within: None, running: &running, peers: &[], members: &[] };
    let shown = |it: &Placement| {
        let names = it.nodes.iter().map(|node| cluster.nodes().slot(node).name.to_string());
        format!("{}@{}: {}", it.name, it.tier, names.collect::<Vec<_>>().join(" "))
    };
    match plugin.placements(ask, cluster) {
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
    let known = plugin(&[("block", None), ("rack", None), (HOSTNAME, None)]);
    assert_eq!(ask(&known, &[tier(2)], &[]), ["b1@0: n1 n2 n3", "b2@0: n4"]);
    let text = "topology tier 3 is not known: there are no HyperNodes, and the arguments of \
                TopologyPlacementGenerator name levels for 2";
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

/// Objects as they come from other schedulers.
fn described(cluster: &mut Cluster, dialect: &'static str, name: &str, shape: TopologyShape) {
    let object = TopologyObject {
        key: TopologyKey { dialect, name: name.into() },
        uid: name.into(),
        resource_version: 0,
        shape,
        problem: None,
    };
    cluster.fold(ClusterEvent::Groups(GroupEvent::TopologyApplied(Box::new(object))));
    cluster.settle_topologies();
}

fn hyper_node(cluster: &mut Cluster, name: &str, tier: u32, nodes: &[&str], parts: &[&str]) {
    let it = HyperNode {
        tier,
        tier_name: Some(format!("tier-{tier}").into()),
        nodes: nodes.iter().map(|node| NodeMatch::Name((*node).into())).collect(),
        parts: parts.iter().map(|part| (*part).into()).collect(),
    };
    described(cluster, "volcano", name, TopologyShape::HyperNode(it.into()));
}

/// n1 and n2 are in s0, n3 in s1, both in t; n4 is in u, and n5 in none.
fn hyper_nodes() -> Cluster {
    let mut cluster = cluster(&["block", "rack"]);
    hyper_node(&mut cluster, "s0", 1, &["n1", "n2"], &[]);
    hyper_node(&mut cluster, "s1", 1, &["n3"], &[]);
    hyper_node(&mut cluster, "t", 3, &[], &["s0", "s1"]);
    hyper_node(&mut cluster, "u", 2, &["n4"], &[]);
    cluster
}

fn tier(tier: u32) -> TopologyConstraint {
    TopologyConstraint { level: TopologyLevel::Tier(tier), ..required("") }
}

fn wish(constraint: TopologyConstraint) -> TopologyConstraint {
    TopologyConstraint { required: false, ..constraint }
}

#[test]
fn tiers_are_those_of_hyper_nodes_where_there_are_any() {
    let cluster = hyper_nodes();
    let ask = |constraints: &[TopologyConstraint], running: &[&str]| {
        ask_of(&both(), constraints, running, &cluster)
    };
    assert_eq!(ask(&[tier(1)], &[]), ["s0@0: n1 n2", "s1@0: n3"]);
    assert_eq!(ask(&[tier(2)], &[]), ["s0@0: n1 n2", "s1@0: n3", "u@0: n4"], "or lower");
    assert_eq!(ask(&[tier(9)], &[]), ["t@0: n1 n2 n3", "u@0: n4"]);
    assert_eq!(ask(&[required("tier-3")], &[]), ask(&[tier(3)], &[]), "by its name");
    let near = ask(&[tier(3), wish(tier(1))], &[]);
    let racks = ["s0@0: n1 n2", "s1@0: n3"];
    let larger = ["s0@1: n1 n2", "s1@1: n3", "u@1: n4", "t@2: n1 n2 n3", "u@2: n4"];
    assert_eq!(near, [&racks[..], &larger].concat());
    assert_eq!(ask(&[wish(tier(0))], &[])[..2], racks, "the lowest that there is");
    assert_eq!(ask(&[tier(0)], &[]), ["the lowest tier of HyperNodes is 1, not 0"]);
    assert_eq!(ask(&[tier(3)], &["n3"]), ["t@0: n1 n2 n3"]);
    let apart = ask(&[tier(1)], &["n1", "n3"]);
    assert_eq!(apart, ["members of the group run in different domains of HyperNodes of tier 1"]);
    let outside = ask(&[tier(1)], &["n5"]);
    assert_eq!(
        outside,
        ["a member of the group runs on node n5, which is in no HyperNodes of tier 1"]
    );
}

#[test]
fn levels_of_objects_add_to_those_of_the_arguments() {
    let mut cluster = cluster(&["block", "rack"]);
    let level =
        |label: &str, name: Option<&str>| Level { label: label.into(), name: name.map(Text::from) };
    let levels = vec![level("block", None), level("rack", Some("R"))];
    described(&mut cluster, "kueue", "b", TopologyShape::Levels(levels));
    let racks = ["b1/r1@0: n1 n2", "b1/r2@0: n3", "b2/r1@0: n4"];
    let none = plugin(&[]);
    assert_eq!(ask_of(&none, &[required("rack")], &[], &cluster), racks);
    assert_eq!(ask_of(&none, &[required("R")], &[], &cluster), racks);
    assert_eq!(ask_of(&none, &[wish(required("rack"))], &[], &cluster).len(), 6, "it climbs");
    // The arguments come first, and of objects the first by name.
    let alone = plugin(&[("rack", None)]);
    let by_label = ["r1@0: n1 n2 n4", "r2@0: n3"];
    assert_eq!(ask_of(&alone, &[required("rack")], &[], &cluster), by_label);
    described(&mut cluster, "kueue", "a", TopologyShape::Levels(vec![level("rack", None)]));
    assert_eq!(ask_of(&none, &[required("rack")], &[], &cluster), by_label);
    // But for a group that names one.
    let of = |topology: &str, level: &str| {
        let topology = TopologyKey { dialect: "kueue", name: topology.into() };
        let level = TopologyLevel::Of { topology, level: level.into() };
        TopologyConstraint { level, ..required("") }
    };
    assert_eq!(ask_of(&none, &[of("b", "rack")], &[], &cluster), racks);
    assert_eq!(ask_of(&none, &[of("b", "zone")], &[], &cluster), ["topology b has no level zone"]);
    assert_eq!(ask_of(&none, &[of("c", "rack")], &[], &cluster), by_label, "there is no c");
}
