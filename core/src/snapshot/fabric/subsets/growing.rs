//! Sets that are grown by the GPU that is best at each step, from one GPU after the other.

use std::cmp::Reverse;

use crate::types::topology::{GPUS_MAX, GpuSet, NodeTopology};

use super::super::rails::Rails;
use super::{Best, Goodness, Subsets, left_over};

/// Returns the best set that is found of those that have all of `picked` and are within `within`. With
/// rails no set is returned that talks slower than the one without.
pub(super) fn best(
    subsets: &Subsets,
    rails: &Rails,
    picked: GpuSet,
    within: GpuSet,
    free: GpuSet,
) -> Option<Best> {
    let grown = |rails: &Rails| Growing::new(subsets, rails, picked, within, free).best();
    let plain = grown(&Rails::NONE)?;
    if rails.is_empty() {
        return Some(plain);
    }
    let plain = Best { on_rail: rails.met(plain.set), ..plain };
    grown(rails).into_iter().chain([plain]).min_by_key(Best::key)
}

/// What sets are grown of.
pub(super) struct Growing<'a> {
    subsets: &'a Subsets,
    rails: &'a Rails,
    picked: GpuSet,
    within: GpuSet,
    free: GpuSet,
    /// By GPU: how much is free of the smallest island that it is in.
    around: [u8; GPUS_MAX],
    /// By GPU, what decides among those that are linked equally well. Below 2^24, the greatest is best.
    low: [u32; GPUS_MAX],
}

