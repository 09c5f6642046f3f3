//! The engine with the trace's nodes, and a server that carries out what it decides at once.
//!
//! Every node has a slice of shared devices, each with a capacity of 1,000 milli; a pod with GPUs has
//! a claim for so many devices with so much of each. Devices are counted as an extended resource too,
//! for policies that know of no devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_core::engine::{Decision, Engine, Input, Setup, WriteResult, Written};
use berth_core::framework::{Op, Profile};
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{ClaimRequest, ClaimSpec, DeviceDemand, DeviceRequest};
use berth_core::types::device::{Capacity, DeviceModel, NANOS, Placement, Quantity};
use berth_core::types::{
    ClaimKey, Device, DeviceClass, Labels, Node, NodeAffinity, NodeSelector, NodeTerm, Operator,
    Pod, PodClaim, PodRequests, PodSpec, PodUid, Requirement, ResourceClaim, ResourceSlice,
    Resources, Text, Timestamp,
};
use berth_sim::World;

use crate::mig;
use crate::trace::{TraceNode, TracePod};

pub(crate) const SCHEDULER: &str = "default-scheduler";
pub(crate) const DRIVER: &str = "gpu.example.com";
pub(crate) const MODEL: &str = "example.com/gpu-model";
/// The GPUs of a node in thousandths, for policies that look at resources only.
pub(crate) const GPU_MILLI: &str = "example.com/gpu-milli";

pub(crate) struct Stage {
    engine: Engine,
    world: World,
    now: Timestamp,
    specs: BTreeMap<TracePod, (Arc<PodSpec>, Arc<ClaimSpec>)>,
    next: usize,
    /// What was free of each GPU is checked against what the engine granted.
    free: BTreeMap<Text, FreeNode>,
    placed: BTreeMap<usize, (TracePod, Text, Vec<Text>)>,
    /// Time that the engine took, over all arrivals.
    pub(crate) took: Duration,
}

/// A second book-keeping, of what the binds and claims say.
#[derive(Clone, Debug)]
struct FreeNode {
    cpu_milli: i64,
    memory_mib: i64,
    model: String,
    gpus: BTreeMap<Text, i64>,
}

/// What the cluster looks like, by the second book-keeping.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Look {
    pub(crate) allocated_milli: i64,
    /// Nodes with 8 GPUs of which nothing is taken.
    pub(crate) whole_nodes: i64,
    /// Those of them that have 88 cores and 320 GiB left, too.
    pub(crate) roomy_nodes: i64,
}

impl Stage {
    pub(crate) fn new(nodes: &[TraceNode], profile: Profile, seed: u64) -> Stage {
        let selectors = Some(berth_plugins::selectors());
        let engine = Engine::new(vec![profile], Setup { seed, selectors, ..Setup::default() });
        let mut stage = Stage {
            engine,
            world: World::default(),
            now: Timestamp(1_000),
            specs: BTreeMap::new(),
            next: 0,
            free: BTreeMap::new(),
            placed: BTreeMap::new(),
            took: Duration::ZERO,
        };
        stage.tell_devices(DeviceEvent::ClassApplied(Box::new(DeviceClass {
            name: DRIVER.into(),
            ..DeviceClass::default()
        })));
        let model = Arc::new(shared_gpu());
        for node in nodes {
            stage.tell(ClusterEvent::NodeApplied(node_of(node)));
            let slices = match node.model == mig::MODEL {
                true => mig::slices(node),
                false => vec![slice_of(node, &model)],
            };
            for slice in slices {
                stage.tell_devices(DeviceEvent::SliceApplied(Box::new(slice)));
            }
            let all = if node.model == mig::MODEL { i64::from(u8::MAX) } else { 1000 };
            let gpus = (0..node.gpus).map(|at| (gpu_name(at), all)).collect();
            let TraceNode { cpu_milli, memory_mib, .. } = *node;
            let free = FreeNode { cpu_milli, memory_mib, model: node.model.clone(), gpus };
            stage.free.insert(node.name.as_str().into(), free);
        }
        stage
    }

    /// Places one pod. Returns its number, `None` if it found no place; such a pod leaves.
    pub(crate) fn arrive(&mut self, pod: &TracePod) -> Option<usize> {
        self.next += 1;
        let at = self.next;
        self.now = Timestamp(self.now.0 + 1);
        let (spec, claim_spec) = self.spec_of(pod);
        if pod.gpus > 0 {
            let claim = DeviceEvent::ClaimApplied(Box::new(claim(at, claim_spec)));
            self.world.apply(ClusterEvent::Devices(claim), self.now);
            let known = self.world.claim(&claim_key(at)).cloned().unwrap_or_default();
            self.tell_devices(DeviceEvent::ClaimApplied(Box::new(known)));
        }
        let event = ClusterEvent::PodApplied(Box::new(pod_of(at, pod, spec)));
        let began = cpu_time();
        self.engine.handle(Input::Cluster(event), self.now);
        let bound = self.work(began);
        match bound {
            Some(node) => {
                self.take(at, pod, node);
                Some(at)
            }
            None => {
                self.remove(at, pod);
                None
            }
        }
    }

