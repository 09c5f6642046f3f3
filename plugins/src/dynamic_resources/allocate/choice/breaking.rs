//! What a pick makes impossible.

use super::super::counters::{Counters, Draw};
use super::super::problem::Problem;
use super::super::state::State;
use super::Choice;

/// Works out what a pick makes impossible; sets that are alike are looked at once.
pub(super) struct Breaking<'a> {
    choice: &'a Choice,
    left: &'a [i128],
    after: Vec<i128>,
    /// Sets, each with the first one that is like it.
    alike: Vec<(u32, u32)>,
    /// By set and shape of the draw.
    known: Vec<((u32, u32), u128)>,
    /// Parts that are possible as things stand, by set, of those that have been looked at.
    possible: Vec<(u32, Vec<u32>)>,
}

impl<'a> Breaking<'a> {
    pub(super) fn new(choice: &'a Choice, state: &'a State) -> Breaking<'a> {
        Breaking {
            choice,
            left: &state.left,
            after: state.left.clone(),
            alike: Vec::new(),
            known: Vec::new(),
            possible: Vec::new(),
        }
    }

    /// Returns how many devices become impossible. Shape: 16 bits for each size, largest highest.
    pub(super) fn cost(&mut self, problem: &Problem, device: u32) -> u128 {
        let draws = problem.draws_of(device);
        if problem.devices[device as usize].charged {
            return 0;
        }
        let [draw] = draws else { return self.lost(&problem.counters, draws) };
        let key = (self.first_alike(&problem.counters, draw.set), Counters::shape(*draw));
        if let Some((_, cost)) = self.known.iter().find(|(known, _)| *known == key) {
            return *cost;
        }
        let cost = self.lost(&problem.counters, draws);
        self.known.push((key, cost));
        cost
    }

    fn first_alike(&mut self, counters: &Counters, set: u32) -> u32 {
        if let Some((_, first)) = self.alike.iter().find(|(known, _)| *known == set) {
            return *first;
        }
        let mut firsts = self.alike.iter().filter(|(set, first)| set == first);
        let like = firsts.find(|(_, first)| self.choice.alike(counters, self.left, *first, set));
        let first = like.map_or(set, |(_, first)| *first);
        self.alike.push((set, first));
        first
    }

    fn lost(&mut self, counters: &Counters, draws: &[Draw]) -> u128 {
        counters.charge(&mut self.after, draws);
        let mut lost = 0_u128;
        for (at, draw) in draws.iter().enumerate() {
            let possible = self.look_at(counters, draw.set);
            for part in &self.possible[possible].1 {
                let theirs = self.choice.draws(*part);
                // One that draws on several of the sets is counted once.
                let counted = |earlier: &Draw| theirs.iter().any(|draw| draw.set == earlier.set);
                if !draws[..at].iter().any(counted) && !counters.fit(&self.after, theirs) {
                    lost += 1 << (16 * self.choice.parts[*part as usize].size);
                }
            }
        }
        counters.refund(&mut self.after, draws);
        lost
    }

    /// Returns where the possible parts of a set are.
    fn look_at(&mut self, counters: &Counters, set: u32) -> usize {
        let known = self.possible.iter().position(|(known, _)| *known == set);
        known.unwrap_or_else(|| {
            let parts = self.choice.by_set[set as usize].iter().copied();
            let fits = |part: &u32| counters.fit(self.left, self.choice.draws(*part));
            self.possible.push((set, parts.filter(fits).collect()));
            self.possible.len() - 1
        })
    }
}
