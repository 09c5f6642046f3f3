//! Claims that a group has: written once, and kept as long as one of its pods has a node.

use std::sync::Arc;

use berth_core::engine::{Input, Setup, Write, WriteResult};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::claim::Consumer;
use berth_core::types::pod::Phase;
use berth_core::types::{Pod, PodClaim, PodSpec, Span};

use crate::build::{With, gang, node, pod};
use crate::claims::{delete, held, on_server, put, tell};
use crate::harness::{World, uid};

/// Two members of a group that has the claim a, with who can't be bound anywhere.
fn group_with_claim(refused: &[&str]) -> World {
    let mut w = World::of(&["Order", "Cpu", "Claims", "Gangs", "Binder"], Setup::default());
    w.node(node("n1", 8));
    tell(&mut w, "slice s pool=p node=n1 devices=g");
    put(&mut w, "claim a");
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("team", 2)))));
    refused.iter().for_each(|name| w.refuse(name, None));
    for name in ["p", "q"] {
        w.pod(pod(name, 1).grouped("team").owned().label("group-claims", "a"));
    }
    w.run();
    w
}

fn team() -> Vec<Consumer> {
    vec![Consumer::PodGroup { uid: "uid-of-team".into(), name: "team".into() }]
}

#[test]
fn a_claim_of_a_group_is_reserved_for_it_once() {
    let w = group_with_claim(&[]);
    assert_eq!([w.bound("p"), w.bound("q")], ["n1", "n1"]);
    assert_eq!(on_server(&w, "a"), ("g".into(), team()));
}

#[test]
fn it_stays_while_one_of_the_pods_has_a_node() {
    let w = group_with_claim(&["q"]);
    assert_eq!([w.bound("p"), w.bound("q")], ["n1", ""]);
    assert_eq!((on_server(&w, "a"), held(&w)), (("g".into(), team()), "g".into()));
}

#[test]
fn it_is_taken_back_if_none_of_the_pods_could_be_bound() {
    let w = group_with_claim(&["p", "q"]);
    assert_eq!([w.bound("p"), w.bound("q")], ["", ""]);
    assert_eq!((on_server(&w, "a"), held(&w)), (("".into(), Vec::new()), "".into()));
}

/// A member that shares the claim a, as its own spec says.
fn sharing(name: &str) -> Pod {
    let plain = pod(name, 1);
    let claims = vec![PodClaim { name: "dev".into(), source: "a".into(), from_template: false }];
    let spec = Arc::new(PodSpec { claims, ..PodSpec::clone(&plain.spec) });
    Pod { spec, ..plain }.grouped("team").owned()
}

/// Two of three members, with the claim that an earlier process has allocated for them.
fn left_behind() -> World {
    let mut w = without_its_claim();
    put_its_claim(&mut w);
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("team", 3)))));
    w.pod(sharing("p"));
    w.pod(sharing("q"));
    w
}

fn without_its_claim() -> World {
    let mut w = World::of(&["Order", "Cpu", "Claims", "Gangs", "Binder"], Setup::default());
    w.node(node("n1", 8));
    tell(&mut w, "slice s pool=p node=n1 devices=g");
    w
}

fn put_its_claim(w: &mut World) {
    let (p, q) = (sharing("p").uid, sharing("q").uid);
    let text = "claim a protected allocated=\"r gpu.example.com/p/g\"";
    put(w, &format!("{text} reserved={p},{q}"));
}

/// Both are written at once, and the second finds the claim changed: it is by then the last.
#[test]
fn whoever_of_a_waiting_group_lets_go_last_frees_the_devices() {
    let mut w = left_behind();
    w.wait_secs(30);
    assert_eq!((on_server(&w, "a"), held(&w)), (("".into(), Vec::new()), "".into()));
}

#[test]
fn devices_are_let_go_once_all_lists_are_there() {
    let mut w = left_behind();
    w.input(Input::Watch { kind: "pods".into(), synced: false });
    w.wait_secs(30);
    assert_eq!(held(&w), "g");
    w.input(Input::Watch { kind: "pods".into(), synced: true });
    w.wait_secs(30);
    assert_eq!(held(&w), "");
}

