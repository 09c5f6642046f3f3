//! Random histories: incremental equals from-scratch, cached equals uncached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::engine::{CycleReport, Decision, Engine, Input, Limits, ReportLevel, Setup};
use berth_core::snapshot::{
    Cluster, ClusterEvent, CountQuery, NodeIdx, Overlay, ResourceId, Version,
};
use berth_core::types::gpu_share::{GPU_COUNT, GPU_FRACTIONS, GPU_MEMORY};
use berth_core::types::{
    GpuNumbers, GpuShare, HostPort, ImageId, LabelSelector, Node, Phase, Pod, PodAffinityTerm,
    PodUid, Protocol, ShareSize, Text, Timestamp, VolumeSource,
};
use proptest::prelude::*;

use crate::build::{USUAL, With, labels_of, node, pod, profile};

#[derive(Clone, Debug)]
enum Step {
    Node {
        name: u8,
        cpu: i64,
        rank: u8,
        image: u8,
    },
    NodeGone {
        name: u8,
    },
    Pod {
        name: u8,
        variant: u8,
        bind: Option<u8>,
        nominate: Option<u8>,
    },
    PodGone {
        name: u8,
    },
    /// Assumes and evicts on an overlay, and takes some or all of it back.
    WhatIf {
        edits: Vec<(u8, u8)>,
        keep: bool,
    },
    Forget {
        name: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..4u8;
    prop_oneof![
        3 => (name.clone(), 0..6i64, 0..3u8, 0..3u8)
            .prop_map(|(name, cpu, rank, image)| Step::Node { name, cpu, rank, image }),
        1 => name.clone().prop_map(|name| Step::NodeGone { name }),
        5 => (0..6u8, any::<u8>(), option(name.clone()), option(name.clone()))
            .prop_map(|(name, variant, bind, nominate)| Step::Pod { name, variant, bind, nominate }),
        1 => (0..6u8).prop_map(|name| Step::PodGone { name }),
        3 => (prop::collection::vec((0..6u8, name), 1..5), any::<bool>())
            .prop_map(|(edits, keep)| Step::WhatIf { edits, keep }),
        1 => (0..6u8).prop_map(|name| Step::Forget { name }),
    ]
}

fn option(name: std::ops::Range<u8>) -> impl Strategy<Value = Option<u8>> {
    prop::option::of(name)
}

/// The objects as they are, and the events that say so.
#[derive(Default)]
struct Objects {
    nodes: BTreeMap<u8, Node>,
    pods: BTreeMap<u8, Pod>,
    born: u32,
}

impl Objects {
    fn node(&mut self, name: u8, cpu: i64, rank: u8, image: u8) -> ClusterEvent {
        self.born += 1;
        let uid = match self.nodes.get(&name) {
            Some(known) => known.uid.clone(),
            None => format!("node-{}", self.born).into(),
        };
        let mut object = node(&format!("n{name}"), cpu);
        object.uid = uid;
        object.resource_version = u64::from(self.born);
        let rank_label = rank.to_string();
        let labels = [
            ("rank", rank_label.as_str()),
            (GPU_FRACTIONS, "true"),
            (GPU_COUNT, "3"),
            (GPU_MEMORY, "1000"),
            ("x", ""),
        ];
        object.labels = labels_of(&labels[..[1, 3, 5][usize::from(rank)]]);
        object.images = vec![(ImageId(u64::from(image)), 1)];
        self.nodes.insert(name, object.clone());
        ClusterEvent::NodeApplied(object)
    }

    fn node_gone(&mut self, name: u8) -> Option<ClusterEvent> {
        let node = self.nodes.remove(&name)?;
        Some(ClusterEvent::NodeDeleted { name: node.name, uid: node.uid })
    }

