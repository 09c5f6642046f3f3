//! A problem as the engine sees it, and what the engine makes of it.

use std::sync::Arc;

use berth_core::engine::{Decision, Engine, Input, Outcome, Setup};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, DeviceEvent, GroupEvent};
use berth_core::types::claim::{
    ClaimKey, ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint, DeviceDemand,
    DeviceRequest,
};
use berth_core::types::device::{
    AttributeValue, Consumption, CounterSet, DeviceModel, NANOS, Placement, Quantity,
};
use berth_core::types::group::{
    GroupHint, GroupKey, GroupKind, NATIVE, PodGroup, Spread, SubGroup, TopologyConstraint,
    TopologyLevel,
};
use berth_core::types::tree::{HyperNode, NodeMatch, TopologyShape};
use berth_core::types::{
    Device, DeviceClass, LabelSelector, Labels, Owner, Pod, PodClaim, PodRequests, PodSpec, PodUid,
    ResourceClaim, ResourceSlice, Resources, SpreadConstraint, Text, Timestamp, TopologyKey,
    TopologyObject,
};

use super::engine::engine;
use super::problem::{By, Claim, Devices, Node, Problem, Together, Want};
use super::spread;

const DRIVER: &str = "gpu.example.com";
const ROOT: &str = "resource.kubernetes.io/pcieRoot";
const GPU: &str = "nvidia.com/gpu";
const ZONE: &str = "zone";
const RACK: &str = "rack";
const HOST: &str = "kubernetes.io/hostname";
/// The members' label, and that of a pod which they must be near.
const RUN: &str = "run";
/// What spread constraints select, with the value `1`.
const SPREAD: &str = "spread";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Planned,
    Infeasible,
    /// The search was not finished.
    BudgetReached,
}

/// Lets the engine look at the group once.
pub(crate) fn verdict(problem: &Problem, bug: Option<&str>) -> Result<Verdict, String> {
    let mut engine = engine(Setup { bug: bug.map(Text::from), ..Setup::default() });
    let mut now = Timestamp(1_000_000);
    for event in events(problem) {
        engine.handle(Input::Cluster(event), now);
    }
    for _ in 0..10_000 {
        let poll = engine.poll(now);
        if let Some(verdict) = read(&poll.decisions) {
            return match verdict {
                Verdict::Planned => check(problem, &engine).map(|()| verdict),
                verdict => Ok(verdict),
            };
        }
        if !poll.working {
            return Err("nothing was decided".to_owned());
        }
        now = now + berth_core::types::Span(1);
    }
    Err("it does not end".to_owned())
}

fn read(decisions: &[Decision]) -> Option<Verdict> {
    decisions.iter().find_map(|decision| match decision {
        Decision::Write(write) => match write.op {
            Op::Bind { .. } | Op::TryBind { .. } | Op::Claim { .. } => Some(Verdict::Planned),
            _ => None,
        },
        Decision::Report(report) if report.outcome == Outcome::Unschedulable => {
            let open = report.message.contains("no placement was found in the steps");
            Some(if open { Verdict::BudgetReached } else { Verdict::Infeasible })
        }
        Decision::Report(_) | Decision::Ask(_) | Decision::Notice(_) => None,
    })
}

