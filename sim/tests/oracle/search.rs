//! The exhaustive search: every member on every node, with every set of devices. It knows nothing of
//! the engine's.

use super::problem::{Claim, Devices, Member, Problem, Want};
use super::spread;

/// A device: of a node, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Device {
    node: Option<usize>,
    kind: Kind,
    root: usize,
    /// The card that it is a part of.
    card: Option<usize>,
    /// What it takes of the card, of 2.
    takes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Half,
    Fabric,
}

struct Search<'a> {
    problem: &'a Problem,
    devices: Vec<Device>,
    taken: Vec<bool>,
    /// Node of each member decided so far; none: left out.
    placed: Vec<Option<usize>>,
    /// What shared claims have.
    shared: Vec<Option<Vec<usize>>>,
}

/// Tells whether so many members that the group needs can be placed at once.
pub(crate) fn feasible(problem: &Problem) -> bool {
    if problem.spread.is_some() {
        return spread::feasible(problem);
    }
    let devices = devices(problem);
    let taken = vec![false; devices.len()];
    let shared = vec![None; problem.shared.len()];
    Search { problem, devices, taken, placed: Vec::new(), shared }.members()
}

fn devices(problem: &Problem) -> Vec<Device> {
    let mut all = Vec::new();
    for (at, node) in problem.nodes.iter().enumerate() {
        let of = |kind, root, card, takes| Device { node: Some(at), kind, root, card, takes };
        match node.devices {
            Devices::None => {}
            Devices::Whole(count) => {
                all.extend((0..count).map(|n| of(Kind::Whole, n / 2, None, 0)));
            }
            Devices::Cards(count) => {
                for card in 0..count {
                    all.push(of(Kind::Whole, card, Some(card), 2));
                    all.extend([of(Kind::Half, card, Some(card), 1); 2]);
                }
            }
        }
    }
    let fabric = Device { node: None, kind: Kind::Fabric, root: 0, card: None, takes: 0 };
    all.extend(vec![fabric; problem.fabric]);
    all
}

