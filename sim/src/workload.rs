//! A random cluster and what its users do, from a seed.
//!
//! Demand is well above capacity, so that pods wait for each other; about half of them end.

mod claims;
mod devices;
mod gangs;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::types::claim::ClaimSpec;
use berth_core::types::{
    Node, Pod, PodSpec, ResourceSlice, Span, Taint, TaintEffect, Text, Timestamp,
};

use claims::Claiming;
pub(crate) use devices::devices_of_sweep;
pub use devices::{DeviceAction, FOREIGN};
pub use gangs::{COUNTED, GangAction, LABELLED};
pub use shape::{ELSEWHERE, GPU, SCHEDULER, ZONE};

/// What a user or controller does.
#[derive(Clone, Debug)]
pub enum Action {
    Create(Box<Pod>),
    /// Removes the gates of the pod of this name.
    Ungate(Text),
    /// Deletes the pod of this name.
    Delete(Text),
    AddNode(Box<Node>),
    Cordon {
        node: Text,
        on: bool,
    },
    Taint {
        node: Text,
        on: bool,
    },
    /// The device plugin of the node reports this many GPUs.
    Report {
        node: Text,
        gpus: i64,
    },
    /// Gives the pod of this name a toleration of every taint of nodes of ours.
    Tolerate(Text),
    Devices(DeviceAction),
    Gangs(GangAction),
}

/// What happens when, faults apart.
#[derive(Debug, Default)]
pub struct Workload {
    /// Ascending.
    pub actions: Vec<(Timestamp, Action)>,
    /// What drivers publish; none in seeds without devices.
    pub slices: Vec<ResourceSlice>,
    /// From which the claim controller makes claims.
    pub templates: BTreeMap<Text, Arc<ClaimSpec>>,
    /// It has groups.
    pub ganged: bool,
}

/// Users act within this from the start.
pub const USERS: Span = Span::from_secs(150);

/// The taint that comes and goes.
pub fn passing_taint() -> Taint {
    Taint { key: "maintenance".into(), value: Text::default(), effect: TaintEffect::NoSchedule }
}

impl Workload {
    pub fn of(seed: u64, start: Timestamp) -> Workload {
        let mut rng = Rng::stream(seed, "workload", "", 0);
        let mut workload = Workload::default();
        let nodes = shape::nodes(&mut rng);
        let mut devices = Rng::stream(seed, "devices", "", 0);
        if shape::one_in(&mut devices, 2) {
            workload.with_devices(&mut devices, start, &nodes);
        }
        let names: Vec<Text> = nodes.iter().map(|node| node.name.clone()).collect();
        for node in nodes.into_iter().chain([shape::elsewhere()]) {
            workload.actions.push((start, Action::AddNode(Box::new(node))));
        }
        let mut gangs = Rng::stream(seed, "gangs", "", 0);
        let ganged = shape::one_in(&mut gangs, 3);
        workload.ganged = ganged;
        if ganged {
            workload.gangs(&mut gangs, start, !workload.templates.is_empty());
        }
        workload.pods(&mut rng, &mut devices, start, ganged);
        workload.trouble(&mut rng, start, &names);
        workload.actions.sort_by_key(|(at, _)| *at);
        workload
    }

    fn with_devices(&mut self, rng: &mut Rng, start: Timestamp, nodes: &[Node]) {
        self.slices = devices::slices(rng, nodes);
        self.templates = claims::templates();
        for class in devices::classes() {
            let action = DeviceAction::AddClass(Box::new(class));
            self.actions.push((start, Action::Devices(action)));
        }
        let mut places: BTreeMap<(Text, Text), usize> = BTreeMap::new();
        for slice in &self.slices {
            let pool = (slice.driver.clone(), slice.pool.clone());
            let place = places.entry(pool.clone()).or_default();
            let publish = DeviceAction::Publish { pool, at: *place };
            *place += 1;
            self.actions.push((start + Span(rng.below(3000)), Action::Devices(publish)));
        }
        if !self.slices.is_empty() {
            devices::changes(rng, start, &self.slices, &mut self.actions);
        }
    }

    /// Nodes are tainted, cordoned or without devices for a while.
    fn trouble(&mut self, rng: &mut Rng, start: Timestamp, names: &[Text]) {
        for _ in 0..rng.below(7) {
            let node = names[rng.below(names.len() as u64) as usize].clone();
            let from = start + Span(rng.below(USERS.0));
            let until = from + Span(rng.below(40_000));
            let what = rng.below(3);
            for (at, on) in [(from, true), (until, false)] {
                let node = node.clone();
                let action = match what {
                    0 => Action::Taint { node, on },
                    1 => Action::Cordon { node, on },
                    _ => Action::Report { node, gpus: if on { 0 } else { 8 } },
                };
                self.actions.push((at, action));
            }
        }
    }

    /// Pods come in bursts, so that decisions and binds overlap.
    fn pods(&mut self, rng: &mut Rng, devices: &mut Rng, start: Timestamp, ganged: bool) {
        let specs: Vec<Arc<PodSpec>> = (0..6 + rng.below(5)).map(|_| shape::spec(rng)).collect();
        let claiming: Vec<Claiming> = match self.templates.is_empty() {
            true => Vec::new(),
            false => specs.iter().map(|_| claims::claiming(devices)).collect(),
        };
        let count = 60 + rng.below(61);
        // Devices are scarce, so that fewer pods do.
        let count = if claiming.is_empty() { count } else { count * 3 / 5 };
        // Groups take the place of the others.
        let count = if ganged { count / 3 } else { count };
        let mut at = start + Span(rng.below(2000));
        let mut burst = 1 + rng.below(8);
        for number in 0..count {
            let job = rng.below(specs.len() as u64) as usize;
            let mut pod = shape::pod(rng, number, specs[job].clone());
            if let Some(claiming) = claiming.get(job) {
                let claim = claims::give(devices, &mut pod, number, claiming, &self.templates);
                // Now and then the claim comes after its pod.
                let after = if shape::one_in(devices, 4) { devices.below(20_000) } else { 0 };
                let create = |claim| Action::Devices(DeviceAction::CreateClaim(Box::new(claim)));
                self.actions.extend(claim.map(|claim| (at + Span(after), create(claim))));
            }
            self.acts_on(rng, at, &pod);
            self.actions.push((at, Action::Create(Box::new(pod))));
            burst -= 1;
            if burst == 0 {
                burst = 1 + rng.below(8);
                at = at + Span(rng.below(2 * burst * USERS.0 / count));
            }
        }
    }

    /// What its user does with a pod later on.
    fn acts_on(&mut self, rng: &mut Rng, at: Timestamp, pod: &Pod) {
        let name = &pod.name;
        if !pod.gates.is_empty() {
            let open = at + Span(rng.below(60_000));
            self.actions.push((open, Action::Ungate(name.clone())));
        }
        if rng.below(15) == 0 {
            let then = at + Span(rng.below(60_000));
            self.actions.push((then, Action::Tolerate(name.clone())));
        }
        if rng.below(10) == 0 {
            let after = [50, 2000, 60_000][rng.below(3) as usize];
            self.actions.push((at + Span(rng.below(after)), Action::Delete(name.clone())));
        }
    }
}
