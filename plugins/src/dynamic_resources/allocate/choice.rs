//! Which of the devices that would do is tried first.
//!
//! A device comes before another if a plugin says so that orders devices (packing), and then, in this
//! order,
//!
//! 1. fewer of the other partitions that are still possible become impossible, the largest counted
//!    first: a small MIG partition goes to a GPU that is already broken, and there to the place
//!    where it breaks least;
//! 2. it is nearer to the devices that the claim has: same PCIe root, same NUMA node, same parent
//!    device; or, for the first, the claim fits into its neighbourhood with least to spare;
//! 3. it has no binding conditions;
//! 4. less is left of it, if it is shared;
//! 5. it comes first in upstream's order.
//!
//! What is guaranteed: the search is depth first in this order, so each device is the best by it,
//! given those picked before, among those that lead to a solution. No solution is looked for whose
//! devices would be better taken together.

mod around;
mod breaking;

use std::ops::Range;

use berth_core::snapshot::Devices;
use berth_core::snapshot::devices::gather::{NodeDevice, NodePool};

use super::counters::{Counters, Draw, Reader};
use super::problem::{Need, Problem};
use super::state::State;
use super::values::Column;
use around::Around;
use breaking::Breaking;

const PCIE_ROOT: &str = "resource.kubernetes.io/pcieRoot";
const NUMA_NODE: &str = "resource.kubernetes.io/numaNode";
/// A partition's GPU, in the driver's own domain. Source: dra-driver-nvidia-gpu.
const PARENT: &str = "parentUUID";

/// What tells solutions apart. Empty: nothing does, upstream's order decides.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Devices of the pools that have counters, unless they are taken.
    parts: Vec<Part>,
    part_draws: Vec<Draw>,
    /// By counter set.
    by_set: Vec<Vec<u32>>,
    /// Values of [`PCIE_ROOT`], [`NUMA_NODE`] and [`PARENT`].
    near: Vec<Column>,
    /// By claim: it takes several devices.
    several: Vec<bool>,
    /// Some devices have binding conditions or are shared.
    uneven: bool,
    /// What plugins say of each device; empty: it makes no difference.
    preferred: Vec<u32>,
}

/// Returns ranks of devices, the least first; none where it makes no difference.
pub(super) type Ranks<'r> = dyn Fn(&[NodeDevice<'_>]) -> Vec<u32> + 'r;

#[derive(Debug)]
struct Part {
    draws: Range<u32>,
    /// Its share of its sets in eighths, rounded up, less one.
    size: u32,
}

/// How much a device is better than others; least comes first.
type Rank = (u32, u128, u64, bool, i128);

impl Choice {
    pub(super) fn read<'a>(
        problem: &Problem,
        devices: &'a Devices,
        pools: &[NodePool<'a>],
        found: &[NodeDevice<'a>],
        counters: &mut Reader<'a>,
    ) -> Choice {
        let mut choice = Choice {
            uneven: problem.devices.iter().any(|device| device.binding || device.shared),
            ..Choice::default()
        };
        choice.read_parts(devices, pools, counters);
        let of_claim = |needs: &[Need]| needs.iter().map(|need| problem.least(need)).sum::<usize>();
        choice.several = vec![false; problem.n_claims];
        for needs in problem.needs.chunk_by(|a, b| a.claim == b.claim) {
            choice.several[needs[0].claim as usize] = of_claim(needs) > 1;
        }
        if choice.several.contains(&true) {
            let column = |name: &str| {
                let of = |d: &NodeDevice<'a>| d.device.attribute(&d.slice.driver, name);
                Column::new(found.iter().map(of))
            };
            let parent = Column::new(found.iter().map(|d| d.device.published(PARENT)));
            choice.near = vec![column(PCIE_ROOT), column(NUMA_NODE), parent];
        }
        choice
    }

    pub(super) fn prefer(&mut self, ranks: Vec<u32>) {
        self.preferred = ranks;
    }

    fn read_parts<'a>(
        &mut self,
        devices: &'a Devices,
        pools: &[NodePool<'a>],
        counters: &mut Reader<'a>,
    ) {
        let mut drawn: Vec<usize> = counters.pools().collect();
        drawn.dedup();
        for at in drawn {
            let parts = pools[at]
                .devices
                .iter()
                .filter(|device| device.taken.is_none() && !device.device.consumes.is_empty());
            for part in parts {
                let start = self.part_draws.len() as u32;
                let consumes = &part.device.consumes;
                counters.read(devices, (at, &pools[at]), consumes, &mut self.part_draws);
                let draws = start..self.part_draws.len() as u32;
                let share = counters.counters().share(&self.part_draws[start as usize..]);
                let size = (share * 8).div_ceil(1000).clamp(1, 8) - 1;
                self.by_set.resize_with(counters.counters().n_sets(), Vec::new);
                for draw in &self.part_draws[start as usize..] {
                    self.by_set[draw.set as usize].push(self.parts.len() as u32);
                }
                self.parts.push(Part { draws, size });
            }
        }
    }

    /// Puts the candidates of an alternative, given by their places, in order. `open` is what the
    /// claim still wants: alternatives and numbers of devices.
    pub(super) fn order(
        &self,
        problem: &Problem,
        state: &State,
        ask: u32,
        open: &[(u32, usize)],
        places: &mut [u32],
    ) {
        let claim = problem.asks[ask as usize].claim as usize;
        let several = self.several.get(claim) == Some(&true);
        let alike = self.parts.is_empty() && !self.uneven && self.preferred.is_empty();
        if places.len() < 2 || alike && !several {
            return;
        }
        let admin = problem.profile(ask).admin;
        let mut breaking = (!self.parts.is_empty() && !admin).then(|| Breaking::new(self, state));
        let around = several.then(|| Around::new(self, problem, state, open));
        let rank = |place: &u32| -> Rank {
            let device = problem.candidate(ask, *place).device;
            let broken = breaking.as_mut().map_or(0, |breaking| breaking.cost(problem, device));
            let near =
                around.as_ref().map_or(0, |around| around.distance(&state.in_claim[claim], device));
            let room = problem
                .room_of(device)
                .fold(0, |sum: i128, at| sum + state.rooms[at].min(1 << 100));
            let preferred = self.preferred.get(device as usize).copied().unwrap_or(0);
            (preferred, broken, near, problem.devices[device as usize].binding, room)
        };
        places.sort_by_cached_key(rank);
    }

    fn draws(&self, part: u32) -> &[Draw] {
        let Range { start, end } = self.parts[part as usize].draws;
        &self.part_draws[start as usize..end as usize]
    }

    /// Tells whether two sets have as much left and the same devices draw on them.
    fn alike(&self, counters: &Counters, left: &[i128], a: u32, b: u32) -> bool {
        let simple = |part: &u32| match self.draws(*part) {
            [draw] => Some((Counters::shape(*draw), self.parts[*part as usize].size)),
            _ => None,
        };
        let (in_a, in_b) = (&self.by_set[a as usize], &self.by_set[b as usize]);
        left[counters.set(a)] == left[counters.set(b)]
            && in_a.len() == in_b.len()
            && in_a.iter().zip(in_b).all(|(a, b)| simple(a).is_some() && simple(a) == simple(b))
    }
}
