//! Running an engine on a [`World`] without faults, in virtual time, until nothing more would
//! happen.

use berth_core::engine::{Answer, CycleReport, Decision, Engine, Input, Notice, Write};
use berth_core::types::{Span, Text, Timestamp};

use crate::kubelet::Kubelet;
use crate::world::{Kind, World};

/// How long a [`Simulation`] goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// It is quiet when no object has changed for so long. More than two leftover periods, so
    /// that every pod that waits has been looked at again.
    pub still: Span,
    /// It stops after so long even if it is not quiet.
    pub most: Span,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { still: Span::from_secs(600), most: Span::from_secs(24 * 3600) }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// Nothing more would happen. The last change of an object was then.
    Since(Timestamp),
    /// Objects still changed when patience ended.
    Never,
}

/// An engine, a world and their time. Answers come at once, in the instant of the question.
pub struct Simulation {
    world: World,
    engine: Engine,
    kubelet: Kubelet,
    now: Timestamp,
    /// Version up to which the engine was told.
    told: u64,
    reports: Vec<CycleReport>,
    notices: Vec<Notice>,
}

impl Simulation {
    /// Starts at `now`. The engine is told of every object at the first run; watches that its
    /// setup waits for may have any name.
    pub fn new(engine: Engine, world: World, now: Timestamp) -> Simulation {
        let kubelet = Kubelet::default();
        Simulation {
            world,
            engine,
            kubelet,
            now,
            told: 0,
            reports: Vec::new(),
            notices: Vec::new(),
        }
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// For another phase: apply objects to it at [`Simulation::now`], then run again.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Takes the reports since the last call, oldest first.
    pub fn take_reports(&mut self) -> Vec<CycleReport> {
        std::mem::take(&mut self.reports)
    }

    /// Takes the notices since the last call, oldest first.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Lets time pass until nothing more would happen: no work is left, nothing is in flight, and
    /// what timers wake changes no object.
    pub fn run_until_quiet(&mut self, patience: &Patience) -> Quiet {
        let end = self.now + patience.most;
        self.instant();
        let mut changed = (self.world.version(), self.now);
        loop {
            let still_until = changed.1 + patience.still;
            match self.next_wakeup() {
                Some(at) if at <= still_until.min(end) => self.now = at.max(self.now + Span(1)),
                _ if still_until <= end => return Quiet::Since(changed.1),
                _ => return Quiet::Never,
            }
            self.instant();
            if self.world.version() != changed.0 {
                changed = (self.world.version(), self.now);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        let engine = self.engine.next_wakeup().map(|(at, _)| at);
        [engine, self.kubelet.next()].into_iter().flatten().min()
    }

    /// Everything that happens at one instant.
    fn instant(&mut self) {
        loop {
            self.kubelet.step(&mut self.world, self.now);
            let told_any = self.tell();
            let poll = self.engine.poll(self.now);
            let idle = poll.decisions.is_empty() && !poll.working && !told_any;
            for decision in poll.decisions {
                self.decided(decision);
            }
            if idle {
                return;
            }
        }
    }

    /// Hands the engine what it has not seen. Returns whether there was anything.
    fn tell(&mut self) -> bool {
        let first = self.told == 0;
        let news = self.world.since(self.told);
        let any = !news.is_empty();
        for logged in news {
            self.engine.handle(Input::Cluster((*logged.event).clone()), self.now);
        }
        self.told = self.world.version();
        if first {
            for kind in Kind::ALL {
                let kind = Text::from(kind.as_str());
                self.engine.handle(Input::Watch { kind, synced: true }, self.now);
            }
        }
        any
    }

    fn decided(&mut self, decision: Decision) {
        match decision {
            Decision::Write(write) => self.write(&write),
            Decision::Ask(question) => {
                let answer = Answer::Allowed(question.nodes);
                self.engine.handle(Input::Answer { question: question.id, answer }, self.now);
            }
            Decision::Notice(notice) => self.notices.push(notice),
            Decision::Report(report) => self.reports.push(*report),
        }
    }

    fn write(&mut self, write: &Write) {
        let result = self.world.carry_out(&write.op, self.now);
        self.engine.handle(Input::Outcome { write: write.id, result }, self.now);
    }
}

#[cfg(test)]
mod tests;
