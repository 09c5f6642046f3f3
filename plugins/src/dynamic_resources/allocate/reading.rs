//! Reads a [`Problem`] from the ledger.

mod candidates;

use std::ops::Range;
use std::sync::Arc;

use berth_core::snapshot::Devices;
use berth_core::snapshot::devices::gather::{NodeDevice, NodePool, PoolState};
use berth_core::snapshot::devices::pools::SliceIdx;
use berth_core::snapshot::devices::selections::Answers;
use berth_core::types::claim::{AllocationMode, ConstraintKind, DeviceDemand, DeviceRequest};
use berth_core::types::device::{DeviceModel, Placement};
use berth_core::types::{Node, Text};

use super::super::lookup::selectors_of;
use super::choice::{Choice, Ranks};
use super::counters::Reader;
use super::limits::{self, DEVICES_A_CLAIM};
use super::problem::{Ask, Need, Problem, Profile, Rule};
use super::state::State;
use super::values::Column;

/// Reads what `claims` could have on `node`. With `ranks` also what makes one solution better than
/// another, where those come first; with `others` also what makes a difference to what these could have there or, by what
/// the claims have, elsewhere.
///
/// # Errors
/// Why the question can't be answered.
pub(super) fn read<'a>(
    devices: &'a Devices,
    node: &Node,
    claims: &'a [Arc<DeviceDemand>],
    others: Option<&'a [Arc<DeviceDemand>]>,
    ranks: Option<&Ranks<'_>>,
) -> Result<Problem, Text> {
    limits::check(claims, devices)?;
    let mut pools = devices.pools_on(node);
    // Devices for other nodes count too, as they do upstream.
    let binding = |model: &DeviceModel| !model.binding_conditions.is_empty();
    let binds = |seen: &NodeDevice<'_>| {
        let mixed = seen.slice.placement == Placement::PerDevice;
        let mut listed = seen.slice.devices.iter();
        binding(&seen.device.model) || (mixed && listed.any(|device| binding(&device.model)))
    };
    if pools.iter().any(|pool| pool.devices.iter().any(binds)) {
        pools.sort_by_key(|pool| pool.devices.iter().any(binds));
    }
    let mut reading = Reading::new(devices, claims);
    reading.tell_apart(others);
    reading.refuse_all_of_unknown(&pools)?;
    reading.make_room(pools.iter().map(|pool| pool.devices.len()).sum());
    for pool in pools.iter().enumerate() {
        reading.read_pool(pool);
    }
    reading.count()?;
    reading.read_rules(claims);
    reading.read_columns(others.unwrap_or_default());
    if let Some(ranks) = ranks {
        let Reading { problem, found, counters, .. } = &mut reading;
        problem.choice = Choice::read(problem, devices, &pools, found, counters);
        problem.choice.prefer(ranks(found));
    }
    let Reading { mut problem, counters, .. } = reading;
    problem.counters = counters.done();
    problem.notes.mismatch = contradiction(&problem);
    Ok(problem)
}

/// Index of the pool, where a device can be used, and whether its claim can be used here only.
type Reach<'a> = (usize, &'a Placement, bool);

struct Reading<'a> {
    devices: &'a Devices,
    problem: Problem,
    counters: Reader<'a>,
    /// By profile. Those of the claims come first.
    requests: Vec<&'a DeviceRequest>,
    /// How many of them the claims have.
    n_own: usize,
    /// Attributes of the columns.
    attributes: Vec<&'a Text>,
    /// Pool, placement and being bound to the node, by reach less one; none: nobody wants to know.
    reaches: Option<Vec<Reach<'a>>>,
    /// Of all profiles, one after the other.
    selectors: Vec<&'a Text>,
    /// By profile: where its selectors are.
    ranges: Vec<Range<usize>>,
    /// What the selectors say of the slice that is being read.
    answers: Vec<Answers<'a>>,
    slice: Option<SliceIdx>,
    /// Of each device of the problem.
    found: Vec<NodeDevice<'a>>,
    /// By profile: the last model that gives something, and which amounts.
    given: Vec<Option<(&'a DeviceModel, u32)>>,
}

