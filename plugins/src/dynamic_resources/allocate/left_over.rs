//! What a solution leaves on its node: devices that nobody else may find a use for there.

use super::problem::{Candidate, Problem};
use super::state::{Pick, State};

impl Problem {
    /// Returns how often the first request could be met once more by itself after these picks. That
    /// one partition stands in the way of another isn't looked at: each that could be had counts.
    pub(super) fn left_over(&self, picks: &[Pick]) -> u64 {
        let of = |pick: &&Pick| {
            let ask = &self.asks[pick.ask as usize];
            (ask.claim, ask.request)
        };
        let Some(first) = picks.iter().min_by_key(of) else { return 0 };
        let mut state = State::new(self);
        picks.iter().for_each(|pick| state.pick(self, pick.ask, pick.at));
        let candidates = self.profile(first.ask).candidates.iter();
        candidates.fold(0, |sum: u64, it| sum.saturating_add(more(self, &state, *it)))
    }
}

/// Returns how often a candidate could be had by others.
fn more(problem: &Problem, state: &State, candidate: Candidate) -> u64 {
    let device = &problem.devices[candidate.device as usize];
    let picked = state.uses[candidate.device as usize] > 0;
    let charged = device.charged || picked;
    if device.taken
        || picked && !device.shared
        || !charged && !problem.counters.fit(&state.left, problem.draws_of(candidate.device))
    {
        return 0;
    }
    let Some(amounts) = candidate.amounts else { return 1 };
    let rooms = &state.rooms[problem.room_of(candidate.device)];
    let wanted = rooms.iter().zip(&*problem.amounts[amounts as usize]).filter(|(_, it)| **it > 0);
    let fits = wanted.map(|(room, amount)| room / amount).min().unwrap_or(1);
    u64::try_from(fits).unwrap_or(0)
}
