//! What is scheduled on what.

use serde_json::{Value, json};

use crate::contender::Contender::{self, Berth, Ceiling, CeilingEvents, Kube, KubeAll};
use crate::devices::Devices;
use crate::gangs::{Gangs, RACK};
use crate::{Outcome, devices};

/// What `make bench-live` plays.
pub(crate) const DEFAULT: &str = "plain-1k,plain-5k,gpu-1k,spread-1k,dra-200x8,dra-cel-500x10,dra-mig-100x8x25,gangs-500x8,paced,restart";
pub(crate) const NAMESPACE: &str = "bench";
const ZONES: u32 = 3;

/// What the pods ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain,
    /// One GPU each, on nodes with 8, packed by MostAllocated.
    Gpu,
    /// One workload's pods, a hard constraint over three zones.
    Spread,
    /// Devices by a claim of its own.
    Devices(Devices),
    /// Groups that start as a whole, one GPU a member.
    Gangs(Gangs),
}

/// How the pods come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// All are there before the scheduler starts.
    Burst,
    /// So many a second, once the scheduler has shown that it works.
    Paced { per_second: u32 },
}

/// One measured situation.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) nodes: u32,
    /// To be bound.
    pub(crate) pods: u32,
    /// Of which there are so many for a scheduler that would otherwise take too long.
    pub(crate) pods_when_slow: u32,
    /// Born on a node.
    pub(crate) bound: u32,
    pub(crate) shape: Shape,
    pub(crate) arrival: Arrival,
    pub(crate) contenders: &'static [Contender],
}

const PLAIN: Load = Load {
    name: "plain-1k",
    nodes: 1000,
    pods: 3000,
    pods_when_slow: 500,
    bound: 0,
    shape: Shape::Plain,
    arrival: Arrival::Burst,
    contenders: &[Ceiling, CeilingEvents, Berth, Kube],
};

const EIGHT: Gangs = Gangs { size: 8, owned: true, racks: None };

const SMOKE_DRA: Load = Load { name: "smoke-dra", nodes: 5, pods: 30, ..PLAIN };

const ALL: [Load; 18] = [
    PLAIN,
    Load {
        name: "plain-5k",
        nodes: 5000,
        pods: 5000,
        contenders: &[Ceiling, CeilingEvents, Berth, Kube, KubeAll],
        ..PLAIN
    },
    Load { name: "gpu-1k", pods: 4000, shape: Shape::Gpu, ..PLAIN },
    Load { name: "spread-1k", shape: Shape::Spread, ..PLAIN },
    Load {
        name: "dra-200x8",
        nodes: 200,
        pods: 1500,
        shape: Shape::Devices(Devices::Whole),
        ..PLAIN
    },
    Load {
        name: "dra-cel-500x10",
        nodes: 500,
        pods: 1500,
        shape: Shape::Devices(Devices::Pairs),
        ..PLAIN
    },
    Load {
        name: "dra-mig-100x8x25",
        nodes: 100,
        pods: 1000,
        shape: Shape::Devices(Devices::Partitions),
        ..PLAIN
    },
    Load { name: "gangs-500x8", pods: 4000, shape: Shape::Gangs(EIGHT), ..PLAIN },
    Load {
        name: "gangs-bare",
        pods: 4000,
        shape: Shape::Gangs(Gangs { owned: false, ..EIGHT }),
        ..PLAIN
    },
    Load {
        name: "racks-750x4",
        nodes: 5000,
        pods: 3000,
        shape: Shape::Gangs(Gangs { size: 4, owned: true, racks: Some(50) }),
        contenders: &[Berth, KubeAll],
        ..PLAIN
    },
    Load {
        name: "paced",
        pods: 2000,
        arrival: Arrival::Paced { per_second: 100 },
        contenders: &[Berth, Kube],
        ..PLAIN
    },
    Load {
        name: "restart",
        nodes: 5000,
        pods: 5000,
        bound: 45_000,
        contenders: &[Berth, Kube],
        ..PLAIN
    },
    Load { shape: Shape::Devices(Devices::Whole), ..SMOKE_DRA },
    Load { name: "smoke-cel", pods: 20, shape: Shape::Devices(Devices::Pairs), ..SMOKE_DRA },
    Load { name: "smoke-mig", shape: Shape::Devices(Devices::Partitions), ..SMOKE_DRA },
    Load { name: "smoke-gangs", nodes: 8, pods: 32, shape: Shape::Gangs(EIGHT), ..PLAIN },
    Load { name: "smoke", nodes: 20, pods: 40, pods_when_slow: 40, bound: 20, ..PLAIN },
    Load {
        name: "smoke-paced",
        nodes: 20,
        pods: 40,
        shape: Shape::Spread,
        arrival: Arrival::Paced { per_second: 100 },
        contenders: &[Berth],
        ..PLAIN
    },
];

/// Returns the load of that name.
///
/// # Errors
/// There is none.
pub(crate) fn named(name: &str) -> Outcome<Load> {
    let known: Vec<&str> = ALL.iter().map(|load| load.name).collect();
    let found = ALL.into_iter().find(|load| load.name == name);
    found.ok_or_else(|| format!("no load {name:?}; there are {}", known.join(", ")).into())
}