    /// Takes a pod off that was placed.
    pub(crate) fn depart(&mut self, at: usize) {
        let Some((pod, node, devices)) = self.placed.remove(&at) else { return };
        let free = self.free.get_mut(&node).expect("a node of the trace");
        free.cpu_milli += pod.cpu_milli;
        free.memory_mib += pod.memory_mib;
        for device in devices {
            let (gpu, taken) = mig::taken_of(&device, pod.gpu_milli);
            *free.gpus.get_mut(&gpu).expect("a device of the node") += taken;
        }
        self.now = Timestamp(self.now.0 + 1);
        self.remove(at, &pod);
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns what is free of CPU, memory and each GPU of a node.
    #[cfg(test)]
    pub(crate) fn free_of(&self, node: &str) -> (i64, i64, Vec<i64>) {
        let free = &self.free[node];
        (free.cpu_milli, free.memory_mib, free.gpus.values().copied().collect())
    }

    /// Returns the node and the devices of a pod that was placed.
    #[cfg(test)]
    pub(crate) fn place_of(&self, at: usize) -> (Text, Vec<Text>) {
        let (_, node, devices) = &self.placed[&at];
        (node.clone(), devices.clone())
    }

    pub(crate) fn look(&self) -> Look {
        let mut look = Look::default();
        for node in self.free.values() {
            let milli = |free: &i64| match node.model == mig::MODEL {
                true => 125 * i64::from(free.count_ones()),
                false => *free,
            };
            look.allocated_milli += node.gpus.values().map(|free| 1000 - milli(free)).sum::<i64>();
            if node.gpus.len() == 8 && node.gpus.values().all(|free| milli(free) == 1000) {
                look.whole_nodes += 1;
                let roomy = node.cpu_milli >= 88_000 && node.memory_mib >= 320 * 1024;
                look.roomy_nodes += i64::from(roomy);
            }
        }
        look
    }

    /// Lets the engine work until nothing is left to do. Returns where a pod was bound to.
    fn work(&mut self, began: Duration) -> Option<Text> {
        let (mut bound, mut began) = (None, began);
        loop {
            let poll = self.engine.poll(self.now);
            let idle = poll.decisions.is_empty() && !poll.working;
            let mut results = Vec::new();
            self.took += cpu_time().saturating_sub(began);
            for decision in poll.decisions {
                let Decision::Write(write) = decision else { continue };
                let result = match &write.op {
                    Op::Claim { .. } => self.world.carry_out(&write.op, self.now),
                    Op::Bind { node, .. } => {
                        bound = Some(node.clone());
                        WriteResult::Done(Written::default())
                    }
                    _ => WriteResult::Done(Written::default()),
                };
                results.push(Input::Outcome { write: write.id, result });
            }
            began = cpu_time();
            for result in results {
                self.engine.handle(result, self.now);
            }
            if idle {
                self.took += cpu_time().saturating_sub(began);
                return bound;
            }
        }
    }

    /// Notes what was granted, and that there was so much.
    fn take(&mut self, at: usize, pod: &TracePod, node: Text) {
        let free = self.free.get_mut(&node).expect("a node of the trace");
        free.cpu_milli -= pod.cpu_milli;
        free.memory_mib -= pod.memory_mib;
        assert!(free.cpu_milli >= 0 && free.memory_mib >= 0, "{node} is overcommitted");
        let admitted = pod.models.is_empty() || pod.models.contains(&free.model);
        assert!(admitted, "{node} has the wrong model for {pod:?}");
        let claim = self.world.claim(&claim_key(at));
        let allocation = claim.and_then(|claim| claim.allocation.clone());
        let results = allocation.map(|a| a.results.clone()).unwrap_or_default();
        assert_eq!(results.len(), pod.gpus as usize, "{pod:?} got another number of GPUs");
        let devices: Vec<Text> = results.into_iter().map(|result| result.id.device).collect();
        for device in &devices {
            let (gpu, taken) = mig::taken_of(device, pod.gpu_milli);
            let left = free.gpus.get_mut(&gpu).expect("a device of the node");
            let there =
                if free.model == mig::MODEL { *left & taken == taken } else { *left >= taken };
            assert!(there, "{node}/{device} is given twice");
            *left -= taken;
        }
        self.placed.insert(at, (pod.clone(), node, devices));
    }

    fn remove(&mut self, at: usize, pod: &TracePod) {
        self.tell(ClusterEvent::PodDeleted { uid: uid(at) });
        if pod.gpus > 0 {
            let gone = DeviceEvent::ClaimDeleted { key: claim_key(at), uid: claim_uid(at) };
            self.world.apply(ClusterEvent::Devices(gone.clone()), self.now);
            self.tell_devices(gone);
        }
    }

    fn tell(&mut self, event: ClusterEvent) {
        self.engine.handle(Input::Cluster(event), self.now);
    }

    fn tell_devices(&mut self, event: DeviceEvent) {
        self.tell(ClusterEvent::Devices(event));
    }

    fn spec_of(&mut self, pod: &TracePod) -> (Arc<PodSpec>, Arc<ClaimSpec>) {
        let pod = TracePod { seconds: 0, ..pod.clone() };
        let made = self.specs.entry(pod).or_insert_with_key(|pod| {
            (Arc::new(spec_of(pod)), Arc::new(ClaimSpec { demand: demand_of(pod), config: vec![] }))
        });
        made.clone()
    }
}

/// Returns the time that this thread has been running.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(crate) fn milli(amount: i64) -> Quantity {
    Quantity { nanos: i128::from(amount) * NANOS, text: amount.to_string().into() }
}