/// The plan is one: it is within what nodes have, and nothing is granted twice.
fn check(problem: &Problem, engine: &Engine) -> Result<(), String> {
    let cluster = engine.cluster();
    let mut on_node = vec![Vec::new(); problem.nodes.len()];
    let mut placed = vec![false; problem.members.len()];
    let mut zones = vec![None; problem.members.len()];
    let mut positions = vec![None; problem.members.len()];
    for (at, member) in problem.members.iter().enumerate() {
        let record = cluster.pod(&PodUid(format!("m{at}").into())).ok_or("a member is gone")?;
        let Some(node) = record.place.node() else { continue };
        let name = &cluster.nodes().slot(node).name;
        let node: usize = name[1..].parse().map_err(|_| "no such node".to_owned())?;
        on_node[node].push(member);
        placed[at] = true;
        positions[at] = Some(node);
        zones[at] = Some(problem.nodes[node].zone);
    }
    let apart = |one: usize, other: usize| {
        let bound = problem.together.binds(problem, one, other);
        bound && zones[one].is_some() && zones[other].is_some() && zones[one] != zones[other]
    };
    if (0..zones.len()).any(|one| (0..one).any(|other| apart(one, other))) {
        return Err("members are in two zones that must be in one".to_owned());
    }
    let of_peer = problem.zone_of_peer();
    if of_peer.is_some() && zones.iter().flatten().any(|zone| Some(*zone) != of_peer) {
        return Err("a member is in another zone than the group that it must be near".to_owned());
    }
    for (at, (node, members)) in problem.nodes.iter().zip(&on_node).enumerate() {
        let cpu: i64 = members.iter().map(|member| member.cpu).sum();
        let gpus: i64 = members.iter().map(|member| member.gpus).sum();
        if cpu > node.cpu
            || gpus > node.gpus
            || members.len() as i64 + problem.strangers(at) > node.pods
        {
            return Err("a node has too much".to_owned());
        }
        if members.iter().any(|member| member.zone.is_some_and(|zone| zone != node.zone)) {
            return Err("a member is in the wrong zone".to_owned());
        }
    }
    let workers = (0..placed.len()).filter(|at| placed[*at] && problem.members[*at].worker).count();
    let enough = placed.iter().filter(|placed| **placed).count() >= problem.min;
    if !enough || problem.workers.is_some_and(|want| workers < want) {
        return Err("half a group is planned".to_owned());
    }
    for node in positions.iter().flatten().map(|at| &problem.nodes[*at]) {
        let Some(at_most) = problem.at_most else { continue };
        let rack = |at: &&usize| problem.nodes[**at].rack == node.rack;
        if node.rack.is_none() || positions.iter().flatten().filter(rack).count() > at_most {
            return Err("more members are in a rack than may be".to_owned());
        }
    }
    if problem.spread.is_some() && !spread::is_reached(problem, &positions) {
        return Err("members are not spread as they are to be".to_owned());
    }
    let planned = cluster.devices().claims().filter_map(|record| record.planned.as_ref());
    let mut ids: Vec<_> =
        planned.flat_map(|planned| planned.allocation.results.iter().map(|r| &r.id)).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    if ids.len() == all { Ok(()) } else { Err("a device is granted twice".to_owned()) }
}

fn events(problem: &Problem) -> Vec<ClusterEvent> {
    let mut events = devices(problem);
    for (at, node) in problem.nodes.iter().enumerate() {
        let mut allocatable = Resources { cpu_milli: node.cpu * 1000, ..Resources::default() };
        allocatable.set(&GPU.into(), node.gpus);
        events.push(ClusterEvent::NodeApplied(berth_core::types::Node {
            name: format!("n{at}").into(),
            uid: format!("n{at}").into(),
            labels: node_labels(at, node),
            allocatable,
            pods_max: node.pods,
            ..berth_core::types::Node::default()
        }));
    }
    events.extend(others(problem));
    events.extend(peer(problem));
    let mut object = PodGroup::gang(key(), "g", problem.min as u32);
    let level = TopologyLevel::Named(RACK.into());
    let limit = problem.at_most.map(|at_most| Spread { level, at_most: at_most as u32 });
    object.spread.extend(limit);
    let mut zone = TopologyConstraint::required(ZONE.into());
    if problem.described {
        zone.level = TopologyLevel::Tier(1);
        events.extend(hyper_nodes(problem));
    }
    zone.span = problem.peer.map(|_| LabelSelector::equals(RUN, "7"));
    match problem.together {
        Together::Anywhere | Together::Workers => {}
        Together::All => object.topology = vec![zone.clone()],
        Together::Pairs => {
            object.topology = vec![TopologyConstraint { slice: Some(2), ..zone.clone() }];
        }
    }
    if let Some(want) = problem.workers {
        let near = problem.together == Together::Workers;
        let topology = if near { vec![zone.clone()] } else { Vec::new() };
        let workers = SubGroup::of_role("worker".into(), want as u32);
        object.sub_groups = vec![SubGroup { topology, ..workers }];
    }
    events.push(ClusterEvent::Groups(GroupEvent::Applied(Box::new(object))));
    for (at, want) in problem.shared.iter().enumerate() {
        events.push(claim(&format!("shared{at}"), *want, None));
    }
    for at in 0..problem.members.len() {
        events.extend(member(problem, at));
    }
    events
}

fn key() -> GroupKey {
    let (namespace, name) = ("default".into(), "g".into());
    GroupKey { dialect: NATIVE, kind: GroupKind::Pods, namespace, name }
}

fn node_labels(at: usize, node: &Node) -> Labels {
    let mut labels = vec![(ZONE.into(), node.zone.to_string().into())];
    labels.push((HOST.into(), format!("n{at}").into()));
    labels.extend(node.rack.map(|rack| (RACK.into(), rack.to_string().into())));
    Labels::new(labels)
}

