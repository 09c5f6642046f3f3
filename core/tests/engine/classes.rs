//! Pods that scheduling can't tell apart share what is known of the nodes; ties and samples.

use berth_core::engine::{Engine, Limits, ReportLevel, Setup};

use crate::build::{USUAL, With, labelled, node, pod, profile};
use crate::harness::World;

fn hundred_nodes(w: &mut World) {
    for n in 0..100 {
        w.node(node(&format!("n{n}"), 4));
    }
}

fn steps(w: &World, name: &str) -> u64 {
    w.reports.iter().find(|report| &*report.pod.name == name).map_or(0, |report| report.steps)
}

#[test]
fn one_more_pod_of_a_class_costs_the_nodes_that_changed() {
    let mut w = World::new();
    hundred_nodes(&mut w);
    for name in ["a", "b", "c"] {
        w.pod(pod(name, 1).label("job-index", name));
        w.run();
    }
    assert!(steps(&w, "a") >= 300, "{}", steps(&w, "a"));
    assert!(steps(&w, "c") <= 20, "{}", steps(&w, "c"));
    assert_eq!(w.engine.class_counts().classes, 1, "names and labels make no class");
}

#[test]
fn an_event_that_changes_nothing_costs_nothing() {
    let mut w = World::new();
    hundred_nodes(&mut w);
    for name in ["a", "b"] {
        w.pod(pod(name, 9));
    }
    w.run();
    for n in 0..100 {
        let mut same = node(&format!("n{n}"), 4);
        same.resource_version = 7;
        w.node(same);
    }
    w.pod(pod("c", 9));
    w.run();
    assert_eq!(steps(&w, "c"), 0);
}

#[test]
fn a_class_that_was_seen_once_gets_no_table_and_tables_stay_within_their_bytes() {
    let limits = Limits { table_bytes_max: 6000, ..Limits::default() };
    let mut w = World::with(Setup { limits, ..Setup::default() });
    hundred_nodes(&mut w);
    w.pod(pod("once", 1));
    w.run();
    assert_eq!(w.engine.class_counts().tables, 0);
    for round in 0..2 {
        for cpu in 1..9 {
            w.pod(pod(&format!("p{round}-{cpu}"), cpu));
            w.run();
        }
    }
    let counts = w.engine.class_counts();
    assert!(counts.evictions > 0 && counts.bytes <= 6000, "{counts:?}");
    assert_eq!(counts.classes, 8);
}

#[test]
fn a_class_that_reads_an_index_follows_it() {
    let mut w = World::new();
    hundred_nodes(&mut w);
    for n in 0..4 {
        w.pod(pod(&format!("p{n}"), 1).label("alone", "2"));
    }
    w.run();
    let bound = |w: &World| (0..4).filter(|n| !w.bound(&format!("p{n}")).is_empty()).count();
    assert_eq!(bound(&w), 2);
    assert!(w.condition("p3").message.contains("100 too many alike"));
    w.pod_gone("p0");
    w.wait_secs(2);
    assert_eq!(w.server.pods.values().filter(|pod| pod.node_name.is_some()).count(), 2);
}

#[test]
fn ties_are_broken_by_seed_pod_and_attempt() {
    let chosen = |seed: u64, name: &str| {
        let mut w = World::with(Setup { seed, ..Setup::default() });
        hundred_nodes(&mut w);
        w.pod(pod(name, 1));
        w.run();
        w.bound(name)
    };
    assert_eq!(chosen(1, "p"), chosen(1, "p"));
    let seeds: std::collections::BTreeSet<_> = (0..20).map(|seed| chosen(seed, "p")).collect();
    assert!(seeds.len() > 10, "{seeds:?}");
    let pods: std::collections::BTreeSet<_> =
        (0..20).map(|n| chosen(1, &format!("p{n}"))).collect();
    assert!(pods.len() > 10, "{pods:?}");
}

#[test]
fn reports_show_the_best_nodes_plugin_by_plugin_where_asked_for() {
    let mut w = World::with(Setup { report: ReportLevel::Scores, ..Setup::default() });
    w.node(labelled(node("good", 4), &[("rank", "90")]));
    w.node(labelled(node("bad", 4), &[("rank", "10")]));
    w.pod(pod("p", 1));
    w.run();
    let best = &w.reports[0].best;
    assert_eq!((&*best[0].node, best[0].total), ("good", 90));
    assert_eq!(best[1].by_plugin, [("Rank", 10)]);
    assert_eq!((w.reports[0].nodes, w.reports[0].feasible), (2, 2));
}

/// Returns how many of 300 pods are given the one best node of `nodes`.
fn found_best(nodes: usize, percentage: i32) -> usize {
    let mut w = World::new();
    w.engine = Engine::new(vec![profile(USUAL, percentage)], Setup::default());
    for n in 0..nodes - 1 {
        w.node(node(&format!("n{n}"), 4));
    }
    w.node(labelled(node("best", 4), &[("rank", "100")]));
    for n in 0..300 {
        w.pod(pod(&format!("p{n}"), 0));
    }
    w.run();
    w.server.pods.values().filter(|pod| pod.node_name.as_deref() == Some("best")).count()
}

#[test]
fn all_nodes_are_scored_unless_a_percentage_says_less_and_never_under_a_hundred() {
    assert_eq!(found_best(400, 0), 300);
    assert_eq!(found_best(400, 100), 300);
    assert_eq!(found_best(99, 1), 300, "fewer than a hundred nodes are all scored");
    // A hundred of 400 at least: a quarter of the pods see the best node.
    let few = found_best(400, 5);
    assert!((50..100).contains(&few), "{few}");
    // Three quarters of 400.
    let most = found_best(400, 75);
    assert!((200..250).contains(&most), "{most}");
}

/// What was decided, without the ids that number writes.
fn decided(steps_a_poll: u64) -> Vec<String> {
    let mut w = World::with_steps(steps_a_poll);
    hundred_nodes(&mut w);
    for n in 0..60 {
        w.pod(pod(&format!("p{n}"), n % 6).label("alone", "20"));
    }
    w.run();
    let pods = w.server.pods.values();
    pods.map(|pod| format!("{:?} {:?} {:?}", pod.name, pod.node_name, pod.unscheduled)).collect()
}

#[test]
fn one_poll_or_many_decide_the_same() {
    let whole = decided(1_000_000);
    assert_eq!(whole, decided(50));
    assert_eq!(whole, decided(3));
    assert!(whole.iter().any(|pod| pod.contains("too many alike")));
}

#[test]
fn the_same_inputs_give_the_same_decisions_to_the_letter() {
    let trace = || {
        let mut w = World::new();
        let mut trace = String::new();
        hundred_nodes(&mut w);
        for n in 0..40 {
            w.pod(pod(&format!("p{n}"), 1 + n % 5));
        }
        for decision in w.engine.poll(w.now).decisions {
            trace += &format!("{decision:?}\n");
        }
        trace
    };
    assert_eq!(trace(), trace());
    assert!(trace().lines().count() > 40);
}

#[test]
fn pods_that_name_claims_of_their_own_are_alike() {
    let mut w = World::new();
    hundred_nodes(&mut w);
    for name in ["a", "b", "c"] {
        w.pod(pod(name, 1).claim("gpu", name));
        w.run();
    }
    assert_eq!(w.engine.class_counts().classes, 1);
    w.pod(pod("d", 1).claim("nic", "d"));
    w.run();
    assert_eq!(w.engine.class_counts().classes, 2, "containers name the entry");
}
