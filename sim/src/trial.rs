//! One run under faults: the world, one process after the other with its engine, and between them a
//! network that loses, delays and repeats.
//!
//! Everything that is to happen stands in the agenda, by time and order of entry; nothing else
//! decides what is next.

mod act;
mod crash;
mod devices;
mod gangs;
mod network;
mod process;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};

use berth_core::engine::{Engine, Input, Setup, Write, WriteId, WriteResult};
use berth_core::framework::rng::Rng;
use berth_core::types::{Allocation, GroupKey, Node, PlanNote, PodUid, Span, Text, Timestamp};

use crate::auditor::{Auditor, Sender};
use crate::claim_controller::ClaimController;
use crate::drivers::Drivers;
use crate::fault::FaultPlan;
use crate::history::History;
use crate::jobs::Jobs;
use crate::kubelet::Kubelet;
use crate::seed::START;
use crate::sweep::Crash;
use crate::watch::Watches;
use crate::workload::{Action, Workload};
use crate::world::World;

use crash::Standby;
use network::Proposal;
use process::Process;

/// Makes the engine of a process from the setup that the trial wants.
pub type MakeEngine<'a> = &'a dyn Fn(Setup) -> Engine;

/// What is to happen at a time.
#[derive(Clone, Debug)]
enum Due {
    Act(Action),
    Arrives {
        process: u64,
        write: Box<Write>,
        sent: Timestamp,
    },
    Answers {
        process: u64,
        write: WriteId,
        result: WriteResult,
    },
    Commits {
        proposal: u64,
    },
    /// Another process begins.
    Begins,
    DrainEnds {
        process: u64,
    },
    NodeComes(Box<Node>),
    /// A second has passed: chances for faults that no write or event brings.
    Second,
    /// The engine has more to do.
    Poll,
}

pub(crate) struct Trial<'a> {
    make: MakeEngine<'a>,
    setup: Setup,
    pub(crate) now: Timestamp,
    pub(crate) world: World,
    kubelet: Kubelet,
    controller: ClaimController,
    drivers: Drivers,
    jobs: Jobs,
    process: Option<Process>,
    generation: u64,
    watches: Watches,
    agenda: BTreeMap<(Timestamp, u64), Due>,
    entered: u64,
    pub(crate) plan: FaultPlan,
    latency: Rng,
    /// The API server is down until then.
    down_until: Timestamp,
    proposals: BTreeMap<u64, Proposal>,
    /// Binds that the server reads long after their clients gave them up.
    late_arrivals: Vec<(Sender, PodUid)>,
    /// The commit whose binds are being sent, and how many were.
    commit: Option<(PlanNote, u32)>,
    /// Where the process is to die, and whether it has.
    pub(crate) crash: Option<Crash>,
    crash_on: Option<(u64, WriteId)>,
    pub(crate) crashed: bool,
    /// Writes that the first process has decided on.
    pub(crate) writes: u64,
    standby: Option<Standby>,
    /// Groups that came at once and ask for the same, until they have met.
    rivals: Vec<(GroupKey, GroupKey)>,
    /// Bound pods whose node was missing when last looked at.
    ghosts: BTreeSet<PodUid>,
    pub(crate) auditor: Auditor,
    pub(crate) history: History,
    /// Version up to which auditor and history have read the log.
    observed: u64,
    instants: u64,
}

/// More instants than any honest run has: the engine spins.
const INSTANTS_MAX: u64 = 400_000;

impl<'a> Trial<'a> {
    pub(crate) fn new(make: MakeEngine<'a>, seed: u64, bug: Option<Text>, trace: bool) -> Self {
        Trial::of(make, seed, bug, FaultPlan::of(seed), Workload::of(seed, START), trace)
    }

