//! How near devices are to each other, and what their neighbourhoods have to offer.

use super::super::problem::Problem;
use super::super::state::State;
use super::super::values::Column;
use super::Choice;

/// How much of what a claim still wants there is in each neighbourhood.
pub(super) struct Around<'a> {
    near: &'a [Column],
    wanted: usize,
    /// By PCIe root and by NUMA node: how much of it there is, and how many devices.
    supply: [Vec<(usize, usize)>; 2],
}

impl<'a> Around<'a> {
    pub(super) fn new(
        choice: &'a Choice,
        problem: &Problem,
        state: &State,
        open: &[(u32, usize)],
    ) -> Around<'a> {
        let near = &choice.near;
        let wanted = open.iter().map(|(_, count)| count).sum();
        let mut profiles: Vec<(u32, usize)> = Vec::new();
        for (ask, count) in open {
            let profile = problem.asks[*ask as usize].profile;
            match profiles.iter_mut().find(|(known, _)| *known == profile) {
                Some((_, sum)) => *sum += count,
                None => profiles.push((profile, *count)),
            }
        }
        let supply = [0, 1].map(|level| supply(&near[level], problem, state, &profiles));
        Around { near, wanted, supply }
    }

    /// Shape: how many of the claim's devices are at another PCIe root, NUMA node, parent; how well
    /// the rest would fit there.
    pub(super) fn distance(&self, picked: &[u32], device: u32) -> u64 {
        let apart = |column: &Column| {
            let own = column.of(device).first();
            picked.iter().filter(|other| own.is_none() || column.of(**other).first() != own).count()
        };
        let [root, numa, parent] = [0, 1, 2].map(|level| apart(&self.near[level]).min(63) as u64);
        (((root << 6 | numa) << 6 | parent) << 32) | self.fit(device)
    }

    fn fit(&self, device: u32) -> u64 {
        let [root, numa] = [0, 1].map(|level| {
            let value = self.near[level].of(device).first();
            value.map_or((1, 1), |value| self.supply[level][*value as usize])
        });
        let lacks = |(supply, _): (usize, usize)| (self.wanted - supply.min(self.wanted)) as u64;
        let spare = |(_, free): (usize, usize)| free.saturating_sub(self.wanted).min(1023) as u64;
        match (lacks(root), lacks(numa)) {
            (0, _) => spare(root) << 10 | spare(numa),
            (lacking, 0) => 1 << 28 | spare(numa) << 10 | lacking.min(1023),
            (lacking, in_numa) => 2 << 28 | in_numa.min(1023) << 10 | lacking.min(1023),
        }
    }
}

/// Returns for each value how many of the wanted devices there are, and how many that could be.
fn supply(
    column: &Column,
    problem: &Problem,
    state: &State,
    wanted: &[(u32, usize)],
) -> Vec<(usize, usize)> {
    let mut supply = vec![(0, 0); column.n_values];
    let mut seen = vec![false; problem.devices.len()];
    for (profile, count) in wanted {
        let mut free = vec![0; column.n_values];
        let candidates = problem.profiles[*profile as usize].candidates.iter();
        for device in candidates.map(|c| c.device).filter(|d| state.uses[*d as usize] == 0) {
            let Some(value) = column.of(device).first() else { continue };
            free[*value as usize] += 1;
            if !std::mem::replace(&mut seen[device as usize], true) {
                supply[*value as usize].1 += 1;
            }
        }
        for (sum, free) in supply.iter_mut().zip(free) {
            sum.0 += free.min(*count);
        }
    }
    // Two requests don't have the same device.
    supply.into_iter().map(|(met, free)| (met.min(free), free)).collect()
}
