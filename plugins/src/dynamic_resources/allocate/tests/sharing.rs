//! Devices that several claims share.

use std::sync::Arc;

use berth_core::types::claim::{DeviceDemand, DeviceRequest};
use berth_core::types::device::{PolicyValues, Quantity};
use berth_core::types::{Device, Text};

use super::super::testing::*;

fn memory(request: DeviceRequest, key: &str, amount: Quantity) -> DeviceRequest {
    DeviceRequest { capacity: vec![(key.into(), amount)], ..request }
}

fn mi(n: i64) -> Quantity {
    Quantity { nanos: gi(n).nanos >> 10, text: format!("{n}Mi").into() }
}

fn by_gi() -> PolicyValues {
    PolicyValues::Range { min: gi(1), max: None, step: Some(gi(1)) }
}

fn gpu(name: &str) -> Device {
    device(name).capacity("memory", 8, Some(by_gi())).shared()
}

fn wants(amount: Quantity) -> Arc<DeviceDemand> {
    one(memory(request("r"), "memory", amount))
}

#[test]
fn amounts_are_rounded_and_recorded() {
    let (found, _) = World::of(vec![gpu("a")]).answer(&[wants(mi(1500))], false);
    let result = &found.unwrap().claims[0][0];
    let consumed = Quantity { text: "2Gi".into(), ..gi(2) };
    assert_eq!(result.consumed, [(Text::from("memory"), consumed)]);
    assert!(result.share_id.is_some());
}

#[test]
fn a_request_has_a_shared_device_once_but_two_requests_may_have_it() {
    let mut world = World::of(vec![gpu("a")]);
    let twice = memory(count("r", 2), "memory", gi(1));
    world.check(&[one(twice)], Err(no_fit()));
    let of = |name| exactly(memory(request(name), "memory", gi(4)));
    world.check(&[claim(vec![of("r"), of("s")])], Ok("r=a s=a"));
    world.check(&[claim(vec![of("r"), of("s"), of("t")])], Err(no_fit()));
}

#[test]
fn capacity_keys_are_compared_to_the_letter() {
    let mut world = World::of(vec![gpu("a")]);
    let qualified = memory(request("r"), "d.example.com/memory", gi(1));
    world.check(&[one(qualified)], Err(no_fit()));
}

#[test]
fn without_a_wish_the_whole_is_taken() {
    let mut world = World::of(vec![gpu("a")]);
    world.check(&[one(request("r")), wants(gi(1))], Err(no_fit()));
    world.check(&[one(request("r"))], Ok("r=a"));
}

#[test]
fn what_others_have_is_not_there() {
    let mut world = World::of(vec![gpu("a")]);
    world.hold("a", Some(&[("memory", 6)]));
    world.check(&[wants(gi(2))], Ok("r=a"));
    world.check(&[wants(gi(3))], Err(no_fit()));
    world.hold("a", None);
    world.check(&[wants(gi(1))], Err(no_fit()));
}

#[test]
fn an_ordinary_device_only_has_to_be_large_enough() {
    let mut world = World::of(vec![
        device("small").capacity("memory", 4, None),
        device("large").capacity("memory", 8, None),
    ]);
    let (found, _) = world.answer(&[wants(gi(6))], false);
    let found = found.unwrap();
    assert_eq!(show(&found), "r=large");
    assert!(found.claims[0][0].consumed.is_empty() && found.claims[0][0].share_id.is_none());
}

#[test]
fn the_fuller_device_is_shared_on() {
    let mut world = World::of(vec![gpu("a"), gpu("b"), gpu("c")]);
    world.hold("b", Some(&[("memory", 3)]));
    world.hold("c", Some(&[("memory", 7)]));
    assert_eq!(world.best(&[wants(gi(2))]), Ok("r=b".to_owned()));
    assert_eq!(world.first(&[wants(gi(2))]), Ok("r=a".to_owned()));
}

#[test]
fn a_shared_device_draws_its_counters_once() {
    let mut world = World::new();
    let part = |name: &str| gpu(name).draws("set", &[("slots", 1)]);
    let mut slice = slice("s", vec![part("a"), part("b")]);
    slice.counter_sets = vec![counter_set("set", &[("slots", 1)])];
    world.slice(slice);
    world.check(&[wants(gi(1)), wants(gi(1))], Ok("r=a r=a"));
    world.check(&[one(memory(count("r", 2), "memory", gi(1)))], Err(no_fit()));
    world.hold("b", Some(&[("memory", 4)]));
    world.check(&[wants(gi(1)), wants(gi(3))], Ok("r=b r=b"));
    world.check(&[wants(gi(1)), wants(gi(4))], Err(no_fit()));
}
