//! Groups that are so hard to place that the steps of a search run out before it has looked at
//! everything.

use berth_core::engine::{Limits, Outcome, Setup};
use berth_core::queue::Station;
use berth_core::types::Resources;

use crate::build::{gang, labelled, node, pod};
use crate::gangs::{group, member};
use crate::harness::World;

/// Steps that the first attempt may take in going back.
const STEPS: u64 = 400;
/// What members ask for: even numbers, no two alike, 302 together.
const SIZES: [i64; 12] = [4, 8, 14, 18, 22, 24, 26, 28, 32, 38, 42, 46];
/// Attempts until a search may take 64 times the steps of the first one.
const ATTEMPTS: usize = 7;

/// Three nodes that hold 303 together, but, as they are odd, only 300 in even numbers: there is no
/// placement, and nothing short of trying shows that.
fn hard(seed: u64) -> World {
    let limits = Limits { steps_back: STEPS, ..Limits::default() };
    let mut w = World::with(Setup { seed, limits, ..Setup::default() });
    ["n1", "n2", "n3"].iter().for_each(|name| w.node(node(name, 101)));
    group(&mut w, gang("g", SIZES.len() as u32));
    for size in SIZES {
        w.pod(member(&format!("m{size}"), size));
    }
    w
}

/// Returns the attempts on the group: who was told to fit nowhere, and the steps.
fn attempts(w: &World) -> Vec<(String, u64)> {
    let of_group = w.reports.iter().filter(|report| report.group.is_some());
    let ran_out = of_group.filter(|report| report.outcome == Outcome::Unschedulable);
    ran_out.map(|report| (report.pod.name.to_string(), report.steps)).collect()
}

/// Lets all retries happen that no event brings.
fn parked(seed: u64) -> World {
    let mut w = hard(seed);
    w.wait_secs(100);
    w
}

#[test]
fn each_retry_has_twice_the_steps_up_to_sixty_four_times_and_then_an_event_is_waited_for() {
    let w = parked(0);
    let steps: Vec<u64> = attempts(&w).iter().map(|(_, steps)| *steps).collect();
    assert_eq!(steps.len(), ATTEMPTS, "{steps:?}");
    for (at, steps) in steps.iter().enumerate() {
        let may = STEPS << at;
        // And what it takes to find the order, and to come to the first dead end.
        assert!((may..may + 2 * STEPS).contains(steps), "attempt {at}: {steps} of {may}");
    }
    assert!(matches!(w.station("m4"), Some(Station::Unschedulable)), "{:?}", w.station("m4"));
    let message = w.condition("m4").message;
    assert!(message.contains("that there is none is not proven"), "{message}");
    assert!(SIZES.iter().all(|size| w.held(&format!("m{size}")).is_empty()), "nothing is held");
}

#[test]
fn what_changes_nothing_for_its_members_wakes_nobody() {
    let mut w = parked(0);
    w.node(labelled(node("n1", 101), &[("colour", "red")]));
    w.pod(pod("single", 1));
    w.wait_secs(100);
    assert!(!w.bound("single").is_empty());
    assert_eq!(attempts(&w).len(), ATTEMPTS);
}

#[test]
fn a_node_that_changes_brings_one_more_attempt_with_the_same_steps() {
    let mut w = parked(0);
    let mut larger = node("n1", 101);
    larger.allocatable = Resources { cpu_milli: 101_500, ..larger.allocatable };
    w.node(larger);
    w.wait_secs(100);
    let after = attempts(&w);
    let (_, steps) = after.last().expect("an attempt");
    assert_eq!(after.len(), ATTEMPTS + 1);
    let may = STEPS << (ATTEMPTS - 1);
    assert!((may..may + 2 * STEPS).contains(steps), "{steps} of {may}");
    // And where there is room, the group is placed.
    w.node(node("n4", 46));
    w.wait_secs(30);
    assert!(SIZES.iter().all(|size| !w.bound(&format!("m{size}")).is_empty()));
}

/// The order is drawn from the seed, the group and the attempt, and from nothing else.
#[test]
fn each_retry_takes_another_order_which_the_seed_repeats() {
    let (one, again, other) = (attempts(&parked(1)), attempts(&parked(1)), attempts(&parked(2)));
    assert_eq!(one, again);
    assert_ne!(one, other);
    let told = |attempts: &[(String, u64)]| {
        attempts.iter().map(|(pod, _)| pod.clone()).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(told(&one) > 1, "{one:?}");
}