    fn pod(
        &mut self,
        name: u8,
        variant: u8,
        bind: Option<u8>,
        nominate: Option<u8>,
    ) -> ClusterEvent {
        self.born += 1;
        let known = self.pods.get(&name);
        let mut object = pod(&format!("p{name}"), i64::from(variant % 3));
        object.uid =
            known.map_or_else(|| PodUid(format!("pod-{}", self.born).into()), |p| p.uid.clone());
        object.resource_version = u64::from(self.born);
        // A pod that has a node keeps it.
        object.node_name = known
            .and_then(|pod| pod.node_name.clone())
            .or_else(|| bind.map(|node| format!("n{node}").into()));
        object.nominated_node = nominate.map(|node| format!("n{node}").into());
        object.terminating = variant & 4 > 0;
        if variant & 24 == 24 {
            object.phase = Phase::Succeeded;
        }
        object = object.label("app", if variant & 8 > 0 { "a" } else { "b" });
        let mut spec = (*object.spec).clone();
        if variant & 16 > 0 {
            spec.host_ports =
                vec![HostPort { ip: "0.0.0.0".into(), protocol: Protocol::Tcp, port: 80 }];
            spec.volumes = vec![VolumeSource::Claim { name: "data".into() }];
        }
        if variant & 32 > 0 {
            spec.required_anti_affinity = vec![PodAffinityTerm {
                topology_key: "zone".into(),
                selector: None,
                namespaces: Vec::new(),
                namespace_selector: None,
            }];
        }
        if variant & 64 > 0 {
            let size = match variant & 3 {
                0 => ShareSize::Mib(300),
                n => ShareSize::Milli(u16::from(n) * 250),
            };
            spec.gpu_share = Some(Ok(GpuShare { size, n_gpus: 1 + u16::from(variant & 8 > 0) }));
            let bound = object.node_name.is_some() && variant & 128 > 0;
            object.gpu_numbers = bound.then(|| gpus(variant)).flatten();
        }
        object.spec = Arc::new(spec);
        self.pods.insert(name, object.clone());
        ClusterEvent::PodApplied(Box::new(object))
    }

    fn pod_gone(&mut self, name: u8) -> Option<ClusterEvent> {
        self.pods.remove(&name).map(|pod| ClusterEvent::PodDeleted { uid: pod.uid })
    }

    fn rebuilt(&self) -> Cluster {
        let mut cluster = empty();
        for node in self.nodes.values() {
            cluster.fold(ClusterEvent::NodeApplied(node.clone()));
        }
        for pod in self.pods.values() {
            cluster.fold(ClusterEvent::PodApplied(Box::new(pod.clone())));
        }
        cluster
    }
}

fn gpus(which: u8) -> Option<GpuNumbers> {
    GpuNumbers::parse(["0", "1", "0,2", "1,5"][usize::from(which % 4)], ',')
}

fn empty() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.keep_gpu_shares();
    for query in queries() {
        cluster.declare(&query);
    }
    cluster
}

fn queries() -> [CountQuery; 2] {
    ["a", "b"].map(|app| CountQuery {
        namespace: "default".into(),
        selector: LabelSelector::equals("app", app),
    })
}

/// Everything that the ledger says of one node.
fn seen_of(cluster: &Cluster, idx: NodeIdx) -> String {
    let nodes = cluster.nodes();
    let slot = nodes.slot(idx);
    let counts: Vec<u32> =
        queries().iter().map(|q| cluster.count(q).map_or(9999, |column| column.on(idx))).collect();
    format!(
        "{} {:?} pods {:?} ports {:?} cpu {}/{} nonzero {:?} gpus {:?} counts {counts:?} nominated {:?}",
        slot.name,
        slot.node.as_ref().map(|node| (&node.uid, &node.labels, &node.images)),
        slot.pods,
        slot.ports,
        nodes.requested(ResourceId::CPU, idx),
        nodes.allocatable(ResourceId::CPU, idx),
        nodes.nonzero(idx),
        cluster.shared_gpus(idx),
        cluster.nominated_on(idx).map(|pod| &pod.uid).collect::<Vec<_>>(),
    )
}

