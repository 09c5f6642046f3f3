//! Shows by numbers alone that what is left can't meet what is open.
//!
//! Three necessary conditions, each cheap: every request has enough candidates by itself; devices
//! can be handed out if nothing but who may have which counted (a flow); and the counters of each
//! name, over all sets, hold the least that the requests must draw.

use std::collections::BTreeMap;
use std::ops::Range;

use super::problem::{Need, Problem};
use super::state::State;

#[derive(Debug)]
pub(super) struct Bound {
    /// By device: devices that the same profiles have as candidates.
    group: Vec<u32>,
    /// By group: those profiles, ascending, and whether the devices are shared.
    groups: Vec<(Vec<u32>, bool)>,
    /// By profile and kind of counter: the least that a candidate draws. Unit: billionths.
    least: Vec<Vec<i128>>,
}

/// What is open: a request, and which of its alternatives may be taken.
pub(super) type Open<'a> = (&'a Need, Range<u32>);

impl Bound {
    pub(super) fn new(problem: &Problem) -> Bound {
        let mut profiles: Vec<Vec<u32>> = vec![Vec::new(); problem.devices.len()];
        for (at, profile) in problem.profiles.iter().enumerate().filter(|(_, p)| !p.admin) {
            for candidate in &profile.candidates {
                profiles[candidate.device as usize].push(at as u32);
            }
        }
        let mut known = BTreeMap::new();
        let mut groups = Vec::new();
        let number = |(profiles, device): (Vec<u32>, &super::problem::Device)| {
            let key = (profiles, device.shared);
            *known.entry(key.clone()).or_insert_with(|| {
                groups.push(key);
                groups.len() as u32 - 1
            })
        };
        let group = profiles.into_iter().zip(&problem.devices).map(number).collect();
        let least = (0..problem.profiles.len()).map(|at| least(problem, at)).collect();
        Bound { group, groups, least }
    }

