//! Which of the devices that would do is tried first.
//!
//! A device comes before another if a plugin says so that orders devices (packing), or that judges sets
//! of them (links between GPUs): by the best set that it is in, with what is picked and what is still
//! wanted ([`together`]). Then, in this order,
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
//! Where sets are judged, who judges them also says how far other devices are from those of the set (and
//! these from others that are still wanted), over all claims of the pod. That comes after how well the set goes
//! together, and before what the rest of the pod's group has and what the set breaks; a claim that wants both
//! has them near by (2) before that, too.
//!
//! What is guaranteed: the search is depth first in this order, so each device is the best by it,
//! given those picked before, among those that lead to a solution. Of what plugins judge as sets it is
//! the best set, unless counters or `distinctAttribute` stand against that; beside those no solution is
//! looked for whose devices would be better taken together.

mod around;
mod breaking;
mod together;

use std::ops::Range;
use std::sync::Arc;

use berth_core::framework::{DeviceSets, SetRating};
use berth_core::snapshot::Devices;
use berth_core::snapshot::devices::gather::{NodeDevice, NodePool};

use super::counters::{Counters, Draw, Reader};
use super::problem::{Need, Problem};
use super::state::{Pick, State};
use super::values::Column;
use around::Around;
use breaking::Breaking;
use together::Together;

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
    /// What plugins say.
    preferred: Preferred,
}

/// What plugins say of devices: ranks, the least first; none where it makes no difference.
#[derive(Debug, Default)]
pub(super) struct Preferred {
    /// What counts before sets.
    pub(super) before: Vec<u32>,
    pub(super) sets: Option<Arc<dyn DeviceSets>>,
    pub(super) after: Vec<u32>,
}

impl Preferred {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.sets.is_none() && self.after.is_empty()
    }
}

/// Returns what plugins say of devices.
pub(super) type Ranks<'r> = dyn Fn(&[NodeDevice<'_>]) -> Preferred + 'r;

#[derive(Debug)]
struct Part {
    draws: Range<u32>,
    /// Its share of its sets in eighths, rounded up, less one.
    size: u32,
}

/// How much a device is better than others; least comes first.
type Rank = (Wished, u128, u64, bool, i128);

/// What plugins say of a device: before sets, of the best set, how far it is from what it is to work
/// with, how the set differs from what the group has, how near it is where the claim wants other devices
/// too, what the set breaks, after sets.
type Wished = (u32, u64, u64, u64, u64, u64, u32);

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

    pub(super) fn prefer(&mut self, preferred: Preferred) {
        self.preferred = preferred;
    }

    /// Tells whether devices are judged as sets.
    pub(super) fn judges_sets(&self) -> bool {
        self.preferred.sets.is_some()
    }

    /// Rates the devices of a solution as a set.
    pub(super) fn rate(&self, problem: &Problem, picks: &[Pick]) -> SetRating {
        let Some(sets) = &self.preferred.sets else { return SetRating::default() };
        let devices = picks.iter().map(|pick| problem.candidate(pick.ask, pick.at).device);
        let counted: Vec<u32> = devices.filter(|device| sets.counts(*device)).collect();
        sets.rate(&counted, &[], 0).unwrap_or(together::NONE)
    }

    /// Tells whether it makes a difference what the devices of an alternative are taken with.
    pub(super) fn in_sets(&self, problem: &Problem, ask: u32) -> bool {
        let counts = |sets: &Arc<dyn DeviceSets>| {
            problem.profile(ask).candidates.iter().any(|it| sets.counts(it.device))
        };
        self.preferred.sets.as_ref().is_some_and(counts)
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

    /// Puts the candidates of an alternative, given by their places, in order. `open` is what is still
    /// wanted, this alternative first: alternatives and numbers of devices.
    pub(super) fn order(
        &self,
        problem: &Problem,
        state: &State,
        ask: u32,
        open: &[(u32, usize)],
        places: &mut [u32],
    ) {
        let claim = problem.asks[ask as usize].claim;
        let several = self.several.get(claim as usize) == Some(&true);
        let alike = self.parts.is_empty() && !self.uneven && self.preferred.is_empty();
        if places.len() < 2 || alike && !several {
            return;
        }
        let admin = problem.profile(ask).admin;
        let mut breaking = (!self.parts.is_empty() && !admin).then(|| Breaking::new(self, state));
        let of_claim = |(ask, _): &&(u32, usize)| problem.asks[*ask as usize].claim == claim;
        let in_claim: Vec<(u32, usize)> = open.iter().filter(of_claim).copied().collect();
        let around = several.then(|| Around::new(self, problem, state, &in_claim));
        let sets = self.preferred.sets.as_deref().filter(|_| !admin);
        let together = sets.map(|sets| Together::new(sets, problem, state, open, places));
        let mixed = together.as_ref().is_some_and(|together| together.is_mixed(claim));
        let rank = |place: &u32| -> Rank {
            let device = problem.candidate(ask, *place).device;
            let broken = breaking.as_mut().map_or(0, |breaking| breaking.cost(problem, device));
            let near = around
                .as_ref()
                .map_or(0, |around| around.distance(&state.in_claim[claim as usize], device));
            let room = problem
                .room_of(device)
                .fold(0, |sum: i128, at| sum + state.rooms[at].min(1 << 100));
            let rating = together.as_ref().map_or(SetRating::default(), |it| it.rate(device));
            let of = |ranks: &[u32]| ranks.get(device as usize).copied().unwrap_or(0);
            let wished = (
                of(&self.preferred.before),
                rating.apart,
                together.as_ref().map_or(0, |it| it.distance(device)),
                rating.off_rail,
                if mixed { near } else { 0 },
                rating.broken,
                of(&self.preferred.after),
            );
            (wished, broken, near, problem.devices[device as usize].binding, room)
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
