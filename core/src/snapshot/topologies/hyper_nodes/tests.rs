//! HyperNodes as objects and nodes come and go, and what becomes of those that contradict others.

use proptest::prelude::*;

use super::*;
use crate::snapshot::{Cluster, ClusterEvent, GroupEvent};
use crate::types::tree::{NamePattern, TopologyShape};
use crate::types::{LabelSelector, TopologyKey};

fn node(name: &str, labels: &[(&str, &str)]) -> ClusterEvent {
    let labels = labels.iter().map(|(k, v)| (Text::from(*k), Text::from(*v))).collect();
    ClusterEvent::NodeApplied(Node {
        name: name.into(),
        uid: name.into(),
        labels,
        ..Node::default()
    })
}

fn gone(name: &str) -> ClusterEvent {
    ClusterEvent::NodeDeleted { name: name.into(), uid: Text::default() }
}

fn key(name: &str) -> TopologyKey {
    TopologyKey { dialect: "volcano", name: name.into() }
}

fn hyper_node(name: &str, it: HyperNode) -> ClusterEvent {
    let object = TopologyObject {
        key: key(name),
        uid: name.into(),
        resource_version: 0,
        shape: TopologyShape::HyperNode(it.into()),
        problem: None,
    };
    ClusterEvent::Groups(GroupEvent::TopologyApplied(Box::new(object)))
}

fn without(name: &str) -> ClusterEvent {
    let uid = Text::default();
    ClusterEvent::Groups(GroupEvent::TopologyDeleted { key: key(name), uid })
}

/// `name tier: members`, where a member is `n1`, `/pattern/`, `label=value` or `@part`.
fn read(line: &str) -> ClusterEvent {
    let (head, members) = line.split_once(':').expect("members");
    let (name, tier) = head.split_once(' ').expect("a tier");
    let mut it = HyperNode { tier: tier.parse().expect("a number"), ..HyperNode::default() };
    for word in members.split_whitespace() {
        if let Some(part) = word.strip_prefix('@') {
            it.parts.push(part.into());
        } else if let Some(pattern) = word.strip_prefix('/') {
            let pattern = NamePattern::new(pattern.trim_end_matches('/').into());
            it.nodes.push(NodeMatch::Pattern(pattern.expect("a pattern")));
        } else if let Some((label, value)) = word.split_once('=') {
            it.nodes.push(NodeMatch::Labels(LabelSelector::equals(label, value)));
        } else {
            it.nodes.push(NodeMatch::Name(word.into()));
        }
    }
    hyper_node(name, it)
}

fn cluster(lines: &[&str]) -> Cluster {
    let mut cluster = Cluster::default();
    for name in ["n1", "n2", "n3", "n4"] {
        cluster.fold(node(name, &[("rack", if name < "n3" { "a" } else { "b" })]));
    }
    lines.iter().for_each(|line| drop(cluster.fold(read(line))));
    cluster
}

/// Shape: `name: nodes`, one a domain.
fn domains(cluster: &Cluster, tier: u32) -> Vec<String> {
    let of = cluster.topologies().hyper_nodes().domains(tier);
    let shown = |(name, nodes): (&Text, &NodeSet)| {
        let mut names: Vec<&str> =
            nodes.iter().map(|at| cluster.nodes().slot(at).name.as_str()).collect();
        names.sort_unstable();
        format!("{name}: {}", names.join(" "))
    };
    of.map(shown).collect()
}

fn contradictions(cluster: &mut Cluster) -> Vec<String> {
    let told = cluster.settle_topologies().into_iter();
    told.map(|it| format!("{}: {}", it.key.name, it.what)).collect()
}

