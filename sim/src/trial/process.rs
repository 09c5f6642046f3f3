//! Processes: one begins from fresh lists, decides, is stopped or killed, and the next one comes.

use std::collections::BTreeSet;

use berth_core::engine::{
    Answer, Decision, Engine, Input, Limits, Setup, Write, WriteId, WriteResult, Written,
};
use berth_core::framework::Op;
use berth_core::framework::rng::Rng;
use berth_core::types::{Span, Text};

use crate::fault::Fault;
use crate::sweep::Phase;
use crate::watch::Watches;
use crate::world::Kind;

use super::{Due, Trial};

pub(super) struct Process {
    pub(super) generation: u64,
    pub(super) engine: Engine,
    /// Writes without an answer.
    pub(super) in_flight: BTreeSet<WriteId>,
    pub(super) draining: bool,
}

/// A process that is asked to stop is killed after this. Source: F39.
const DRAIN: Span = Span::from_secs(10);

/// Returns the setup of every process of a run. Some seeds have a budget so small that searches
/// pause; those of groups take more steps.
pub(super) fn setup(seed: u64, bug: Option<Text>, ganged: bool) -> Setup {
    let mut rng = Rng::stream(seed, "setup", "", 0);
    let mut limits = Limits::default();
    if rng.below(3) == 0 {
        limits.steps_a_poll = (20 + rng.below(200)) * if ganged { 100 } else { 1 };
    }
    let watches = Kind::played().map(|kind| Text::from(kind.as_str())).collect();
    Setup { seed, limits, watches, bug, ..Setup::default() }
}

impl Trial<'_> {
    pub(super) fn begins(&mut self) {
        let mut watches = Watches::new(self.now.max(self.down_until), &mut self.latency);
        // What has happened so far is in the lists.
        watches.pull(&self.world, &mut self.latency, &mut self.plan);
        let engine = (self.make)(self.setup.clone());
        self.begins_with(engine, watches);
    }

    pub(super) fn begins_with(&mut self, engine: Engine, watches: Watches) {
        self.generation += 1;
        self.watches = watches;
        self.auditor.restarted();
        let generation = self.generation;
        self.history.note(self.now, &[3, generation], "", || format!("process   {generation}"));
        self.process =
            Some(Process { generation, engine, in_flight: BTreeSet::new(), draining: false });
    }

    /// Lets the engine work and sends what it decided.
    pub(super) fn poll(&mut self) {
        let now = self.now;
        let Some(process) = &mut self.process else { return };
        self.auditor.stopping = process.draining;
        let poll = process.engine.poll(now);
        if poll.working {
            self.enter(now + Span(1), Due::Poll);
        }
        for decision in poll.decisions {
            match decision {
                Decision::Write(write) => {
                    if !self.decided(write) {
                        return;
                    }
                }
                Decision::Ask(question) => {
                    let answer = Answer::Allowed(question.nodes);
                    self.tell(Input::Answer { question: question.id, answer });
                }
                Decision::Notice(notice) => {
                    self.auditor.noticed(&notice);
                    self.history.note(now, &[8], "", || format!("says      {notice:?}"));
                }
                Decision::Report(report) => {
                    self.auditor.reported(&report);
                    self.rival_reported(&report);
                }
            }
        }
        self.end_drained();
    }

    /// Sends a write. Returns false if the process was killed before it could.
    fn decided(&mut self, write: Write) -> bool {
        if self.crashes_at(&write) {
            return false;
        }
        let binds = matches!(write.op, Op::Bind { .. });
        if binds && self.plan.strikes(Fault::Killed) {
            self.plan.took_effect(Fault::Killed);
            self.killed();
            return false;
        }
        let between = self.between_claims(&write.op);
        if between && self.plan.strikes(Fault::ClaimKilled) {
            self.plan.took_effect(Fault::ClaimKilled);
            self.killed();
            return false;
        }
        if self.dies_in_commit(&write.op, between) {
            return false;
        }
        let drained = (binds && self.plan.strikes(Fault::Drained)).then_some(Fault::Drained);
        let drained = drained.or_else(|| {
            (between && self.plan.strikes(Fault::ClaimDrained)).then_some(Fault::ClaimDrained)
        });
        self.send(write);
        if let Some(fault) = drained {
            self.drain(fault);
        }
        true
    }

    /// SIGKILL: what was sent may still arrive. The lease is free after its time, which is longer
    /// than a write's `?timeout`, so whatever is committed is so before the next one begins.
    pub(super) fn killed(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.history.note(self.now, &[4, process.generation], "", || "killed".to_owned());
        self.drop_late(process.generation);
        let lease = Span(1000 + self.latency.below(2000));
        self.enter(self.now + self.write_timeout() + lease, Due::Begins);
    }

    /// SIGTERM: plans under way go on, then the process ends and gives up its lease.
    fn drain(&mut self, fault: Fault) {
        let now = self.now;
        let Some(process) = self.process.as_mut().filter(|process| !process.draining) else {
            return;
        };
        process.draining = true;
        let generation = process.generation;
        self.plan.took_effect(fault);
        self.tell(Input::Drain);
        self.enter(now + DRAIN, Due::DrainEnds { process: generation });
    }

    pub(super) fn drain_ends(&mut self, generation: u64) {
        if self.process.as_ref().is_some_and(|process| process.generation == generation) {
            self.killed();
        }
    }

    fn end_drained(&mut self) {
        let done = self.process.as_ref().is_some_and(|process| {
            process.draining && process.in_flight.is_empty() && process.engine.under_way() == (0, 0)
        });
        if done {
            self.process = None;
            self.history.note(self.now, &[5], "", || "drained".to_owned());
            self.enter(self.now + Span(300), Due::Begins);
        }
    }

    /// What every write is sent with.
    pub(super) fn write_timeout(&self) -> Span {
        self.setup.limits.write_timeout
    }

    /// An answer reaches the process that asked, if it still lives.
    pub(super) fn answered(&mut self, generation: u64, write: WriteId, result: WriteResult) {
        let Some(process) = &mut self.process else { return };
        if process.generation != generation {
            return;
        }
        let first = process.in_flight.remove(&write);
        if let WriteResult::Done(Written { event: Some(event), .. }) = &result
            && first
        {
            self.auditor.delivered(event, self.now);
        }
        self.tell(Input::Outcome { write, result: result.clone() });
        if self.crashes_on(generation, write, Phase::Answered) {
            return;
        }
        if self.plan.strikes(Fault::Repeated) {
            self.tell(Input::Outcome { write, result });
        }
    }
}