impl Search<'_> {
    fn members(&mut self) -> bool {
        let at = self.placed.len();
        let Some(member) = self.problem.members.get(at) else { return self.suffices() };
        for node in 0..self.problem.nodes.len() {
            if !self.has_room(member, node) || !self.is_near(at, node) || !self.is_free(node) {
                continue;
            }
            self.placed.push(Some(node));
            let found = self.claims(member, node, 0);
            self.placed.pop();
            if found {
                return true;
            }
        }
        self.placed.push(None);
        let found = self.members();
        self.placed.pop();
        found
    }

    fn suffices(&self) -> bool {
        let on = |at: &usize| self.placed[*at].is_some();
        let all = (0..self.placed.len()).filter(on).count();
        let workers = (0..self.placed.len()).filter(on);
        let workers = workers.filter(|at| self.problem.members[*at].worker).count();
        all >= self.problem.min && self.problem.workers.is_none_or(|want| workers >= want)
    }

    fn has_room(&self, member: &Member, node: usize) -> bool {
        let has = &self.problem.nodes[node];
        let there = self.placed.iter().enumerate().filter(|(_, on)| **on == Some(node));
        let there: Vec<&Member> = there.map(|(at, _)| &self.problem.members[at]).collect();
        let cpu: i64 = there.iter().map(|member| member.cpu).sum();
        let gpus: i64 = there.iter().map(|member| member.gpus).sum();
        member.zone.is_none_or(|zone| zone == has.zone)
            && there.len() as i64 + self.problem.strangers(node) < has.pods
            && cpu + member.cpu <= has.cpu
            && gpus + member.gpus <= has.gpus
    }

    /// The node's rack takes one more.
    fn is_free(&self, node: usize) -> bool {
        let Some(at_most) = self.problem.at_most else { return true };
        let rack = |node: usize| self.problem.nodes[node].rack;
        let there = self.placed.iter().flatten().filter(|on| rack(**on) == rack(node));
        rack(node).is_some() && there.count() < at_most
    }

    /// The node is in the zone of all whom the member must be near, those of other groups among them.
    fn is_near(&self, member: usize, node: usize) -> bool {
        let (problem, zone) = (self.problem, self.problem.nodes[node].zone);
        if problem.zone_of_peer().is_some_and(|of_peer| of_peer != zone) {
            return false;
        }
        let mut placed = self.placed.iter().enumerate().filter_map(|(at, on)| Some((at, (*on)?)));
        placed.all(|(other, on)| {
            !problem.together.binds(problem, member, other) || problem.nodes[on].zone == zone
        })
    }

    /// Chooses the devices of the member's claims from the `next`th on, then places the others.
    fn claims(&mut self, member: &Member, node: usize, next: usize) -> bool {
        let Some(claim) = member.claims.get(next) else { return self.members() };
        let want = match *claim {
            Claim::Own(want) => want,
            Claim::Shared(at) => match self.shared[at].clone() {
                Some(has) => {
                    let local = |device: &usize| self.devices[*device].node;
                    let reached = has.iter().filter_map(local).all(|of| of == node);
                    return reached && self.claims(member, node, next + 1);
                }
                None => self.problem.shared[at],
            },
        };
        for set in self.sets(want, node) {
            set.iter().for_each(|device| self.taken[*device] = true);
            if let Claim::Shared(at) = *claim {
                self.shared[at] = Some(set.clone());
            }
            let found = self.claims(member, node, next + 1);
            set.iter().for_each(|device| self.taken[*device] = false);
            if let Claim::Shared(at) = *claim {
                self.shared[at] = None;
            }
            if found {
                return true;
            }
        }
        false
    }

    /// Returns every set of free devices that the want can be met with on the node.
    fn sets(&self, want: Want, node: usize) -> Vec<Vec<usize>> {
        let of = |kind: Kind| -> Vec<usize> {
            let mut all: Vec<usize> = Vec::new();
            for at in 0..self.devices.len() {
                let device = &self.devices[at];
                let reached = device.node.is_none_or(|of| of == node);
                // Of devices that are alike one will do.
                let alike = all.iter().any(|other| {
                    let other = &self.devices[*other];
                    other == device && matches!(kind, Kind::Half | Kind::Fabric)
                });
                if device.kind == kind && reached && !alike && self.free(at, &[]) {
                    all.push(at);
                }
            }
            all
        };
        let one = |kind| of(kind).into_iter().map(|at| vec![at]).collect::<Vec<_>>();
        match want {
            Want::Whole(1) => one(Kind::Whole),
            Want::Whole(_) => self.pairs(&of(Kind::Whole), &of(Kind::Whole), false),
            Want::Near => self.pairs(&of(Kind::Whole), &of(Kind::Whole), true),
            Want::Half => one(Kind::Half),
            Want::Either => one(Kind::Whole).into_iter().chain(one(Kind::Half)).collect(),
            Want::Fabric => one(Kind::Fabric),
            Want::Both => self.pairs(&of(Kind::Fabric), &of(Kind::Whole), false),
        }
    }

    fn pairs(&self, first: &[usize], second: &[usize], near: bool) -> Vec<Vec<usize>> {
        let mut sets = Vec::new();
        for a in first {
            for b in second.iter().filter(|b| *b != a && self.free(**b, &[*a])) {
                if !near || self.devices[*a].root == self.devices[*b].root {
                    sets.push(vec![*a, *b]);
                }
            }
        }
        sets
    }

    /// Tells whether the device is free, beside what is taken and these.
    fn free(&self, at: usize, also: &[usize]) -> bool {
        let device = &self.devices[at];
        let used = |other: &usize| self.taken[*other] || also.contains(other);
        let same_card = |other: &usize| {
            let other = &self.devices[*other];
            other.node == device.node && other.card == device.card && device.card.is_some()
        };
        let others = (0..self.devices.len()).filter(used).filter(same_card);
        let drawn: usize = others.map(|other| self.devices[other].takes).sum();
        !used(&at) && (device.card.is_none() || drawn + device.takes <= 2)
    }
}