/// Lists of the nodes of each zone.
fn hyper_nodes(problem: &Problem) -> Vec<ClusterEvent> {
    let of = |zone: u64| {
        let nodes = problem.nodes.iter().enumerate().filter(|(_, node)| node.zone == zone);
        let nodes = nodes.map(|(at, _)| NodeMatch::Name(format!("n{at}").into()));
        let shape = HyperNode { tier: 1, nodes: nodes.collect(), ..HyperNode::default() };
        let name = Text::from(format!("zone-{zone}"));
        let object = TopologyObject {
            key: TopologyKey { dialect: "volcano", name: name.clone() },
            uid: name,
            resource_version: 1,
            shape: TopologyShape::HyperNode(shape.into()),
            problem: None,
        };
        ClusterEvent::Groups(GroupEvent::TopologyApplied(Box::new(object)))
    };
    vec![of(0), of(1)]
}

/// A pod of another group that the members must be near.
fn peer(problem: &Problem) -> Option<ClusterEvent> {
    let at = problem.peer?;
    let mut pod = Pod {
        uid: PodUid("peer".into()),
        namespace: "default".into(),
        name: "peer".into(),
        resource_version: 1,
        node_name: Some(format!("n{at}").into()),
        labels: Labels::new(vec![(RUN.into(), "7".into())]),
        ..Pod::default()
    };
    pod.add_group_hint(GroupHint::of_object(NATIVE, "other".into()));
    Some(ClusterEvent::PodApplied(Box::new(pod)))
}

/// Pods that are there before the group.
fn others(problem: &Problem) -> Vec<ClusterEvent> {
    let on = problem.nodes.iter().enumerate().filter(|(_, node)| node.others > 0);
    let pod = |(at, _): (usize, &Node)| Pod {
        uid: PodUid(format!("o{at}").into()),
        namespace: "default".into(),
        name: format!("o{at}").into(),
        resource_version: 1,
        node_name: Some(format!("n{at}").into()),
        labels: Labels::new(vec![(SPREAD.into(), "1".into())]),
        ..Pod::default()
    };
    on.map(pod).map(|pod| ClusterEvent::PodApplied(Box::new(pod))).collect()
}

fn spread_constraint(problem: &Problem) -> Option<SpreadConstraint> {
    let spread = problem.spread?;
    Some(SpreadConstraint {
        max_skew: spread.max_skew as i32,
        topology_key: if spread.by == By::Host { HOST } else { RACK }.into(),
        hard: true,
        selector: Some(LabelSelector::equals(SPREAD, "1")),
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
        match_label_keys: Vec::new(),
    })
}

fn member(problem: &Problem, at: usize) -> Vec<ClusterEvent> {
    let asked = &problem.members[at];
    let mut real = Resources { cpu_milli: asked.cpu * 1000, ..Resources::default() };
    real.set(&GPU.into(), asked.gpus);
    let requests =
        PodRequests { nonzero_cpu_milli: real.cpu_milli, real, ..PodRequests::default() };
    let mut spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests: requests.clone(),
        ..PodSpec::default()
    };
    spec.spread.extend(spread_constraint(problem).filter(|_| asked.spreads));
    spec.node_selector.extend(asked.zone.map(|zone| (ZONE.into(), zone.to_string().into())));
    let mut events = Vec::new();
    let mut statuses = Vec::new();
    for (number, wanted) in asked.claims.iter().enumerate() {
        let name = Text::from(format!("c{number}"));
        let (source, from_template) = match wanted {
            Claim::Own(want) => {
                let made = format!("m{at}-c{number}");
                let owner = PodUid(format!("m{at}").into());
                events.push(claim(&made, *want, Some(owner)));
                statuses.push((name.clone(), Some(made.into())));
                (Text::from(format!("{want:?}")), true)
            }
            Claim::Shared(shared) => (format!("shared{shared}").into(), false),
        };
        spec.claims.push(PodClaim { name, source, from_template });
    }
    let mut pod = Pod {
        uid: PodUid(format!("m{at}").into()),
        namespace: "default".into(),
        name: format!("m{at}").into(),
        resource_version: 1,
        created: Timestamp(at as u64),
        usage: Arc::new(requests),
        spec: Arc::new(spec),
        owner: Some(Owner { kind: "Job".into(), name: "j".into(), uid: "j".into() }),
        claim_statuses: statuses,
        labels: Labels::new(vec![(RUN.into(), "7".into()), (SPREAD.into(), "1".into())]),
        ..Pod::default()
    };
    let role = asked.worker.then(|| "worker".into());
    pod.add_group_hint(GroupHint { role, ..GroupHint::of_object(NATIVE, "g".into()) });
    events.push(ClusterEvent::PodApplied(Box::new(pod)));
    events
}

