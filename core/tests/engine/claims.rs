//! Claims: what a plan writes to them, whatever becomes of the answers.

use std::sync::Arc;

use berth_core::engine::{Notice, Setup, Write, WriteResult};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::queue::Station;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::testkit::{claims, parse};
use berth_core::types::claim::Consumer;
use berth_core::types::{ClaimKey, Span};

use crate::build::{With, node, pod};
use crate::device_plugins::granting;
use crate::harness::{World, refused, uid, unknown};

const PLUGINS: &[&str] = &["Order", "Cpu", "Claims", "Permit", "Binder"];

/// A node with the devices g and h, the claims a and b.
fn world() -> World {
    world_with("node=n1")
}

/// As [`world`], with devices that are usable where it is said.
fn world_with(placement: &str) -> World {
    let mut w = World::of(PLUGINS, Setup::default());
    w.node(node("n1", 8));
    tell(&mut w, &format!("slice s pool=p {placement} devices=\"g; h\""));
    put(&mut w, "claim a");
    put(&mut w, "claim b");
    w
}

pub(crate) fn tell(w: &mut World, text: &str) {
    let events = parse(text).unwrap_or_else(|error| panic!("{error}"));
    events.into_iter().for_each(|event| w.event(event));
}

/// Puts a claim on the server, and lets the engine see it.
pub(crate) fn put(w: &mut World, text: &str) {
    let mut events = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let Some(ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim))) = events.pop() else {
        panic!("{text:?} is no claim");
    };
    let event = w.server.put_claim(*claim);
    w.event(event);
}

fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: name.into() }
}

pub(crate) fn delete(w: &mut World, name: &str) {
    let claim = w.server.claims.remove(&key(name)).expect("it is there");
    let event = DeviceEvent::ClaimDeleted { key: claim.key, uid: claim.uid };
    w.event(ClusterEvent::Devices(event));
}

/// Returns the devices that somebody holds, by the ledger.
pub(crate) fn held(w: &World) -> String {
    let cluster = w.engine.cluster();
    let (_, node) = cluster.nodes().iter().next().expect("there is a node");
    let pools = cluster.devices().pools_on(node);
    let devices = pools.iter().flat_map(|pool| &pool.devices).filter(|d| d.taken.is_some());
    devices.map(|device| device.device.name.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns the device that the server has for a claim, and who has the claim.
pub(crate) fn on_server(w: &World, name: &str) -> (String, Vec<Consumer>) {
    let claim = &w.server.claims[&key(name)];
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    let devices: Vec<&str> = results.map(|result| result.id.device.as_str()).collect();
    (devices.join(" "), claim.reserved_for.clone())
}

fn has(device: &str, name: &str) -> (String, Vec<Consumer>) {
    (device.to_owned(), vec![Consumer::Pod(uid(name))])
}

fn of_claim(write: &Op, wanted: fn(&ClaimWrite) -> bool) -> bool {
    matches!(write, Op::Claim { write, .. } if wanted(write))
}

fn allocates(write: &ClaimWrite) -> bool {
    matches!(write, ClaimWrite::Allocate { .. })
}

fn reads(write: &ClaimWrite) -> bool {
    matches!(write, ClaimWrite::Read)
}

fn releases(write: &ClaimWrite) -> bool {
    matches!(write, ClaimWrite::Release { .. })
}

/// The write as it was decided on: when it is sent goes with it.
fn undated(op: &Op) -> Op {
    let mut op = op.clone();
    if let Op::Claim { write: ClaimWrite::Allocate { allocation: Some(allocation), .. }, .. } =
        &mut op
    {
        Arc::make_mut(allocation).timestamp = None;
    }
    op
}

fn version(write: &Write) -> u64 {
    let Op::Claim { resource_version, .. } = &write.op else { panic!("{write:?}") };
    *resource_version
}

fn stale() -> WriteResult {
    WriteResult::Stale { message: "the object has been modified".into() }
}

/// The pod p has got as far as the write of what is allocated to its claim a.
fn allocating() -> (World, Write) {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a"));
    let protect = w.write(|op| of_claim(op, |w| matches!(w, ClaimWrite::Protect { .. })));
    assert_eq!(held(&w), "g", "before anything is written");
    w.carry_out(protect);
    let allocate = w.write(|op| of_claim(op, allocates));
    assert_eq!(version(&allocate), w.server.claims[&key("a")].resource_version);
    (w, allocate)
}

/// Lets the time pass in which the server may still do what it has not answered.
fn outwait(w: &mut World, write: &Write) {
    w.now = w.now + write.timeout - Span(1);
    assert!(w.pending_writes().is_empty(), "the server may still carry it out");
    assert_eq!(held(w), "g");
    w.now = w.now + Span(1);
}

#[test]
fn a_claim_is_protected_then_allocated_and_the_pod_bound() {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a"));
    w.run();
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("g", "p")));
    assert_eq!(w.server.claims[&key("a")].finalizers.len(), 1);
    assert_eq!((held(&w), w.engine.under_way()), ("g".into(), (0, 0)));
}

