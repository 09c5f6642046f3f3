//! Says whether devices may be granted as they were, without knowing how they were found.
//!
//! Written from the rules of resource.k8s.io/v1 and kube-scheduler's documentation of them, on the
//! objects themselves: it shares no code with the ledger or with the search.

mod constraints;
mod counts;
mod pools;
mod selected;
mod usage;

use std::fmt;

use berth_core::types::claim::{ClaimRequest, DeviceRequest};

use super::instance::Instance;
use super::oracle::{Allocated, Grant};
use pools::{Offered, Offers};

/// What is wrong with a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// A request gets nothing, too much, too little, or an alternative beside another.
    Count,
    /// More than 32 devices for a claim.
    TooMany,
    /// No pool that may be used offers the device on this node.
    NotOffered,
    /// A class, mode or constraint that nobody knows.
    Unknown,
    /// The selectors of the request or its class don't pick it.
    NotSelected,
    Tainted,
    /// Somebody holds it, or another request got it.
    Taken,
    /// An administrator's access that wasn't asked for, or the other way round.
    Admin,
    /// Not enough is left of a counter.
    Counters,
    /// Not enough is left of a capacity, or the amount recorded isn't that of the policy.
    Capacity,
    Constraint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) wrong: Wrong,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.wrong, self.text)
    }
}

/// How the reference differs from the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charging {
    /// What administrators get is charged to counters and capacities, and kept from requests of
    /// other claims that come after.
    pub(crate) admin: bool,
    /// Devices that are held but that no current slice shows cost nothing.
    pub(crate) forget_gone: bool,
}

/// A device of an allocation with what it is for.
struct Placed<'a> {
    claim: usize,
    request: &'a DeviceRequest,
    grant: &'a Grant,
    offered: Offered<'a>,
}

/// Returns everything that is wrong with an allocation, one entry a claim.
pub(crate) fn check(instance: &Instance, allocations: &[Allocated]) -> Vec<Violation> {
    check_charged(instance, allocations, Charging::default())
}

/// As [`check`], by other rules.
pub(crate) fn check_charged(
    instance: &Instance,
    allocations: &[Allocated],
    charging: Charging,
) -> Vec<Violation> {
    let mut found = Findings::default();
    if allocations.len() != instance.claims.len() {
        found.add(Wrong::Count, format!("{} allocations", allocations.len()));
        return found.0;
    }
    let offers = Offers::of(instance);
    let mut placed = Vec::new();
    for (claim, allocated) in allocations.iter().enumerate() {
        let of_claim = assign(instance, &offers, claim, &allocated.grants, &mut found);
        constraints::check(instance, claim, &of_claim, &mut found);
        placed.extend(of_claim);
    }
    usage::check(instance, &placed, charging, &mut found);
    counts::check(instance, &offers, &placed, charging, &mut found);
    found.0
}

#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, wrong: Wrong, text: impl Into<String>) {
        self.0.push(Violation { wrong, text: text.into() });
    }
}

/// Gives each grant of a claim to its request, and checks what concerns one request alone.
fn assign<'a>(
    instance: &'a Instance,
    offers: &Offers<'a>,
    claim: usize,
    grants: &'a [Grant],
    found: &mut Findings,
) -> Vec<Placed<'a>> {
    if grants.len() > 32 {
        found.add(Wrong::TooMany, format!("{} devices for claim {claim}", grants.len()));
    }
    let mut placed = Vec::new();
    let mut rest = grants;
    for request in &instance.claims[claim].demand.requests {
        let Some(chosen) = alternative(request, rest) else {
            found.add(Wrong::Count, format!("claim {claim}, request {}: nothing", request.name));
            continue;
        };
        let count = rest.iter().take_while(|grant| grant.request == *chosen.name).count();
        let (mine, others) = rest.split_at(count);
        rest = others;
        selected::check_count(instance, offers, chosen, mine, found);
        for grant in mine {
            let Some(offered) = offers.find(&grant.id) else {
                found.add(Wrong::NotOffered, grant.id.to_string());
                continue;
            };
            selected::check_device(instance, chosen, grant, offered, found);
            placed.push(Placed { claim, request: chosen, grant, offered });
        }
    }
    if !rest.is_empty() {
        found.add(Wrong::Count, format!("claim {claim}: {} left over", rest.len()));
    }
    placed
}

/// Returns the alternative that the first of `grants` is for.
fn alternative<'a>(request: &'a ClaimRequest, grants: &[Grant]) -> Option<&'a DeviceRequest> {
    let first = grants.first()?;
    request.alternatives.iter().find(|one| first.request == *one.name)
}