fn seen(cluster: &Cluster) -> BTreeSet<String> {
    let all = (0..cluster.nodes().capacity()).map(|at| NodeIdx(at as u32));
    let known = all.filter(|idx| !cluster.nodes().slot(*idx).name.is_empty());
    let mut seen: BTreeSet<String> = known.map(|idx| seen_of(cluster, idx)).collect();
    let images: Vec<u32> = (0..3).map(|i| cluster.images().nodes_with(ImageId(i))).collect();
    let users: Vec<_> = cluster.storage().users(&"default".into(), &"data".into()).collect();
    let anti: Vec<_> = cluster.anti_affine_pods().map(|pod| &pod.uid).collect();
    seen.insert(format!("images {images:?} users {users:?} anti {anti:?}"));
    seen.insert(format!("{} nodes", cluster.nodes().len()));
    seen
}

/// What scheduling reads of a node for its verdicts: everything but counts and nominations, and
/// the name, which an index may get before its object.
fn versioned(cluster: &Cluster, idx: NodeIdx) -> String {
    let seen = seen_of(cluster, idx);
    let seen = seen.split(" counts ").next().unwrap_or_default();
    seen.trim_start_matches(&*cluster.nodes().slot(idx).name).to_owned()
}

fn node_versions(cluster: &Cluster) -> Vec<Version> {
    let nodes = (0..cluster.nodes().capacity()).map(|at| NodeIdx(at as u32));
    nodes.map(|idx| cluster.nodes().slot(idx).version).collect()
}

fn what_if(cluster: &mut Cluster, objects: &Objects, edits: &[(u8, u8)], keep: bool) {
    let mut overlay = Overlay::new(cluster);
    let half = edits.len() / 2;
    let mut mark = overlay.checkpoint();
    for (at, (name, node)) in edits.iter().enumerate() {
        if at == half {
            mark = overlay.checkpoint();
        }
        let Some(pod) = objects.pods.get(name) else { continue };
        let idx = overlay.cluster().nodes().index(&format!("n{node}"));
        match idx {
            Some(idx) if name % 2 == 0 => {
                overlay.assume(&pod.uid, idx);
                gpus(*node).is_some_and(|gpus| overlay.give_gpus(&pod.uid, gpus))
            }
            _ => overlay.evict(&pod.uid),
        };
    }
    overlay.rollback(mark);
    if keep {
        overlay.commit();
    }
}

fn incremental_equals_from_scratch(steps: Vec<Step>) {
    let mut objects = Objects::default();
    let mut cluster = empty();
    let mut versions: BTreeMap<Version, String> = BTreeMap::new();
    for step in steps {
        let event = match step {
            Step::Node { name, cpu, rank, image } => Some(objects.node(name, cpu, rank, image)),
            Step::NodeGone { name } => objects.node_gone(name),
            Step::Pod { name, variant, bind, nominate } => {
                Some(objects.pod(name, variant, bind, nominate))
            }
            Step::PodGone { name } => objects.pod_gone(name),
            Step::WhatIf { edits, keep } => {
                let before = (seen(&cluster), node_versions(&cluster));
                what_if(&mut cluster, &objects, &edits, keep);
                if !keep {
                    let after = (seen(&cluster), node_versions(&cluster));
                    assert_eq!(before, after, "an overlay leaves no trace");
                }
                None
            }
            Step::Forget { name } => {
                if let Some(pod) = objects.pods.get(&name) {
                    cluster.forget(&pod.uid);
                }
                None
            }
        };
        if let Some(event) = event {
            cluster.fold(event.clone());
            let once = seen(&cluster);
            assert!(cluster.fold(event).is_empty(), "an event that is repeated changes nothing");
            assert_eq!(once, seen(&cluster));
        }
        for at in 0..cluster.nodes().capacity() {
            let idx = NodeIdx(at as u32);
            let version = cluster.nodes().slot(idx).version;
            let state = versioned(&cluster, idx);
            let known = versions.entry(version).or_insert_with(|| state.clone());
            assert_eq!(*known, state, "a version stands for one state");
        }
    }
    for pod in objects.pods.values() {
        cluster.forget(&pod.uid);
    }
    assert_eq!(seen(&cluster), seen(&objects.rebuilt()));
}

/// A long-lived engine whose tables are warm, and the history of its cluster.
struct Warm {
    engine: Engine,
    history: Vec<ClusterEvent>,
    probes: u32,
}

