//! Clusters of devices, pods with claims, and a loop that answers every write as the server would.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::engine::{Decision, Engine, Input, Setup, WriteResult, Written};
use berth_core::framework::Op;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{
    ClaimRequest, ClaimSpec, ConstraintKind, DeviceConstraint, DeviceDemand, DeviceRequest,
};
use berth_core::types::device::{
    AttributeValue, Capacity, Consumption, CounterSet, DeviceModel, NANOS, Placement, Quantity,
};
use berth_core::types::{
    ClaimKey, Device, DeviceClass, Pod, PodClaim, PodSpec, PodUid, ResourceClaim, ResourceSlice,
    Text, Timestamp,
};
use berth_sim::World;

use super::{engine_with, gpu_node, spec};

pub(super) const DRIVER: &str = "gpu.example.com";
pub(crate) const NOW: Timestamp = Timestamp(1_000);

/// What the nodes have and what the pods want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole devices; one each.
    Plain,
    /// Whole devices; two each of one model and root, chosen by CEL.
    Matched,
    /// Eight GPUs with every MIG placement; one partition each.
    Mig,
}

/// A cluster in which writes to claims are carried out.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    world: World,
    shape: Shape,
}

impl Stage {
    pub(crate) fn new(nodes: usize, devices: usize, shape: Shape) -> Stage {
        let selectors = Some(berth_plugins::selectors());
        let mut engine = engine_with(|_| Setup { selectors, ..Setup::default() });
        engine.handle(devices_event(DeviceEvent::ClassApplied(Box::new(class()))), NOW);
        let mut shared = Shared::default();
        for at in 0..nodes {
            let node = gpu_node(at);
            let slices = slices(&node.name, devices, shape, &mut shared);
            engine.handle(Input::Cluster(ClusterEvent::NodeApplied(node)), NOW);
            for slice in slices {
                engine.handle(devices_event(DeviceEvent::SliceApplied(Box::new(slice))), NOW);
            }
        }
        Stage { engine, world: World::default(), shape }
    }

    /// Hands in `count` pods with their claims, answers every write, and returns how many pods
    /// were bound, once all are or nothing is left to do.
    pub(crate) fn schedule(&mut self, first: usize, count: usize) -> usize {
        for at in first..first + count {
            let claim = DeviceEvent::ClaimApplied(Box::new(claim(self.shape, at)));
            self.world.apply(ClusterEvent::Devices(claim.clone()), NOW);
            let known = self.world.claim(&claim_key(at)).cloned().unwrap_or_default();
            self.engine.handle(devices_event(DeviceEvent::ClaimApplied(Box::new(known))), NOW);
            let pod = ClusterEvent::PodApplied(Box::new(pod(at)));
            self.engine.handle(Input::Cluster(pod), NOW);
        }
        let mut bound = 0;
        loop {
            let poll = self.engine.poll(NOW);
            let idle = poll.decisions.is_empty() && !poll.working;
            for decision in poll.decisions {
                let Decision::Write(write) = decision else { continue };
                bound += usize::from(matches!(write.op, Op::Bind { .. }));
                let result = match &write.op {
                    Op::Claim { .. } => self.world.carry_out(&write.op, NOW),
                    _ => WriteResult::Done(Written::default()),
                };
                self.engine.handle(Input::Outcome { write: write.id, result }, NOW);
            }
            if idle || bound == count {
                return bound;
            }
        }
    }

    /// Takes the pods and their claims off again.
    pub(crate) fn remove(&mut self, first: usize, count: usize) {
        for at in first..first + count {
            let uid = pod(at).uid;
            self.engine.handle(Input::Cluster(ClusterEvent::PodDeleted { uid }), NOW);
            let gone = DeviceEvent::ClaimDeleted { key: claim_key(at), uid: claim_uid(at) };
            self.world.apply(ClusterEvent::Devices(gone.clone()), NOW);
            self.engine.handle(devices_event(gone), NOW);
        }
    }
}

