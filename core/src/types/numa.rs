//! What a kubelet aligns to NUMA cells, and what its node has in each.

use super::requests::PodContainers;
use super::{ContainerRequests, Resources, Text};

/// NUMA cells of one node that are read; the topology manager of a kubelet takes 8 unless told
/// otherwise.
pub const CELLS_MAX: usize = 64;

/// What a kubelet refuses of pods (its topology manager's policy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumaPolicy {
    /// Nothing: `none` and `best-effort`.
    #[default]
    Lenient,
    /// What isn't on the fewest cells that could hold it, all resources on the same ones.
    Restricted,
    /// What isn't on one cell.
    SingleCell,
}

/// Of what the parts are aligned with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumaScope {
    #[default]
    Container,
    Pod,
}

/// What an exporter on a node has told of its NUMA cells (a NodeResourceTopology object).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaReport {
    /// The node's name, and the object's.
    pub node: Text,
    pub uid: Text,
    pub resource_version: u64,
    pub policy: NumaPolicy,
    pub scope: NumaScope,
    /// In the order of their numbers, at most [`CELLS_MAX`].
    pub cells: Vec<NumaCell>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaCell {
    pub number: u16,
    pub allocatable: Resources,
    /// Of that, what nothing had been given when it was told.
    pub available: Resources,
}

impl NumaReport {
    /// Tells whether some cell has the resource.
    pub fn has(&self, resource: &str) -> bool {
        self.cells.iter().any(|cell| cell.allocatable.amount(resource) > 0)
    }

    /// Tells whether it says the same but for its version.
    pub fn says_the_same(&self, other: &NumaReport) -> bool {
        let of = |it: &NumaReport| (it.policy, it.scope);
        of(self) == of(other) && self.uid == other.uid && self.cells == other.cells
    }
}

/// What a kubelet aligns of one container: its devices, and of a pod of the class Guaranteed its CPUs,
/// if they are whole, its memory and its huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlignedContainer {
    pub amounts: Resources,
    pub stage: Stage,
}

/// When a container holds what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// An init container: until the next one.
    Init,
    /// An init container that stays.
    Sidecar,
    #[default]
    Main,
}

/// What a kubelet aligns of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alignment {
    /// Those that have something, in the order in which they start.
    pub containers: Vec<AlignedContainer>,
    /// What the pod takes as a whole.
    pub pod: Resources,
}

impl Alignment {
    /// Returns `None` where there is nothing to align.
    pub fn of(containers: Vec<AlignedContainer>) -> Option<Box<Alignment>> {
        let mut all = PodContainers::default();
        for container in &containers {
            let requests = ContainerRequests {
                requests: container.amounts.clone(),
                sidecar: container.stage == Stage::Sidecar,
                ..ContainerRequests::default()
            };
            let list = if container.stage == Stage::Main { &mut all.main } else { &mut all.init };
            list.push(requests);
        }
        let pod = all.requests().real;
        (!pod.is_zero()).then(|| Box::new(Alignment { containers, pod }))
    }
}

/// Returns what of a container's requests a kubelet aligns.
///
/// Source: `guaranteedCPUs` of the CPU manager's static policy, `GetTopologyHints` of the memory and
/// device managers, kubelet 1.37.
pub fn aligned_amounts(requests: &Resources, guaranteed: bool) -> Resources {
    let mut aligned = Resources::default();
    if guaranteed {
        aligned.memory_bytes = requests.memory_bytes;
        aligned.cpu_milli = if requests.cpu_milli % 1000 == 0 { requests.cpu_milli } else { 0 };
    }
    for (name, amount) in &requests.extended {
        if guaranteed || super::resources::is_extended(name) {
            aligned.extended.push((name.clone(), *amount));
        }
    }
    aligned
}
