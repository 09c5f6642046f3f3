//! Questions with exponentially many answers to try.

use std::sync::Arc;

use berth_core::types::Device;
use berth_core::types::claim::{ConstraintKind, DeviceDemand, DeviceRequest};

use super::super::testing::*;
use super::random::{Dice, random_claims, random_world};

fn world_of(n: usize, device_at: impl Fn(usize) -> Device) -> World {
    World::of((0..n).map(device_at).collect())
}

fn infeasible_within(world: &mut World, claims: &[Arc<DeviceDemand>], steps_max: u64) {
    for first_fit in [false, true] {
        let (answer, steps) = world.answer(claims, first_fit);
        assert_eq!(answer, Err(no_fit()));
        assert!(steps <= steps_max, "{steps} steps");
    }
}

fn times(n: usize, claim: &Arc<DeviceDemand>) -> Vec<Arc<DeviceDemand>> {
    vec![claim.clone(); n]
}

#[test]
fn one_device_too_few_for_many_claims_of_identical_devices() {
    let mut world = world_of(30, |at| device(&format!("d{at}")));
    infeasible_within(&mut world, &times(31, &one(request("r"))), 4_000);
}

#[test]
fn one_device_too_few_of_nearly_identical_devices() {
    let mut world = world_of(30, |at| device(&format!("d{at}")).text("uuid", &format!("{at}")));
    let claims: Vec<_> = (0..31)
        .map(|at| {
            // Each leaves out another device.
            let other = format!("device.attributes[\"{DRIVER}\"].uuid != \"{at}\"");
            one(selecting(request("r"), &other))
        })
        .collect();
    infeasible_within(&mut world, &claims, 20_000);
    let distinct = times(16, &under(one(count("r", 2)), ConstraintKind::Distinct, "uuid"));
    infeasible_within(&mut world, &distinct, 4_000);
}

#[test]
fn pairs_that_must_match_and_do_not_come_out_even() {
    // Nine devices in each of two halves: eight pairs, not nine.
    let mut world = world_of(18, |at| device(&format!("d{at}")).text("kind", ["x", "y"][at % 2]));
    let pair = under(one(count("r", 2)), ConstraintKind::Match, "kind");
    infeasible_within(&mut world, &times(9, &pair), 20_000);
    // As many neighbourhoods of three: one pair each.
    let root = |at: usize| device(&format!("d{at}")).text("kind", &format!("root-{}", at / 3));
    let mut world = world_of(48, root);
    infeasible_within(&mut world, &times(17, &pair), 60_000);
}

#[test]
fn partitions_that_do_not_fit_by_one() {
    let mut world = mig(8);
    let of = |kind| one(of_kind(request("r"), kind));
    infeasible_within(&mut world, &times(57, &of("1g")), 100_000);
    infeasible_within(&mut world, &times(9, &of("4g")), 20_000);
    let mut halves = times(8, &of("3g"));
    halves.extend(times(9, &of("4g")));
    infeasible_within(&mut world, &halves, 50_000);
    let mut mixed = times(8, &of("4g"));
    mixed.extend(times(8, &of("3g")));
    mixed.extend(times(1, &of("1g")));
    infeasible_within(&mut world, &mixed, 50_000);
}

#[test]
fn shares_that_do_not_fit_by_one() {
    // Three thirds and a bit: two shares a device.
    let mut world =
        world_of(8, |at| device(&format!("d{at}")).capacity("memory", 8, None).shared());
    let third = DeviceRequest { capacity: vec![("memory".into(), gi(3))], ..request("r") };
    infeasible_within(&mut world, &times(17, &one(third)), 60_000);
}

#[test]
fn what_fits_exactly_is_found() {
    let mut world = mig(8);
    let of = |kind| one(of_kind(request("r"), kind));
    let mut claims = times(8, &of("1g"));
    claims.extend(times(8, &of("2g")));
    claims.extend(times(8, &of("4g")));
    let (found, steps) = world.answer(&claims, false);
    assert!(found.is_ok() && steps < 200_000, "{steps} steps");
}

#[test]
fn what_is_looked_at_once_or_given_up_early_changes_no_answer() {
    let mut dice = Dice(0x5eed_0005_0005_5eed);
    let (mut found, mut refused) = (0, 0);
    for round in 0..3_000 {
        let mut world = random_world(&mut dice);
        let claims = random_claims(&mut dice);
        for first_fit in [true, false] {
            let plain = world.answer_hardening(&claims, first_fit, u32::MAX);
            let hard = world.answer_hardening(&claims, first_fit, 0);
            assert_eq!(plain.is_ok(), hard.is_ok(), "round {round}: {claims:?}");
            if first_fit || plain.is_err() {
                assert_eq!(plain, hard, "round {round}: {claims:?}");
            }
            match plain {
                Ok(_) => found += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(found > 1_000 && refused > 1_000, "{found} found, {refused} refused");
}