#[test]
fn a_write_whose_answer_is_lost_is_read_back_and_the_plan_goes_on_if_it_was_done() {
    let (mut w, allocate) = allocating();
    w.server.carry_out(&allocate.op);
    w.answer(&allocate, unknown());
    assert_eq!(w.engine.next_wakeup().map(|(at, _)| at), Some(w.now + allocate.timeout));
    outwait(&mut w, &allocate);
    let read = w.write(|op| of_claim(op, reads));
    assert!(w.pending_writes().is_empty(), "one step after the other");
    w.carry_out(read);
    let pending = w.pending_writes();
    assert_eq!(pending, ["bind p to n1"]);
    w.run();
    assert_eq!(
        (w.bound("p"), on_server(&w, "a"), held(&w)),
        ("n1".into(), has("g", "p"), "g".into())
    );
}

#[test]
fn a_write_whose_answer_is_lost_is_sent_again_if_it_was_not_done() {
    let (mut w, allocate) = allocating();
    w.answer(&allocate, unknown());
    outwait(&mut w, &allocate);
    let read = w.write(|op| of_claim(op, reads));
    w.carry_out(read);
    let again = w.write(|op| of_claim(op, allocates));
    assert_ne!(again.id, allocate.id);
    assert_eq!((undated(&again.op), held(&w)), (undated(&allocate.op), "g".into()));
    w.carry_out(again);
    // The first one arrives after all, and finds the claim changed.
    assert_eq!(w.server.carry_out(&allocate.op).0, stale());
    w.run();
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("g", "p")));
}

#[test]
fn a_write_that_is_never_answered_is_tried_until_it_is_known_what_became_of_it() {
    let (mut w, mut allocate) = allocating();
    for _ in 0..4 {
        let claim = w.server.claims[&key("a")].clone();
        w.server.put_claim(claim);
        w.carry_out(allocate);
        let read = w.write(|op| of_claim(op, reads));
        w.carry_out(read);
        allocate = w.write(|op| of_claim(op, allocates));
    }
    for _ in 0..7 {
        w.answer(&allocate, unknown());
        outwait(&mut w, &allocate);
        let read = w.write(|op| of_claim(op, reads));
        w.carry_out(read);
        allocate = w.write(|op| of_claim(op, allocates));
    }
    w.carry_out(allocate);
    w.run();
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("g", "p")));
}

#[test]
fn a_write_that_comes_late_and_is_shown_by_the_watch_is_found_by_the_read() {
    let (mut w, allocate) = allocating();
    w.answer(&allocate, unknown());
    w.server.carry_out(&allocate.op);
    let claim = w.server.claims[&key("a")].clone();
    w.event(ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim))));
    assert_eq!(held(&w), "g");
    w.wait(allocate.timeout);
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("g", "p")));
}