#[test]
fn nodes_are_named_matched_and_selected_and_parts_are_taken_in() {
    let mut cluster = cluster(&["s0 1: n1", "s1 1: /^n[2]$/", "s2 1: rack=b", "t 3: @s0 @s1"]);
    assert!(contradictions(&mut cluster).is_empty());
    assert_eq!(domains(&cluster, 1), ["s0: n1", "s1: n2", "s2: n3 n4"]);
    assert_eq!(domains(&cluster, 2), domains(&cluster, 1), "nothing is larger");
    assert_eq!(domains(&cluster, 3), ["s2: n3 n4", "t: n1 n2"], "s2 is in nothing");
    assert_eq!(cluster.topologies().hyper_nodes().tiers().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn domains_follow_nodes_and_objects() {
    let mut cluster = cluster(&["s0 1: n1 n9", "s1 1: /^m/ rack=b"]);
    cluster.fold(node("n9", &[]));
    cluster.fold(node("m1", &[]));
    cluster.fold(node("n4", &[]));
    cluster.settle_topologies();
    assert_eq!(domains(&cluster, 1), ["s0: n1 n9", "s1: m1 n3"], "n4 is no longer in rack b");
    cluster.fold(gone("n9"));
    cluster.fold(read("s1 1: n4"));
    cluster.settle_topologies();
    assert_eq!(domains(&cluster, 1), ["s0: n1", "s1: n4"]);
    cluster.fold(without("s0"));
    cluster.settle_topologies();
    assert_eq!(domains(&cluster, 1), ["s1: n4"]);
}

#[test]
fn where_objects_contradict_each_other_the_first_by_name_is_right() {
    let mut cluster = cluster(&["a 1: n1 n2", "b 1: n2 n3", "c 1: n4", "t 2: @a @c", "u 2: @c n3"]);
    let told = contradictions(&mut cluster);
    assert_eq!(
        told,
        [
            "b: node n2 is left out: it is in a, of tier 1 too (1 such nodes)",
            "u: HyperNode c is left out: it is in t already",
        ]
    );
    assert_eq!(domains(&cluster, 1), ["a: n1 n2", "b: n3", "c: n4"]);
    assert_eq!(domains(&cluster, 2), ["b: n3", "t: n1 n2 n4", "u: n3"]);
    // It is told once, and again only when it is another.
    cluster.fold(node("n5", &[]));
    assert!(contradictions(&mut cluster).is_empty());
    cluster.fold(read("b 1: n1 n3"));
    assert_eq!(contradictions(&mut cluster).len(), 1);
}

#[test]
fn nothing_is_in_itself() {
    let mut cluster = cluster(&["a 1: @b n1", "b 2: @a @c", "c 2: @b", "d 3: @d"]);
    let told = contradictions(&mut cluster);
    let parts = ["a: HyperNode b", "b: HyperNode c", "c: HyperNode b", "d: HyperNode d"];
    assert_eq!(told.len(), parts.len());
    assert!(told.iter().zip(parts).all(|(told, part)| told.starts_with(part)), "{told:?}");
    assert_eq!(domains(&cluster, 3), ["b: n1"]);
}

#[test]
fn a_name_means_one_tier() {
    let mut cluster = cluster(&[]);
    for (name, tier) in [("a", 1), ("b", 2)] {
        let tier_name = Some("rack".into());
        cluster.fold(hyper_node(name, HyperNode { tier, tier_name, ..HyperNode::default() }));
    }
    assert_eq!(
        contradictions(&mut cluster),
        ["b: tier 2 is called rack, as is tier 1: the name means tier 1"]
    );
    assert_eq!(cluster.topologies().hyper_nodes().tier_named("rack"), Some(1));
}

#[test]
fn patterns_have_a_limit_and_the_next_ones_get_what_is_left() {
    let mut cluster = cluster(&[]);
    let many = vec![NodeMatch::Labels(LabelSelector::equals("rack", "a")); SEARCHES_MAX];
    cluster.fold(hyper_node("a", HyperNode { tier: 1, nodes: many, ..HyperNode::default() }));
    cluster.fold(read("b 1: rack=b n3"));
    let told = contradictions(&mut cluster);
    assert!(matches!(&told[..], [one] if one.starts_with("b: HyperNodes have more than")));
    assert_eq!(domains(&cluster, 1), ["a: n1 n2", "b: n3"], "what it names counts");
    cluster.fold(without("a"));
    assert!(contradictions(&mut cluster).is_empty());
    assert_eq!(domains(&cluster, 1), ["b: n3 n4"]);
}

/// Each is told, and the first by name is as it was.
#[test]
fn ten_thousand_that_contradict_each_other_leave_the_first_alone() {
    let mut cluster = cluster(&["h 2: @a n4"]);
    for at in 0..10_000 {
        cluster.fold(read(&format!("h{at:05} 1: n1 n2 @h{:05}", at + 1)));
        cluster.fold(read(&format!("p{at:05} {}: /^n/ @p{:05}", at + 2, at + 1)));
    }
    cluster.fold(read("a 1: n1 n2"));
    let told = contradictions(&mut cluster);
    assert!(told.len() >= 20_000 - 1, "{}", told.len());
    assert_eq!(domains(&cluster, 1), ["a: n1 n2"]);
    assert_eq!(domains(&cluster, 2)[0], "h: n1 n2 n4");
}

proptest! {
    /// Whatever comes in whatever order, the domains are those of the same objects read at once.
    #[test]
    fn the_order_of_events_makes_no_difference(
        steps in prop::collection::vec((0usize..6, 0usize..6, 1u32..4, any::<bool>()), 0..24),
    ) {
        let mut one = Cluster::default();
        let (mut nodes, mut objects) = (BTreeMap::new(), BTreeMap::new());
        for (what, of, tier, comes) in steps {
            let name = format!("n{of}");
            let line = match what {
                0 | 1 => {
                    let rack = format!("r{tier}");
                    let event =
                        if comes { node(&name, &[("rack", &rack)]) } else { gone(&name) };
                    one.fold(event);
                    nodes.insert(name, (comes, rack));
                    continue;
                }
                2 => format!("h{of} {tier}: /[1{tier}]/"),
                3 => format!("h{of} {tier}: rack=r{tier} n1"),
                _ => format!("h{of} {tier}: @h{tier} n{of}"),
            };
            let event = if comes { read(&line) } else { without(&format!("h{of}")) };
            one.fold(event);
            objects.insert(of, (comes, line));
        }
        let mut two = Cluster::default();
        for (_, line) in objects.values().filter(|(there, _)| *there) {
            two.fold(read(line));
        }
        for (name, (there, rack)) in &nodes {
            if *there {
                // A namesake of a node that is gone has another UID.
                two.fold(node(name, &[("rack", rack)]));
            }
        }
        one.settle_topologies();
        two.settle_topologies();
        let there = |cluster: &Cluster, name: &String| {
            cluster.nodes().index(name).is_some_and(|at| cluster.nodes().node(at).is_some())
        };
        prop_assume!(nodes.keys().all(|name| there(&one, name) == there(&two, name)));
        for tier in 1..4 {
            prop_assert_eq!(domains(&one, tier), domains(&two, tier));
        }
    }
}
