//! Small worlds of one node for tests of the allocator.

use std::sync::Arc;

use berth_core::framework::Work;
use berth_core::snapshot::{Cluster, ClusterEvent, DeviceEvent, NodeIdx};
use berth_core::types::claim::{ClaimKey, DeviceDemand, DeviceId, DeviceResult};
use berth_core::types::device::Quantity;
use berth_core::types::{
    Allocation, Device, DeviceClass, Labels, Node, PodUid, ResourceClaim, ResourceSlice, Text,
};

pub(super) use super::builders::*;
use super::{Found, Options, Refused, Search, Solutions};

pub(super) const NODE: &str = "n1";
pub(super) const DRIVER: &str = "d.example.com";

pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) node: NodeIdx,
    held: usize,
}

impl World {
    /// A node and the class `any`, which selects every device.
    pub(super) fn new() -> World {
        let mut cluster = Cluster::default();
        cluster.set_selector_compiler(crate::selectors());
        let labels = Labels::new(vec![("zone".into(), "z1".into())]);
        let node = Node { name: NODE.into(), labels, ..Node::default() };
        cluster.fold(ClusterEvent::NodeApplied(node));
        let node = cluster.nodes().index(NODE).unwrap();
        let mut world = World { cluster, node, held: 0 };
        world.class("any", &[]);
        world
    }

    /// A world with one pool of these devices.
    pub(super) fn of(devices: Vec<Device>) -> World {
        let mut world = World::new();
        world.slice(slice("pool", devices));
        world
    }

    pub(super) fn event(&mut self, event: DeviceEvent) {
        self.cluster.fold(ClusterEvent::Devices(event));
    }

    pub(super) fn slice(&mut self, slice: ResourceSlice) {
        self.event(DeviceEvent::SliceApplied(Box::new(slice)));
    }

    pub(super) fn class(&mut self, name: &str, selectors: &[&str]) {
        let selectors = selectors.iter().map(|text| Text::from(*text)).collect();
        let class = DeviceClass { name: name.into(), selectors, ..DeviceClass::default() };
        self.event(DeviceEvent::ClassApplied(Box::new(class)));
    }

    /// Another claim has a device of the pool `pool`: for itself, or a share with these amounts.
    pub(super) fn hold(&mut self, device: &str, share: Option<&[(&str, i64)]>) {
        self.held += 1;
        let uid = Text::from(format!("held-{}", self.held));
        let consumed = share.unwrap_or_default().iter();
        let id = DeviceId { driver: DRIVER.into(), pool: "pool".into(), device: device.into() };
        let result = DeviceResult {
            request: "r".into(),
            id,
            admin: false,
            tolerations: Vec::new(),
            binding_conditions: Vec::new(),
            binding_failure_conditions: Vec::new(),
            share_id: share.map(|_| uid.clone()),
            consumed: consumed.map(|(name, n)| (Text::from(*name), gi(*n))).collect(),
            skip_node_operations: Vec::new(),
        };
        let allocation = Allocation { results: vec![result], ..Allocation::default() };
        let claim = ResourceClaim {
            key: ClaimKey { namespace: "default".into(), name: uid.clone() },
            uid,
            allocation: Some(Arc::new(allocation)),
            owner_pod: Some(PodUid("other".into())),
            ..ResourceClaim::default()
        };
        self.event(DeviceEvent::ClaimApplied(Box::new(claim)));
    }

    pub(super) fn declare(&mut self, claims: &[Arc<DeviceDemand>]) {
        let selectors = claims.iter().flat_map(|claim| claim.alternatives());
        let of_classes = self.cluster.devices().classes().flat_map(|class| class.selectors.clone());
        let mut all: Vec<Text> = of_classes.collect();
        all.extend(selectors.flat_map(|request| request.selectors.clone()));
        for selector in &all {
            self.cluster.declare_selector(selector, &mut |_| true);
        }
    }

    pub(super) fn search(&mut self, claims: &[Arc<DeviceDemand>], first_fit: bool) -> Search {
        self.declare(claims);
        let options = Options { first_fit, steps_max: 10_000_000 };
        Search::new(self.node, claims.to_vec(), options)
    }

    /// Searches in one go and a step at a time; both must come to the same.
    pub(super) fn answer(
        &mut self,
        claims: &[Arc<DeviceDemand>],
        first_fit: bool,
    ) -> (Result<Found, Refused>, u64) {
        let mut work = Work::unlimited();
        let answer = self.search(claims, first_fit).run(&self.cluster, &mut work).unwrap();
        let mut search = self.search(claims, first_fit);
        let by_steps = loop {
            let mut step = one_step();
            if let Some(answer) = search.run(&self.cluster, &mut step) {
                break answer;
            }
        };
        assert_eq!(by_steps, answer);
        (answer, work.spent())
    }

    /// As [`World::answer`], with this many failures before it is prepared for a long search.
    pub(super) fn answer_hardening(
        &mut self,
        claims: &[Arc<DeviceDemand>],
        first_fit: bool,
        failures: u32,
    ) -> Result<String, Refused> {
        let mut search = self.search(claims, first_fit);
        assert!(search.run(&self.cluster, &mut one_step()).is_none());
        if let Some((_, dive)) = &mut search.begun {
            dive.failures_plain = failures;
        }
        search.run(&self.cluster, &mut Work::unlimited()).unwrap().map(|found| show(&found))
    }

