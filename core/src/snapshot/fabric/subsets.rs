//! Which `k` GPUs of those that are free talk fastest, and leave the most whole.
//!
//! Better is, in this order: the larger least bandwidth of a pair, the larger sum over the pairs, fewer
//! free GPUs left over in islands that are broken (at every level of bandwidth, see
//! [`NodeTopology::nested`]), the lower indices. Up to [`LISTED_MAX`] GPUs the choice is exact: every
//! subset is in a list, the best first, made once for a topology and a `k`. Beyond, sets are grown
//! greedily from each GPU, up to a bound that no set exceeds.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::types::topology::{GPUS_MAX, GpuSet, NodeTopology};

/// GPUs of a node of which every subset is listed.
pub const LISTED_MAX: usize = 16;

/// How well the GPUs of a set are linked. Sets of one are all alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Goodness {
    /// Over the pairs. Unit: GB/s.
    pub least: u16,
    pub sum: u32,
}

impl Goodness {
    pub fn of(topology: &NodeTopology, set: GpuSet) -> Goodness {
        let (mut least, mut sum) = (u16::MAX, 0);
        for a in set.iter() {
            for b in set.iter().take_while(|b| *b < a) {
                let gbs = topology.bandwidth(a, b);
                least = least.min(gbs);
                sum += u32::from(gbs);
            }
        }
        Goodness { least: if set.len() < 2 { 0 } else { least }, sum }
    }

    /// Returns which share of `best` it is, four fifths by the least bandwidth and one by the sum.
    /// Unit: percent.
    pub fn share_of(self, best: Goodness) -> i64 {
        let share = |part: u64, whole: u64| (part * 1000).checked_div(whole).unwrap_or(1000);
        let least = share(self.least.into(), best.least.into());
        let sum = share(self.sum.into(), best.sum.into());
        ((4 * least + sum) / 50).min(100) as i64
    }
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    pub set: GpuSet,
    pub goodness: Goodness,
    /// Free GPUs that are left over in islands that it breaks.
    pub left_over: u32,
}

/// The subsets of one size of the GPUs of one topology.
#[derive(Debug)]
pub struct Subsets {
    topology: Arc<NodeTopology>,
    size: usize,
    /// The best first; empty if there are too many.
    listed: Vec<(Goodness, u16)>,
    best: Goodness,
    /// The parts that links of each bandwidth leave, the slowest first; none where sets are listed.
    levels: Vec<(u16, Vec<GpuSet>)>,
    /// What every set of so many free GPUs has at least.
    guaranteed: Vec<Goodness>,
}

impl Subsets {
    /// Cost: up to 16 GPUs O(2^GPUs · GPUs), beyond as [`Subsets::rough`].
    pub fn new(topology: &Arc<NodeTopology>, size: usize) -> Subsets {
        let len = topology.len();
        if len > LISTED_MAX || size == 0 || size > len {
            return Subsets::rough(topology, size);
        }
        let listed = listed(topology, size);
        Subsets {
            topology: Arc::clone(topology),
            size,
            best: listed.first().map_or(Goodness::default(), |first| first.0),
            levels: Vec::new(),
            guaranteed: guaranteed(len, size, &listed),
            listed,
        }
    }

