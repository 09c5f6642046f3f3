//! Which sets of devices a device can be in, by those who judge sets.

use berth_core::framework::{DeviceSets, SetRating};

use super::super::problem::Problem;
use super::super::state::State;
use super::super::values::meet;

/// No set is worse.
pub(super) const NONE: SetRating =
    SetRating { apart: u64::MAX, off_rail: u64::MAX, broken: u64::MAX };

/// What is picked, and what is still wanted, of the devices that are judged as sets.
pub(super) struct Together<'a> {
    sets: &'a dyn DeviceSets,
    problem: &'a Problem,
    state: &'a State,
    ask: u32,
    picked: Vec<u32>,
    /// What could be had beside, by the alternatives that still want some.
    candidates: Vec<(u32, Vec<u32>)>,
    open: usize,
    /// All that is picked, of sets or not.
    all_picked: Vec<u32>,
    /// As `candidates`, of those that aren't judged as sets.
    others: Vec<(u32, Vec<u32>)>,
    /// The claims that want other devices too.
    mixed: Vec<u32>,
}

impl<'a> Together<'a> {
    /// `places` are the candidates of the first of `open` that can be had.
    pub(super) fn new(
        sets: &'a dyn DeviceSets,
        problem: &'a Problem,
        state: &'a State,
        open: &[(u32, usize)],
        places: &[u32],
    ) -> Together<'a> {
        let ask = open.first().map_or(0, |(ask, _)| *ask);
        let mut together = Together {
            sets,
            problem,
            state,
            ask,
            picked: Vec::new(),
            candidates: Vec::new(),
            open: 0,
            all_picked: Vec::new(),
            others: Vec::new(),
            mixed: Vec::new(),
        };
        for pick in &state.picks {
            let device = problem.candidate(pick.ask, pick.at).device;
            together.all_picked.push(device);
            match sets.counts(device) {
                true => together.picked.push(device),
                false => together.mixed.push(problem.asks[pick.ask as usize].claim),
            }
        }
        for (other, count) in open {
            let here = |at: &u32| problem.candidate(*other, *at).device;
            let free: Vec<u32> = match *other == ask {
                true => places.iter().map(here).collect(),
                false => {
                    let all = 0..problem.profile(*other).candidates.len() as u32;
                    all.filter(|at| state.free(problem, *other, *at)).map(|at| here(&at)).collect()
                }
            };
            let (counted, rest): (Vec<u32>, Vec<u32>) =
                free.into_iter().partition(|it| sets.counts(*it));
            if !rest.is_empty() {
                together.others.push((*other, rest));
            }
            match counted.is_empty() {
                true => together.mixed.push(problem.asks[*other as usize].claim),
                false => {
                    together.open += count;
                    together.candidates.push((*other, counted));
                }
            }
        }
        together
    }

    /// Tells whether a claim wants devices that aren't judged as sets beside those that are.
    pub(super) fn is_mixed(&self, claim: u32) -> bool {
        self.mixed.contains(&claim)
    }

    /// Rates the best set that a device is in.
    pub(super) fn rate(&self, device: u32) -> SetRating {
        if !self.sets.counts(device) || self.open == 0 {
            return SetRating::default();
        }
        let mut picked = self.picked.clone();
        picked.push(device);
        let candidates: Vec<u32> = self.beside(device, &self.candidates).collect();
        self.sets.rate(&picked, &candidates, self.open - 1).unwrap_or(NONE)
    }

    /// Tells how far a device is from what it is to work with: devices of sets from others, and others from
    /// these.
    pub(super) fn distance(&self, device: u32) -> u64 {
        let of_sets = self.sets.counts(device);
        if of_sets && self.others.is_empty() && self.picked.len() == self.all_picked.len() {
            return 0;
        }
        let others = if of_sets { &self.others } else { &self.candidates };
        self.sets.distance(device, &self.all_picked, &mut self.beside(device, others))
    }

    /// Returns those of `free` that can be had beside a device.
    fn beside(&self, device: u32, free: &[(u32, Vec<u32>)]) -> impl Iterator<Item = u32> {
        let goes = move |ask: u32, other: u32| {
            other != device
                && self.state.uses[other as usize] == 0
                && self.goes_with(device, ask, other)
        };
        free.iter().flat_map(move |(ask, free)| {
            free.iter().copied().filter(move |other| goes(*ask, *other))
        })
    }

    /// Tells whether another device can be had for `ask` beside this one, by the constraints that cover
    /// both.
    fn goes_with(&self, device: u32, ask: u32, other: u32) -> bool {
        let Problem { asks, rules, columns, .. } = self.problem;
        let shared = asks[self.ask as usize].rules.iter();
        let mut shared = shared.filter(|rule| asks[ask as usize].rules.contains(rule));
        shared.all(|rule| {
            let rule = &rules[*rule as usize];
            let column = &columns[rule.column as usize];
            meet(column.of(device), column.of(other)) != rule.distinct
        })
    }
}