    /// The first solution, then all others that differ in what matters to the claims and to what
    /// `others` want.
    pub(super) fn solutions(
        &mut self,
        claims: &[Arc<DeviceDemand>],
        others: &[Arc<DeviceDemand>],
        first_fit: bool,
    ) -> Vec<Found> {
        self.declare(others);
        let mut search = self.search(claims, first_fit);
        let options = search.options;
        let Some(Ok(first)) = search.run(&self.cluster, &mut Work::unlimited()) else {
            return Vec::new();
        };
        let place = (&self.cluster, self.node);
        let mut rest = Solutions::besides(&first, place, claims, others, options, None).unwrap();
        let mut all = vec![first.clone()];
        while let Some(found) = rest.find_next(&mut Work::unlimited()).unwrap().unwrap() {
            all.push(found);
        }
        all
    }

    /// Another claim has what was found, each claim's share of it.
    pub(super) fn hold_found(&mut self, found: &Found) -> Vec<ResourceClaim> {
        let claims = found.claims.iter().map(|results| {
            self.held += 1;
            let uid = Text::from(format!("held-{}", self.held));
            let mut results = results.clone();
            super::written::name_shares(&mut results, &uid);
            let allocation = Allocation { results, ..Allocation::default() };
            ResourceClaim {
                key: ClaimKey { namespace: "default".into(), name: uid.clone() },
                uid,
                allocation: Some(Arc::new(allocation)),
                owner_pod: Some(PodUid("other".into())),
                ..ResourceClaim::default()
            }
        });
        let claims: Vec<ResourceClaim> = claims.collect();
        for claim in &claims {
            self.event(DeviceEvent::ClaimApplied(Box::new(claim.clone())));
        }
        claims
    }

    pub(super) fn let_go(&mut self, claims: Vec<ResourceClaim>) {
        for ResourceClaim { key, uid, .. } in claims {
            self.event(DeviceEvent::ClaimDeleted { key, uid });
        }
    }

    /// The best devices for the claims, as `request=device` one after the other.
    pub(super) fn best(&mut self, claims: &[Arc<DeviceDemand>]) -> Result<String, Refused> {
        self.answer(claims, false).0.map(|found| show(&found))
    }

    /// The first devices that do.
    pub(super) fn first(&mut self, claims: &[Arc<DeviceDemand>]) -> Result<String, Refused> {
        self.answer(claims, true).0.map(|found| show(&found))
    }

    /// Both ways of choosing come to this.
    pub(super) fn check(&mut self, claims: &[Arc<DeviceDemand>], expected: Result<&str, Refused>) {
        assert_eq!(self.first(claims), expected.clone().map(str::to_owned), "first fit");
        assert_eq!(self.best(claims), expected.map(str::to_owned), "best");
    }
}

/// Work with a single step.
pub(super) fn one_step() -> Work {
    let mut work = Work::unlimited();
    work.spend(u64::MAX - 1);
    work
}

pub(super) fn show(found: &Found) -> String {
    let result = |result: &DeviceResult| format!("{}={}", result.request, result.id.device);
    let results = found.claims.iter().flatten().map(result);
    results.collect::<Vec<_>>().join(" ")
}

pub(super) fn no_fit() -> Refused {
    Refused::NoFit("cannot allocate all claims".into())
}

pub(super) fn broken(text: &str) -> Refused {
    Refused::Broken(text.into())
}

/// MIG profiles of an H100: name, memory slices, compute slices, places. Source: the table of
/// `nvidia-smi mig -lgipp`.
const PROFILES: [(&str, i64, i64, &[i64]); 6] = [
    ("1g", 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.2", 2, 1, &[0, 2, 4, 6]),
    ("2g", 2, 2, &[0, 2, 4]),
    ("3g", 4, 3, &[0, 4]),
    ("4g", 4, 4, &[0]),
    ("7g", 8, 7, &[0]),
];

/// A pool of GPUs, each whole (`kind` is gpu) or in parts, with counters as the NVIDIA driver has
/// them. Devices are named `<gpu>` and `<gpu>-<profile>-<place>`.
pub(super) fn mig(gpus: usize) -> World {
    let mut world = World::new();
    let count = gpus as i64 + 1;
    // As conversion has it, equal amounts are one allocation.
    let mut shapes: Vec<Arc<[(Text, Quantity)]>> = Vec::new();
    let mut sets = ResourceSlice { slice_count: count, ..slice("sets", Vec::new()) };
    for gpu in 0..gpus {
        let set = format!("set-{gpu}");
        let amounts = |memory: std::ops::Range<i64>, compute| {
            let slices = memory.clone().map(|at| (format!("memory-slice-{at}"), 1));
            let sums =
                [("compute".to_owned(), compute), ("memory".to_owned(), memory.end - memory.start)];
            slices.chain(sums).collect::<Vec<_>>()
        };
        let mut draw = |name: &str, kind: &str, amounts: Vec<(String, i64)>| {
            let mut amounts: Vec<(&str, i64)> = amounts.iter().map(|(n, a)| (&**n, *a)).collect();
            amounts.sort_unstable();
            let mut device = device(name).draws(&set, &amounts).text("kind", kind);
            let counters = &mut device.consumes[0].counters;
            match shapes.iter().find(|known| **known == *counters) {
                Some(known) => *counters = known.clone(),
                None => shapes.push(counters.clone()),
            }
            device.text("parentUUID", &format!("gpu-{gpu}"))
        };
        let mut devices = vec![draw(&format!("{gpu}"), "gpu", amounts(0..8, 7))];
        for (kind, memory, compute, places) in PROFILES {
            for at in places {
                let name = format!("{gpu}-{kind}-{at}");
                devices.push(draw(&name, kind, amounts(*at..at + memory, compute)));
            }
        }
        let total = amounts(0..8, 7);
        let mut total: Vec<(&str, i64)> = total.iter().map(|(n, a)| (&**n, *a)).collect();
        total.sort_unstable();
        sets.counter_sets.push(counter_set(&set, &total));
        world.slice(ResourceSlice { slice_count: count, ..slice(&format!("gpu-{gpu}"), devices) });
    }
    world.slice(sets);
    world
}
