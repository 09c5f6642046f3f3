//! The exhaustive search where members are spread: in which order they come decides too, so every
//! order is tried. No devices.

use std::collections::BTreeSet;

use super::problem::{By, Member, Problem, Spread, Together};

/// Node of each member; none: not placed.
type Positions = Vec<Option<usize>>;

struct Search<'a> {
    problem: &'a Problem,
    spread: Spread,
    /// Where members may be, and whose pods count.
    within: Vec<usize>,
    seen: BTreeSet<Positions>,
    /// What is to be reached; else whatever is enough.
    wanted: Option<&'a Positions>,
}

/// Tells whether so many members that the group needs can be placed one after the other.
pub(crate) fn feasible(problem: &Problem) -> bool {
    found(problem, None)
}

/// Tells whether the members can have come where they are.
pub(crate) fn is_reached(problem: &Problem, positions: &Positions) -> bool {
    found(problem, Some(positions))
}

fn found(problem: &Problem, wanted: Option<&Positions>) -> bool {
    let Some(spread) = problem.spread else { return false };
    let all: Vec<usize> = (0..problem.nodes.len()).collect();
    let in_zone = |zone: u64| {
        all.iter().copied().filter(|at| problem.nodes[*at].zone == zone).collect::<Vec<_>>()
    };
    let domains = match problem.together {
        Together::All => {
            let zones = [0, 1].into_iter();
            let open = |zone: &u64| problem.zone_of_peer().is_none_or(|of_peer| of_peer == *zone);
            zones.filter(open).map(in_zone).collect()
        }
        Together::Anywhere | Together::Workers | Together::Pairs => vec![all.clone()],
    };
    domains.into_iter().any(|within| {
        let seen = BTreeSet::new();
        let mut search = Search { problem, spread, within, seen, wanted };
        search.from(&vec![None; problem.members.len()])
    })
}

impl Search<'_> {
    fn from(&mut self, positions: &Positions) -> bool {
        match self.wanted {
            Some(wanted) if wanted == positions => return true,
            None if self.suffices(positions) => return true,
            Some(_) | None => {}
        }
        if !self.seen.insert(positions.clone()) {
            return false;
        }
        let open = (0..positions.len()).filter(|at| positions[*at].is_none());
        for at in open {
            for node in self.within.clone() {
                let meant = self.wanted.is_none_or(|wanted| wanted[at] == Some(node));
                if meant && self.fits(at, node, positions) {
                    let mut next = positions.clone();
                    next[at] = Some(node);
                    if self.from(&next) {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn suffices(&self, positions: &Positions) -> bool {
        let placed = |at: &usize| positions[*at].is_some();
        let all = (0..positions.len()).filter(placed).count();
        let workers = (0..positions.len()).filter(placed);
        let workers = workers.filter(|at| self.problem.members[*at].worker).count();
        all >= self.problem.min && self.problem.workers.is_none_or(|want| workers >= want)
    }

    fn fits(&self, member: usize, node: usize, positions: &Positions) -> bool {
        let (asked, has) = (&self.problem.members[member], &self.problem.nodes[node]);
        let there: Vec<&Member> = self.on(node, positions).collect();
        let cpu: i64 = there.iter().map(|member| member.cpu).sum();
        let gpus: i64 = there.iter().map(|member| member.gpus).sum();
        asked.zone.is_none_or(|zone| zone == has.zone)
            && there.len() as i64 + self.problem.strangers(node) < has.pods
            && cpu + asked.cpu <= has.cpu
            && gpus + asked.gpus <= has.gpus
            && (!asked.spreads || self.is_even(asked, node, positions))
    }

    fn on<'a>(&'a self, node: usize, positions: &'a Positions) -> impl Iterator<Item = &'a Member> {
        let there = positions.iter().enumerate().filter(move |(_, on)| **on == Some(node));
        there.map(|(at, _)| &self.problem.members[at])
    }

    /// With one more on the node, its domain has at most `max_skew` more than the emptiest that the
    /// member may be in.
    fn is_even(&self, asked: &Member, node: usize, positions: &Positions) -> bool {
        let Some(own) = self.domain(node) else { return false };
        let counts = |at: &usize| {
            asked.zone.is_none_or(|zone| zone == self.problem.nodes[*at].zone)
                && self.domain(*at).is_some()
        };
        let counted: Vec<usize> = self.within.iter().copied().filter(counts).collect();
        let pods = |domain: u64| -> i64 {
            let of = counted.iter().filter(|at| self.domain(**at) == Some(domain));
            let on = |at: &usize| {
                self.on(*at, positions).count() as i64 + self.problem.nodes[*at].others
            };
            of.map(on).sum()
        };
        let fewest = counted.iter().filter_map(|at| self.domain(*at)).map(pods).min();
        pods(own) + 1 - fewest.unwrap_or(0) <= self.spread.max_skew
    }

    fn domain(&self, node: usize) -> Option<u64> {
        match self.spread.by {
            By::Host => Some(node as u64),
            By::Rack => self.problem.nodes[node].rack,
        }
    }
}
