//! All solutions that differ in what matters: each of them, and each once.

use std::sync::Arc;

use berth_core::framework::Work;
use berth_core::types::ResourceSlice;
use berth_core::types::claim::{ConstraintKind, DeviceDemand, DeviceRequest};
use berth_core::types::device::{AttributeValue, Placement};

use super::super::testing::*;
use super::super::{Options, Refused, Solutions, TIMED_OUT};

fn shown(
    world: &mut World,
    claims: &[Arc<DeviceDemand>],
    others: &[Arc<DeviceDemand>],
) -> Vec<String> {
    world.solutions(claims, others, false).iter().map(show).collect()
}

fn alone(world: &mut World, claims: &[Arc<DeviceDemand>]) -> Vec<String> {
    shown(world, claims, &[])
}

/// A GPU that can be used whole or as two halves.
fn divisible() -> World {
    let mut world = World::new();
    let part = |name: &str, kind: &str, slots| {
        device(name).draws("gpu", &[("slots", slots)]).text("kind", kind)
    };
    let half = |name: &str| part(name, "half", 1);
    let devices = vec![part("whole", "whole", 2), half("half-0"), half("half-1")];
    let counter_sets = vec![counter_set("gpu", &[("slots", 2)])];
    world.slice(ResourceSlice { counter_sets, ..slice("s", devices) });
    world
}

#[test]
fn the_whole_then_a_half_of_which_one_is_as_good_as_the_other() {
    let wants = first_of("r", ["whole", "half"].map(|kind| of_kind(request(kind), kind)).into());
    let wants = [claim(vec![wants])];
    assert_eq!(alone(&mut divisible(), &wants), ["r/whole=whole", "r/half=half-0"]);
    assert_eq!(shown(&mut divisible(), &wants, &wants), ["r/whole=whole", "r/half=half-0"]);
}

#[test]
fn identical_devices_are_one_solution_whatever_the_number() {
    let mut world = World::of((0..30).map(|at| device(&format!("d{at}"))).collect());
    assert_eq!(alone(&mut world, &[one(count("r", 15))]).len(), 1);
    let claims = [one(count("r", 3)), one(count("s", 4))];
    assert_eq!(alone(&mut world, &claims).len(), 1);
}

#[test]
fn a_partition_is_told_at_each_of_its_places_on_one_of_the_gpus_that_are_alike() {
    let small = one(of_kind(request("r"), "1g"));
    let places = ["6", "4", "5", "0", "1", "2", "3"].map(|place| format!("r=0-1g-{place}"));
    assert_eq!(alone(&mut mig(8), std::slice::from_ref(&small)), places);
    let mut world = mig(8);
    world.hold("3-1g-6", None);
    assert_eq!(alone(&mut world, std::slice::from_ref(&small)).len(), places.len() + 6);
    // What isn't asked for has left less of one of them.
    let mut world = mig(8);
    world.hold("3-2g-4", None);
    assert_eq!(alone(&mut world, &[small]).len(), places.len() + 5);
}

#[test]
fn what_others_want_makes_a_difference() {
    let kinds = ["x", "x", "y", "y"];
    let of = |(at, kind): (usize, &&str)| device(&format!("d{at}")).text("kind", kind);
    let mut world = World::of(kinds.iter().enumerate().map(of).collect());
    let any = [one(request("r"))];
    assert_eq!(alone(&mut world, &any), ["r=d0"]);
    let others = [one(of_kind(request("s"), "y"))];
    assert_eq!(shown(&mut world, &any, &others), ["r=d0", "r=d2"]);
    let pair = under(one(count("s", 2)), ConstraintKind::Distinct, "kind");
    assert_eq!(shown(&mut world, &any, &[pair]).len(), 1, "both kinds look the same to it");
}

#[test]
fn a_constraint_of_others_makes_a_difference() {
    let kinds = ["x", "x", "y", "y", "y"];
    let of = |(at, kind): (usize, &&str)| device(&format!("d{at}")).text("kind", kind);
    let mut world = World::of(kinds.iter().enumerate().map(of).collect());
    let pair = under(one(count("s", 2)), ConstraintKind::Match, "kind");
    assert_eq!(shown(&mut world, &[one(request("r"))], &[pair]), ["r=d0", "r=d2"]);
}