/// A successor's lists come in any order.
#[test]
fn claims_that_are_listed_after_the_group_are_let_go_too() {
    let mut w = without_its_claim();
    w.input(Input::Watch { kind: "resourceclaims".into(), synced: false });
    w.pod(sharing("p"));
    w.pod(sharing("q"));
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("team", 3)))));
    w.run();
    put_its_claim(&mut w);
    w.input(Input::Watch { kind: "resourceclaims".into(), synced: true });
    w.wait_secs(30);
    assert_eq!((on_server(&w, "a"), held(&w)), (("".into(), Vec::new()), "".into()));
}

/// Lets time pass until a device is let go, and returns the write that does.
fn first_release(w: &mut World) -> Write {
    let is_release = |op: &Op| matches!(op, Op::Claim { write: ClaimWrite::Release { .. }, .. });
    for _ in 0..20 {
        w.now = w.now + Span::from_secs(1);
        w.think();
        if w.writes.iter().any(|write| is_release(&write.op)) {
            break;
        }
        w.run();
    }
    w.write(is_release)
}

/// What went wrong is told, and then once more what the group waits for.
#[test]
fn a_group_whose_devices_could_not_be_let_go_is_told_again_what_it_lacks() {
    let mut w = left_behind();
    let release = first_release(&mut w);
    w.answer(&release, WriteResult::NotSent { message: "connection refused".into() });
    w.run();
    assert_eq!(&*w.condition("p").message, "connection refused");
    w.wait_secs(90);
    assert_eq!(&*w.condition("p").message, "waiting for 2 of 3 members of team");
}

/// Each attempt finds the claim as an earlier process left it, and so has nothing to take back.
#[test]
fn a_group_whose_binds_are_refused_for_good_lets_go_of_what_it_had_before() {
    let mut w = without_its_claim();
    put_its_claim(&mut w);
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("team", 2)))));
    for name in ["p", "q"] {
        w.refuse(name, None);
        w.pod(sharing(name));
    }
    w.wait_secs(60);
    assert_eq!([w.bound("p"), w.bound("q")], ["", ""]);
    assert_eq!((on_server(&w, "a"), held(&w)), (("".into(), Vec::new()), "".into()));
}

/// A member that has a claim of its own.
fn with_its_own(w: &mut World, name: &str, claim: &str) {
    put(w, &format!("claim {claim} owner={}", uid(name)));
    let plain = pod(name, 1).label("claims", claim);
    let claims = vec![PodClaim { name: "dev".into(), source: claim.into(), from_template: false }];
    let spec = Arc::new(PodSpec { claims, ..PodSpec::clone(&plain.spec) });
    w.pod(Pod { spec, ..plain }.grouped("team").owned());
}

fn stranger(w: &mut World) {
    put(w, "claim other");
    w.pod(pod("stranger", 1).label("claims", "other"));
}

/// There is room enough for anybody: only devices are short.
#[test]
fn the_devices_of_a_lost_member_are_kept_with_its_place() {
    let mut w = World::of(&["Order", "Cpu", "Claims", "Gangs", "Binder"], Setup::default());
    w.node(node("n1", 8));
    tell(&mut w, "slice s pool=p node=n1 devices=\"g; h\"");
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("team", 2)))));
    with_its_own(&mut w, "p", "of-p");
    with_its_own(&mut w, "q", "of-q");
    w.run();
    for name in ["p", "q"] {
        w.change(name, |pod| pod.phase = Phase::Running);
    }
    w.wait_secs(61);
    assert_eq!(held(&w), "g h");
    w.pod_gone("q");
    delete(&mut w, "of-q");
    stranger(&mut w);
    w.wait_secs(5);
    assert_eq!((w.bound("stranger").as_str(), held(&w).as_str()), ("", "g"));
    with_its_own(&mut w, "q2", "of-q2");
    w.wait_secs(5);
    assert_eq!((w.bound("q2").as_str(), held(&w).as_str()), ("n1", "g h"));
    w.pod_gone("q2");
    delete(&mut w, "of-q2");
    w.wait_secs(400);
    assert_eq!(w.bound("stranger"), "n1", "a place is kept for some time only");
}

/// Its devices are being let go when it comes.
#[test]
fn a_member_that_comes_while_the_group_is_busy_is_told_too() {
    let mut w = left_behind();
    w.event(ClusterEvent::Groups(GroupEvent::Applied(Box::new(gang("team", 4)))));
    let release = first_release(&mut w);
    w.pod(sharing("r"));
    w.carry_out(release);
    w.wait_secs(60);
    assert_eq!(&*w.condition("r").message, "waiting for 3 of 4 members of team");
}