    /// As [`Subsets::new`], without a list: choices are grown, guarantees are lower bounds. Cost:
    /// O(GPUs³).
    pub fn rough(topology: &Arc<NodeTopology>, size: usize) -> Subsets {
        let mut subsets = Subsets {
            topology: Arc::clone(topology),
            size,
            listed: Vec::new(),
            best: Goodness::default(),
            levels: levels(topology),
            guaranteed: Vec::new(),
        };
        let len = topology.len();
        if size > 0 && size <= len {
            let all = GpuSet::first(len);
            subsets.best = subsets.best_of(all).map_or(Goodness::default(), |best| best.goodness);
            let promised = |n_free| promised(topology, size, n_free, subsets.best);
            subsets.guaranteed = (0..=len).map(promised).collect();
        }
        subsets
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns what the best of all subsets has.
    pub fn best(&self) -> Goodness {
        self.best
    }

    /// Returns what the best subset has at least, whichever so many GPUs are free; `None` if there
    /// are too few.
    pub fn guaranteed(&self, n_free: usize) -> Option<Goodness> {
        (n_free >= self.size).then(|| self.guaranteed.get(n_free).copied()).flatten()
    }

    /// Returns the best subset of the free GPUs.
    pub fn best_of(&self, free: GpuSet) -> Option<Best> {
        self.best_with(GpuSet::default(), free, free)
    }

    /// Returns the best subset that has all that is `picked` and otherwise GPUs of `from`, where
    /// `free` is what could be left over.
    pub fn best_with(&self, picked: GpuSet, from: GpuSet, free: GpuSet) -> Option<Best> {
        let within = picked.or(from).and(GpuSet::first(self.topology.len()));
        if self.size == 0 || within.len() < self.size || picked.len() > self.size {
            return None;
        }
        if !picked.is_within(within) {
            return None;
        }
        if self.listed.is_empty() {
            return Growing::new(self, picked, within, free.or(picked)).best();
        }
        let (must, may) = (picked.0 as u16, within.0 as u16);
        let fits = |(_, set): &&(Goodness, u16)| set & !may == 0 && must & !set == 0;
        let first = self.listed.iter().position(|entry| fits(&entry))?;
        let goodness = self.listed[first].0;
        let equal = self.listed[first..].iter().take_while(|entry| entry.0 == goodness);
        let mut best: Option<Best> = None;
        for (_, set) in equal.filter(fits) {
            let set = GpuSet(u128::from(*set));
            let left_over = left_over(&self.topology, set, free);
            if best.is_none_or(|best| left_over < best.left_over) {
                best = Some(Best { set, goodness, left_over });
            }
            if left_over == 0 {
                break;
            }
        }
        best
    }
}

/// Returns how many free GPUs a set leaves over in the islands that it breaks.
pub fn left_over(topology: &NodeTopology, set: GpuSet, free: GpuSet) -> u32 {
    let broken = topology.nested().iter().filter(|island| !island.and(set).is_empty());
    broken.map(|island| island.and(free).without(set).len() as u32).sum()
}

fn listed(topology: &NodeTopology, size: usize) -> Vec<(Goodness, u16)> {
    let len = topology.len() as u32;
    let all = (0..1_u32 << len).filter(|set| set.count_ones() as usize == size);
    let rated = all.map(|set| (Goodness::of(topology, GpuSet(set.into())), set as u16));
    let mut listed: Vec<(Goodness, u16)> = rated.collect();
    listed.sort_by_cached_key(|(goodness, set)| {
        (Reverse(*goodness), GpuSet(u128::from(*set)).rank())
    });
    listed
}

/// Returns for each number of free GPUs what the best subset of the worst of such sets has: the best
/// of a set is the best of those without one of its GPUs.
fn guaranteed(len: usize, size: usize, listed: &[(Goodness, u16)]) -> Vec<Goodness> {
    let mut best = vec![Goodness::default(); 1 << len];
    for (goodness, set) in listed {
        best[usize::from(*set)] = *goodness;
    }
    let mut least = vec![Goodness { least: u16::MAX, sum: u32::MAX }; len + 1];
    for set in 0..1_usize << len {
        let n = set.count_ones() as usize;
        if n > size {
            let smaller = GpuSet(set as u128).iter().map(|gpu| best[set & !(1 << gpu)]);
            best[set] = smaller.max().unwrap_or_default();
        }
        least[n] = least[n].min(best[set]);
    }
    least
}

/// Returns a lower bound of what `n_free` GPUs hold, whichever they are: if they can't but be so
/// many of one part that is linked at some level, then that level.
fn promised(topology: &NodeTopology, size: usize, n_free: usize, best: Goodness) -> Goodness {
    if n_free < size {
        return Goodness::default();
    }
    if n_free == topology.len() {
        return best;
    }
    let taken = topology.len() - n_free;
    let pairs = (size * (size - 1) / 2) as u32;
    let mut levels = levels(topology);
    levels.reverse();
    for (level, parts) in levels {
        let cliques = parts.iter().filter(|part| Goodness::of(topology, **part).least >= level);
        let needed: usize = cliques.map(|part| (part.len() + 1).saturating_sub(size)).sum();
        // Too few are taken to have broken every one of them.
        if needed > taken {
            return Goodness {
                least: if size < 2 { 0 } else { level },
                sum: pairs * u32::from(level),
            };
        }
    }
    Goodness::default()
}

/// Returns the bandwidths that occur, ascending, and the parts that such links leave.
fn levels(topology: &NodeTopology) -> Vec<(u16, Vec<GpuSet>)> {
    let rows = (0..topology.len()).flat_map(|gpu| topology.row(gpu).iter().copied());
    let mut levels: Vec<u16> = rows.filter(|gbs| *gbs > 0).collect();
    levels.sort_unstable();
    levels.dedup();
    levels.into_iter().map(|level| (level, topology.components(level))).collect()
}

/// Grows sets by the GPU that is best at each step.
struct Growing<'a> {
    topology: &'a NodeTopology,
    levels: &'a [(u16, Vec<GpuSet>)],
    size: usize,
    picked: GpuSet,
    within: GpuSet,
    free: GpuSet,
    /// By GPU: how much is free of the smallest island that it is in.
    around: [u8; GPUS_MAX],
}

