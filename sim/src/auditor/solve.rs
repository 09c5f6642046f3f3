//! Can the claims of a pod be had on a node? Tries everything; written from the API's documents for
//! the simple requests of the workload, not from the plugin.

use std::collections::BTreeMap;

use berth_core::types::claim::{
    AllocationMode, ClaimKey, ConstraintKind, DeviceConstraint, DeviceId, DeviceRequest,
};
use berth_core::types::device::AttributeValue;
use berth_core::types::{Device, Node, Pod, ResourceClaim, Text};

use super::claims::{Book, keys};

/// Says why the pod must wait whatever nodes there are: a claim isn't there.
pub(super) fn unready(book: &Book, pod: &Pod) -> Option<String> {
    for (entry, key) in keys(pod) {
        let Some(key) = key else { return Some(format!("{entry} has no claim yet")) };
        if book.claim(&key).is_none_or(|claim| claim.terminating) {
            return Some(format!("claim {key} is gone, or going"));
        }
    }
    None
}

/// Tells whether the pod can have its claims on the node. What is allocated to a claim that nobody
/// else uses, or that a driver has failed to prepare, can be given up.
pub(super) fn solvable(book: &Book, pod: &Pod, node: &Node) -> bool {
    let mut open = Vec::new();
    for (_, key) in keys(pod) {
        let Some(claim) = key.and_then(|key: ClaimKey| book.claim(&key)) else { return false };
        match &claim.allocation {
            None => open.push(claim),
            Some(allocation) => {
                let selector = allocation.node_selector.as_ref();
                if selector.is_some_and(|s| !s.matches(&node.name, &node.labels)) {
                    return false;
                }
            }
        }
    }
    open.is_empty() || Solver::new(book, node).claims(&open)
}

struct Solver<'a> {
    book: &'a Book,
    devices: Vec<(DeviceId, &'a Device)>,
    /// What is left of counters, by pool, set and counter.
    counters: BTreeMap<(Text, Text, Text, Text), i128>,
    /// Devices that are picked already.
    picked: Vec<usize>,
    /// Which of them begins a claim's own.
    claim_from: usize,
}

/// So many devices of one request.
struct Want<'a> {
    request: &'a DeviceRequest,
    all: bool,
    count: usize,
}