    /// As [`Trial::new`], of a workload and faults of the caller's.
    pub(crate) fn of(
        make: MakeEngine<'a>,
        seed: u64,
        bug: Option<Text>,
        plan: FaultPlan,
        workload: Workload,
        trace: bool,
    ) -> Self {
        let start = START;
        let mut latency = Rng::stream(seed, "latency", "", 0);
        let watches = Watches::new(start, &mut latency);
        let Workload { actions, slices, templates, ganged } = workload;
        let mut rng = Rng::stream(seed, "drivers", "", 0);
        let delay = Span(20 + rng.below(400));
        let mut trial = Trial {
            make,
            setup: process::setup(seed, bug, ganged),
            now: start,
            world: World::default(),
            kubelet: Kubelet::with_grace(Span(500 + latency.below(15_000))),
            controller: ClaimController::new(templates, delay),
            jobs: Jobs::new(remake_delay(&mut rng)),
            drivers: Drivers::new(slices, rng),
            process: None,
            generation: 0,
            watches,
            agenda: BTreeMap::new(),
            entered: 0,
            plan,
            latency,
            down_until: start,
            proposals: BTreeMap::new(),
            late_arrivals: Vec::new(),
            commit: None,
            crash: None,
            crash_on: None,
            crashed: false,
            writes: 0,
            standby: None,
            rivals: Vec::new(),
            ghosts: BTreeSet::new(),
            auditor: Auditor::default(),
            history: History::new(trace),
            observed: 0,
            instants: 0,
        };
        for (at, action) in actions {
            trial.enter(at, Due::Act(action));
        }
        trial.enter(start + Span(1), Due::Begins);
        trial.enter(start + Span::from_secs(1), Due::Second);
        trial
    }

    fn enter(&mut self, at: Timestamp, due: Due) {
        self.entered += 1;
        self.agenda.insert((at.max(self.now), self.entered), due);
    }

    /// Runs until `end`, or until an invariant is broken.
    pub(crate) fn run_until(&mut self, end: Timestamp) {
        while self.auditor.violation().is_none() {
            match self.next() {
                Some(at) if at <= end => self.instant(at),
                Some(_) | None => break,
            }
        }
        self.now = self.now.max(end);
    }