    /// Tells whether what is open can't be met, and what it cost to find out. Unit: engine steps.
    pub(super) fn hopeless(
        &self,
        problem: &Problem,
        state: &State,
        open: &[Open<'_>],
    ) -> (bool, u64) {
        let mut steps = open.len() as u64;
        let hopeless = self.short(problem, state, open, &mut steps)
            || self.drained(problem, state, open)
            || self.contended(problem, state, open, &mut steps);
        (hopeless, steps)
    }

    /// Some request has too few candidates.
    fn short(&self, problem: &Problem, state: &State, open: &[Open<'_>], steps: &mut u64) -> bool {
        let mut known: Vec<Option<usize>> = vec![None; problem.profiles.len()];
        let mut enough = |ask: u32| {
            let wanted = &problem.asks[ask as usize];
            let profile = problem.profile(ask);
            if profile.blocked || wanted.count > profile.candidates.len() {
                return false;
            }
            let alone = wanted.rules.is_empty() && !profile.admin;
            if alone && let Some(free) = known[wanted.profile as usize] {
                return free >= wanted.count;
            }
            *steps += profile.candidates.len() as u64;
            let candidates = 0..profile.candidates.len() as u32;
            let free = candidates.filter(|at| state.free(problem, ask, *at)).count();
            if alone {
                known[wanted.profile as usize] = Some(free);
            }
            free >= wanted.count
        };
        open.iter().any(|(_, allowed)| !allowed.clone().any(&mut enough))
    }

    /// Together they must draw more than there is of some kind of counter.
    fn drained(&self, problem: &Problem, state: &State, open: &[Open<'_>]) -> bool {
        let counters = &problem.counters;
        let mut left = vec![0_i128; counters.n_kinds];
        for (kind, left_of) in counters.kinds.iter().zip(&state.left) {
            left[*kind as usize] += left_of.max(&0);
        }
        left.iter().enumerate().any(|(kind, left)| {
            let draw = |ask: u32| {
                let wanted = &problem.asks[ask as usize];
                self.least[wanted.profile as usize][kind].saturating_mul(wanted.count as i128)
            };
            let of_need = |(_, allowed): &Open<'_>| allowed.clone().map(draw).min().unwrap_or(0);
            open.iter().map(of_need).sum::<i128>() > *left
        })
    }

    /// There are too few devices for all of them.
    fn contended(
        &self,
        problem: &Problem,
        state: &State,
        open: &[Open<'_>],
        steps: &mut u64,
    ) -> bool {
        let mut free = vec![0_usize; self.groups.len()];
        for (at, device) in problem.devices.iter().enumerate() {
            let unused = device.shared || (!device.taken && state.uses[at] == 0);
            let charged = device.charged || state.uses[at] > 0;
            let draws = problem.draws_of(at as u32);
            if unused && (charged || problem.counters.fit(&state.left, draws)) {
                free[self.group[at] as usize] += 1;
            }
        }
        let mut wants: BTreeMap<Vec<u32>, (usize, usize)> = BTreeMap::new();
        for (need, allowed) in open {
            let asks = allowed.clone().map(|ask| &problem.asks[ask as usize]);
            let mut profiles: Vec<u32> = asks.clone().map(|ask| ask.profile).collect();
            if profiles.iter().any(|profile| problem.profiles[*profile as usize].admin) {
                continue;
            }
            debug_assert!(!need.asks.is_empty());
            profiles.sort_unstable();
            let (count, needs) = wants.entry(profiles).or_default();
            *count += asks.map(|ask| ask.count).min().unwrap_or(0);
            *needs += 1;
        }
        *steps += (problem.devices.len() + wants.len() * self.groups.len()) as u64;
        let wants = wants.into_iter().map(|(profiles, (count, needs))| {
            let may = |group: &(Vec<u32>, bool)| profiles.iter().any(|p| group.0.contains(p));
            let mut unmet = count;
            let groups = self.groups.iter().enumerate().filter(|(_, group)| may(group));
            let (shared, own): (Vec<_>, Vec<_>) = groups.partition(|(_, group)| group.1);
            // Shared devices are there for everybody, once a request.
            for (at, _) in shared {
                unmet = unmet.saturating_sub(free[at] * needs);
            }
            Want { unmet, groups: own.into_iter().map(|(at, _)| at).collect() }
        });
        let wants: Vec<Want> = wants.collect();
        !Flow::new(wants, free).meets_all()
    }
}

/// Returns the least that a candidate of a profile draws of each kind of counter.
fn least(problem: &Problem, profile: usize) -> Vec<i128> {
    let counters = &problem.counters;
    let profile = &problem.profiles[profile];
    let drawn = |device: u32| {
        let mut drawn = vec![0; counters.n_kinds];
        if !profile.admin && !problem.devices[device as usize].shared {
            for draw in problem.draws_of(device) {
                counters.of(*draw).for_each(|(at, n)| drawn[counters.kinds[at] as usize] += n);
            }
        }
        drawn
    };
    let all = profile.candidates.iter().map(|candidate| drawn(candidate.device));
    let lower = |a: Vec<i128>, b: Vec<i128>| a.into_iter().zip(b).map(|(a, b)| a.min(b)).collect();
    all.reduce(lower).unwrap_or_else(|| vec![0; counters.n_kinds])
}

struct Want {
    unmet: usize,
    groups: Vec<usize>,
}

/// Hands out devices of groups, as many as there are.
struct Flow {
    wants: Vec<Want>,
    free: Vec<usize>,
    /// By want and group.
    given: Vec<Vec<usize>>,
}

impl Flow {
    fn new(wants: Vec<Want>, free: Vec<usize>) -> Flow {
        let given = wants.iter().map(|_| vec![0; free.len()]).collect();
        Flow { wants, free, given }
    }

    fn meets_all(mut self) -> bool {
        (0..self.wants.len()).all(|want| {
            while self.wants[want].unmet > 0 {
                let mut seen = vec![false; self.free.len()];
                let most = self.wants[want].unmet;
                let got = self.give(want, most, &mut seen);
                if got == 0 {
                    return false;
                }
                self.wants[want].unmet -= got;
            }
            true
        })
    }

    /// Gives up to `most` devices to a want, taking them from others that can have others instead.
    /// Returns how many.
    fn give(&mut self, want: usize, most: usize, seen: &mut [bool]) -> usize {
        for at in 0..self.wants[want].groups.len() {
            let group = self.wants[want].groups[at];
            if std::mem::replace(&mut seen[group], true) {
                continue;
            }
            let free = self.free[group].min(most);
            if free > 0 {
                self.free[group] -= free;
                self.given[want][group] += free;
                return free;
            }
            for other in 0..self.wants.len() {
                let lent = self.given[other][group].min(most);
                if other == want || lent == 0 {
                    continue;
                }
                let moved = self.give(other, lent, seen);
                if moved > 0 {
                    self.given[other][group] -= moved;
                    self.given[want][group] += moved;
                    return moved;
                }
            }
        }
        0
    }
}
