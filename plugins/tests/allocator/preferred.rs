//! Earlier alternatives come first: where a later one was taken, Kubernetes finds nothing with an
//! earlier one either.

use std::sync::Arc;

use super::checker::check;
use super::instance::Instance;
use super::oracle::{Allocated, Oracle, Outcome};
use super::{BATCH, generate, number, ours};

#[test]
fn an_earlier_alternative_is_taken_wherever_there_is_a_solution_with_it() {
    let Some(oracle) = Oracle::build_or_skip() else { return };
    let (from, count) = (number("ORACLE_FROM", 0), number("ORACLE_N", 5_000));
    let mut asked = 0;
    let mut next = from;
    while next < from + count {
        let seeds = next..(next + BATCH).min(from + count);
        let better: Vec<(u64, Instance)> =
            seeds.flat_map(|seed| better(seed).into_iter().map(move |one| (seed, one))).collect();
        let instances: Vec<Instance> = better.iter().map(|(_, one)| one.clone()).collect();
        for ((seed, instance), theirs) in better.iter().zip(oracle.ask(&instances)) {
            // What the reference grants must be right: its mistakes are found elsewhere.
            let found = theirs.outcome == Outcome::Allocated
                && check(instance, &theirs.allocations).is_empty();
            assert!(!found, "seed {seed}: a better alternative: {:#?}", theirs.allocations);
        }
        asked += better.len();
        next += BATCH;
    }
    println!("{asked} earlier alternatives asked for");
    assert!(asked as u64 * 200 > count, "too few later alternatives were taken: {asked}");
}

/// Returns, for each alternative that Berth took although it isn't the first, the question for the
/// earlier ones, with those of the requests before it as they were chosen.
fn better(seed: u64) -> Vec<Instance> {
    let instance = generate::instance(seed);
    let mut requests = instance.claims.iter().flat_map(|claim| &claim.demand.requests);
    if !requests.any(|request| request.first_available) {
        return Vec::new();
    }
    let Ok(chosen) = ours::ask(&instance, false) else { return Vec::new() };
    let mut made = Vec::new();
    let mut fixed = instance.clone();
    for (claim, allocated) in chosen.iter().enumerate() {
        for at in 0..instance.claims[claim].demand.requests.len() {
            let Some(taken) = taken(&instance, claim, at, allocated) else { continue };
            if taken > 0 {
                let mut earlier = fixed.clone();
                keep(&mut earlier, claim, at, 0..taken);
                made.push(earlier);
            }
            keep(&mut fixed, claim, at, taken..taken + 1);
        }
    }
    made
}

/// Returns the place of the alternative that was taken; `None` if the request has none.
fn taken(instance: &Instance, claim: usize, at: usize, of: &Allocated) -> Option<usize> {
    let request = &instance.claims[claim].demand.requests[at];
    let granted = |name: &str| of.grants.iter().any(|grant| grant.request == name);
    let taken = request.alternatives.iter().position(|one| granted(&one.name));
    taken.filter(|_| request.first_available)
}

fn keep(instance: &mut Instance, claim: usize, at: usize, kept: std::ops::Range<usize>) {
    let demand = Arc::make_mut(&mut instance.claims[claim].demand);
    let alternatives = &mut demand.requests[at].alternatives;
    *alternatives = alternatives[kept].to_vec();
}
