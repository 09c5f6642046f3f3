//! Pods that their kubelet has refused.

use berth_core::engine::Setup;
use berth_core::types::Phase;

use crate::build::{USUAL, labelled, node, pod};
use crate::harness::World;

fn world() -> World {
    let plugins: Vec<&'static str> = USUAL.iter().copied().chain(["Refusals"]).collect();
    let mut w = World::of(&plugins, Setup::default());
    w.node(labelled(node("best", 8), &[("rank", "9")]));
    w.node(node("other", 1));
    w
}

fn refuse(w: &mut World, name: &str) {
    w.change(name, |pod| {
        pod.phase = Phase::Failed;
        pod.refused = Some("TopologyAffinityError".into());
    });
}

#[test]
fn a_pod_made_anew_is_not_put_where_its_like_was_refused() {
    let mut w = world();
    w.pod(pod("p", 1));
    w.run();
    assert_eq!(w.bound("p"), "best");
    refuse(&mut w, "p");
    w.pod(pod("again", 1));
    w.pod(pod("unlike", 2));
    w.run();
    assert_eq!(w.bound("again"), "other");
    assert_eq!(w.bound("unlike"), "best");
}

#[test]
fn it_is_tried_there_again_after_a_while() {
    let mut w = world();
    w.pod(pod("p", 2));
    w.run();
    refuse(&mut w, "p");
    w.pod(pod("again", 2));
    w.run();
    assert_eq!(w.bound("again"), "");
    assert!(w.condition("again").message.contains("TopologyAffinityError"));
    w.wait_secs(25);
    assert_eq!(w.bound("again"), "");
    w.wait_secs(10);
    assert_eq!(w.bound("again"), "best");
}

#[test]
fn old_news_of_a_refusal_says_nothing() {
    let mut w = world();
    let mut old = pod("old", 2);
    old.node_name = Some("best".into());
    old.phase = Phase::Failed;
    old.refused = Some("TopologyAffinityError".into());
    w.pod(old);
    w.pod(pod("p", 2));
    w.run();
    assert_eq!(w.bound("p"), "best");
}