fn claim(name: &str, want: Want, owner_pod: Option<PodUid>) -> ClusterEvent {
    let exact = |name: &str, class: &str, count| {
        ClaimRequest::only(DeviceRequest::exact(name, class, count))
    };
    let requests = match want {
        Want::Whole(count) => vec![exact("r", "whole", count as i64)],
        Want::Near => vec![exact("r", "whole", 2)],
        Want::Half => vec![exact("r", "half", 1)],
        Want::Fabric => vec![exact("r", "fabric", 1)],
        Want::Both => vec![exact("f", "fabric", 1), exact("r", "whole", 1)],
        Want::Either => vec![ClaimRequest {
            name: "r".into(),
            alternatives: vec![
                DeviceRequest::exact("r/best", "whole", 1),
                DeviceRequest::exact("r/half", "half", 1),
            ],
            first_available: true,
        }],
    };
    let near = DeviceConstraint {
        requests: Vec::new(),
        kind: ConstraintKind::Match,
        attribute: ROOT.into(),
    };
    let constraints = if want == Want::Near { vec![near] } else { Vec::new() };
    let demand = DeviceDemand { requests, constraints };
    let claim = ResourceClaim {
        key: ClaimKey { namespace: "default".into(), name: name.into() },
        uid: name.into(),
        resource_version: 1,
        owner_pod,
        spec: Arc::new(ClaimSpec { demand: Arc::new(demand), config: Vec::new() }),
        ..ResourceClaim::default()
    };
    ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim)))
}

fn devices(problem: &Problem) -> Vec<ClusterEvent> {
    let mut events = Vec::new();
    for kind in ["whole", "half", "fabric"] {
        let attribute = format!("device.attributes[\"{DRIVER}\"].type");
        let selector = format!("device.driver == \"{DRIVER}\" && {attribute} == \"{kind}\"");
        let class = DeviceClass {
            name: kind.into(),
            selectors: vec![selector.into()],
            ..DeviceClass::default()
        };
        events.push(ClusterEvent::Devices(DeviceEvent::ClassApplied(Box::new(class))));
    }
    for (at, node) in problem.nodes.iter().enumerate() {
        let pool = format!("n{at}");
        let placement = Placement::Node(pool.as_str().into());
        match node.devices {
            Devices::None => {}
            Devices::Whole(count) => {
                let devices = (0..count).map(|n| device(&format!("d{n}"), "whole", n / 2));
                events.push(slice(&pool, 0, 1, &placement, devices.collect(), Vec::new()));
            }
            Devices::Cards(count) => {
                let (devices, sets) = cards(count);
                events.push(slice(&pool, 0, 2, &placement, Vec::new(), sets));
                events.push(slice(&pool, 1, 2, &placement, devices, Vec::new()));
            }
        }
    }
    if problem.fabric > 0 {
        let devices = (0..problem.fabric).map(|n| device(&format!("f{n}"), "fabric", 0)).collect();
        events.push(slice("fabric", 0, 1, &Placement::AllNodes, devices, Vec::new()));
    }
    events
}

fn cards(count: usize) -> (Vec<Device>, Vec<CounterSet>) {
    let (mut devices, mut sets) = (Vec::new(), Vec::new());
    for card in 0..count {
        let set = Text::from(format!("card{card}"));
        sets.push(CounterSet {
            name: set.clone(),
            counters: Arc::new([("parts".into(), amount(2))]),
        });
        for (name, kind, takes) in [("whole", "whole", 2), ("a", "half", 1), ("b", "half", 1)] {
            let counters: Arc<[_]> = Arc::new([("parts".into(), amount(takes))]);
            let consumes = Box::new([Consumption { set: set.clone(), counters }]);
            devices.push(Device { consumes, ..device(&format!("d{card}{name}"), kind, card) });
        }
    }
    (devices, sets)
}

fn amount(whole: i64) -> Quantity {
    Quantity { nanos: i128::from(whole) * NANOS, text: whole.to_string().into() }
}

fn device(name: &str, kind: &str, root: usize) -> Device {
    let text = |value: &str| AttributeValue::String(value.into());
    let attributes = [(ROOT.into(), text(&root.to_string())), ("type".into(), text(kind))];
    let model = DeviceModel { attributes: Box::new(attributes), ..DeviceModel::default() };
    Device { name: name.into(), model: Arc::new(model), ..Device::default() }
}

fn slice(
    pool: &str,
    at: usize,
    slice_count: i64,
    placement: &Placement,
    devices: Vec<Device>,
    counter_sets: Vec<CounterSet>,
) -> ClusterEvent {
    let name = Text::from(format!("{pool}-{at}"));
    let slice = ResourceSlice {
        uid: name.clone(),
        name,
        resource_version: 1,
        driver: DRIVER.into(),
        pool: pool.into(),
        generation: 1,
        slice_count,
        placement: placement.clone(),
        devices,
        counter_sets,
        skip_node_operations: Vec::new(),
        problem: None,
    };
    ClusterEvent::Devices(DeviceEvent::SliceApplied(Box::new(slice)))
}
