//! All solutions of small random questions, compared with what comes of trying everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::framework::Work;
use berth_core::types::claim::DeviceDemand;

use super::super::choice::Preferred;
use super::super::problem::Problem;
use super::super::state::State;
use super::super::symmetry::{Place, Symmetry};
use super::super::testing::*;
use super::super::{outcome, reading};
use super::random::{Dice, random_claims, random_world};

/// What tells a solution from others.
type Key = Box<[u32]>;

/// Every way to meet the needs, without any order, bound or symmetry.
struct Everything<'a> {
    problem: &'a Problem,
    state: State,
    symmetry: Symmetry,
    keys: BTreeSet<Key>,
}

impl Everything<'_> {
    fn of(problem: &Problem) -> Everything<'_> {
        let order: Vec<u32> = (0..problem.needs.len() as u32).collect();
        let symmetry = Symmetry::new(problem, &order);
        let keys = BTreeSet::new();
        Everything { problem, state: State::new(problem), symmetry, keys }
    }

    fn key(&mut self) -> Key {
        let end = Place { rank: self.problem.needs.len(), ask: None, picked: 0 };
        self.symmetry.key(self.problem, &self.state, end)
    }

    fn meet(&mut self, need: usize) {
        let Some(wanted) = self.problem.needs.get(need) else {
            let key = self.key();
            self.keys.insert(key);
            return;
        };
        for ask in wanted.asks.clone() {
            if !self.problem.profile(ask).blocked {
                self.pick(need, ask, 0, self.problem.asks[ask as usize].count);
            }
        }
    }

    /// Picks so many more devices, none of them before the place `from`.
    fn pick(&mut self, need: usize, ask: u32, from: u32, open: usize) {
        if open == 0 {
            return self.meet(need + 1);
        }
        for at in from..self.problem.profile(ask).candidates.len() as u32 {
            if self.state.free(self.problem, ask, at) {
                self.state.pick(self.problem, ask, at);
                self.pick(need, ask, at + 1, open - 1);
                self.state.unpick(self.problem);
            }
        }
    }

    /// The key of a solution that the search has told.
    fn key_of(
        &mut self,
        world: &World,
        claims: &[Arc<DeviceDemand>],
        found: &super::super::Found,
    ) -> Key {
        let devices = world.cluster.devices();
        let picks = outcome::picks(devices, self.problem, claims, found).unwrap();
        for pick in &picks {
            assert!(self.state.free(self.problem, pick.ask, pick.at), "{}", show(found));
            self.state.pick(self.problem, pick.ask, pick.at);
        }
        let key = self.key();
        picks.iter().for_each(|_| self.state.unpick(self.problem));
        key
    }
}

#[test]
fn every_solution_is_told_once() {
    let mut dice = Dice(0x5eed_0006_0001_5eed);
    let (mut several, mut most) = (0, 0);
    for round in 0..6_000 {
        let mut world = random_world(&mut dice);
        let (mut claims, others) = (random_claims(&mut dice), random_claims(&mut dice));
        claims.truncate(1 + round % 3);
        let first_fit = round % 2 == 0;
        let told = world.solutions(&claims, &others, first_fit);
        let node = world.cluster.nodes().node(world.node).unwrap();
        let devices = world.cluster.devices();
        let problem =
            reading::read(devices, node, &claims, Some(&others), Some(&|_| Preferred::default()))
                .unwrap();
        let mut everything = Everything::of(&problem);
        everything.meet(0);
        let keys: Vec<Key> =
            told.iter().map(|found| everything.key_of(&world, &claims, found)).collect();
        let distinct: BTreeSet<Key> = keys.iter().cloned().collect();
        assert_eq!(distinct.len(), keys.len(), "round {round}: one is told twice: {claims:?}");
        assert_eq!(distinct, everything.keys, "round {round}: {claims:?}");
        several += usize::from(told.len() > 3);
        most = most.max(told.len());
    }
    assert!(several > 300 && most > 30, "{several} with several, at most {most}");
}

fn fits(world: &mut World, claims: &[Arc<DeviceDemand>]) -> bool {
    let mut search = world.search(claims, false);
    search.run(&world.cluster, &mut Work::unlimited()).unwrap().is_ok()
}

/// Two pods fit together exactly if the second fits beside some solution of the first.
#[test]
fn what_two_pods_could_have_together_they_can_have_one_after_the_other() {
    let mut dice = Dice(0x5eed_0006_0002_5eed);
    let (mut together, mut apart, mut greedy) = (0, 0, 0);
    for round in 0..6_000 {
        let mut world = random_world(&mut dice);
        let (mut claims, mut others) = (random_claims(&mut dice), random_claims(&mut dice));
        claims.truncate(1 + round % 2);
        others.truncate(1);
        let both: Vec<_> = claims.iter().chain(&others).cloned().collect();
        let told = world.solutions(&claims, &others, false);
        let fitting = told.iter().position(|found| {
            let held = world.hold_found(found);
            let fits = fits(&mut world, &others);
            world.let_go(held);
            fits
        });
        let expected = fits(&mut world, &both);
        assert_eq!(fitting.is_some(), expected, "round {round}: {claims:?} and {others:?}");
        together += usize::from(expected);
        apart += usize::from(!expected && !told.is_empty());
        greedy += usize::from(fitting.is_some_and(|at| at > 0));
    }
    assert!(together > 300 && apart > 300, "{together} fit, {apart} don't");
    assert!(greedy > 30, "{greedy} fit only beside another than the first");
}
