//! ComputeDomains: the daemon of a domain comes to a node because a member of the workload has landed
//! there, so nobody may wait for it, and it is no member.

use berth_core::engine::{Notice, Setup};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::{Owner, Pod};

use crate::build::{With, gang, labelled, node, pod};
use crate::claims::{on_server, put, tell};
use crate::harness::World;

const CHANNELS: &str = "compute-domain-default-channel.nvidia.com";
/// The kubelet plugin labels a node when it prepares a channel of the domain there.
const OF_DOMAIN: &str = "resource.nvidia.com/computeDomain";

/// A node with a channel, which is published from the start.
fn channel(w: &mut World, name: &str) {
    w.node(node(name, 2));
    tell(w, &format!("slice {name}-channels pool={name} node={name} devices=channel-0-{name}"));
}

/// Two members that fill a node each but for one CPU; claims are for a channel of the domain.
fn workload() -> World {
    let plugins = &["Order", "Cpu", "Picky", "Claims", "Gangs", "Binder"];
    let mut w = World::of(plugins, Setup::default());
    ["n1", "n2"].iter().for_each(|name| channel(&mut w, name));
    ["a", "b"]
        .iter()
        .for_each(|name| put(&mut w, &format!("claim {name} wants=\"c: 1 {CHANNELS}\"")));
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("nv", 2)))));
    ["a", "b"].iter().for_each(|name| w.pod(member(name)));
    w
}

fn member(name: &str) -> Pod {
    pod(name, 1).grouped("nv").owned().label("claims", name)
}

/// The kubelet plugin of a node is asked to prepare a channel: it labels the node, and the DaemonSet of
/// the domain makes a pod for it.
fn domain_comes_to(w: &mut World, name: &str) {
    w.node(labelled(node(name, 2), &[(OF_DOMAIN, "cd")]));
    let (kind, owner, uid) = ("DaemonSet".into(), "cd".into(), "uid-of-cd".into());
    let daemon = pod(&format!("daemon-{name}"), 1).label("wants", OF_DOMAIN);
    w.pod(Pod { owner: Some(Owner { kind, name: owner, uid }), ..daemon });
}

/// The other member's bind is on its way meanwhile: the daemon comes between the two.
#[test]
fn daemons_that_come_after_the_first_member_has_landed_are_placed_at_once_and_are_no_members() {
    let mut w = workload();
    let is_bind = |op: &Op| matches!(op, Op::Bind { .. });
    for _ in 0..20 {
        w.think();
        if w.writes.iter().all(|write| is_bind(&write.op)) {
            break;
        }
        let write = w.write(|op| !is_bind(op));
        w.carry_out(write);
    }
    let (first, second) = (w.bind_of("a"), w.bind_of("b"));
    let Op::Bind { node: landed, plan: Some(plan), .. } = &first.op else { panic!("{first:?}") };
    let (landed, members) = (landed.to_string(), plan.members);
    assert_eq!(members, 2);
    w.carry_out(first);
    domain_comes_to(&mut w, &landed);
    let daemon = w.bind_of(&format!("daemon-{landed}"));
    let Op::Bind { node, plan: None, .. } = &daemon.op else { panic!("{daemon:?}") };
    assert_eq!(**node, *landed);
    w.carry_out(daemon);
    assert_eq!(w.bound("b"), "", "its bind has no answer yet, and nobody has waited for that");
    w.carry_out(second);
    let other = w.bound("b");
    domain_comes_to(&mut w, &other);
    w.run();
    for node in ["n1", "n2"] {
        assert_eq!(w.bound(&format!("daemon-{node}")), node);
    }
    assert!(["a", "b"].iter().all(|name| !on_server(&w, name).0.is_empty()));
    assert_eq!((w.engine.under_way(), w.engine.queue().entries().count()), ((0, 0), 0));
}

/// Whatever becomes of the domain, the group is bound with no word of it, and a daemon that comes late
/// or never leaves no trace on it.
#[test]
fn the_domain_is_not_waited_for() {
    let mut w = workload();
    w.run();
    assert!(["a", "b"].iter().all(|name| !w.bound(name).is_empty()));
    w.wait_secs(3600);
    assert!(["a", "b"].iter().all(|name| w.on_server(name).unscheduled.is_none()));
    domain_comes_to(&mut w, "n1");
    w.run();
    assert_eq!(w.bound("daemon-n1"), "n1");
    // One of them lost: the group is short of a member, not of a daemon.
    w.pod_gone("daemon-n1");
    w.wait_secs(120);
    let below = w.notices.iter().find(|notice| matches!(notice, Notice::BelowMinimum { .. }));
    assert!(below.is_none(), "{below:?}");
}
