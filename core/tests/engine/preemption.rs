//! Victims: proven, trimmed, and waited for (promise 4).

use berth_core::engine::{Outcome, Setup};
use berth_core::framework::Op;
use berth_core::queue::Station;

use crate::build::{USUAL, With, node, pod};
use crate::harness::{World, refused};

fn world(setup: Setup) -> World {
    let plugins: Vec<&str> = USUAL.iter().copied().chain(["Evict"]).collect();
    let mut w = World::of(&plugins, setup);
    w.node(node("n1", 4));
    w.pod(pod("a", 1).on("n1"));
    w.pod(pod("b", 2).on("n1"));
    w.pod(pod("c", 1).on("n1"));
    w
}

fn deletions(w: &mut World) -> Vec<String> {
    w.pending_writes().into_iter().filter(|write| write.starts_with("delete")).collect()
}

#[test]
fn a_preemptor_is_nominated_until_its_victims_are_gone_and_then_bound() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3).priority(9).label("evict", "b,c"));
    w.run();
    assert!(w.on_server("b").terminating && w.on_server("c").terminating);
    assert!(!w.on_server("a").terminating);
    // The victims hold their places in the ledger; the preemptor holds none, but is nominated.
    assert_eq!((w.held("b"), w.held("p")), ("n1".into(), String::new()));
    assert_eq!(w.on_server("p").nominated_node.as_deref(), Some("n1"));
    assert_eq!(&*w.condition("p").reason, "Unschedulable");
    w.pod_gone("b");
    w.run();
    assert_eq!(w.bound("p"), "");
    // Room for one of equal priority is no room: it is the nominated pod's.
    w.pod(pod("q", 2).priority(9));
    w.run();
    assert_eq!(w.bound("q"), "");
    w.pod_gone("c");
    w.run();
    assert_eq!((w.bound("p"), w.bound("q")), ("n1".into(), String::new()));
    assert_eq!(w.engine.cluster().nominated_nodes().count(), 0);
}

#[test]
fn victims_that_the_placement_does_not_need_stay() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 2).priority(9).label("evict", "b,a,c"));
    assert_eq!(deletions(&mut w), ["delete pod b"]);
    let mut w = world(Setup::default());
    w.pod(pod("p", 2).priority(9).label("evict", "a,c,b"));
    // The last is put back first: it is the dearest.
    assert_eq!(deletions(&mut w), ["delete pod a", "delete pod c"]);
}

#[test]
fn victims_that_do_not_make_room_are_left_alone() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3).priority(9).label("evict", "a,c"));
    assert!(deletions(&mut w).is_empty());
    w.run();
    assert_eq!(w.station("p"), Some(Station::Unschedulable));
    assert_eq!(w.engine.cluster().nominated_nodes().count(), 0);
    assert_eq!((w.held("a"), w.held("c")), ("n1".into(), "n1".into()));
}

#[test]
fn unknown_and_repeated_victims_make_no_plan() {
    for victims in ["b,ghost", "b,b"] {
        let mut w = world(Setup::default());
        w.pod(pod("p", 2).priority(9).label("evict", victims));
        assert!(deletions(&mut w).is_empty(), "{victims}");
    }
}

#[test]
fn what_post_filter_says_follows_the_message() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3));
    w.run();
    let want = "0/1 nodes are available: 1 Insufficient cpu. preemption: nobody to evict.";
    assert_eq!(&*w.condition("p").message, want);
}

#[test]
fn nobody_is_evicted_for_a_pod_that_fits_but_was_refused() {
    let mut w = world(Setup::default());
    w.pod_gone("b");
    for key in ["reserve", "permit"] {
        w.pod(pod(key, 1).priority(9).label(key, "no").label("evict", "a"));
        assert!(deletions(&mut w).is_empty(), "{key}");
    }
}

#[test]
fn nobody_is_evicted_for_one_member_of_a_group() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 2).priority(9).label("evict", "b").counted("x", 2));
    w.pod(pod("q", 2).priority(9).label("evict", "b").counted("x", 2));
    assert!(deletions(&mut w).is_empty());
}

#[test]
fn a_victim_that_is_gone_already_does_not_stop_the_plan() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3).priority(9).label("evict", "b,c"));
    let b = w.write(|op| matches!(op, Op::DeletePod { pod } if pod.name == "b"));
    let c = w.write(|op| matches!(op, Op::DeletePod { pod } if pod.name == "c"));
    w.answer(&b, refused(404));
    w.carry_out(c);
    w.pod_gone("b");
    w.pod_gone("c");
    w.run();
    assert_eq!(w.bound("p"), "n1");
}

#[test]
fn victims_that_do_not_leave_end_the_plan_and_its_nomination() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3).priority(9).label("evict", "b,c"));
    w.wait_secs(600);
    assert_eq!(&*w.condition("p").message, "victims did not leave in time");
    assert_eq!(w.on_server("p").nominated_node, None);
}

#[test]
fn a_node_that_goes_takes_the_nomination_with_it() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3).priority(9).label("evict", "b,c"));
    w.run();
    w.node_gone("n1");
    w.run();
    assert_eq!(w.engine.cluster().nominated_nodes().count(), 0);
    w.node(node("n2", 4));
    w.wait_secs(3);
    assert_eq!(w.bound("p"), "n2");
}

#[test]
fn the_proof_counts_pods_that_are_nominated_to_the_node() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 2).priority(9).label("evict", "b"));
    w.run();
    // All of n1 but a and c is spoken for: with b gone there is still no room for two.
    w.pod(pod("q", 2).priority(9).label("evict", "b"));
    assert!(deletions(&mut w).is_empty());
    w.pod_gone("b");
    w.run();
    assert_eq!((w.bound("p"), w.bound("q")), ("n1".into(), String::new()));
}

#[test]
fn an_eviction_has_its_report() {
    let mut w = world(Setup::default());
    w.pod(pod("p", 3).priority(9).label("evict", "b,c"));
    w.think();
    let report = w.reports.last().expect("a report for every decision");
    assert_eq!((&report.outcome, report.chosen.as_deref()), (&Outcome::Unschedulable, Some("n1")));
    assert_eq!(report.rejected[0].plugin, "Cpu");
}