impl<'a> Growing<'a> {
    pub(super) fn new(
        subsets: &'a Subsets,
        rails: &'a Rails,
        picked: GpuSet,
        within: GpuSet,
        free: GpuSet,
    ) -> Growing<'a> {
        let mut around = [0; GPUS_MAX];
        // The smallest come first, so they are written last.
        for island in subsets.topology.nested().iter().rev() {
            let n_free = island.and(free).len() as u8;
            island.iter().for_each(|gpu| around[gpu] = n_free);
        }
        let low = std::array::from_fn(|gpu| {
            let around = u32::from(u8::MAX - around[gpu]);
            u32::from(rails.on(gpu)) << 16 | around << 8 | (GPUS_MAX - gpu) as u32
        });
        Growing { subsets, rails, picked, within, free, around, low }
    }

    pub(super) fn best(&self) -> Option<Best> {
        if !self.picked.is_empty() {
            return self.grown(self.picked);
        }
        let most = self.bound();
        let (must, may) = match self.rails.is_empty() {
            true => (self.picked, self.within),
            false => self.rails.bounds(self.picked, self.within, self.subsets.size),
        };
        let aligned = |set: GpuSet| must.is_within(set) && set.is_within(may);
        let mut best: Option<Best> = None;
        for seed in self.seeds() {
            let Some(found) = self.grown(GpuSet::default().with(seed)) else { continue };
            if best.is_none_or(|best| found.key() < best.key()) {
                best = Some(found);
            }
            let cannot_be_better =
                |best: Best| best.goodness >= most && best.left_over == 0 && aligned(best.set);
            if best.is_some_and(cannot_be_better) {
                break;
            }
        }
        best
    }

    /// One GPU of each of the smallest islands stands for it; without islands each for itself. Of GPUs that
    /// are linked alike, in islands of which as much is free, the first stands for all that as many others have.
    pub(super) fn seeds(&self) -> impl Iterator<Item = usize> {
        let mut known: Vec<((u32, u64), u8, u8)> = Vec::new();
        // Mostly the first will do, and the others aren't compared.
        let is_new = move |gpu: &usize| {
            let key = (self.likeness(*gpu), self.around[*gpu], self.rails.on(*gpu));
            let new = !known.contains(&key);
            known.extend(new.then_some(key));
            new
        };
        self.island_seeds().iter().filter(is_new)
    }

    /// Sum and sum of squares of a GPU's links.
    fn likeness(&self, gpu: usize) -> (u32, u64) {
        let row = self.topology().row(gpu);
        self.within.iter().fold((0, 0), |(sum, squares), to| {
            let gbs = row[to];
            (sum + u32::from(gbs), squares + u64::from(gbs) * u64::from(gbs))
        })
    }

    pub(super) fn island_seeds(&self) -> GpuSet {
        let mut rest = self.within;
        let mut seeds = GpuSet::default();
        for island in self.topology().nested() {
            let here = island.and(rest);
            let first = here.iter().max_by_key(|gpu| (self.rails.on(*gpu), Reverse(*gpu)));
            seeds = first.map_or(seeds, |first| seeds.with(first));
            rest = rest.without(here);
        }
        seeds.or(rest)
    }

    /// Returns what no set exceeds.
    pub(super) fn bound(&self) -> Goodness {
        let (size, levels) = (self.subsets.size, &self.subsets.levels);
        if size < 2 {
            return Goodness::default();
        }
        let enough = |(_, parts): &&(u16, Vec<GpuSet>)| {
            parts.iter().any(|part| part.and(self.within).len() >= size)
        };
        let least = levels.iter().rev().find(enough).map_or(0, |(level, _)| *level);
        let most = levels.last().map_or(0, |(level, _)| *level);
        let pairs = (size * (size - 1) / 2) as u32;
        let sum = if least == most { pairs * u32::from(most) } else { self.sum_bound() };
        Goodness { least, sum }
    }

    /// Each GPU has at most its fastest links.
    fn sum_bound(&self) -> u32 {
        let size = self.subsets.size;
        let of = |gpu: usize| {
            let row = self.topology().row(gpu);
            let nearest = self.subsets.nearest[gpu].iter().map(|to| usize::from(*to));
            let links = nearest.filter(|to| self.within.contains(*to)).take(size - 1);
            links.map(|to| u32::from(row[to])).sum::<u32>()
        };
        let mut sums: Vec<u32> = self.within.iter().map(of).collect();
        sums.sort_unstable_by_key(|sum| Reverse(*sum));
        sums.iter().take(size).sum::<u32>() / 2
    }

    fn topology(&self) -> &NodeTopology {
        &self.subsets.topology
    }

    /// At each step that GPU is added which leaves the largest least bandwidth, then the largest sum, then
    /// which most others have, then of whose island least is free, then the first.
    pub(super) fn grown(&self, seed: GpuSet) -> Option<Best> {
        let size = self.subsets.size;
        let mut set = GpuSet::default();
        let (mut least, mut sums) = ([u16::MAX; GPUS_MAX], [0_u32; GPUS_MAX]);
        let mut goodness = Goodness { least: u16::MAX, sum: 0 };
        let mut seeds = seed.iter();
        while set.len() < size {
            let rest = self.within.without(set);
            let next = seeds.next().or_else(|| {
                let key = |gpu: &usize| {
                    let least = least[*gpu].min(goodness.least);
                    // Sums are below 2^23: there are 71 links, each below 2^16.
                    u64::from(least) << 48 | u64::from(sums[*gpu]) << 24 | u64::from(self.low[*gpu])
                };
                rest.iter().max_by_key(key)
            })?;
            goodness =
                Goodness { least: goodness.least.min(least[next]), sum: goodness.sum + sums[next] };
            set.insert(next);
            let row = self.topology().row(next);
            least.iter_mut().zip(row).for_each(|(least, gbs)| *least = (*least).min(*gbs));
            // Checked additions would be made one by one.
            sums.iter_mut().zip(row).for_each(|(sum, gbs)| *sum = sum.wrapping_add((*gbs).into()));
        }
        if size < 2 {
            goodness.least = 0;
        }
        let left_over = left_over(self.topology(), set, self.free);
        Some(Best { set, goodness, on_rail: self.rails.met(set), left_over })
    }
}