    /// Runs until no object has changed for `still`. Returns false if that is not so after `most`.
    pub(crate) fn run_until_still(&mut self, still: Span, most: Span) -> bool {
        let end = self.now + most;
        let mut changed = (self.world.version(), self.now);
        while self.auditor.violation().is_none() {
            let until = changed.1 + still;
            if until > end {
                return false;
            }
            match self.next() {
                Some(at) if at <= until => self.instant(at),
                Some(_) | None => {
                    self.now = until;
                    break;
                }
            }
            if self.world.version() != changed.0 {
                changed = (self.world.version(), self.now);
            }
        }
        true
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.engine.under_way() == (0, 0))
    }

    /// Runs until the engine has nothing under way, at most so long.
    pub(crate) fn run_until_idle(&mut self, most: Span) {
        let end = self.now + most;
        while self.auditor.violation().is_none() && !self.is_idle() {
            match self.next() {
                Some(at) if at <= end => self.instant(at),
                Some(_) | None => return,
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        let agenda = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let engine = self.process.as_ref().and_then(|process| {
            // Time that has come already was of no use in the last poll.
            process.engine.next_wakeup().map(|(at, _)| at.max(self.now + Span(1)))
        });
        let watches = self.process.as_ref().and_then(|_| self.watches.next());
        let standby = self.standby.as_ref().and_then(Standby::next);
        let (kubelet, controller) = (self.kubelet.next(), self.controller.next());
        [
            agenda,
            engine,
            kubelet,
            controller,
            self.drivers.next(),
            self.jobs.next(),
            watches,
            standby,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Everything that happens at one instant; what it leads to comes later.
    fn instant(&mut self, at: Timestamp) {
        self.now = at.max(self.now);
        self.instants += 1;
        if self.instants > INSTANTS_MAX {
            let text = format!("the engine spins: {:?}", self.wakeup());
            self.auditor.violate("I13", self.now, text);
        }
        while let Some(entry) = self.agenda.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let due = entry.remove();
            self.happens(due);
            self.observe();
        }
        self.kubelet.step(&mut self.world, self.now);
        self.controller.step(&mut self.world, self.now);
        self.drivers.step(&mut self.world, self.now, &mut self.plan);
        self.jobs.step(&mut self.world, self.now);
        self.observe();
        self.watches.pull(&self.world, &mut self.latency, &mut self.plan);
        self.watch_on();
        if self.process.is_some() {
            let inputs = self.watches.deliver(&self.world, self.now, &mut self.plan);
            for input in inputs {
                self.tell(input);
            }
            self.poll();
            if self.process.is_some() {
                self.auditor.polled(self.now);
            }
        }
    }

    fn wakeup(&self) -> Option<(Timestamp, &'static str)> {
        self.process.as_ref().and_then(|process| process.engine.next_wakeup())
    }

    fn happens(&mut self, due: Due) {
        match due {
            Due::Act(action) => self.act(action),
            Due::Arrives { process, write, sent } => self.arrives(process, &write, sent),
            Due::Answers { process, write, result } => self.answered(process, write, result),
            Due::Commits { proposal } => self.commits(proposal),
            Due::Begins => self.begins_or_takes_over(),
            Due::DrainEnds { process } => self.drain_ends(process),
            Due::NodeComes(node) => self.act(Action::AddNode(node)),
            Due::Second => self.second(),
            Due::Poll => {}
        }
    }

    /// Hands an input to the process, and to the auditor what it says of the cluster.
    fn tell(&mut self, input: Input) {
        if let Input::Cluster(event) = &input {
            self.auditor.delivered(event, self.now);
        }
        let now = self.now;
        self.history.note(now, &[1], "", || format!("told      {}", told(&input)));
        if let Some(process) = &mut self.process {
            process.engine.handle(input, now);
        }
    }

    /// Lets auditor and history follow the world's log.
    fn observe(&mut self) {
        let from = self.world.log().partition_point(|l| l.resource_version <= self.observed);
        for at in from..self.world.log().len() {
            let logged = self.world.log()[at].clone();
            self.auditor.logged(&logged);
            let key = crate::world::Key::of(&logged.event);
            let numbers = [2, logged.resource_version, logged.kind as u64];
            let line = || format!("world     {}", described(&logged.event));
            self.history.note(logged.at, &numbers, &key.name, line);
        }
        self.observed = self.world.version();
    }

    /// Nothing strikes any more. What was missed is found.
    pub(crate) fn stop_faults(&mut self) {
        self.plan.stop();
        self.auditor.faults_ended(self.now);
        self.world.allow_untried();
        self.agenda.retain(|_, due| !matches!(due, Due::Second));
        for kind in self.watches.missed() {
            self.watches.lose_place(kind, self.now, self.now + Span(100));
        }
    }

    pub(crate) fn judge_ledger(&mut self) {
        match &self.process {
            Some(process) => self.auditor.judge_ledger(&self.world, &process.engine, self.now),
            None => self.auditor.violate("I5", self.now, "no process runs".to_owned()),
        }
    }
}

/// Draws how long a job's controller takes to make a lost pod anew: a quarter of them back off.
fn remake_delay(rng: &mut Rng) -> Span {
    match rng.below(1500) {
        early @ 0..375 => Span(1000 + early * 80),
        usual => Span(50 + usual),
    }
}

/// Shortens an input for a trace.
fn told(input: &Input) -> String {
    match input {
        Input::Cluster(event) => described(event),
        input => format!("{input:?}"),
    }
}

fn described(event: &berth_core::snapshot::ClusterEvent) -> String {
    use berth_core::snapshot::{ClusterEvent, DeviceEvent};
    match event {
        ClusterEvent::PodApplied(pod) => format!(
            "{} @{} on={:?} {:?} terminating={} gates={} {:?}",
            pod.uid,
            pod.resource_version,
            pod.node_name,
            pod.phase,
            pod.terminating,
            pod.gates.len(),
            pod.unscheduled.as_ref().map(|c| &c.message),
        ),
        ClusterEvent::NodeApplied(node) => format!(
            "{} ({}) @{} cordon={} taints={:?}",
            node.name,
            node.uid,
            node.resource_version,
            node.unschedulable,
            node.taints.iter().map(|t| &t.key).collect::<Vec<_>>(),
        ),
        ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim)) => format!(
            "claim {} ({}) @{} {} reserved={:?} finalizers={} terminating={}",
            claim.key.name,
            claim.uid,
            claim.resource_version,
            granted(claim.allocation.as_deref()),
            claim.reserved_for,
            claim.finalizers.len(),
            claim.terminating,
        ),
        ClusterEvent::Devices(DeviceEvent::SliceApplied(slice)) => format!(
            "slice {} @{} generation {} of {} slices, {} devices",
            slice.name,
            slice.resource_version,
            slice.generation,
            slice.slice_count,
            slice.devices.len(),
        ),
        other => format!("{other:?}"),
    }
}

fn granted(allocation: Option<&Allocation>) -> String {
    let ids = allocation.map(|allocation| allocation.results.iter().map(|r| r.id.to_string()));
    ids.map_or("free".to_owned(), |ids| ids.collect::<Vec<_>>().join(" "))
}