#[test]
fn devices_that_others_have_not_looked_at_may_differ() {
    let mut world = World::of(devices(&["a", "b"]));
    let any = [one(request("r"))];
    let others = [one(selecting(request("s"), "device.driver == 'd.example.com'"))];
    let first = world.answer(&any, false).0.unwrap();
    let options = Options { first_fit: false, steps_max: u64::MAX };
    let place = (&world.cluster, world.node);
    let mut rest = Solutions::besides(&first, place, &any, &others, options, None).unwrap();
    assert_eq!(
        rest.find_next(&mut Work::unlimited()).unwrap().unwrap().map(|found| show(&found)),
        Some("r=b".to_owned())
    );
    assert_eq!(rest.find_next(&mut Work::unlimited()).unwrap(), Ok(None));
}

#[test]
fn where_a_device_can_be_used_makes_a_difference() {
    let everywhere = |name: &str, pool: &str| ResourceSlice {
        pool: pool.into(),
        placement: Placement::AllNodes,
        ..slice(name, devices(&[&format!("{name}-0"), &format!("{name}-1")]))
    };
    let mut world = World::of(devices(&["here-0", "here-1"]));
    world.slice(everywhere("net", "net"));
    world.slice(everywhere("far", "far"));
    assert_eq!(alone(&mut world, &[one(request("r"))]), ["r=far-0", "r=net-0", "r=here-0"]);
    // Which of two claims can be used elsewhere, too.
    let claims = [one(request("r")), one(request("s"))];
    let two = alone(&mut world, &claims);
    assert!(two.contains(&"r=here-0 s=net-0".to_owned()), "{two:?}");
    assert!(two.contains(&"r=net-0 s=here-0".to_owned()), "{two:?}");
    assert_eq!(two.len(), 9, "{two:?}");
}

#[test]
fn what_is_left_of_shared_devices_makes_a_difference() {
    let gpu = |name: &str| device(name).capacity("memory", 8, None).shared();
    let mut world = World::of(vec![gpu("a"), gpu("b"), gpu("c")]);
    let wants = |n| DeviceRequest { capacity: vec![("memory".into(), gi(n))], ..request("r") };
    assert_eq!(alone(&mut world, &[one(wants(2))]), ["r=a"]);
    world.hold("b", Some(&[("memory", 3)]));
    assert_eq!(alone(&mut world, &[one(wants(2))]), ["r=b", "r=a"]);
    assert_eq!(alone(&mut world, &[one(wants(2)), one(wants(3))]).len(), 5);
}

#[test]
fn administrators_leave_everything_as_it_is() {
    let mut world = World::of(devices(&["a", "b"]));
    world.hold("b", None);
    assert_eq!(alone(&mut world, &[one(admin("r"))]).len(), 1);
}

#[test]
fn running_out_of_steps_is_told_apart_from_the_end() {
    let of = |at| device(&format!("d{at}")).with("numa", AttributeValue::Int(at));
    let mut world = World::of((0..20).map(of).collect());
    let numbered = |at| {
        let selector = format!("device.attributes[\"{DRIVER}\"].numa == {at}");
        one(selecting(request("s"), &selector))
    };
    // Each device is another's own, so that any ten of them are a solution like no other.
    let others: Vec<Arc<DeviceDemand>> = (0..20).map(numbered).collect();
    let claims = [one(count("r", 10))];
    world.declare(&others);
    let first = world.answer(&claims, false).0.unwrap();
    let options = Options { first_fit: false, steps_max: 5_000 };
    let place = (&world.cluster, world.node);
    let mut rest = Solutions::besides(&first, place, &claims, &others, options, None).unwrap();
    let mut ends = (0..100_000).map(|_| rest.find_next(&mut Work::unlimited()).unwrap());
    assert_eq!(
        ends.find(|end| !matches!(end, Ok(Some(_)))),
        Some(Err(Refused::NotProven(TIMED_OUT.into())))
    );
}