#[test]
fn a_lost_answer_about_a_claim_that_is_gone_ends_the_plan_and_frees_its_devices() {
    for another in [false, true] {
        let (mut w, allocate) = allocating();
        w.answer(&allocate, unknown());
        // The watch is late: only the read tells.
        w.server.claims.remove(&key("a"));
        if another {
            let mut other = claims_of("claim a uid=another");
            other.resource_version = 1;
            w.server.put_claim(other);
        }
        outwait(&mut w, &allocate);
        let read = w.write(|op| of_claim(op, reads));
        w.carry_out(read);
        assert_eq!((held(&w), w.held("p"), w.engine.under_way()), ("".into(), "".into(), (0, 0)));
        assert_eq!(w.station("p"), Some(Station::ErrorBackoff), "it is tried again");
    }
}

fn claims_of(text: &str) -> berth_core::types::ResourceClaim {
    let mut events = parse(text).unwrap_or_else(|error| panic!("{error}"));
    match events.pop() {
        Some(ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim))) => *claim,
        other => panic!("{other:?}"),
    }
}

/// A foreign scheduler allocates the claim a to itself; whether the engine sees it is another thing.
fn foreign(w: &mut World, device: &str) -> ClusterEvent {
    let mut claim = w.server.claims[&key("a")].clone();
    let result = claims::result(&format!("r gpu.example.com/p/{device}"));
    claim.allocation = Some(granting(result.expect("it is well formed").id));
    w.server.put_claim(claim)
}

#[test]
fn a_lost_answer_about_a_claim_that_another_has_allocated_ends_the_plan() {
    let (mut w, allocate) = allocating();
    w.answer(&allocate, unknown());
    foreign(&mut w, "h");
    outwait(&mut w, &allocate);
    let read = w.write(|op| of_claim(op, reads));
    w.carry_out(read);
    assert_eq!((held(&w), w.engine.under_way()), ("h".into(), (0, 0)));
    w.wait_secs(3);
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("h", "p")));
}

#[test]
fn a_claim_that_has_changed_is_read_at_once_and_the_write_sent_again_with_its_version() {
    let (mut w, allocate) = allocating();
    let mut claim = w.server.claims[&key("a")].clone();
    claim.finalizers.push("others.example.com/finalizer".into());
    w.server.put_claim(claim);
    w.carry_out(allocate.clone());
    let read = w.write(|op| of_claim(op, reads));
    assert_eq!(held(&w), "g");
    w.carry_out(read);
    let again = w.write(|op| of_claim(op, allocates));
    assert_eq!(version(&again), w.server.claims[&key("a")].resource_version);
    assert!(version(&again) > version(&allocate));
    w.carry_out(again);
    w.run();
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("g", "p")));
}

#[test]
fn a_stale_write_may_have_been_done_by_an_earlier_try() {
    let (mut w, allocate) = allocating();
    w.server.carry_out(&allocate.op);
    w.answer(&allocate, stale());
    let read = w.write(|op| of_claim(op, reads));
    w.carry_out(read);
    assert_eq!(w.pending_writes(), ["bind p to n1"]);
}

#[test]
fn a_claim_that_changes_each_time_is_tried_five_times() {
    let (mut w, mut allocate) = allocating();
    for tries in 1..=5 {
        assert_eq!(held(&w), "g", "try {tries}");
        let claim = w.server.claims[&key("a")].clone();
        w.server.put_claim(claim);
        w.carry_out(allocate.clone());
        let read = w.write(|op| of_claim(op, reads));
        w.carry_out(read);
        if tries < 5 {
            allocate = w.write(|op| of_claim(op, allocates));
        }
    }
    w.think();
    assert!(!w.writes.iter().any(|write| of_claim(&write.op, allocates)), "{:?}", w.writes);
    assert_eq!((held(&w), w.engine.under_way()), ("".into(), (0, 0)));
    assert_eq!(w.station("p"), Some(Station::ErrorBackoff));
    w.run();
    assert!(w.condition("p").message.contains("the object has been modified"));
}

