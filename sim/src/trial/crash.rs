//! A crash at one write, and the standby that may take over.

use berth_core::engine::{Engine, Input, Write, WriteId};
use berth_core::framework::rng::Rng;
use berth_core::snapshot::ClusterEvent;
use berth_core::types::Timestamp;

use crate::fault::FaultPlan;
use crate::seed::START;
use crate::sweep::{Phase, SWEPT, Successor};
use crate::watch::Watches;

use super::Trial;

/// A process that watches and decides nothing.
pub(super) struct Standby {
    engine: Engine,
    watches: Watches,
    /// Its own, so that it changes nothing for the first.
    latency: Rng,
    plan: FaultPlan,
    /// What it was told, for the auditor.
    told: Vec<(ClusterEvent, Timestamp)>,
}

impl Standby {
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.watches.next()
    }
}

impl Trial<'_> {
    pub(crate) fn stand_by(&mut self) {
        let engine = (self.make)(self.setup.clone());
        let mut latency = Rng::stream(0, "standby", "", 0);
        let watches = Watches::new(self.now, &mut latency);
        let (plan, told) = (FaultPlan::none(), Vec::new());
        self.standby = Some(Standby { engine, watches, latency, plan, told });
    }

    /// Lets the standby watch.
    pub(super) fn watch_on(&mut self) {
        let Some(standby) = &mut self.standby else { return };
        standby.watches.pull(&self.world, &mut standby.latency, &mut standby.plan);
        for input in standby.watches.deliver(&self.world, self.now, &mut standby.plan) {
            if let Input::Cluster(event) = &input {
                standby.told.push((event.clone(), self.now));
            }
            standby.engine.handle(input, self.now);
        }
    }

    /// The process decides on a write. Returns whether it dies of it.
    pub(super) fn crashes_at(&mut self, write: &Write) -> bool {
        if self.crashed || self.generation > 1 || self.now > START + SWEPT {
            return false;
        }
        self.writes += 1;
        let Some(crash) = self.crash.filter(|crash| crash.write == self.writes) else {
            return false;
        };
        match crash.phase {
            Phase::BeforeSend => self.crashes(),
            Phase::Sent => {
                self.send(write.clone());
                self.crashes();
            }
            Phase::Committed | Phase::Answered => {
                self.crash_on = Some((self.generation, write.id));
                return false;
            }
        }
        true
    }

    /// Something happens to a write of the process. Returns whether it dies of it.
    pub(super) fn crashes_on(&mut self, process: u64, write: WriteId, phase: Phase) -> bool {
        let awaited = self.crash.is_some_and(|crash| crash.phase == phase)
            && self.crash_on == Some((process, write));
        if awaited && !self.crashed {
            self.crashes();
        }
        awaited
    }

    fn crashes(&mut self) {
        self.crashed = true;
        self.killed();
        self.auditor.faults_ended(self.now);
    }

    pub(super) fn begins_or_takes_over(&mut self) {
        let takes_over = self.crash.is_some_and(|crash| crash.successor == Successor::Standby);
        match self.standby.take_if(|_| self.crashed && takes_over) {
            Some(standby) => self.takes_over(standby),
            None => self.begins(),
        }
    }

    fn takes_over(&mut self, Standby { engine, watches, told, .. }: Standby) {
        self.begins_with(engine, watches);
        for (event, at) in told {
            self.auditor.delivered(&event, at);
        }
    }
}
