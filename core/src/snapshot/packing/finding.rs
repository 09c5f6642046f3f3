//! Finding prices: when it is time, and what is done in which order, a slice at a time.

use std::sync::Arc;

use super::super::cluster::Cluster;
use super::Packing;
use super::drafting::{Drafting, Groups};
use super::solve::{Effort, Solver};
use super::valuing::Valuing;

/// The first solve begins with nothing, later ones with what the last one has found. As long as few
/// pods were seen, more is to be found out. Source: rounds and steps that the rule was measured with.
const EFFORT_FIRST: Effort = Effort { rounds: 1_000, step: 800 };
const EFFORT_EARLY: Effort = Effort { rounds: 250, step: 200 };
const EFFORT: Effort = Effort { rounds: 50, step: 200 };
const EARLY_SOLVES: u32 = 10;
/// Prices are found first after so many pods, then whenever as many have come again, up to the number
/// that the rules say. Source: with 100 the first pods, placed without prices, strand so many GPUs that
/// a full openb cluster has 0.2 points less allocated; 8 is no better.
pub(super) const FIRST_AFTER: u64 = 20;
/// Steps of a solve that make one step of the engine.
const SOLVE_STEPS_A_STEP: u64 = 100;
/// Counting a pod, looking at a node for the picture or valuing it, and finding out on one node what
/// a class selects take about so many steps of the engine.
const STEPS_A_POD: u64 = 20;
pub(super) const STEPS_A_NODE: u64 = 10;
const STEPS_A_SELECTION: u64 = 200;
/// What is done at the end of a stage takes one step for so many nodes.
const NODES_A_STEP: u64 = 4;

/// What is being done to find prices, in order.
#[derive(Debug)]
pub(super) enum Work {
    /// Finding out what these classes select.
    Selections(Vec<u32>),
    Picture(Box<Drafting>),
    Solve(Box<Solver>, Groups),
    Values(Box<Valuing>),
}

impl Packing {
    /// Goes on with the price solve by about so many steps; begins one if it is time. Returns the
    /// number of steps, and whether prices were found.
    pub(super) fn advance(&mut self, cluster: &Cluster, steps: u64) -> (u64, bool) {
        let mut spent = 0;
        if self.work.is_none() && self.due() {
            spent += self.count_placed(cluster, steps);
            if !self.placed_before.is_empty() {
                return (spent, false);
            }
            self.begin(cluster);
        }
        let solves = self.solves;
        while spent < steps
            && let Some(work) = self.work.take()
        {
            let left = steps - spent;
            let (took, next) = match work {
                Work::Selections(classes) => self.select(cluster, classes, left),
                Work::Picture(drafting) => self.draw(drafting, left),
                Work::Solve(solver, groups) => self.solve(solver, groups, left),
                Work::Values(valuing) => self.value(valuing, left),
            };
            spent += took;
            self.work = next;
        }
        (spent, self.solves > solves)
    }

    /// Finds out what classes select. Returns the number of steps, and what is to be done next, as
    /// all that follow.
    fn select(
        &mut self,
        cluster: &Cluster,
        mut classes: Vec<u32>,
        steps: u64,
    ) -> (u64, Option<Work>) {
        let mut spent = 0;
        while spent < steps {
            spent += STEPS_A_SELECTION * self.partitioned.len() as u64 + 1;
            let Some(class) = classes.pop() else {
                let drafting = Drafting::new(&self.classes, &self.prices);
                return (spent, Some(Work::Picture(Box::new(drafting))));
            };
            if self.resolve(cluster, class) {
                self.rows.remove(&class);
            }
        }
        (spent, Some(Work::Selections(classes)))
    }

    fn draw(&mut self, mut drafting: Box<Drafting>, steps: u64) -> (u64, Option<Work>) {
        let mut spent = 0;
        while spent < steps {
            let Some(entry) = self.nodes.get(drafting.at()) else {
                let (picture, groups) = drafting.finish(self.rules.room_for_named);
                let solver = Solver::new(picture, self.effort());
                let next = solver.map(|solver| Work::Solve(Box::new(solver), groups));
                return (spent + self.end_steps(), next);
            };
            drafting.look_at(entry.as_ref(), &self.states, &self.prices);
            spent += STEPS_A_NODE;
        }
        (spent, Some(Work::Picture(drafting)))
    }

    fn solve(
        &mut self,
        mut solver: Box<Solver>,
        groups: Groups,
        steps: u64,
    ) -> (u64, Option<Work>) {
        let mut spent = 0;
        while spent < steps {
            if solver.done() {
                let (found, prices) = solver.finish();
                for (class, sigma) in found {
                    self.classes.set_sigma(class, sigma);
                }
                let valuing = Valuing::new(prices, groups);
                return (spent + self.end_steps(), Some(Work::Values(Box::new(valuing))));
            }
            spent += solver.advance() / SOLVE_STEPS_A_STEP + 1;
        }
        (spent, Some(Work::Solve(solver, groups)))
    }

    fn value(&mut self, mut valuing: Box<Valuing>, steps: u64) -> (u64, Option<Work>) {
        let mut spent = 0;
        while spent < steps {
            let Some(entry) = self.nodes.get(valuing.at()) else {
                valuing.finish(&mut self.nodes, &mut self.states, &mut self.prices);
                self.rows.clear();
                self.solves += 1;
                return (spent + self.end_steps(), None);
            };
            valuing.value(entry.as_ref(), &self.states);
            spent += STEPS_A_NODE;
        }
        (spent, Some(Work::Values(valuing)))
    }

    fn end_steps(&self) -> u64 {
        self.nodes.len() as u64 / NODES_A_STEP + 1
    }

    pub(super) fn due(&self) -> bool {
        let every = u64::from(self.rules.solve_every);
        let arrived = self.classes.arrivals + self.placed_before.len() as u64;
        let expected = !self.rules.prior.is_empty() && !self.nodes.is_empty();
        let first = FIRST_AFTER.min(every);
        let enough = |begun_at: u64| arrived >= begun_at + begun_at.clamp(first, every);
        every > 0 && self.begun_at.map_or(expected || enough(0), enough)
    }

    /// Counts pods that were placed before, as far as there are steps. Returns the number of steps.
    fn count_placed(&mut self, cluster: &Cluster, steps: u64) -> u64 {
        let mut spent = 0;
        while spent < steps
            && let Some(uid) = self.placed_before.pop()
        {
            if let Some(record) = cluster.pod(&uid) {
                let demand = Arc::new(self.demand(&record.pod, cluster));
                self.classes.count(&uid, &demand, self.rules.half_life);
            }
            spent += STEPS_A_POD;
        }
        spent
    }

    fn begin(&mut self, cluster: &Cluster) {
        self.refresh(cluster);
        self.begun_at = Some(self.classes.arrivals);
        self.work = Some(Work::Selections(self.classes.selecting()));
    }

    fn effort(&self) -> Effort {
        match self.solves {
            0 => EFFORT_FIRST,
            n if n < EARLY_SOLVES && self.rules.prior.is_empty() => EFFORT_EARLY,
            _ => EFFORT,
        }
    }
}