pub(crate) fn gpu_name(at: i64) -> Text {
    format!("gpu-{at}").into()
}

fn shared_gpu() -> DeviceModel {
    let capacity = Capacity { name: "milli".into(), value: milli(1000), policy: None };
    DeviceModel { capacity: [capacity].into(), multi_allocatable: true, ..DeviceModel::default() }
}

fn node_of(node: &TraceNode) -> Node {
    let name = Text::from(node.name.as_str());
    let mut allocatable = Resources {
        cpu_milli: node.cpu_milli,
        memory_bytes: node.memory_mib << 20,
        ..Resources::default()
    };
    allocatable.set(&GPU_MILLI.into(), 1000 * node.gpus);
    let labels = vec![
        (MODEL.into(), node.model.as_str().into()),
        ("kubernetes.io/hostname".into(), name.clone()),
    ];
    Node {
        uid: format!("uid-{name}").into(),
        name,
        labels: Labels::new(labels),
        allocatable,
        pods_max: 10_000,
        ..Node::default()
    }
}

fn slice_of(node: &TraceNode, model: &Arc<DeviceModel>) -> ResourceSlice {
    let name = Text::from(node.name.as_str());
    let device = |at| Device { name: gpu_name(at), model: Arc::clone(model), ..Device::default() };
    ResourceSlice {
        name: format!("{name}-gpus").into(),
        uid: format!("{name}-gpus").into(),
        resource_version: 1,
        driver: DRIVER.into(),
        pool: name.clone(),
        generation: 1,
        slice_count: 1,
        placement: Placement::Node(name),
        devices: (0..node.gpus).map(device).collect(),
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    }
}

/// What the spec of a pod says; pods that ask for the same share it.
fn spec_of(pod: &TracePod) -> PodSpec {
    let mut real = Resources {
        cpu_milli: pod.cpu_milli,
        memory_bytes: pod.memory_mib << 20,
        ..Resources::default()
    };
    real.set(&GPU_MILLI.into(), pod.total_milli());
    let claim = PodClaim { name: "gpus".into(), source: "template".into(), from_template: true };
    PodSpec {
        scheduler_name: SCHEDULER.into(),
        requests: PodRequests {
            nonzero_cpu_milli: pod.cpu_milli.max(100),
            nonzero_memory_bytes: (pod.memory_mib << 20).max(200 << 20),
            real,
        },
        node_affinity: NodeAffinity { required: required(&pod.models), ..NodeAffinity::default() },
        claims: if pod.gpus > 0 { vec![claim] } else { Vec::new() },
        ..PodSpec::default()
    }
}

pub(crate) fn required(models: &[String]) -> Option<NodeSelector> {
    let requirement = Requirement {
        key: MODEL.into(),
        operator: Operator::In,
        values: models.iter().map(|model| model.as_str().into()).collect(),
    };
    let term = NodeTerm { labels: vec![requirement], names: Vec::new() };
    (!models.is_empty()).then(|| NodeSelector { terms: vec![term] })
}

fn demand_of(pod: &TracePod) -> Arc<DeviceDemand> {
    let request = match pod.profile {
        "" => DeviceRequest {
            capacity: vec![("milli".into(), milli(pod.gpu_milli))],
            ..DeviceRequest::exact("gpus", DRIVER, pod.gpus)
        },
        profile => DeviceRequest {
            selectors: vec![mig::selector(profile)],
            ..DeviceRequest::exact("gpus", DRIVER, pod.gpus)
        },
    };
    Arc::new(DeviceDemand { requests: vec![ClaimRequest::only(request)], constraints: Vec::new() })
}

fn uid(at: usize) -> PodUid {
    PodUid(format!("pod-{at}").into())
}

fn claim_key(at: usize) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: format!("pod-{at}-gpus").into() }
}

fn claim_uid(at: usize) -> Text {
    format!("claim-{at}").into()
}

fn claim(at: usize, spec: Arc<ClaimSpec>) -> ResourceClaim {
    ResourceClaim {
        key: claim_key(at),
        uid: claim_uid(at),
        spec,
        owner_pod: Some(uid(at)),
        ..ResourceClaim::default()
    }
}

fn pod_of(at: usize, pod: &TracePod, spec: Arc<PodSpec>) -> Pod {
    let claims = match pod.gpus {
        0 => Vec::new(),
        _ => vec![("gpus".into(), Some(claim_key(at).name))],
    };
    Pod {
        uid: uid(at),
        namespace: "default".into(),
        name: format!("pod-{at}").into(),
        usage: Arc::new(spec.requests.clone()),
        claim_statuses: claims,
        spec,
        resource_version: 1,
        ..Pod::default()
    }
}
