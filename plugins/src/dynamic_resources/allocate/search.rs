//! The search: depth first over the requests, each device tried in order of choice.
//!
//! It begins plainly, since most questions are answered at the first try. After a few failures it
//! begins again with what makes it exact at bearable cost: states that are the same but for the
//! names of interchangeable devices are looked at once ([`Symmetry`]), and states that can't lead
//! to a solution by their numbers alone are given up at once ([`Bound`]).

mod apart;
mod improving;

use std::collections::BTreeSet;
use std::ops::Range;

use berth_core::framework::Work;

use super::bound::Bound;
use super::limits::DEVICES_A_CLAIM;
use super::problem::Problem;
use super::state::{Pick, State};
use super::symmetry::{Place, Symmetry};
use apart::Told;
use improving::Best;

/// Failures after which the plain search is given up.
const FAILURES_PLAIN: u32 = 4;
/// Most that is kept of failed states. Unit: 4 bytes.
const FAILED_WORDS_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Dive {
    pub(super) problem: Problem,
    state: State,
    /// The needs, in the order in which they are met.
    order: Vec<u32>,
    /// By need: which alternatives may be taken.
    allowed: Vec<Range<u32>>,
    frames: Vec<Frame>,
    /// What the frames have to choose from, one after the other.
    options: Vec<u32>,
    place: Place,
    /// The place has not been looked at.
    entering: bool,
    failures: u32,
    /// Failures after which it begins again, prepared for a long search.
    pub(super) failures_plain: u32,
    hard: Option<Box<Hard>>,
    best: Option<Best>,
    /// Solutions that don't count again; none: the first is what is asked for.
    told: Option<Told>,
    steps: u64,
}

/// A decision: which alternative, or which device.
#[derive(Debug)]
struct Frame {
    place: Place,
    options: Range<usize>,
    next: usize,
    /// The option before `next` is in force.
    active: bool,
    key: Option<Box<[u32]>>,
}

#[derive(Debug)]
struct Hard {
    symmetry: Symmetry,
    bound: Bound,
    /// States that lead to no solution, or to none that was not told.
    failed: BTreeSet<Box<[u32]>>,
    words: usize,
}

/// How a search ended.
#[derive(Debug)]
pub(super) enum End {
    Found(Vec<Pick>),
    Exhausted,
    OutOfSteps,
}

impl Dive {
    pub(super) fn new(problem: Problem, first_fit: bool) -> Dive {
        let order =
            if first_fit { (0..problem.needs.len() as u32).collect() } else { order(&problem) };
        Dive {
            state: State::new(&problem),
            allowed: problem.needs.iter().map(|need| need.asks.clone()).collect(),
            order,
            problem,
            frames: Vec::new(),
            options: Vec::new(),
            place: Place::default(),
            entering: true,
            failures: 0,
            failures_plain: FAILURES_PLAIN,
            hard: None,
            best: None,
            told: None,
            steps: 0,
        }
    }

