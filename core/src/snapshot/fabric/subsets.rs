//! Which `k` GPUs of those that are free talk fastest, and leave the most whole.
//!
//! Better is, in this order: the larger least bandwidth of a pair, the larger sum over the pairs, more
//! GPUs of the numbers that others of a group have (where that is asked for), fewer free GPUs left over in
//! islands that are broken (at every level of bandwidth, see [`NodeTopology::nested`]), the lower indices.
//! Up to [`LISTED_MAX`] GPUs the choice is exact: every subset is in a list, the best first, made once for
//! a topology and a `k`. Beyond, sets are grown greedily ([`growing`]), up to a bound that no set exceeds.

mod growing;

use std::cmp::Reverse;
use std::sync::Arc;

use crate::types::topology::{GpuSet, NodeTopology};

use super::rails::Rails;

/// GPUs of a node of which every subset is listed.
pub const LISTED_MAX: usize = 16;

/// How well the GPUs of a set are linked. Sets of one are all alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Goodness {
    /// Over the pairs. Unit: GB/s.
    pub least: u16,
    pub sum: u32,
}

impl Best {
    /// The least is best.
    fn key(&self) -> impl Ord + use<> {
        (Reverse(self.goodness), Reverse(self.on_rail), self.left_over)
    }
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
    /// Pairs of one number that it makes with what others have.
    pub on_rail: u32,
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
    /// By GPU: the others, those with the fastest links first; none where sets are listed.
    nearest: Vec<Vec<u8>>,
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
            nearest: Vec::new(),
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
            nearest: nearest(topology),
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
        self.best_on(&Rails::NONE, picked, from, free)
    }

    /// As [`Subsets::best_with`]; of those that talk equally fast one that has as many GPUs as can be of the
    /// numbers that others have.
    pub fn best_on(
        &self,
        rails: &Rails,
        picked: GpuSet,
        from: GpuSet,
        free: GpuSet,
    ) -> Option<Best> {
        let within = picked.or(from).and(GpuSet::first(self.topology.len()));
        if self.size == 0 || within.len() < self.size || picked.len() > self.size {
            return None;
        }
        if !picked.is_within(within) {
            return None;
        }
        match self.listed.is_empty() {
            true => growing::best(self, rails, picked, within, free.or(picked)),
            false => self.listed_best(rails, picked, within, free),
        }
    }

    fn listed_best(
        &self,
        rails: &Rails,
        picked: GpuSet,
        within: GpuSet,
        free: GpuSet,
    ) -> Option<Best> {
        let first = self.first_listed(0, picked, within)?;
        let goodness = self.listed[first].0;
        let aligned = (!rails.is_empty()).then(|| {
            let (must, may) = rails.bounds(picked, within, self.size);
            let start = self.first_listed(first, must, may)?;
            (self.listed[start].0 == goodness).then_some((start, must, may))
        });
        // Often some set makes as many pairs as can be: then others needn't be looked at.
        let aligned = aligned.flatten();
        let settled = rails.is_empty() || aligned.is_some();
        let (start, must, may) = aligned.unwrap_or((first, picked, within));
        let equal = self.listed[start..].iter().take_while(|entry| entry.0 == goodness);
        let mut best: Option<Best> = None;
        for (_, set) in equal.filter(|(_, set)| fits(*set, must, may)) {
            let set = GpuSet(u128::from(*set));
            let left_over = left_over(&self.topology, set, free);
            let found = Best { set, goodness, on_rail: rails.met(set), left_over };
            if best.is_none_or(|best| found.key() < best.key()) {
                best = Some(found);
            }
            if left_over == 0 && settled {
                break;
            }
        }
        best
    }

    /// Returns the place of the first set, from some place on, that has all of `must` and nothing but
    /// `may`.
    fn first_listed(&self, from: usize, must: GpuSet, may: GpuSet) -> Option<usize> {
        let at = self.listed[from..].iter().position(|(_, set)| fits(*set, must, may))?;
        Some(from + at)
    }
}

fn fits(set: u16, must: GpuSet, may: GpuSet) -> bool {
    set & !(may.0 as u16) == 0 && must.0 as u16 & !set == 0
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

/// By GPU, the others in order of their bandwidth, the largest first.
fn nearest(topology: &NodeTopology) -> Vec<Vec<u8>> {
    let of = |gpu: usize| {
        let row = topology.row(gpu);
        let mut others: Vec<u8> =
            (0..row.len()).filter(|to| *to != gpu).map(|to| to as u8).collect();
        others.sort_by_key(|to| Reverse(row[usize::from(*to)]));
        others
    };
    (0..topology.len()).map(of).collect()
}

#[cfg(test)]
mod tests;