impl<'a> Solver<'a> {
    fn new(book: &'a Book, node: &Node) -> Solver<'a> {
        let mut counters = BTreeMap::new();
        for slice in book.stock.slices() {
            for set in &slice.counter_sets {
                for (counter, amount) in set.counters.iter() {
                    let of = (slice.driver.clone(), slice.pool.clone());
                    counters.insert((of.0, of.1, set.name.clone(), counter.clone()), amount.nanos);
                }
            }
        }
        let devices = book.stock.on_node(node);
        let mut solver = Solver { book, devices, counters, picked: Vec::new(), claim_from: 0 };
        let held: Vec<usize> = (0..solver.devices.len())
            .filter(|at| book.grants.held(&solver.devices[*at].0))
            .collect();
        held.into_iter().for_each(|at| solver.draw(at, 1));
        solver
    }

    fn draw(&mut self, at: usize, sign: i128) {
        let (id, device) = &self.devices[at];
        for consumption in &device.consumes {
            for (counter, amount) in consumption.counters.iter() {
                let set = consumption.set.clone();
                let key = (id.driver.clone(), id.pool.clone(), set, counter.clone());
                *self.counters.entry(key).or_default() -= sign * amount.nanos;
            }
        }
    }

    fn claims(&mut self, open: &[&ResourceClaim]) -> bool {
        let Some((claim, rest)) = open.split_first() else { return true };
        let requests = claim.spec.demand.requests.iter();
        let alternatives: Vec<&[DeviceRequest]> =
            requests.map(|request| request.alternatives.as_slice()).collect();
        let from = std::mem::replace(&mut self.claim_from, self.picked.len());
        let solved = self.requests(claim, &alternatives, &mut Vec::new(), rest);
        self.claim_from = from;
        solved
    }

    /// Chooses an alternative of each request, then the devices.
    fn requests(
        &mut self,
        claim: &ResourceClaim,
        open: &[&[DeviceRequest]],
        chosen: &mut Vec<DeviceRequest>,
        rest: &[&ResourceClaim],
    ) -> bool {
        let Some((alternatives, others)) = open.split_first() else {
            let chosen = chosen.clone();
            let wants = chosen.iter().map(|request| self.want(request)).collect::<Option<Vec<_>>>();
            return wants.is_some_and(|wants| self.pick(claim, &wants, 0, rest));
        };
        alternatives.iter().any(|alternative| {
            chosen.push(alternative.clone());
            let solved = self.requests(claim, others, chosen, rest);
            chosen.pop();
            solved
        })
    }

    fn want<'b>(&self, request: &'b DeviceRequest) -> Option<Want<'b>> {
        let matching = (0..self.devices.len()).filter(|at| self.selects(request, *at)).count();
        match request.mode {
            AllocationMode::ExactCount(count) => {
                let count = usize::try_from(count).ok().filter(|count| *count <= matching)?;
                Some(Want { request, all: false, count })
            }
            AllocationMode::All => {
                (matching > 0).then_some(Want { request, all: true, count: matching })
            }
            AllocationMode::Unknown(_) => None,
        }
    }

    /// Picks the next device of the first want, behind the `after`th.
    fn pick(
        &mut self,
        claim: &ResourceClaim,
        wants: &[Want<'_>],
        after: usize,
        rest: &[&ResourceClaim],
    ) -> bool {
        let Some((want, others)) = wants.split_first() else {
            return self.meets(&claim.spec.demand.constraints) && self.claims(rest);
        };
        if want.count == 0 {
            return self.pick(claim, others, 0, rest);
        }
        for at in after..self.devices.len() {
            if !self.selects(want.request, at) {
                continue;
            }
            if self.free(want.request, at) {
                self.picked.push(at);
                self.draw(at, 1);
                let left = Want { request: want.request, all: want.all, count: want.count - 1 };
                let mut wants: Vec<Want<'_>> = vec![left];
                wants.extend(others.iter().map(|w| Want { request: w.request, ..*w }));
                let solved = self.pick(claim, &wants, at + 1, rest);
                self.draw(at, -1);
                self.picked.pop();
                if solved {
                    return true;
                }
            }
            if want.all {
                return false;
            }
        }
        false
    }

    /// Tells whether the class and the request select the device.
    fn selects(&self, request: &DeviceRequest, at: usize) -> bool {
        let Some(class) = self.book.stock.class(&request.class) else { return false };
        let (id, device) = &self.devices[at];
        let mut expressions = class.selectors.iter().chain(&request.selectors);
        expressions.all(|expression| selects(expression, id, device))
    }

    fn free(&self, request: &DeviceRequest, at: usize) -> bool {
        let (id, device) = &self.devices[at];
        if self.picked.contains(&at) || self.book.stock.grantable(id).is_err() {
            return false;
        }
        if device.model.multi_allocatable {
            return device.model.capacity.iter().all(|capacity| {
                let mut wanted = request.capacity.iter().filter(|(n, _)| *n == capacity.name);
                let wanted = wanted.next().map_or(capacity.value.nanos, |(_, w)| w.nanos);
                wanted <= self.book.grants.left(id, &capacity.name, capacity.value.nanos)
            });
        }
        !self.book.grants.held(id) && self.counters_suffice(id, device)
    }

    fn counters_suffice(&self, id: &DeviceId, device: &Device) -> bool {
        device.consumes.iter().all(|consumption| {
            consumption.counters.iter().all(|(counter, amount)| {
                let set = consumption.set.clone();
                let key = (id.driver.clone(), id.pool.clone(), set, counter.clone());
                self.counters.get(&key).is_some_and(|left| *left >= amount.nanos)
            })
        })
    }

    fn meets(&self, constraints: &[DeviceConstraint]) -> bool {
        let value = |at: &usize, name: &Text| {
            let (_, device) = &self.devices[*at];
            let mut all = device.model.attributes.iter().chain(device.own.iter());
            all.find(|(known, _)| known == name).map(|(_, value)| value)
        };
        constraints.iter().all(|constraint| {
            let own = self.picked[self.claim_from..].iter();
            let values: Vec<Option<&AttributeValue>> =
                own.map(|at| value(at, &constraint.attribute)).collect();
            let known = values.iter().all(Option::is_some);
            known
                && match constraint.kind {
                    ConstraintKind::Match => values.windows(2).all(|pair| pair[0] == pair[1]),
                    ConstraintKind::Distinct | ConstraintKind::Unknown => false,
                }
        })
    }
}

/// Reads the one form of selectors that the workload writes:
/// `device.driver == "D" && device.attributes["D"].A == "V"`.
fn selects(expression: &str, id: &DeviceId, device: &Device) -> bool {
    let quoted: Vec<&str> = expression.split('"').skip(1).step_by(2).collect();
    let [driver, domain, value] = quoted.as_slice() else { return false };
    let attribute = expression.split("\"].").nth(1).and_then(|rest| rest.split(' ').next());
    let Some(attribute) = attribute else { return false };
    let found = device.model.attributes.iter().find(|(name, _)| *name == attribute);
    *driver == &*id.driver
        && driver == domain
        && found.is_some_and(|(_, found)| *found == AttributeValue::String((*value).into()))
}
