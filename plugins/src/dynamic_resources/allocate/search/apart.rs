//! All solutions, one after the other, as far as they differ in what matters.
//!
//! A state from which all has been looked at is left out when it comes again under other names of
//! interchangeable devices, whether it led anywhere or not: what it led to has been told.

use std::collections::BTreeSet;

use super::super::state::Pick;
use super::super::symmetry::Place;
use super::Dive;

/// Solutions that have been told, by what tells states apart.
pub(super) type Told = BTreeSet<Box<[u32]>>;

impl Dive {
    /// From here on each run goes on after the last solution, and comes to those only that differ
    /// from `known` and from all before. A request's alternatives are gone through in their order,
    /// devices in the order of choice, earlier requests first.
    pub(in super::super) fn tell_apart(&mut self, known: &[Pick]) {
        self.harden();
        for pick in known {
            self.state.pick(&self.problem, pick.ask, pick.at);
        }
        self.told = Some(Told::new());
        self.note_told();
        for _ in known {
            self.state.unpick(&self.problem);
        }
    }

    /// Notes the solution that the state is. Returns false if its like has been told.
    pub(super) fn note_told(&mut self) -> bool {
        let end = Place { rank: self.order.len(), ask: None, picked: 0 };
        let (Some(told), Some(hard)) = (&mut self.told, &mut self.hard) else { return true };
        self.steps += 2 + self.state.picks.len() as u64 / 4;
        told.insert(hard.symmetry.key(&self.problem, &self.state, end))
    }
}