impl<'a> Reading<'a> {
    fn new(devices: &'a Devices, claims: &'a [Arc<DeviceDemand>]) -> Reading<'a> {
        let mut reading = Reading {
            devices,
            problem: Problem { n_claims: claims.len(), ..Problem::default() },
            counters: Reader::default(),
            requests: Vec::new(),
            n_own: 0,
            attributes: Vec::new(),
            reaches: None,
            selectors: Vec::new(),
            ranges: Vec::new(),
            answers: Vec::new(),
            slice: None,
            found: Vec::new(),
            given: Vec::new(),
        };
        for (claim, demand) in claims.iter().enumerate() {
            for (at, request) in demand.requests.iter().enumerate() {
                reading.add_need(claim as u32, at as u32, &request.alternatives);
            }
        }
        reading.n_own = reading.requests.len();
        reading
    }

    /// Has the devices looked at with the eyes of others, too.
    fn tell_apart(&mut self, others: Option<&'a [Arc<DeviceDemand>]>) {
        let Some(others) = others else { return };
        self.reaches = Some(Vec::new());
        for request in others.iter().flat_map(|demand| demand.alternatives()) {
            self.profile_of(request);
        }
    }

    /// Most nodes have few devices, and most of those are looked at by every profile.
    fn make_room(&mut self, n_devices: usize) {
        self.found.reserve(n_devices);
        self.problem.devices.reserve(n_devices);
        self.problem.rooms.reserve(n_devices);
        for profile in &mut self.problem.profiles {
            profile.candidates.reserve(n_devices);
        }
        self.given = vec![None; self.requests.len()];
    }

    fn add_need(&mut self, claim: u32, request: u32, alternatives: &'a [DeviceRequest]) {
        let start = self.problem.asks.len() as u32;
        for (alternative, wanted) in alternatives.iter().enumerate() {
            let profile = self.profile_of(wanted);
            let count = match wanted.mode {
                AllocationMode::ExactCount(count) => usize::try_from(count).unwrap_or(usize::MAX),
                AllocationMode::All | AllocationMode::Unknown(_) => 0,
            };
            let alternative = alternative as u32;
            let rules = Vec::new();
            self.problem.asks.push(Ask { claim, request, alternative, profile, count, rules });
        }
        let asks = start..self.problem.asks.len() as u32;
        self.problem.needs.push(Need { claim, asks });
    }

    fn profile_of(&mut self, request: &'a DeviceRequest) -> u32 {
        let all = request.mode == AllocationMode::All;
        let same = |known: &&'a DeviceRequest| {
            known.class == request.class
                && known.selectors == request.selectors
                && (known.mode == AllocationMode::All) == all
                && known.admin == request.admin
                && known.tolerations == request.tolerations
                && known.capacity == request.capacity
        };
        if let Some(known) = self.requests.iter().position(same) {
            return known as u32;
        }
        let start = self.selectors.len();
        self.selectors.extend(selectors_of(request, self.devices.class(&request.class)));
        self.ranges.push(start..self.selectors.len());
        self.requests.push(request);
        let admin = request.admin;
        self.problem.profiles.push(Profile { all, admin, ..Profile::default() });
        self.requests.len() as u32 - 1
    }

    /// What is all of a pool that isn't known whole can't be said.
    fn refuse_all_of_unknown(&self, pools: &[NodePool<'a>]) -> Result<(), Text> {
        let wants_all = |request: &&&DeviceRequest| request.mode == AllocationMode::All;
        let own = &self.requests[..self.n_own];
        let Some(request) = own.iter().find(wants_all) else { return Ok(()) };
        let of = format!("request {}: asks for all devices, but", request.name);
        for pool in pools {
            let of = format!("{of} resource pool {}/{} is currently", pool.driver, pool.name);
            match &pool.state {
                PoolState::Complete => {}
                PoolState::Incomplete => return Err(format!("{of} being updated").into()),
                PoolState::Invalid(text) => return Err(format!("{of} invalid: {text}").into()),
            }
        }
        Ok(())
    }

    /// Fills in how many devices requests for all want.
    ///
    /// # Errors
    /// A claim needs more devices than one may have.
    fn count(&mut self) -> Result<(), Text> {
        let Problem { asks, profiles, needs, .. } = &mut self.problem;
        for profile in profiles.iter_mut() {
            // All of nothing is not to be had.
            profile.blocked |= profile.all && profile.candidates.is_empty();
        }
        for ask in asks.iter_mut() {
            let profile = &profiles[ask.profile as usize];
            if profile.all {
                ask.count = profile.candidates.len();
            }
        }
        let mut in_claim = (0, 0);
        for need in needs.iter() {
            if need.claim != in_claim.0 {
                in_claim = (need.claim, 0);
            }
            let alternatives = &asks[need.asks.start as usize..need.asks.end as usize];
            let least = alternatives.iter().map(|ask| ask.count).min().unwrap_or(0);
            if least > DEVICES_A_CLAIM - in_claim.1 {
                let profile = alternatives[0].profile as usize;
                let of = format!("request {}: adding {least} devices", self.requests[profile].name);
                let text = format!("{of} exceeds the claim limit of {DEVICES_A_CLAIM}");
                return Err(text.into());
            }
            in_claim.1 += least;
        }
        Ok(())
    }

    fn read_rules(&mut self, claims: &'a [Arc<DeviceDemand>]) {
        for (claim, demand) in claims.iter().enumerate() {
            for constraint in &demand.constraints {
                let column = self.column(&constraint.attribute);
                let Problem { asks, rules, .. } = &mut self.problem;
                let covered = asks.iter_mut().filter(|ask| ask.claim as usize == claim);
                for ask in covered {
                    let request = &demand.requests[ask.request as usize];
                    let request = &request.alternatives[ask.alternative as usize];
                    if constraint.covers(&request.name) {
                        ask.rules.push(rules.len() as u32);
                    }
                }
                let distinct = constraint.kind == ConstraintKind::Distinct;
                rules.push(Rule { claim: claim as u32, column: column as u32, distinct });
            }
        }
    }

    /// Reads the attributes that constraints of others name.
    fn read_columns(&mut self, others: &'a [Arc<DeviceDemand>]) {
        for constraint in others.iter().flat_map(|demand| &demand.constraints) {
            self.column(&constraint.attribute);
        }
    }

    fn column(&mut self, attribute: &'a Text) -> usize {
        if let Some(known) = self.attributes.iter().position(|known| *known == attribute) {
            return known;
        }
        let of = |d: &NodeDevice<'a>| d.device.attribute(&d.slice.driver, attribute);
        self.problem.columns.push(Column::new(self.found.iter().map(of)));
        self.attributes.push(attribute);
        self.attributes.len() - 1
    }
}

/// Returns a request for all whose devices its constraints don't admit together, with one of them.
fn contradiction(problem: &Problem) -> Option<(u32, u32)> {
    let only = problem.needs.iter().filter(|need| need.asks.len() == 1);
    let asks = only
        .map(|need| need.asks.start)
        .filter(|ask| problem.profile(*ask).all && !problem.asks[*ask as usize].rules.is_empty());
    asks.into_iter().find_map(|ask| {
        let mut state = State::new(problem);
        let mut devices = problem.profile(ask).candidates.iter().map(|c| c.device);
        let refused = devices.find(|device| {
            let meets = state.meets_rules(problem, ask, *device);
            if meets {
                state.add_values(problem, ask, *device);
            }
            !meets
        });
        refused.map(|device| (ask, device))
    })
}