impl<'a> Growing<'a> {
    fn new(subsets: &'a Subsets, picked: GpuSet, within: GpuSet, free: GpuSet) -> Growing<'a> {
        let topology = &*subsets.topology;
        let mut around = [0; GPUS_MAX];
        // The smallest come first, so they are written last.
        for island in topology.nested().iter().rev() {
            let n_free = island.and(free).len() as u8;
            island.iter().for_each(|gpu| around[gpu] = n_free);
        }
        let levels = &subsets.levels;
        Growing { topology, levels, size: subsets.size, picked, within, free, around }
    }

    fn best(&self) -> Option<Best> {
        if !self.picked.is_empty() {
            return self.grown(self.picked);
        }
        let most = self.bound();
        let mut best: Option<Best> = None;
        for seed in self.seeds().iter() {
            let Some(found) = self.grown(GpuSet::default().with(seed)) else { continue };
            let key = |it: &Best| (Reverse(it.goodness), it.left_over);
            if best.as_ref().is_none_or(|best| key(&found) < key(best)) {
                best = Some(found);
            }
            if best.is_some_and(|best| best.goodness >= most && best.left_over == 0) {
                break;
            }
        }
        best
    }

    /// One GPU of each of the smallest islands stands for it; without islands each for itself. Of GPUs that
    /// are linked alike, in islands of which as much is free, the first stands for all.
    fn seeds(&self) -> GpuSet {
        let mut known: Vec<(u32, u64, u8)> = Vec::new();
        let mut is_new = |gpu: &usize| {
            let key = self.likeness(*gpu);
            let new = !known.contains(&key);
            known.extend(new.then_some(key));
            new
        };
        self.island_seeds().iter().filter(|gpu| is_new(gpu)).collect()
    }

    /// Sum and sum of squares of a GPU's links, and what is free around it.
    fn likeness(&self, gpu: usize) -> (u32, u64, u8) {
        let row = self.topology.row(gpu);
        let (sum, squares) = self.within.iter().fold((0, 0), |(sum, squares), to| {
            let gbs = row[to];
            (sum + u32::from(gbs), squares + u64::from(gbs) * u64::from(gbs))
        });
        (sum, squares, self.around[gpu])
    }

    fn island_seeds(&self) -> GpuSet {
        let mut rest = self.within;
        let mut seeds = GpuSet::default();
        for island in self.topology.nested() {
            let here = island.and(rest);
            seeds = here.iter().next().map_or(seeds, |first| seeds.with(first));
            rest = rest.without(here);
        }
        seeds.or(rest)
    }

    /// Returns what no set exceeds.
    fn bound(&self) -> Goodness {
        let enough = |(_, parts): &&(u16, Vec<GpuSet>)| {
            parts.iter().any(|part| part.and(self.within).len() >= self.size)
        };
        let least = self.levels.iter().rev().find(enough).map_or(0, |(level, _)| *level);
        let most = self.levels.last().map_or(0, |(level, _)| *level);
        let pairs = (self.size * (self.size - 1) / 2) as u32;
        if self.size < 2 {
            return Goodness::default();
        }
        let sum = if least == most { pairs * u32::from(most) } else { self.sum_bound() };
        Goodness { least, sum }
    }

    /// Each GPU has at most its fastest links.
    fn sum_bound(&self) -> u32 {
        let of = |gpu: usize| {
            let row = self.topology.row(gpu);
            let mut links: Vec<u16> = self.within.iter().map(|to| row[to]).collect();
            links.sort_unstable_by_key(|gbs| Reverse(*gbs));
            links.iter().take(self.size - 1).map(|gbs| u32::from(*gbs)).sum::<u32>()
        };
        let mut sums: Vec<u32> = self.within.iter().map(of).collect();
        sums.sort_unstable_by_key(|sum| Reverse(*sum));
        sums.iter().take(self.size).sum::<u32>() / 2
    }

    fn grown(&self, seed: GpuSet) -> Option<Best> {
        let mut set = GpuSet::default();
        let (mut least, mut sums) = ([u16::MAX; GPUS_MAX], [0_u32; GPUS_MAX]);
        let mut goodness = Goodness { least: u16::MAX, sum: 0 };
        let mut seeds = seed.iter();
        while set.len() < self.size {
            let rest = self.within.without(set);
            let next = seeds.next().or_else(|| {
                let key = |gpu: &usize| {
                    let least = least[*gpu].min(goodness.least);
                    (least, sums[*gpu], Reverse(self.around[*gpu]), Reverse(*gpu))
                };
                rest.iter().max_by_key(key)
            })?;
            goodness =
                Goodness { least: goodness.least.min(least[next]), sum: goodness.sum + sums[next] };
            set.insert(next);
            for (to, gbs) in self.topology.row(next).iter().enumerate() {
                least[to] = least[to].min(*gbs);
                sums[to] += u32::from(*gbs);
            }
        }
        if self.size < 2 {
            goodness.least = 0;
        }
        let left_over = left_over(self.topology, set, self.free);
        Some(Best { set, goodness, left_over })
    }
}

#[cfg(test)]
mod tests;