pub(super) fn devices_event(event: DeviceEvent) -> Input {
    Input::Cluster(ClusterEvent::Devices(event))
}

fn class() -> DeviceClass {
    let selectors = vec![Text::from(format!("device.driver == '{DRIVER}'"))];
    DeviceClass { name: DRIVER.into(), selectors, ..DeviceClass::default() }
}

fn slice(node: &Text, name: &str, count: usize) -> ResourceSlice {
    ResourceSlice {
        name: format!("{node}-{name}").into(),
        uid: format!("{node}-{name}").into(),
        resource_version: 1,
        driver: DRIVER.into(),
        pool: node.clone(),
        generation: 1,
        slice_count: count as i64,
        placement: Placement::Node(node.clone()),
        devices: Vec::new(),
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    }
}

fn whole(amount: i64) -> Quantity {
    Quantity { nanos: i128::from(amount) * NANOS, text: amount.to_string().into() }
}

fn text(value: impl Into<Text>) -> AttributeValue {
    AttributeValue::String(value.into())
}

fn gpu(at: usize) -> Device {
    let attributes = [
        ("architecture", text("Hopper")),
        ("brand", text("Nvidia")),
        ("productName", text("NVIDIA H100 80GB HBM3")),
        ("resource.kubernetes.io/numaNode", AttributeValue::Int(at as i64 / 4)),
        ("resource.kubernetes.io/pcieRoot", text(format!("pci0000:{}", at / 2))),
        ("type", text("gpu")),
    ];
    let attributes = attributes.map(|(name, value)| (Text::from(name), value));
    let memory = Capacity { name: "memory".into(), value: whole(80 << 30), policy: None };
    let model = DeviceModel {
        attributes: attributes.into(),
        capacity: [memory].into(),
        ..DeviceModel::default()
    };
    let own = [("uuid", text(format!("GPU-{at}")))].map(|(name, value)| (Text::from(name), value));
    Device {
        name: format!("gpu-{at}").into(),
        model: Arc::new(model),
        own: own.into(),
        consumes: Box::default(),
    }
}

/// Profile, places of the first memory slice, memory slices, compute slices.
const MIG: [(&str, &[i64], i64, i64); 6] = [
    ("1g.10gb", &[0, 1, 2, 3, 4, 5, 6], 1, 1),
    ("1g.20gb", &[0, 2, 4, 6], 2, 1),
    ("2g.20gb", &[0, 2, 4], 2, 2),
    ("3g.40gb", &[0, 4], 4, 3),
    ("4g.40gb", &[0], 4, 4),
    ("7g.80gb", &[0], 8, 7),
];

fn counters(memory: std::ops::Range<i64>, compute: i64) -> Arc<[(Text, Quantity)]> {
    let memory = memory.map(|at| (Text::from(format!("memory-slice-{at}")), whole(1)));
    let mut counters: Vec<_> = memory.collect();
    counters.push(("multiprocessors".into(), whole(compute * 16)));
    counters.sort();
    counters.into()
}

/// As the decoder does: equal lists of counters are one allocation, over the whole cluster.
#[derive(Default)]
pub(crate) struct Shared(BTreeSet<Arc<[(Text, Quantity)]>>);

impl Shared {
    fn counters(&mut self, memory: std::ops::Range<i64>, compute: i64) -> Arc<[(Text, Quantity)]> {
        let list = counters(memory, compute);
        if let Some(known) = self.0.get(&list) {
            return Arc::clone(known);
        }
        self.0.insert(Arc::clone(&list));
        list
    }
}

