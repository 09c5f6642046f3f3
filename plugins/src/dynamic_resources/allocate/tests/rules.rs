//! Which devices a request may have.

use berth_core::snapshot::DeviceEvent;
use berth_core::types::claim::{ConstraintKind, DeviceRequest, DeviceToleration};
use berth_core::types::device::Placement;
use berth_core::types::{DeviceTaintRule, ResourceSlice};

use super::super::testing::*;

fn named(name: &str, pool: &str, names: &[&str]) -> ResourceSlice {
    ResourceSlice { pool: pool.into(), ..slice(name, devices(names)) }
}

#[test]
fn pools_and_slices_go_by_name_and_devices_as_listed() {
    let mut world = World::new();
    world.slice(ResourceSlice { slice_count: 2, ..named("x2", "p1", &["c"]) });
    world.slice(ResourceSlice { slice_count: 2, ..named("x1", "p1", &["b", "a"]) });
    world.slice(named("w", "p2", &["d"]));
    world.check(&[one(count("r", 3))], Ok("r=b r=a r=c"));
    world.check(&[one(count("r", 4))], Ok("r=b r=a r=c r=d"));
}

#[test]
fn pools_with_binding_conditions_come_last() {
    let mut world = World::new();
    let binding = device("a").model(|model| model.binding_conditions = Box::new(["ready".into()]));
    world.slice(ResourceSlice { pool: "p1".into(), ..slice("s1", vec![binding, device("b")]) });
    world.slice(named("s2", "p2", &["c"]));
    world.check(&[one(request("r"))], Ok("r=c"));
    assert_eq!(world.first(&[one(count("r", 2))]), Ok("r=c r=a".to_owned()));
    assert_eq!(world.best(&[one(count("r", 2))]), Ok("r=c r=b".to_owned()));
}

#[test]
fn an_incomplete_pool_is_left_out_and_breaks_a_request_for_all() {
    let mut world = World::new();
    world.slice(ResourceSlice { slice_count: 2, ..named("s", "pool", &["a"]) });
    world.check(&[one(request("r"))], Err(no_fit()));
    let text = "request r: asks for all devices, but resource pool d.example.com/pool is currently \
                being updated";
    world.check(&[one(all("r"))], Err(broken(text)));
    world.slice(named("t", "other", &["b"]));
    world.check(&[one(request("r"))], Ok("r=b"));
}

#[test]
fn an_invalid_pool_is_left_out_and_named_if_nothing_else_does() {
    let mut world = World::of(devices(&["a", "a"]));
    let invalid = super::super::Refused::NoFit("invalid resource pools were encountered".into());
    world.check(&[one(request("r"))], Err(invalid));
    assert!(matches!(world.best(&[one(all("r"))]), Err(super::super::Refused::Broken(_))));
    world.slice(named("t", "other", &["b"]));
    world.check(&[one(request("r"))], Ok("r=b"));
}

#[test]
fn all_means_every_device_or_none() {
    World::new().check(&[one(all("r"))], Err(no_fit()));
    let mut world = World::of(devices(&["a", "b"]));
    world.check(&[one(all("r"))], Ok("r=a r=b"));
    world.check(&[one(request("x")), one(all("r"))], Err(no_fit()));
    world.hold("b", None);
    world.check(&[one(all("r"))], Err(no_fit()));
    let mut tainted = World::of(vec![device("a"), device("b").tainted("k")]);
    tainted.check(&[one(all("r"))], Err(no_fit()));
}

#[test]
fn all_under_a_constraint_that_it_breaks_is_an_error() {
    let mut world = World::of(vec![device("a").text("kind", "x"), device("b").text("kind", "y")]);
    let text = "request r: cannot add device d.example.com/pool/b because a claim constraint would \
                not be satisfied";
    let claim = under(one(all("r")), ConstraintKind::Match, "kind");
    world.check(&[claim], Err(broken(text)));
    let either = claim_of_two(first_of("r", vec![all("all"), request("one")]));
    world.check(&[under(either, ConstraintKind::Match, "kind")], Ok("r/one=a"));
}

fn claim_of_two(
    request: berth_core::types::claim::ClaimRequest,
) -> std::sync::Arc<berth_core::types::claim::DeviceDemand> {
    claim(vec![request])
}

#[test]
fn selectors_of_class_and_request_must_all_hold() {
    let mut world = World::of(vec![
        device("a").text("kind", "x"),
        device("b").text("kind", "y").text("size", "s"),
        device("c").text("kind", "y").text("size", "l"),
    ]);
    world.class("y", &["device.attributes[\"d.example.com\"].kind == \"y\""]);
    let large = "device.attributes[\"d.example.com\"].size == \"l\"";
    let request = DeviceRequest { class: "y".into(), ..selecting(request("r"), large) };
    world.check(&[one(request)], Ok("r=c"));
}

