//! Containers of members are started anew in place.

use berth_core::engine::Notice;
use berth_core::types::Timestamp;
use berth_core::types::pod::Phase;

use crate::build::{gang, node};
use crate::gangs::{group, member};
use crate::harness::World;

/// Two members that have run for 90 s, by what the objects say.
fn started() -> World {
    let mut w = World::new();
    w.node(node("n1", 4));
    group(&mut w, gang("g", 2));
    for name in ["a", "b"] {
        w.pod(member(name, 1));
    }
    w.run();
    let now = w.now;
    ["a", "b"].iter().for_each(|name| runs_since(&mut w, name, now));
    w.wait_secs(90);
    w
}

fn runs_since(w: &mut World, name: &str, since: Timestamp) {
    w.change(name, |pod| {
        pod.phase = Phase::Running;
        pod.gang.as_mut().expect("a member").running = Some(since);
    });
}

/// Where a pod's sandbox is a new one, as after its node was started anew, the object tells of no
/// earlier start. Who has seen it run knows better.
#[test]
fn a_group_that_has_started_is_not_taken_back_though_its_member_begins_anew() {
    let mut w = started();
    let now = w.now;
    runs_since(&mut w, "a", now);
    w.pod_gone("b");
    w.wait_secs(300);
    assert_eq!(w.bound("a"), "n1");
    assert!(!w.on_server("a").terminating);
    let told = w.notices.iter().any(|notice| matches!(notice, Notice::BelowMinimum { .. }));
    assert!(told, "{:?}", w.notices);
}
