//! Waits before the bind: what is said of them, where the pod will be, and when they end.

use berth_core::engine::{Notice, Setup, Write, WriteResult};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::DeviceStatus;
use berth_core::types::{ClaimKey, Span};

use crate::build::{With, node, pod};
use crate::claims::{held, on_server, put, tell};
use crate::harness::{World, refused, uid};

const PLUGINS: &[&str] = &["Order", "Cpu", "Claims", "Permit", "Binder"];

fn world() -> World {
    let mut w = World::of(PLUGINS, Setup::default());
    begin(&mut w);
    put(&mut w, "claim a");
    w
}

/// What a process is told first.
fn begin(w: &mut World) {
    w.node(node("n1", 8));
    tell(w, "slice s pool=p node=n1 devices=\"g\"");
    for claim in w.server.claims.clone().into_values() {
        w.event(ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim))));
    }
}

/// A driver says that the claim's device is ready.
fn prepare(w: &mut World) {
    let key = ClaimKey { namespace: "default".into(), name: "a".into() };
    let mut claim = w.server.claims[&key].clone();
    let id = claim.allocation.as_ref().expect("it is allocated").results[0].id.clone();
    let conditions = [("Ready".into(), true)].into();
    claim.devices = vec![DeviceStatus { id, share_id: None, conditions }];
    let event = w.server.put_claim(claim);
    w.event(event);
}

fn waits(w: &World) -> Vec<String> {
    let said = w.notices.iter().filter_map(|notice| match notice {
        Notice::Waits { reason, message, .. } => Some(format!("{reason}: {message}")),
        _ => None,
    });
    said.collect()
}

fn nominated(w: &World) -> &str {
    w.on_server("p").nominated_node.as_deref().unwrap_or_default()
}

/// The pod p waits for its driver.
fn waiting() -> World {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a").label("prepared", "30"));
    w.run();
    assert_eq!((w.bound("p"), held(&w)), (String::new(), "g".into()));
    w
}

/// The pod p has got as far as the write that says where it will be.
fn nominating() -> (World, Write) {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a").label("prepared", "30"));
    loop {
        let write = w.write(|_| true);
        match write.op {
            Op::Nominate { .. } => return (w, write),
            _ => w.carry_out(write),
        }
    }
}

#[test]
fn who_waits_is_told_so_and_says_where_it_will_be() {
    let mut w = waiting();
    assert_eq!(nominated(&w), "n1");
    w.wait_secs(10);
    prepare(&mut w);
    w.run();
    assert_eq!(w.bound("p"), "n1");
    assert_eq!(waits(&w), ["DriverPending: waits for its driver"]);
}

#[test]
fn where_a_pod_will_be_is_written_at_the_version_that_was_seen_last() {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a").label("prepared", "30"));
    loop {
        let write = w.write(|_| true);
        if let Op::Nominate { resource_version, .. } = write.op {
            assert_eq!(resource_version, w.on_server("p").resource_version);
            return;
        }
        w.carry_out(write);
        // Between the answer that the wait begins with and what is said of it.
        w.change("p", |_| {});
    }
}

#[test]
fn a_wait_that_is_over_at_once_writes_and_says_nothing() {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a"));
    w.run();
    prepare(&mut w);
    let mut w2 = World::of(PLUGINS, Setup::default());
    w2.server = std::mem::take(&mut w.server);
    begin(&mut w2);
    w2.pod(pod("q", 1).label("claims", "a").label("prepared", "30"));
    w2.run();
    assert_eq!((w2.bound("q"), waits(&w2).len()), ("n1".into(), 0));
    assert_eq!(w2.on_server("q").nominated_node, None);
}

#[test]
fn a_wait_ends_when_its_limit_has_passed_since_the_allocation_also_after_a_restart() {
    let mut w = waiting();
    w.wait_secs(20);
    w.restart();
    begin(&mut w);
    w.run();
    assert_eq!((w.bound("p"), held(&w), nominated(&w)), (String::new(), "g".into(), "n1"));
    w.wait_secs(9);
    assert_eq!(on_server(&w, "a").0, "g", "it waits still");
    w.wait_secs(1);
    assert_eq!(on_server(&w, "a").0, "");
}

#[test]
fn a_nomination_is_taken_back_with_the_plan() {
    let mut w = waiting();
    w.wait_secs(30);
    assert_eq!(on_server(&w, "a").0, "", "its devices are free");
    assert_eq!(&*w.condition("p").message, "no driver came in time");
    assert_eq!(nominated(&w), "");
}

#[test]
fn a_nomination_for_a_node_that_is_gone_is_taken_back() {
    let mut w = waiting();
    w.node_gone("n1");
    w.run();
    assert_eq!((nominated(&w), w.held("p")), ("", String::new()));
}

#[test]
fn a_plan_goes_on_without_a_nomination_that_was_not_written() {
    for result in [
        refused(403),
        WriteResult::Stale { message: "modified".into() },
        WriteResult::NotSent { message: "no connection".into() },
        WriteResult::Unknown { message: "connection reset".into() },
    ] {
        let (mut w, nominate) = nominating();
        prepare(&mut w);
        w.answer(&nominate, result);
        w.run();
        assert_eq!(w.bound("p"), "n1");
    }
}

#[test]
fn a_limit_that_passes_while_the_nomination_has_no_answer_wakes_nobody_in_vain() {
    let (mut w, nominate) = nominating();
    w.now = w.now + Span::from_secs(31);
    w.think();
    let due = w.engine.next_wakeup().map(|(at, _)| at);
    assert!(due.is_none_or(|at| at > w.now), "{due:?}");
    w.carry_out(nominate);
    w.run();
    assert_eq!(
        (w.bound("p"), nominated(&w), on_server(&w, "a").0),
        (String::new(), "", String::new())
    );
    assert!(w.engine.cluster().pod(&uid("p")).is_some());
}
