//! Which of several solutions is taken.

use std::sync::Arc;

use berth_core::types::claim::DeviceDemand;
use berth_core::types::device::AttributeValue;

use super::super::testing::*;

fn part(kind: &str) -> Arc<DeviceDemand> {
    one(of_kind(request("r"), kind))
}

fn best(world: &mut World, kind: &str) -> String {
    world.best(&[part(kind)]).unwrap()
}

#[test]
fn a_small_partition_goes_where_it_breaks_least() {
    let mut world = mig(2);
    assert_eq!(best(&mut world, "1g"), "r=0-1g-6");
    assert_eq!(world.first(&[part("1g")]), Ok("r=0-1g-0".to_owned()));
    assert_eq!(best(&mut world, "2g"), "r=0-2g-4");
    assert_eq!(best(&mut world, "3g"), "r=0-3g-4");
    world.hold("1-1g-6", None);
    assert_eq!(best(&mut world, "1g"), "r=1-1g-4");
    assert_eq!(best(&mut world, "2g"), "r=1-2g-4");
    assert_eq!(best(&mut world, "4g"), "r=1-4g-0");
    assert_eq!(best(&mut world, "gpu"), "r=0");
}

#[test]
fn partitions_fill_a_broken_gpu_before_a_whole_one_is_broken() {
    let mut world = mig(4);
    for _ in 0..7 {
        let taken = best(&mut world, "1g");
        world.hold(taken.trim_start_matches("r="), None);
    }
    let whole = |world: &mut World, n| world.best(&[one(of_kind(count("r", n), "gpu"))]);
    assert_eq!(whole(&mut world, 3), Ok("r=1 r=2 r=3".to_owned()));
    assert_eq!(best(&mut world, "1g"), "r=1-1g-6");
}

#[test]
fn what_is_left_takes_the_largest_partition_that_can_be() {
    // 1g, 2g and 4g fit one GPU together only if they are put well.
    let mut world = mig(1);
    for kind in ["1g", "2g", "4g"] {
        let taken = best(&mut world, kind);
        world.hold(taken.trim_start_matches("r="), None);
    }
    let mut first_fit = mig(1);
    for kind in ["1g", "2g"] {
        let taken = first_fit.first(&[part(kind)]).unwrap();
        first_fit.hold(taken.trim_start_matches("r="), None);
    }
    assert_eq!(first_fit.best(&[part("4g")]), Err(no_fit()));
}

#[test]
fn within_one_claim_the_large_partitions_are_put_first() {
    let requests = ["1g", "2g", "4g"].map(|kind| exactly(of_kind(request(kind), kind)));
    let claims = [claim(requests.into())];
    assert_eq!(mig(2).best(&claims), Ok("1g=0-1g-6 2g=0-2g-4 4g=0-4g-0".to_owned()));
}

fn gpu(name: &str, root: &str, numa: i64) -> berth_core::types::Device {
    let numa = AttributeValue::Int(numa);
    let device = device(name).text("resource.kubernetes.io/pcieRoot", root);
    device.with("resource.kubernetes.io/numaNode", numa).text("kind", "gpu")
}

fn box_of_eight() -> World {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let place = |(at, name): (usize, &&str)| gpu(name, &format!("root-{}", at / 2), at as i64 / 4);
    World::of(names.iter().enumerate().map(place).collect())
}

#[test]
fn devices_of_a_claim_are_neighbours() {
    let mut world = box_of_eight();
    world.hold("a", None);
    world.check_best(&[one(count("r", 2))], "r=c r=d");
    world.check_best(&[one(count("r", 4))], "r=e r=f r=g r=h");
    // With no whole neighbourhood to spare, those that are left of one are used up.
    world.hold("e", None);
    world.hold("g", None);
    world.check_best(&[one(count("r", 3))], "r=b r=c r=d");
    world.check_best(&[claim(vec![exactly(request("r")), exactly(request("s"))])], "r=c s=d");
}

#[test]
fn the_tightest_neighbourhood_that_does_is_taken() {
    let mut world = World::of(vec![
        gpu("a", "r1", 0),
        gpu("b", "r1", 0),
        gpu("c", "r1", 0),
        gpu("d", "r2", 0),
        gpu("e", "r2", 0),
    ]);
    world.check_best(&[one(count("r", 2))], "r=d r=e");
    world.check_best(&[one(count("r", 3))], "r=a r=b r=c");
}

#[test]
fn a_gpu_is_taken_where_there_is_a_nic() {
    let nic = device("nic").text("resource.kubernetes.io/pcieRoot", "root-2").text("kind", "nic");
    let names = ["a", "b", "c", "d", "e", "f"];
    let place = |(at, name): (usize, &&str)| gpu(name, &format!("root-{}", at / 2), 0);
    let mut devices: Vec<_> = names.iter().enumerate().map(place).collect();
    devices.push(nic);
    let requests = ["gpu", "nic"].map(|kind| exactly(of_kind(request(kind), kind)));
    World::of(devices).check_best(&[claim(requests.into())], "gpu=e nic=nic");
}

#[test]
fn devices_that_need_no_waiting_come_first() {
    let binding = |name: &str| {
        device(name).model(|model| model.binding_conditions = Box::new(["ready".into()]))
    };
    let mut world = World::of(vec![binding("a"), device("b")]);
    world.check_best(&[one(request("r"))], "r=b");
    let (found, _) = world.answer(&[one(request("r"))], true);
    assert_eq!(found.unwrap().claims[0][0].binding_conditions, ["ready"]);
}

impl World {
    fn check_best(&mut self, claims: &[Arc<DeviceDemand>], expected: &str) {
        assert_eq!(self.best(claims), Ok(expected.to_owned()));
    }
}