impl Load {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Value> + use<> {
        let gpus = if self.asks_for_gpus() { "8" } else { "0" };
        let nodes = self.nodes;
        let racks = match self.shape {
            Shape::Gangs(gangs) => gangs.racks.unwrap_or(1),
            Shape::Plain | Shape::Gpu | Shape::Spread | Shape::Devices(_) => 1,
        };
        (0..nodes).map(move |i| {
            let name = node_name(i);
            json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {
                    "kubernetes.io/hostname": name,
                    "topology.kubernetes.io/zone": format!("zone-{}", i % ZONES),
                    RACK: format!("rack-{}", i / nodes.div_ceil(racks)),
                }},
                "status": {
                    "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": gpus},
                    "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": gpus},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            })
        })
    }

    /// Returns the `i`-th pod that is to be bound.
    pub(crate) fn pod(&self, i: u32) -> Value {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod_name(i), "namespace": NAMESPACE, "labels": {"app": "web"}},
            "spec": {"containers": [{
                "name": "main",
                "image": "registry.example/web:1",
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }]},
        });
        match self.shape {
            Shape::Plain => {}
            Shape::Devices(_) => devices::use_claim(&mut pod),
            Shape::Gpu => {}
            Shape::Gangs(gangs) => gangs.join(&mut pod, i),
            Shape::Spread => {
                pod["spec"]["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }]);
            }
        }
        if self.asks_for_gpus() {
            pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
        }
        pod
    }

    fn asks_for_gpus(&self) -> bool {
        matches!(self.shape, Shape::Gpu | Shape::Gangs(_))
    }

    /// Tells whether the server must have the kinds of the workload API.
    pub(crate) fn has_groups(&self) -> bool {
        matches!(self.shape, Shape::Gangs(_))
    }

    /// Returns the pods that are born on nodes.
    pub(crate) fn bound_pods(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.bound).map(|i| {
            let mut pod = self.pod(i);
            pod["metadata"]["name"] = json!(format!("old-{i}"));
            pod["spec"]["nodeName"] = json!(node_name(i % self.nodes));
            pod
        })
    }

    /// Returns what there is besides nodes and pods: paths and objects.
    pub(crate) fn others(&self, pods: u32) -> Vec<(String, Value)> {
        if let Shape::Gangs(gangs) = self.shape {
            return (0..pods.div_ceil(gangs.size)).map(|group| gangs.group(group)).collect();
        }
        let Shape::Devices(devices) = self.shape else { return Vec::new() };
        let slices = (0..self.nodes).flat_map(|i| devices.slices(&node_name(i)));
        let claims = (0..pods).map(|i| devices.claim(&pod_name(i), i));
        std::iter::once(devices.class()).chain(slices).chain(claims).collect()
    }

    /// Returns what one who needn't think binds: pod, node and, if it has a claim, device. Round
    /// robin fits all shapes.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        (0..self.pods).map(|i| {
            let mut target = vec![pod_name(i), node_name(i % self.nodes)];
            if let Shape::Devices(devices) = self.shape {
                target.push(devices.granted(i / self.nodes));
            }
            target
        })
    }

    /// Returns the arguments of the profile that the shape asks for.
    pub(crate) fn plugin_config(&self) -> Value {
        match self.shape {
            Shape::Plain | Shape::Spread | Shape::Devices(_) | Shape::Gangs { .. } => json!([]),
            Shape::Gpu => json!([{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "nvidia.com/gpu", "weight": 1}],
            }}}]),
        }
    }

    /// One line for the table's head.
    pub(crate) fn describe(&self) -> String {
        let shape = match self.shape {
            Shape::Plain => "plain",
            Shape::Gpu => "one-GPU",
            Shape::Spread => "zone-spread",
            Shape::Devices(Devices::Whole) => "one-device",
            Shape::Devices(Devices::Pairs) => "two-devices-on-one-root",
            Shape::Devices(Devices::Partitions) => "one-partition",
            Shape::Gangs(Gangs { racks: Some(_), .. }) => "groups each in a rack, one-GPU",
            Shape::Gangs(Gangs { owned: true, .. }) => "groups of eight, one-GPU",
            Shape::Gangs(Gangs { owned: false, .. }) => {
                "groups of eight without controller, one-GPU"
            }
        };
        let (pods, nodes) = (self.pods, self.nodes);
        let arrival = match self.arrival {
            Arrival::Burst => String::new(),
            Arrival::Paced { per_second } => format!(", {per_second} a second"),
        };
        let bound = match self.bound {
            0 => String::new(),
            bound => format!(" beside {bound} bound ones"),
        };
        format!("{nodes} nodes, {pods} {shape} pods{bound}{arrival}")
    }
}

pub(crate) fn pod_name(i: u32) -> String {
    format!("pod-{i}")
}

fn node_name(i: u32) -> String {
    format!("node-{i}")
}
