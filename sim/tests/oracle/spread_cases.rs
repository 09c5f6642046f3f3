//! Groups whose pods are spread over hosts, one for each way to go wrong. Each can be placed.

use super::problem::{By, Devices, Member, Node, Problem, Spread, Together};
use super::run::{Verdict, verdict};
use super::search::feasible;

fn node(zone: u64, cpu: i64) -> Node {
    Node { cpu, gpus: 0, pods: 10, zone, rack: None, others: 0, devices: Devices::None }
}

fn members(n: usize) -> Vec<Member> {
    let member =
        Member { cpu: 1, gpus: 0, zone: None, worker: false, spreads: true, claims: Vec::new() };
    vec![member; n]
}

fn over_hosts(nodes: Vec<Node>, members: Vec<Member>, together: Together) -> Problem {
    Problem {
        nodes,
        min: members.len(),
        members,
        workers: None,
        fabric: 0,
        shared: Vec::new(),
        together,
        spread: Some(Spread { by: By::Host, max_skew: 1 }),
        at_most: None,
        described: false,
        peer: None,
    }
}

fn is_planned(problem: &Problem) {
    assert!(feasible(problem), "there is a placement");
    assert_eq!(verdict(problem, None), Ok(Verdict::Planned));
}

#[test]
fn hosts_of_other_zones_that_stay_empty_keep_nobody_away() {
    let nodes = vec![node(0, 2), node(0, 2), node(1, 1)];
    is_planned(&over_hosts(nodes, members(4), Together::All));
}

#[test]
fn a_host_that_has_too_many_at_first_counts_as_room() {
    let full = Node { others: 1, ..node(0, 1) };
    is_planned(&over_hosts(vec![full, node(0, 1)], members(2), Together::All));
}

/// Two need the GPUs of one host: the others must come between them.
#[test]
fn members_take_turns_where_only_that_is_even() {
    let mut members = members(4);
    members[..2].iter_mut().for_each(|member| member.gpus = 1);
    let with_gpus = Node { gpus: 2, ..node(0, 4) };
    is_planned(&over_hosts(vec![with_gpus, node(0, 4)], members, Together::Anywhere));
}

#[test]
fn the_next_zone_is_tried_where_the_best_is_too_uneven() {
    let nodes = vec![node(0, 3), node(0, 1), node(1, 4), node(1, 4)];
    is_planned(&over_hosts(nodes, members(4), Together::All));
}