fn partitions(gpu: usize, shared: &mut Shared) -> Vec<Device> {
    let set = Text::from(format!("gpu-{gpu}-counter-set"));
    let device = |name: String, kind: &str, profile: &str, counters| {
        let attributes = [("profile", text(profile)), ("type", text(kind))];
        let attributes = attributes.map(|(name, value)| (Text::from(name), value));
        let model = DeviceModel { attributes: attributes.into(), ..DeviceModel::default() };
        let parent = [(Text::from("parentUUID"), text(format!("GPU-{gpu}")))];
        let consumes = [Consumption { set: set.clone(), counters }].into();
        Device { name: name.into(), model: Arc::new(model), own: parent.into(), consumes }
    };
    let mut devices = vec![device(format!("gpu-{gpu}"), "gpu", "", shared.counters(0..8, 7))];
    for (profile, starts, memory, compute) in MIG {
        for start in starts {
            let name = format!("gpu-{gpu}-mig-{profile}-{start}").replace('.', "-");
            let counters = shared.counters(*start..*start + memory, compute);
            devices.push(device(name, "mig", profile, counters));
        }
    }
    devices
}

fn slices(node: &Text, devices: usize, shape: Shape, shared: &mut Shared) -> Vec<ResourceSlice> {
    if shape != Shape::Mig {
        let devices = (0..devices).map(gpu).collect();
        return vec![ResourceSlice { devices, ..slice(node, "gpus", 1) }];
    }
    let sets = (0..devices).map(|gpu| CounterSet {
        name: format!("gpu-{gpu}-counter-set").into(),
        counters: counters(0..8, 7),
    });
    let counting =
        ResourceSlice { counter_sets: sets.collect(), ..slice(node, "counters", devices + 1) };
    let of_gpu = |gpu| {
        let name = format!("gpu-{gpu}");
        ResourceSlice { devices: partitions(gpu, shared), ..slice(node, &name, devices + 1) }
    };
    std::iter::once(counting).chain((0..devices).map(of_gpu)).collect()
}

fn demand(shape: Shape, at: usize) -> DeviceDemand {
    let product = format!("device.attributes['{DRIVER}'].productName.contains('H100')");
    let memory = format!("device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0");
    // Mostly small partitions, as they are asked for.
    let profile = ["1g.10gb", "1g.10gb", "2g.20gb", "1g.10gb", "3g.40gb"][at % 5];
    let profile = format!("device.attributes['{DRIVER}'].profile == '{profile}'");
    let (count, selectors) = match shape {
        Shape::Plain => (1, Vec::new()),
        Shape::Matched => (2, vec![product.into(), memory.into()]),
        Shape::Mig => (1, vec![profile.into()]),
    };
    let request = DeviceRequest { selectors, ..DeviceRequest::exact("devices", DRIVER, count) };
    let root = DeviceConstraint {
        requests: Vec::new(),
        kind: ConstraintKind::Match,
        attribute: "resource.kubernetes.io/pcieRoot".into(),
    };
    DeviceDemand {
        requests: vec![ClaimRequest::only(request)],
        constraints: if shape == Shape::Matched { vec![root] } else { Vec::new() },
    }
}

fn claim_key(at: usize) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: format!("pod-{at}-devices").into() }
}

fn claim_uid(at: usize) -> Text {
    format!("claim-{at}").into()
}

fn claim(shape: Shape, at: usize) -> ResourceClaim {
    let spec = ClaimSpec { demand: Arc::new(demand(shape, at)), config: Vec::new() };
    ResourceClaim {
        key: claim_key(at),
        uid: claim_uid(at),
        spec: Arc::new(spec),
        owner_pod: Some(pod(at).uid),
        ..ResourceClaim::default()
    }
}

fn pod(at: usize) -> Pod {
    let claims =
        vec![PodClaim { name: "devices".into(), source: "template".into(), from_template: true }];
    let spec = Arc::new(PodSpec { claims, ..spec(1_000, 1 << 30, 0) });
    Pod {
        uid: PodUid(format!("00000000-0000-0000-0000-{at:012}").into()),
        namespace: "default".into(),
        name: format!("pod-{at}").into(),
        usage: Arc::new(spec.requests.clone()),
        claim_statuses: vec![("devices".into(), Some(claim_key(at).name))],
        spec,
        resource_version: 1,
        ..Pod::default()
    }
}