#[test]
fn a_read_that_fails_is_tried_again_and_the_devices_stay_held() {
    let (mut w, allocate) = allocating();
    w.answer(&allocate, unknown());
    outwait(&mut w, &allocate);
    for result in [unknown(), refused(500), WriteResult::NotSent { message: "busy".into() }] {
        let read = w.write(|op| of_claim(op, reads));
        w.answer(&read, result);
        assert!(w.pending_writes().is_empty());
        assert_eq!(held(&w), "g");
        w.now = w.now + Span::from_secs(1);
    }
    w.run();
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("g", "p")));
}

#[test]
fn a_plan_whose_claim_a_foreign_scheduler_has_allocated_is_dropped_and_the_pod_tried_again() {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a").label("permit", "go"));
    w.run();
    assert_eq!((held(&w), w.engine.under_way()), ("g".into(), (1, 0)), "it waits");
    let event = foreign(&mut w, "h");
    w.event(event);
    assert_eq!((held(&w), w.engine.under_way()), ("h".into(), (0, 0)));
    w.pod(pod("go", 0));
    w.wait_secs(3);
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("h", "p")));
}

#[test]
fn a_plan_whose_device_a_foreign_scheduler_has_granted_goes_no_further() {
    for placement in ["node=n1", "all"] {
        let mut w = world_with(placement);
        w.pod(pod("p", 1).label("claims", "a").label("permit", "go"));
        w.run();
        put(&mut w, "claim b uid=theirs allocated=\"r gpu.example.com/p/g\"");
        // What the node has of anything else stays as it was.
        w.pod(pod("go", 0).on("elsewhere"));
        w.run();
        let odd = w.notices.iter().find(|notice| matches!(notice, Notice::Odd { .. }));
        assert!(format!("{odd:?}").contains("default/a and default/b at once"), "{odd:?}");
        assert_eq!(w.engine.under_way(), (0, 0), "nothing was written on the strength of it");
        assert_eq!(on_server(&w, "a"), (String::new(), Vec::new()));
        w.wait_secs(3);
        assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("h", "p")));
    }
}

#[test]
fn a_write_that_is_stale_is_not_sent_again_when_a_foreign_scheduler_has_granted_its_device() {
    let (mut w, allocate) = allocating();
    let claim = w.server.claims[&key("a")].clone();
    w.server.put_claim(claim);
    put(&mut w, "claim b uid=theirs allocated=\"r gpu.example.com/p/g\"");
    w.carry_out(allocate);
    let read = w.write(|op| of_claim(op, reads));
    w.carry_out(read);
    assert_eq!((w.engine.under_way(), on_server(&w, "a").0), ((0, 0), String::new()));
    w.wait_secs(3);
    assert_eq!((w.bound("p"), on_server(&w, "a")), ("n1".into(), has("h", "p")));
}

#[test]
fn a_pod_that_is_deleted_meanwhile_frees_the_devices_of_its_plan() {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a").label("permit", "go"));
    w.run();
    w.pod_gone("p");
    w.think();
    assert_eq!((held(&w), w.engine.under_way()), ("".into(), (0, 0)));
    assert!(w.writes.is_empty(), "nothing was written, so nothing is taken back");
}

#[test]
fn a_pod_that_is_deleted_while_its_claim_is_written_holds_the_device_until_it_is_taken_back() {
    let (mut w, allocate) = allocating();
    w.pod_gone("p");
    w.think();
    assert_eq!(held(&w), "g", "the write may be done");
    w.carry_out(allocate);
    let release = w.write(|op| of_claim(op, releases));
    assert_eq!(held(&w), "g", "the server has it so");
    w.carry_out(release);
    assert_eq!((held(&w), on_server(&w, "a")), ("".into(), (String::new(), Vec::new())));
    assert_eq!(w.engine.under_way(), (0, 0));
}

