//! Limits of the API, and demands that can't be understood.

use std::sync::Arc;

use berth_core::types::claim::{AllocationMode, ConstraintKind, DeviceDemand, DeviceRequest};

use super::super::testing::*;
use super::super::{Refused, TIMED_OUT};

fn names(n: usize) -> Vec<String> {
    (0..n).map(|at| format!("d{at}")).collect()
}

fn world_of(n: usize) -> World {
    World::of(names(n).iter().map(|name| device(name)).collect())
}

fn refused(claim: Arc<DeviceDemand>) -> String {
    match world_of(40).best(&[claim]) {
        Err(Refused::Broken(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_has_at_most_32_devices() {
    let text = "request r: adding 33 devices exceeds the claim limit of 32";
    assert_eq!(refused(one(count("r", 33))), text);
    assert!(refused(one(count("r", i64::MAX))).contains("exceeds the claim limit"));
    let (found, _) = world_of(40).answer(&[one(count("r", 32)), one(count("s", 8))], false);
    assert_eq!(found.unwrap().claims.iter().map(Vec::len).collect::<Vec<_>>(), [32, 8]);
    let small = first_of("r", vec![count("big", 33), count("small", 2)]);
    world_of(2).check(&[claim(vec![small])], Ok("r/small=d0 r/small=d1"));
    let tight =
        vec![first_of("r", vec![count("big", 20), count("small", 1)]), exactly(count("s", 31))];
    let (found, _) = world_of(40).answer(&[claim(tight)], false);
    assert_eq!(found.unwrap().preference, 7);
}

#[test]
fn too_many_parts_are_named() {
    let many = |n: usize| names(n).iter().map(|name| exactly(request(name))).collect();
    let text = "a claim has 33 requests, more than the 32 that are allowed";
    assert_eq!(refused(claim(many(33))), text);
    let alternatives = names(9).iter().map(|name| request(name)).collect();
    let text = "request r has 9 alternatives, more than the 8 that are allowed";
    assert_eq!(refused(claim(vec![first_of("r", alternatives)])), text);
    let selectors = vec!["true".into(); 33];
    let text = "request r has 33 selectors, more than the 32 that are allowed";
    assert_eq!(refused(one(DeviceRequest { selectors, ..request("r") })), text);
    let mut constrained = one(request("r"));
    for _ in 0..33 {
        constrained = under(constrained, ConstraintKind::Match, "kind");
    }
    let text = "a claim has 33 constraints, more than the 32 that are allowed";
    assert_eq!(refused(constrained), text);
}

#[test]
fn a_slice_with_too_many_devices_makes_its_pool_invalid() {
    let invalid = Refused::NoFit("invalid resource pools were encountered".into());
    world_of(129).check(&[one(request("r"))], Err(invalid));
    world_of(128).check(&[one(request("r"))], Ok("r=d0"));
}

#[test]
fn what_is_unknown_is_an_error() {
    let missing = DeviceRequest { class: "none".into(), ..request("r") };
    assert_eq!(refused(one(missing)), "request r: could not retrieve device class none");
    let mode = DeviceRequest { mode: AllocationMode::Unknown("Some".into()), ..request("r") };
    assert_eq!(refused(one(mode)), "request r: unsupported count mode Some");
    assert_eq!(refused(one(count("r", 0))), "request r: a count of 0 devices can't be allocated");
    assert_eq!(refused(claim(vec![first_of("r", vec![])])), "request r: unknown request type");
    let constrained = under(one(request("r")), ConstraintKind::Unknown, "kind");
    let text = "constraint #0: empty constraint (unsupported constraint type?)";
    assert_eq!(refused(constrained), text);
    let invalid = selecting(request("r"), "device.");
    assert!(refused(one(invalid)).contains("CEL compile error"));
}

#[test]
fn a_selector_that_was_not_evaluated_proves_nothing() {
    let mut world = world_of(1);
    let claims = [one(request("r"))];
    let mut search = world.search(&claims, false);
    world.class("any", &["true"]);
    let answer = search.run(&world.cluster, &mut berth_core::framework::Work::unlimited());
    let Some(Err(Refused::NotProven(text))) = answer else { panic!("{answer:?}") };
    assert!(text.contains("selector \"true\" was not evaluated for every device"), "{text}");
}

#[test]
fn a_claim_without_requests_has_no_devices() {
    world_of(0).check(&[claim(vec![])], Ok(""));
}

#[test]
fn a_search_that_takes_too_long_is_not_proven() {
    let mut world = world_of(8);
    let claims = [one(count("r", 8))];
    world.declare(&claims);
    let options = super::super::Options { first_fit: false, steps_max: 20 };
    let mut search = super::super::Search::new(world.node, claims.to_vec(), options);
    let answer = search.run(&world.cluster, &mut berth_core::framework::Work::unlimited());
    assert_eq!(answer, Some(Err(Refused::NotProven(TIMED_OUT.into()))));
}
