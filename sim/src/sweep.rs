//! The sweep: a group of eight with claims, and a crash at one write of its start.
//!
//! Without a crash a run says how many writes there are; then each of them is tried in each phase,
//! with each way to go on. The auditor judges throughout; at the end the group is whole, or not there
//! at all if a member can't be bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::types::claim::{ClaimRequest, ClaimSpec, DeviceDemand, DeviceRequest};
use berth_core::types::group::{GroupHint, GroupKey, GroupKind, NATIVE, PodGroup};
use berth_core::types::{Node, Pod, PodClaim, PodSpec, Resources, Span, Text};

use crate::auditor::Violation;
use crate::fault::FaultPlan;
use crate::jobs::Job;
use crate::seed::START;
use crate::trial::{MakeEngine, Trial};
use crate::workload::{Action, DeviceAction, GangAction, SCHEDULER, Workload, devices_of_sweep};
use crate::world::Denial;

/// How far the write is when its process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Decided, and not sent.
    BeforeSend,
    /// On its way: it arrives after that.
    Sent,
    /// Carried out, and not answered.
    Committed,
    /// The process has the answer, and has done nothing with it.
    Answered,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::BeforeSend, Phase::Sent, Phase::Committed, Phase::Answered];
}

/// Who goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// The process begins again, from fresh lists.
    Restarted,
    /// Another one, which has been watching all along.
    Standby,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Counted from 1, over all writes of the first process.
    pub write: u64,
    pub phase: Phase,
    pub successor: Successor,
}

/// What is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// A Job's pods.
    Owned,
    /// Pods that nobody makes anew: their binds are tried first.
    Bare,
    /// A Job's pods, of which one can't be bound: the others are taken back.
    Refused,
}

impl Story {
    pub const ALL: [Story; 3] = [Story::Owned, Story::Bare, Story::Refused];
}

/// What came of a run.
#[derive(Debug)]
pub struct SweepReport {
    pub violation: Option<Violation>,
    /// Number of writes that the first process decided on.
    pub writes: u64,
    /// The crash took place.
    pub crashed: bool,
    pub bound: usize,
    /// The history, with `trace` only.
    pub lines: Vec<String>,
}

/// Crashes come within this: a group that can't be completed is taken back by then, and tried once
/// more.
pub(crate) const SWEPT: Span = Span::from_secs(60);
const MEMBERS: u64 = 8;
/// Everything has come to an end by then, taking back included.
const ENDS: Span = Span::from_secs(240);

/// Runs one story, with or without a crash.
pub fn run_sweep(
    make: MakeEngine<'_>,
    story: Story,
    crash: Option<Crash>,
    trace: bool,
) -> SweepReport {
    let mut trial = Trial::of(make, 0, None, FaultPlan::none(), workload(story), trace);
    trial.crash = crash;
    if matches!(crash, Some(Crash { successor: Successor::Standby, .. })) {
        trial.stand_by();
    }
    if story == Story::Refused {
        let (pods, node) = ("g-3-".into(), None);
        trial.world.deny(Denial { pods, node, code: 403, dry: true });
    }
    trial.auditor.faults_ended(START);
    trial.run_until(START + ENDS);
    if trial.auditor.violation().is_none() {
        let (world, now) = (&trial.world, trial.now);
        trial.auditor.judge_places(world, now);
    }
    if trial.auditor.violation().is_none() && story != Story::Refused {
        trial.judge_ledger();
    }
    let bound = trial.world.pods().filter(|pod| pod.node_name.is_some()).count();
    SweepReport {
        violation: trial.auditor.violation().cloned(),
        writes: trial.writes,
        crashed: trial.crashed,
        bound,
        lines: trial.history.into_lines(),
    }
}

/// Four nodes of two devices each, and the group.
fn workload(story: Story) -> Workload {
    let mut workload = Workload::default();
    let at = |ms: u64| START + Span(ms);
    let nodes: Vec<Node> = (0..4).map(node).collect();
    let (slices, classes) = devices_of_sweep(&nodes, 2);
    for class in classes {
        let action = DeviceAction::AddClass(Box::new(class));
        workload.actions.push((at(0), Action::Devices(action)));
    }
    for slice in &slices {
        let pool = (slice.driver.clone(), slice.pool.clone());
        let publish = DeviceAction::Publish { pool, at: 0 };
        workload.actions.push((at(0), Action::Devices(publish)));
    }
    workload.slices = slices;
    for node in nodes {
        workload.actions.push((at(0), Action::AddNode(Box::new(node))));
    }
    workload.templates = BTreeMap::from([("one".into(), Arc::new(one_device()))]);
    let key = GroupKey {
        dialect: NATIVE,
        kind: GroupKind::Pods,
        namespace: "default".into(),
        name: "g".into(),
    };
    let object = PodGroup::gang(key.clone(), "", MEMBERS as u32);
    let create = GangAction::Create(Box::new(object));
    workload.actions.push((at(500), Action::Gangs(create)));
    let pods: Vec<Pod> = (0..MEMBERS).map(|number| member(&key, number, story)).collect();
    if story == Story::Bare {
        let create = |pod| (at(2000), Action::Create(Box::new(pod)));
        workload.actions.extend(pods.into_iter().map(create));
    } else {
        let job = Job { name: "g".into(), replicas: pods.len(), pods, eager: false };
        let start = GangAction::Start(Box::new(job));
        workload.actions.push((at(2000), Action::Gangs(start)));
    }
    workload
}

fn one_device() -> ClaimSpec {
    let requests = vec![ClaimRequest::only(DeviceRequest::exact("gpu", "gpu", 1))];
    let demand = DeviceDemand { requests, constraints: Vec::new() };
    ClaimSpec { demand: Arc::new(demand), config: Vec::new() }
}

fn node(number: u64) -> Node {
    Node {
        name: format!("node-{number}").into(),
        pods_max: 10,
        allocatable: Resources { cpu_milli: 4000, ..Resources::default() },
        ..Node::default()
    }
}

fn member(key: &GroupKey, number: u64, story: Story) -> Pod {
    let claim = PodClaim { name: "dev".into(), source: "one".into(), from_template: true };
    let spec =
        PodSpec { scheduler_name: SCHEDULER.into(), claims: vec![claim], ..PodSpec::default() };
    let suffix = if story == Story::Bare { "" } else { "-" };
    let mut pod = Pod {
        namespace: key.namespace.clone(),
        name: Text::from(format!("g-{number}{suffix}")),
        spec: Arc::new(spec),
        ..Pod::default()
    };
    pod.add_group_hint(GroupHint::of_object(NATIVE, key.name.clone()));
    pod
}