#[test]
fn a_pod_that_is_deleted_while_the_answer_is_lost_holds_the_device_until_it_is_known() {
    let (mut w, allocate) = allocating();
    w.answer(&allocate, unknown());
    w.pod_gone("p");
    outwait(&mut w, &allocate);
    // The proposal that was still inside the store commits.
    w.server.carry_out(&allocate.op);
    w.run();
    assert_eq!((held(&w), on_server(&w, "a")), ("".into(), (String::new(), Vec::new())));
    assert_eq!(w.engine.under_way(), (0, 0));
}

#[test]
fn what_was_written_to_one_claim_is_taken_back_when_the_other_fails() {
    let mut w = world();
    w.pod(pod("p", 1).label("claims", "a,b"));
    for _ in 0..2 {
        let protect = w.write(|op| of_claim(op, |w| matches!(w, ClaimWrite::Protect { .. })));
        w.carry_out(protect);
    }
    let first = w.write(|op| of_claim(op, allocates));
    let second = w.write(|op| of_claim(op, allocates));
    assert_eq!(held(&w), "g h");
    w.carry_out(first);
    w.answer(&second, refused(422));
    assert_eq!(held(&w), "g h", "until what was written is taken back");
    let release = w.write(|op| of_claim(op, releases));
    assert_eq!(version(&release), w.server.claims[&key("a")].resource_version);
    w.carry_out(release);
    assert_eq!((held(&w), on_server(&w, "a")), ("".into(), (String::new(), Vec::new())));
    assert_eq!((w.engine.under_way(), w.station("p")), ((0, 0), Some(Station::ErrorBackoff)));
}

#[test]
fn what_is_taken_back_is_read_back_too_and_the_devices_stay_held_until_it_is_done() {
    let (mut w, allocate) = allocating();
    w.carry_out(allocate);
    let bind = w.bind_of("p");
    w.answer(&bind, refused(403));
    for _ in 0..7 {
        let release = w.write(|op| of_claim(op, releases));
        w.answer(&release, unknown());
        outwait(&mut w, &release);
        let read = w.write(|op| of_claim(op, reads));
        assert_eq!(held(&w), "g");
        w.carry_out(read);
    }
    let release = w.write(|op| of_claim(op, releases));
    w.server.carry_out(&release.op);
    w.answer(&release, unknown());
    outwait(&mut w, &release);
    let read = w.write(|op| of_claim(op, reads));
    w.carry_out(read);
    assert_eq!((held(&w), w.engine.under_way()), ("".into(), (0, 0)));
}

#[test]
fn devices_that_a_failed_plan_held_go_to_whoever_waits() {
    let (mut w, allocate) = allocating();
    tell(&mut w, "slice s rv=2 pool=p node=n1 devices=g");
    w.pod(pod("q", 1).label("claims", "b"));
    w.think();
    assert_eq!(w.station("q"), Some(Station::Unschedulable));
    w.answer(&allocate, refused(422));
    w.wait_secs(2);
    assert_eq!((w.bound("q"), on_server(&w, "b")), ("n1".into(), has("g", "q")));
}

#[test]
fn two_pods_never_get_one_device() {
    let mut w = world();
    for name in ["p", "q", "r"] {
        let claim = match name {
            "p" => "a",
            "q" => "b",
            _ => {
                put(&mut w, "claim c");
                "c"
            }
        };
        w.pod(pod(name, 1).label("claims", claim));
    }
    w.run();
    let devices = ["a", "b", "c"].map(|claim| on_server(&w, claim).0);
    assert_eq!(devices, ["g", "h", ""]);
    assert_eq!(w.station("r"), Some(Station::Unschedulable));
    delete(&mut w, "a");
    w.wait_secs(3);
    assert_eq!((w.bound("r"), on_server(&w, "c").0), ("n1".into(), "g".into()));
}