fn engine(steps_a_poll: u64) -> Engine {
    let limits = Limits { steps_a_poll, ..Limits::default() };
    let setup = Setup { limits, report: ReportLevel::Scores, ..Setup::default() };
    Engine::new(vec![profile(USUAL, 0)], setup)
}

const NOW: Timestamp = Timestamp(5_000);

impl Warm {
    fn event(&mut self, event: ClusterEvent) {
        self.history.push(event.clone());
        self.engine.handle(Input::Cluster(event), NOW);
    }

    /// Asks for a decision about a pod of a class; `meanwhile` happens if the search pauses.
    fn probe(&mut self, class: u8, meanwhile: Option<ClusterEvent>) {
        self.probes += 1;
        let name = format!("probe-{}", self.probes);
        let probe = match class {
            0 => pod(&name, 2),
            1 => pod(&name, 1).label("wants", "x"),
            2 => pod(&name, 3),
            _ => pod(&name, 1).label("alone", "2"),
        };
        let added = Input::Cluster(ClusterEvent::PodApplied(Box::new(probe.clone())));
        self.engine.handle(added.clone(), NOW);
        let mut warm = report(&self.engine.poll(NOW).decisions);
        if let (None, Some(event)) = (&warm, meanwhile) {
            self.event(event);
        }
        while warm.is_none() {
            warm = report(&self.engine.poll(NOW).decisions);
        }
        self.engine.handle(Input::Cluster(ClusterEvent::PodDeleted { uid: probe.uid }), NOW);
        let mut fresh = engine(1_000_000);
        for event in &self.history {
            fresh.handle(Input::Cluster(event.clone()), NOW);
        }
        fresh.handle(added, NOW);
        let fresh = report(&fresh.poll(NOW).decisions);
        assert_eq!(warm, fresh);
    }
}

/// What of a report does not depend on how it was come by.
fn report(decisions: &[Decision]) -> Option<String> {
    let told = |report: &CycleReport| {
        let mut rejected = report.rejected.clone();
        rejected.sort_by_key(|row| (row.plugin, row.reason.clone()));
        let (chosen, feasible) = (&report.chosen, report.feasible);
        format!("{chosen:?} {feasible} {} {rejected:?} {:?}", report.message, report.best)
    };
    decisions.iter().find_map(|decision| match decision {
        Decision::Report(report) if report.pod.name.starts_with("probe") => Some(told(report)),
        _ => None,
    })
}

fn cached_equals_uncached(steps: Vec<(Step, u8)>, steps_a_poll: u64) {
    let mut objects = Objects::default();
    let mut warm = Warm { engine: engine(steps_a_poll), history: Vec::new(), probes: 0 };
    for (step, class) in steps {
        let event = match step {
            Step::Node { name, cpu, rank, image } => Some(objects.node(name, cpu, rank, image)),
            Step::NodeGone { name } => objects.node_gone(name),
            Step::Pod { name, variant, bind, .. } => {
                // Placed pods only: others would be scheduled themselves.
                let event = objects.pod(name, variant, bind.or(Some(0)), None);
                Some(alike(event))
            }
            Step::PodGone { name } => objects.pod_gone(name),
            Step::WhatIf { .. } | Step::Forget { .. } => None,
        };
        match event {
            Some(event) if class & 4 > 0 => warm.probe(class & 3, Some(event)),
            Some(event) => warm.event(event),
            None => {}
        }
        warm.probe(class & 3, None);
    }
}

/// Lets placed pods count for the plugin that counts.
fn alike(event: ClusterEvent) -> ClusterEvent {
    match event {
        ClusterEvent::PodApplied(pod) if pod.labels.value("app") == Some(&Text::from("a")) => {
            ClusterEvent::PodApplied(Box::new(pod.label("alone", "9")))
        }
        event => event,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_folded_step_by_step_equals_one_rebuilt_from_the_objects(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        incremental_equals_from_scratch(steps);
    }

    #[test]
    fn a_warm_class_decides_as_a_fresh_engine_does(
        steps in prop::collection::vec((step(), 0..8u8), 1..25),
        steps_a_poll in prop_oneof![Just(1u64), Just(5), Just(20_000)],
    ) {
        cached_equals_uncached(steps, steps_a_poll);
    }
}