    /// Goes on until it ends or `work` has no steps left. `steps_max` is for all calls together.
    /// With `improve` the first solution is not the last word on alternatives.
    pub(super) fn run(&mut self, work: &mut Work, steps_max: u64, improve: bool) -> Option<End> {
        while work.left() > 0 {
            let before = self.steps;
            let solved = if self.entering { self.enter() } else { self.advance() };
            work.spend(self.steps - before);
            let ended = match solved {
                Some(true) => self.solved(improve),
                Some(false) => self.exhausted(),
                None => self.out_of_steps(steps_max),
            };
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    fn out_of_steps(&mut self, steps_max: u64) -> Option<End> {
        let most = self.best.as_ref().map_or(u64::MAX, |best| best.steps_max);
        if self.steps <= steps_max.min(most) {
            return None;
        }
        match self.best.take() {
            Some(best) => Some(End::Found(best.picks)),
            None => Some(End::OutOfSteps),
        }
    }

    /// Looks at a place for the first time. Returns true if everything has been met.
    fn enter(&mut self) -> Option<bool> {
        self.steps += 1;
        self.entering = false;
        if let Some(ask) = self.place.ask
            && self.place.picked == self.problem.asks[ask as usize].count
        {
            self.place = Place { rank: self.place.rank + 1, ask: None, picked: 0 };
        }
        let Some(need) = self.order.get(self.place.rank).copied() else {
            return self.note_told().then_some(true);
        };
        let key = self.key();
        if key.as_ref().is_some_and(|key| self.known_failed(key)) {
            return None;
        }
        if self.place.ask.is_none() && self.hopeless() {
            self.fail(key);
            return None;
        }
        let start = self.options.len();
        match self.place.ask {
            None => self.list_alternatives(need),
            Some(ask) => self.list_candidates(ask),
        }
        if self.options.len() == start {
            self.fail(key);
            return None;
        }
        let options = start..self.options.len();
        let place = self.place;
        self.frames.push(Frame { place, options, next: start, active: false, key });
        None
    }

    /// Takes the next option of the latest decision. Returns false if there is none left anywhere.
    fn advance(&mut self) -> Option<bool> {
        let Some(frame) = self.frames.last_mut() else { return Some(false) };
        if frame.active {
            frame.active = false;
            self.failures += 1;
            if frame.place.ask.is_some() {
                self.state.unpick(&self.problem);
            }
        }
        if self.hard.is_none() && self.failures >= self.failures_plain {
            self.harden();
            return None;
        }
        let Some(frame) = self.frames.last_mut() else { return Some(false) };
        if frame.next == frame.options.end {
            self.options.truncate(frame.options.start);
            let key = self.frames.pop().and_then(|frame| frame.key);
            self.fail(key);
            return None;
        }
        let option = self.options[frame.next];
        frame.next += 1;
        frame.active = true;
        self.place = frame.place;
        match self.place.ask {
            None => self.place.ask = Some(option),
            Some(ask) => {
                self.state.pick(&self.problem, ask, option);
                self.place.picked += 1;
            }
        }
        self.entering = true;
        None
    }

    fn list_alternatives(&mut self, need: u32) {
        let possible = |ask: &u32| !self.problem.profile(*ask).blocked;
        self.options.extend(self.allowed[need as usize].clone().filter(possible));
    }

    fn list_candidates(&mut self, ask: u32) {
        let Problem { asks, .. } = &self.problem;
        let wanted = &asks[ask as usize];
        let open = wanted.count - self.place.picked;
        let in_claim = self.state.in_claim[wanted.claim as usize].len();
        if wanted.count > DEVICES_A_CLAIM || in_claim + open > DEVICES_A_CLAIM {
            return;
        }
        if self.problem.profile(ask).all {
            return self.list_next_of_all(ask);
        }
        let start = self.options.len();
        let candidates = self.problem.profile(ask).candidates.len() as u32;
        self.steps += u64::from(candidates);
        let free = |at: &u32| self.state.free(&self.problem, ask, *at);
        self.options.extend((0..candidates).filter(free));
        if self.options.len() - start < open {
            self.options.truncate(start);
            return;
        }
        let open = self.open_from(ask, open);
        let places = &mut self.options[start..];
        self.problem.choice.order(&self.problem, &self.state, ask, &open, places);
    }

    /// Of a request for all, each device must do.
    fn list_next_of_all(&mut self, ask: u32) {
        self.steps += 1;
        let at = self.place.picked as u32;
        if self.state.free(&self.problem, ask, at) {
            self.options.push(at);
        }
    }

    /// Returns what is still wanted: `open` devices of this alternative, then what comes after it.
    fn open_from(&self, ask: u32, open: usize) -> Vec<(u32, usize)> {
        let mut wanted = vec![(ask, open)];
        for need in &self.order[self.place.rank + 1..] {
            let first = self.problem.needs[*need as usize].asks.start;
            wanted.push((first, self.problem.asks[first as usize].count));
        }
        wanted
    }

    /// Begins again, prepared for a long search.
    fn harden(&mut self) {
        let symmetry = Symmetry::new(&self.problem, &self.order);
        let bound = Bound::new(&self.problem);
        self.steps += 2 * self.problem.devices.len() as u64;
        let failed = BTreeSet::new();
        self.hard = Some(Box::new(Hard { symmetry, bound, failed, words: 0 }));
        self.restart();
    }

    fn restart(&mut self) {
        while !self.state.picks.is_empty() {
            self.state.unpick(&self.problem);
        }
        self.frames.clear();
        self.options.clear();
        self.place = Place::default();
        self.entering = true;
        if let Some(hard) = &mut self.hard {
            hard.failed.clear();
            hard.words = 0;
        }
    }

    fn key(&mut self) -> Option<Box<[u32]>> {
        let hard = self.hard.as_mut()?;
        if self.place.ask.is_some() && self.place.picked == 0 {
            // The same but for the alternative, of which there is mostly one.
            return None;
        }
        self.steps += 2 + self.state.picks.len() as u64 / 4;
        Some(hard.symmetry.key(&self.problem, &self.state, self.place))
    }

    fn known_failed(&self, key: &[u32]) -> bool {
        self.hard.as_ref().is_some_and(|hard| hard.failed.contains(key))
    }

    fn fail(&mut self, key: Option<Box<[u32]>>) {
        let (Some(hard), Some(key)) = (&mut self.hard, key) else { return };
        if hard.words < FAILED_WORDS_MAX {
            hard.words += key.len() + 8;
            hard.failed.insert(key);
        }
    }

    fn hopeless(&mut self) -> bool {
        let Some(hard) = &self.hard else { return false };
        let open = self.order[self.place.rank..].iter().map(|need| {
            (&self.problem.needs[*need as usize], self.allowed[*need as usize].clone())
        });
        let open: Vec<_> = open.collect();
        let (hopeless, steps) = hard.bound.hopeless(&self.problem, &self.state, &open);
        self.steps += steps;
        hopeless
    }
}

/// Those that want all have no choice and come first, then those with alternatives in the claims'
/// order, then several that are best taken as a set, so that others can be near them, then the rest,
/// hardest to place first.
fn order(problem: &Problem) -> Vec<u32> {
    let mut order: Vec<u32> = (0..problem.needs.len() as u32).collect();
    if order.len() < 2 {
        return order;
    }
    let in_set =
        |need: u32| problem.choice.in_sets(problem, problem.needs[need as usize].asks.start);
    let sets: Vec<bool> = order.iter().map(|need| in_set(*need)).collect();
    let of_sets = problem.needs.iter().zip(&sets).filter(|(_, in_set)| **in_set);
    let as_set = of_sets.map(|(need, _)| problem.least(need)).sum::<usize>() > 1;
    order.sort_by_cached_key(|need| {
        let asks = problem.needs[*need as usize].asks.clone();
        let profile = problem.profile(asks.start);
        match (asks.len(), profile.all) {
            (1, true) => (0, 0, 0),
            (2.., _) => (1, 0, 0),
            _ if as_set && sets[*need as usize] => (2, 0, 0),
            _ => {
                let first = profile.candidates.first();
                let draws = first.map_or(&[][..], |first| problem.draws_of(first.device));
                let share = problem.counters.share(draws);
                (3, 1000 - share, profile.candidates.len())
            }
        }
    });
    order
}
