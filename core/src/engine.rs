//! The engine: inputs in, decisions out, nothing else.
//!
//! [`Engine::handle`] folds an input and never blocks. [`Engine::poll`] looks at entries until its
//! budget of steps is used up, and returns what is to be done. [`Engine::next_wakeup`] says when
//! time alone makes a poll worth while. It reads no clock, no random source and no hash order: the
//! same inputs at the same times give the same decisions.
//!
//! Reading order: [`input`], [`decision`]; an attempt: `attempt`, `found`, `outcomes`, `placing`, `table`, `scores`,
//! `permits`, `drafting`, `crowded`, `unfit`, `asking`, `room`; a group: `groups`, `gathering`, `gang`, `repair`,
//! `group_tells`; a plan: `plans`, `checks`, `ending`, `settle`,
//! `readings`; and `tell`, `timing`.

mod asking;
mod attempt;
mod bounds;
pub mod budget;
mod checks;
mod classes;
mod crowded;
pub mod decision;
mod drafting;
mod ending;
mod folding;
mod found;
mod gang;
mod gathering;
mod group_tells;
mod groups;
mod guard;
mod holding;
pub mod input;
mod judge;
mod letting_go;
pub mod measures;
mod message;
mod only;
mod outcomes;
mod permits;
mod placing;
mod plans;
mod preflight;
mod readings;
mod repair;
pub mod report;
mod room;
mod scores;
mod sending;
mod settle;
mod setup;
mod table;
mod tell;
mod timing;
mod unfit;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::framework::{Op, Profile};
use crate::queue::SchedulingQueue;
use crate::snapshot::Cluster;
use crate::types::{GroupKey, Pod, PodRef, PodUid, Text, Timestamp};

use attempt::{HARD_EVERY, Search};
use budget::Budget;
use classes::Classes;
use group_tells::GroupTells;
use groups::Memories;
use measures::Measures;
use plans::Plans;
use readings::Readings;
use repair::Watched;
use settle::Settlements;
use tell::Tells;
use timing::Sampling;

pub use classes::ClassCounts;
pub use decision::{Decision, Notice, PlanId, Question, QuestionId, Urgency, Write, WriteId};
pub use input::{Answer, Consultant, Input, PodRead, WriteResult, Written};
pub use measures::{Bound, Eviction, FailedPlan, PermitWait};
pub use report::{CycleReport, NodeScores, Outcome, PlacementCounts, Rejected, ReportLevel};
pub use setup::{AlwaysGate, Dependence, Limits, OnEverything, Setup};
pub use timing::{Called, Code, Hinted, NoStopwatch, Stopwatch};

pub struct Engine {
    cluster: Cluster,
    queue: SchedulingQueue,
    classes: Classes,
    profiles: Vec<Profile>,
    by_name: BTreeMap<Text, usize>,
    setup: Setup,
    now: Timestamp,
    unsynced: BTreeSet<Text>,
    /// All watches have had their first list.
    synced_once: bool,
    draining: bool,
    /// Counts whatever may open or close a gate: inputs, and what the engine itself does to the ledger.
    stirs: u64,
    /// Searches that used up their poll's budget; they go on with later polls, in turn.
    paused: VecDeque<Search>,
    /// Those among them that have taken more than their nodes explain.
    hard: VecDeque<Search>,
    /// Counts polls up to [`HARD_EVERY`]: which is for hard searches first.
    turn: u32,
    /// What hard searches have taken beyond their polls' steps, and others have not had since.
    owed: u64,
    /// Entries that wait for a consultant's answer.
    asking: BTreeMap<QuestionId, Search>,
    /// Entries that have it, and go on with the next poll.
    answered: VecDeque<Search>,
    plans: Plans,
    settlements: Settlements,
    readings: Readings,
    tells: Tells,
    memories: Memories,
    group_tells: GroupTells,
    watched: Watched,
    /// Since when members run, as it was first told or seen.
    seen_running: BTreeMap<PodUid, Timestamp>,
    /// Members that are taken back: their deletion was sent, and they are not gone yet.
    leaving: BTreeSet<PodUid>,
    purposes: BTreeMap<WriteId, Purpose>,
    next_id: u64,
    out: VecDeque<Decision>,
    measures: Measures,
    attempts_timed: Sampling,
    gatings_timed: Sampling,
    changes_timed: Sampling,
}

/// Why a write was sent, so that its outcome finds its way.
#[derive(Clone, Debug)]
enum Purpose {
    /// Part of a plan's stage.
    Stage { plan: PlanId, label: Text, deletes: bool },
    /// Says on a pod of a plan that waits where it will be.
    Nominate { plan: PlanId, label: Text },
    /// Finds out what became of a write of a plan.
    ReadBack { plan: PlanId, label: Text },
    /// Takes back a write of a plan that failed, or follows a bind: nobody waits for it.
    Aside { op: Op, tries: u32 },
    /// Finds out what became of a bind.
    Settle { bind: WriteId },
    /// Tells why a pod waits.
    Tell { uid: PodUid },
    /// Tells how a group is.
    TellGroup { key: GroupKey },
    /// Tries whether a bind would be refused.
    Try { plan: PlanId, label: Text, pod: PodRef, node: Text },
    /// Tells a member why it is taken back.
    TakeBack { key: GroupKey, pod: PodRef },
}