#[test]
fn a_selector_without_value_matters_only_if_its_device_does() {
    let text = "selector \"device.attributes[\\\"d.example.com\\\"].kind == \\\"x\\\"\" on device \
                d.example.com/pool/a: CEL runtime error: no such key: kind";
    let mut world = World::of(vec![device("a"), device("b").text("kind", "x")]);
    world.check(&[one(of_kind(request("r"), "x"))], Ok("r=b"));
    let answer = world.best(&[one(of_kind(count("r", 2), "x"))]);
    let Err(super::super::Refused::Broken(said)) = &answer else { panic!("{answer:?}") };
    assert!(said.starts_with(&text[..60]) && said.contains("pool/a"), "{said}");
    assert_eq!(world.first(&[one(of_kind(count("r", 2), "x"))]), answer);
    world.hold("a", None);
    world.check(&[one(of_kind(count("r", 2), "x"))], Err(no_fit()));
}

#[test]
fn taints_keep_off_who_does_not_tolerate_them() {
    let mut world = World::of(vec![device("a").tainted("k"), device("b")]);
    world.check(&[one(request("r"))], Ok("r=b"));
    world.check(&[one(count("r", 2))], Err(no_fit()));
    let toleration = DeviceToleration {
        key: "k".into(),
        exists: true,
        value: "".into(),
        effect: None,
        seconds: Some(1),
    };
    let tolerant = DeviceRequest { tolerations: vec![toleration.clone()], ..count("r", 2) };
    let (found, _) = world.answer(&[one(tolerant)], false);
    let found = found.unwrap();
    assert_eq!(show(&found), "r=a r=b");
    assert_eq!(found.claims[0][0].tolerations, [toleration]);
    let rule = DeviceTaintRule {
        name: "rule".into(),
        resource_version: 1,
        selector: Some(berth_core::types::device::TaintedDevices::default()),
        taint: device("t").tainted("other").model.taints[0].clone(),
    };
    world.event(DeviceEvent::TaintRuleApplied(Box::new(rule)));
    world.check(&[one(request("r"))], Err(no_fit()));
}

#[test]
fn first_available_takes_the_first_alternative_that_leads_to_a_solution() {
    let mut world = World::of(devices(&["a", "b"]));
    let wish = || first_of("r", vec![count("big", 3), request("small")]);
    world.check(&[claim(vec![wish()])], Ok("r/small=a"));
    let wish = || first_of("r", vec![count("two", 2), request("one")]);
    world.check(&[claim(vec![wish()])], Ok("r/two=a r/two=b"));
    world.check(&[claim(vec![wish(), exactly(request("x"))])], Ok("r/one=a x=b"));
    let (found, _) = world.answer(&[claim(vec![wish(), exactly(request("x"))])], false);
    assert_eq!(found.unwrap().preference, 7);
}

#[test]
fn later_alternatives_are_the_best_that_go_with_the_first() {
    // Taking a for the first request leaves only the second alternative to the other.
    let mut world = World::of(vec![
        device("a").text("kind", "x"),
        device("b").text("kind", "y"),
        device("c").text("kind", "z"),
    ]);
    let not_z = "device.attributes[\"d.example.com\"].kind != \"z\"";
    let first = first_of("r", vec![selecting(request("xy"), not_z), request("any")]);
    let second = first_of("s", vec![of_kind(request("x"), "x"), of_kind(request("z"), "z")]);
    let claims = [claim(vec![first, second])];
    assert_eq!(world.first(&claims), Ok("r/xy=a s/z=c".to_owned()));
    assert_eq!(world.best(&claims), Ok("r/xy=b s/x=a".to_owned()));
}

#[test]
fn administrators_neither_block_nor_are_blocked() {
    let mut world = World::of(devices(&["a"]));
    let (admin_claim, normal) = (one(admin("x")), one(request("r")));
    world.check(&[admin_claim.clone(), normal.clone()], Ok("x=a r=a"));
    world.check(&[normal, admin_claim.clone()], Ok("r=a x=a"));
    world.hold("a", None);
    world.check(&[admin_claim], Ok("x=a"));
    world.check(&[one(request("r"))], Err(no_fit()));
}

#[test]
fn a_claim_has_a_device_once() {
    let mut world = World::of(devices(&["a", "b"]));
    world.check(&[one(DeviceRequest { admin: true, ..count("r", 2) })], Ok("r=a r=b"));
    world.check(&[one(DeviceRequest { admin: true, ..count("r", 3) })], Err(no_fit()));
    let both = || claim(vec![exactly(admin("x")), exactly(count("r", 2))]);
    world.check(&[both()], Err(no_fit()));
    world.check(&[claim(vec![exactly(admin("x")), exactly(request("r"))])], Ok("x=a r=b"));
}

#[test]
fn match_wants_one_value_and_backtracks_to_find_it() {
    let mut world = World::of(vec![
        device("a").text("kind", "x"),
        device("b").text("kind", "y"),
        device("c"),
        device("e").text("kind", "y"),
    ]);
    let claim = || under(one(count("r", 2)), ConstraintKind::Match, "kind");
    world.check(&[claim()], Ok("r=b r=e"));
    world.check(&[under(one(count("r", 3)), ConstraintKind::Match, "kind")], Err(no_fit()));
    world.check(&[under(one(request("r")), ConstraintKind::Match, "none")], Err(no_fit()));
}

