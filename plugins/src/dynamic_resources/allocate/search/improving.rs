//! Better alternatives of `firstAvailable` requests, once there is a solution.

use super::super::state::Pick;
use super::{Dive, End};

/// Steps that may be spent on better alternatives.
const STEPS_IMPROVING: u64 = 20_000;

/// The best solution so far, while better alternatives are looked for.
#[derive(Debug)]
pub(super) struct Best {
    pub(super) picks: Vec<Pick>,
    /// The needs before this place in the order have the best alternative that they can have.
    settled: usize,
    pub(super) steps_max: u64,
}

impl Dive {
    /// Keeps a solution, and looks for one with a better alternative for some request and no worse
    /// one for those before it.
    pub(super) fn solved(&mut self, improve: bool) -> Option<End> {
        let picks = self.state.picks.clone();
        if !improve || self.order.iter().all(|need| self.allowed[*need as usize].len() == 1) {
            return Some(End::Found(picks));
        }
        let (settled, steps_max) = match self.best.take() {
            Some(best) => (best.settled, best.steps_max),
            None => (0, self.steps.saturating_add(STEPS_IMPROVING)),
        };
        self.next_improvement(Best { picks, settled, steps_max })
    }

    /// Keeps the solution that there is, if there is one.
    pub(super) fn exhausted(&mut self) -> Option<End> {
        match self.best.take() {
            None => Some(End::Exhausted),
            Some(mut best) => {
                self.pin(&best, best.settled);
                best.settled += 1;
                self.next_improvement(best)
            }
        }
    }

    fn next_improvement(&mut self, mut best: Best) -> Option<End> {
        while best.settled < self.order.len() {
            let need = self.order[best.settled] as usize;
            let taken = self.taken(&best, need);
            let allowed = &mut self.allowed[need];
            let unlikely = |ask: u32| self.problem.profile(ask).blocked;
            let better = allowed.start..taken;
            if better.clone().any(|ask| !unlikely(ask)) {
                *allowed = better;
                self.best = Some(best);
                self.restart();
                return None;
            }
            self.pin(&best, best.settled);
            best.settled += 1;
        }
        Some(End::Found(best.picks))
    }

    fn pin(&mut self, best: &Best, rank: usize) {
        let need = self.order[rank] as usize;
        let taken = self.taken(best, need);
        self.allowed[need] = taken..taken + 1;
    }

    /// Returns the alternative that a solution takes for a need.
    fn taken(&self, best: &Best, need: usize) -> u32 {
        let asks = &self.problem.needs[need].asks;
        let taken = best.picks.iter().map(|pick| pick.ask).find(|ask| asks.contains(ask));
        taken.unwrap_or(asks.start)
    }
}