impl Purpose {
    /// Returns the plan that the write is part of.
    fn plan(&self) -> Option<PlanId> {
        match self {
            Purpose::Stage { plan, .. }
            | Purpose::ReadBack { plan, .. }
            | Purpose::Nominate { plan, .. }
            | Purpose::Try { plan, .. } => Some(*plan),
            Purpose::Aside { .. }
            | Purpose::Settle { .. }
            | Purpose::Tell { .. }
            | Purpose::TellGroup { .. }
            | Purpose::TakeBack { .. } => None,
        }
    }
}

/// What a poll brought.
#[derive(Debug, Default)]
pub struct Poll {
    pub decisions: Vec<Decision>,
    /// The budget was used up with work left: call again after handing in newer inputs.
    pub working: bool,
    /// For metrics only.
    pub measures: Measures,
}

impl Engine {
    /// Folds one input. Cost: that of the fold, plus one question per waiting class.
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        self.tick(now);
        self.stirs += 1;
        match input {
            Input::Cluster(event) => self.fold(event),
            Input::Watch { kind, synced: true } => {
                self.unsynced.remove(&kind);
                let waits = |kind| self.unsynced.contains(kind);
                self.synced_once |= !self.setup.watches.iter().any(waits);
                self.readmit_held();
            }
            Input::Watch { kind, synced: false } => {
                self.unsynced.insert(kind);
            }
            Input::Outcome { write, result } => self.outcome(write, result),
            Input::Answer { question, answer } => self.answer(question, answer),
            Input::Drain => self.draining = true,
        }
    }

    /// Works until nothing is left to do or the budget is used up.
    pub fn poll(&mut self, now: Timestamp) -> Poll {
        self.tick(now);
        self.advance_plans();
        self.advance_settlements();
        self.advance_readings();
        self.expire_questions();
        self.advance_groups();
        let ended = self.cluster.end_refusals(self.now);
        self.after_changes(ended);
        if self.may_begin() {
            self.settle_topologies();
        }
        self.queue.flush(self.now);
        let mut budget = Budget::new(self.setup.limits.steps_a_poll);
        let mut working = false;
        self.turn = (self.turn + 1) % HARD_EVERY;
        let owed_before = self.owed;
        while self.may_begin() {
            if !budget.left() {
                working = true;
                break;
            }
            if !self.attempt_next(&mut budget) {
                break;
            }
        }
        self.pay_back(owed_before, budget.spent());
        if budget.left() {
            let steps = self.cluster.advance_packing(budget.remaining());
            budget.spend(steps);
        }
        let paused = !self.paused.is_empty() || !self.hard.is_empty();
        working |= paused && self.may_begin();
        working |= self.cluster.packing_waits();
        self.tell_of_places();
        self.tell_due();
        self.tell_groups_due();
        let measures = std::mem::take(&mut self.measures);
        Poll { decisions: self.out.drain(..).collect(), working, measures }
    }

    /// Returns when a poll is due though no input comes, and why.
    pub fn next_wakeup(&self) -> Option<(Timestamp, &'static str)> {
        let queue = if self.may_begin() { self.queue.next_wakeup() } else { None };
        let questions = self
            .asking
            .values()
            .filter_map(Search::deadline)
            .min()
            .map(|at| (at, "a question's deadline"));
        let due = [
            queue,
            questions,
            self.plans.next_wakeup(),
            self.settlements.next_wakeup(),
            self.readings.next_wakeup(),
            self.tells.next_wakeup(self.now),
            self.group_tells.next_wakeup(self.now),
            self.watched.next_wakeup(self.now),
            self.cluster.next_refusal_end().map(|at| (at, "the end of a refusal")),
        ];
        due.into_iter().flatten().min()
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn queue(&self) -> &SchedulingQueue {
        &self.queue
    }

    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    pub fn class_counts(&self) -> ClassCounts {
        self.classes.counts()
    }

    /// Number of groups that have started and have fewer members than they need.
    pub fn below_minimum(&self) -> usize {
        self.watched.below_minimum()
    }

    /// Number of plans under way, and of binds whose fate is not known.
    pub fn under_way(&self) -> (usize, usize) {
        (self.plans.len(), self.settlements.len())
    }

    /// Tells whether nothing is to be done until an input comes or time passes.
    pub fn idle(&self) -> bool {
        let paused = !self.paused.is_empty() || !self.hard.is_empty();
        let searching = paused || !self.answered.is_empty();
        self.out.is_empty() && !searching && self.queue.counts().active == 0
    }

    /// Time never goes backwards in here.
    fn tick(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    fn may_begin(&self) -> bool {
        !self.draining
            && (self.unsynced.is_empty() || self.synced_once && !self.all_depend())
            && self.plans.len() < self.setup.limits.plans_max
    }

    /// Tells whether a watch has lost its place on which every decision depends.
    fn all_depend(&self) -> bool {
        let anybody = Pod::default();
        self.unsynced.iter().any(|kind| self.setup.dependence.needs(kind, &anybody).is_none())
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