#[test]
fn distinct_holds_between_all_devices_of_a_request() {
    let mut world = World::of(vec![
        device("a").text("kind", "x"),
        device("b").text("kind", "y"),
        device("c").text("kind", "x"),
    ]);
    let claim = |n| under(one(count("r", n)), ConstraintKind::Distinct, "kind");
    world.check(&[claim(2)], Ok("r=a r=b"));
    world.check(&[claim(3)], Err(no_fit()));
}

#[test]
fn lists_match_in_what_all_have_in_common_and_differ_if_nothing_is() {
    let mut world = World::of(vec![
        device("a").list("kind", &["x", "y"]),
        device("b").list("kind", &["y", "z"]),
        device("c").text("kind", "z"),
        device("e").list("kind", &[]),
    ]);
    let match_all = |n| under(one(count("r", n)), ConstraintKind::Match, "kind");
    world.check(&[match_all(2)], Ok("r=a r=b"));
    world.check(&[match_all(3)], Err(no_fit()));
    let distinct = |n| under(one(count("r", n)), ConstraintKind::Distinct, "kind");
    world.check(&[distinct(2)], Ok("r=a r=c"));
    world.check(&[distinct(3)], Err(no_fit()));
}

#[test]
fn an_older_generation_counts_while_it_is_whole_here() {
    let mut world = World::new();
    let elsewhere = Placement::Node("n2".into());
    let newer =
        ResourceSlice { generation: 2, placement: elsewhere, ..slice("s2", devices(&["b"])) };
    world.slice(newer);
    world.slice(slice("s1", devices(&["a"])));
    world.check(&[one(request("r"))], Ok("r=a"));
    world.slice(ResourceSlice {
        slice_count: 2,
        resource_version: 2,
        ..slice("s1", devices(&["a"]))
    });
    world.check(&[one(request("r"))], Err(no_fit()));
}

#[test]
fn counters_are_charged_by_driver_and_pool_over_all_slices() {
    let mut world = World::new();
    let half = |name: &str| device(name).draws("gpu", &[("memory", 40)]);
    let with_pool = |mut slice: ResourceSlice, driver: &str| {
        slice.driver = driver.into();
        slice.name = format!("{driver}-{}", slice.name).into();
        slice.slice_count = 2;
        slice
    };
    for driver in ["d1", "d2"] {
        let mut sets = slice("sets", Vec::new());
        sets.counter_sets = vec![counter_set("gpu", &[("memory", 80)])];
        world.slice(with_pool(sets, driver));
        let parts = slice("parts", vec![half("a"), half("b"), half("c")]);
        world.slice(with_pool(parts, driver));
    }
    let of = |driver: &str, n| selecting(count("r", n), &format!("device.driver == \"{driver}\""));
    world.check(&[one(of("d1", 2)), one(of("d2", 2))], Ok("r=a r=b r=a r=b"));
    world.check(&[one(of("d1", 3))], Err(no_fit()));
    let admin = DeviceRequest { admin: true, ..of("d1", 3) };
    world.check(&[one(admin.clone()), one(of("d1", 2))], Ok("r=a r=b r=c r=a r=b"));
}

#[test]
fn a_device_refused_by_a_later_rule_leaves_counters_as_they_were() {
    let mut world = World::new();
    let whole = |name: &str| device(name).draws("gpu", &[("memory", 80)]);
    let mut slice = slice("s", vec![whole("a").tainted("k"), whole("b")]);
    slice.counter_sets = vec![counter_set("gpu", &[("memory", 80)])];
    world.slice(slice);
    world.check(&[one(request("r"))], Ok("r=b"));
    world.hold("a", None);
    world.check(&[one(request("r"))], Err(no_fit()));
}

#[test]
fn what_is_not_supported_is_named() {
    let unsupported = |model: &mut berth_core::types::device::DeviceModel| {
        model.unsupported = Some("nodeAllocatableResources".into());
    };
    let mut world = World::of(vec![device("a").model(unsupported), device("b")]);
    world.check(&[one(request("r"))], Ok("r=b"));
    let text = "cannot allocate all claims: device a has nodeAllocatableResources, which is not \
                supported";
    world.check(&[one(count("r", 2))], Err(super::super::Refused::NoFit(text.into())));
    let request = DeviceRequest { unsupported: Some("derivedAttributes".into()), ..request("r") };
    let text = "request r: derivedAttributes is not supported";
    world.check(&[one(request)], Err(broken(text)));
}

#[test]
fn a_change_of_the_node_begins_the_search_again() {
    let mut world = World::of(devices(&["a"]));
    let claims = [one(request("r"))];
    let mut search = world.search(&claims, false);
    assert!(search.run(&world.cluster, &mut one_step()).is_none());
    world.hold("a", None);
    let mut work = berth_core::framework::Work::unlimited();
    assert_eq!(search.run(&world.cluster, &mut work), Some(Err(no_fit())));
}
