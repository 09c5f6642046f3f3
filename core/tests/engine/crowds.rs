//! Very many at once: groups larger than what fits, and many groups. Work stays bounded, and others
//! get their turn.

use berth_core::snapshot::{ClusterEvent, GroupEvent};

use crate::build::{With, gang, node, pod};
use crate::harness::World;

fn cluster(nodes: usize, cpu: i64) -> World {
    let mut w = World::new();
    (0..nodes).for_each(|n| w.node(node(&format!("n{n}"), cpu)));
    w
}

fn group(w: &mut World, name: &str, min_member: u32) {
    let object = Box::new(gang(name, min_member));
    w.event(ClusterEvent::Groups(GroupEvent::Applied(object)));
}

#[test]
fn a_group_of_ten_thousand_that_does_not_fit_is_told_so_and_holds_nobody_up() {
    let mut w = cluster(50, 100);
    group(&mut w, "g", 10_000);
    for n in 0..10_000 {
        w.pod(pod(&format!("m{n}"), 1).grouped("g").owned());
    }
    w.pod(pod("alone", 1));
    w.wait_secs(2);
    assert!(!w.bound("alone").is_empty());
    let message = w.condition("m0").message;
    assert!(message.contains("the group needs room for 10000 pods"), "{message}");
    assert!(w.polls < 20_000, "{} polls", w.polls);
}

#[test]
fn five_hundred_groups_at_once_are_each_bound_whole_or_not_at_all() {
    let mut w = cluster(100, 32);
    for g in 0..500 {
        group(&mut w, &format!("g{g}"), 8);
        for n in 0..8 {
            w.pod(pod(&format!("g{g}-{n}"), 1).grouped(&format!("g{g}")).owned());
        }
    }
    w.wait_secs(5);
    let bound = |g: usize| (0..8).filter(|n| !w.bound(&format!("g{g}-{n}")).is_empty()).count();
    let counts: Vec<usize> = (0..500).map(bound).collect();
    assert_eq!(counts.iter().filter(|n| **n == 8).count(), 400, "3,200 places for eight each");
    assert!(counts.iter().all(|n| [0, 8].contains(n)), "{counts:?}");
}
