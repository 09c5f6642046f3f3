//! What is free of one GPU, and what a pod wants of GPUs.

use std::borrow::Cow;
use std::sync::Arc;

use crate::types::Text;
pub use crate::types::gpu_share::WHOLE_MILLI;

/// Sizes of shares are looked at in steps of so many thousandths: requests are rounded up, what is
/// free down. Source: the rule was measured with it.
const STEP_MILLI: u16 = 10;
/// Cells of the tables for GPUs that are shared by thousandths: 0 to 100 steps.
pub(super) const SHARE_CELLS: usize = (WHOLE_MILLI as usize) / (STEP_MILLI as usize) + 1;
/// Cells for GPUs that are partitioned: every set of eight memory slices.
pub(super) const SLICE_CELLS: usize = 256;
/// Marks a set of slices.
const SLICES: u16 = 1 << 15;
/// What one of eight slices is of a GPU. Unit: thousandths.
const SLICE_MILLI: i64 = WHOLE_MILLI / 8;

/// What is free of a GPU: thousandths of it, or the set of its free memory slices where it is
/// partitioned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuFree(u16);

impl GpuFree {
    /// Cut to a whole GPU.
    pub fn milli(milli: i64) -> GpuFree {
        GpuFree(milli.clamp(0, WHOLE_MILLI) as u16)
    }

    /// One of so many replicas of a GPU.
    pub(super) fn replica(replicas: u16) -> GpuFree {
        GpuFree(WHOLE_MILLI as u16 / replicas.max(1))
    }

    /// Shape: one bit a memory slice, the first lowest.
    pub fn slices(set: u8) -> GpuFree {
        GpuFree(SLICES | u16::from(set))
    }

    /// Returns the set of free slices, `None` if the GPU isn't partitioned.
    pub fn free_slices(self) -> Option<u8> {
        (self.0 & SLICES != 0).then_some(self.0 as u8)
    }

    pub fn idle_milli(self) -> i64 {
        match self.free_slices() {
            Some(set) => SLICE_MILLI * i64::from(set.count_ones()),
            None => i64::from(self.0),
        }
    }

    pub fn is_whole(self) -> bool {
        self.idle_milli() == WHOLE_MILLI
    }

    /// Returns the place in a table.
    pub(super) fn cell(self) -> usize {
        match self.free_slices() {
            Some(set) => SHARE_CELLS + usize::from(set),
            None => usize::from(self.0 / STEP_MILLI),
        }
    }

    /// Returns what is left when `milli` thousandths are taken, `None` if there isn't so much. A
    /// partitioned GPU is given as a whole or in parts.
    fn less_milli(self, milli: i64) -> Option<GpuFree> {
        match self.free_slices() {
            Some(_) => (self.is_whole() && milli == WHOLE_MILLI).then(|| GpuFree::slices(0)),
            None => (self.idle_milli() >= milli).then(|| GpuFree::milli(self.idle_milli() - milli)),
        }
    }

    pub fn less_slices(self, taken: u8) -> Option<GpuFree> {
        let free = self.free_slices()?;
        (free & taken == taken).then(|| GpuFree::slices(free & !taken))
    }
}

impl std::fmt::Debug for GpuFree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.free_slices() {
            Some(set) => write!(f, "slices {set:08b}"),
            None => write!(f, "{} milli", self.0),
        }
    }
}

/// What a pod wants of GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    #[default]
    Nothing,
    /// So many thousandths of each of so many GPUs.
    Gpus { count: u16, milli: u16 },
    /// One partition, in one of these places. Shape: sets of memory slices, ascending.
    Part(Arc<[u8]>),
    /// One device that is selected so: what of a GPU that is, the index finds out when it is declared.
    /// Until then it is a whole GPU.
    Selected(Arc<Selection>),
}

/// Which devices: those of a class that all selectors select.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    pub class: Text,
    pub selectors: Vec<Text>,
}

impl Want {
    pub fn whole(count: u16) -> Want {
        match count {
            0 => Want::Nothing,
            count => Want::Gpus { count, milli: WHOLE_MILLI as u16 },
        }
    }

    /// Returns all that it takes. Unit: thousandths of a GPU.
    pub fn total_milli(&self) -> i64 {
        match self {
            Want::Nothing => 0,
            Want::Gpus { count, milli } => i64::from(*count) * i64::from(*milli),
            Want::Selected(_) => WHOLE_MILLI,
            Want::Part(places) => {
                places.first().map_or(0, |set| SLICE_MILLI * i64::from(set.count_ones()))
            }
        }
    }

    /// Number of GPUs that it takes something of.
    pub fn count(&self) -> i64 {
        match self {
            Want::Nothing => 0,
            Want::Gpus { count, .. } => i64::from(*count),
            Want::Part(_) | Want::Selected(_) => 1,
        }
    }

    /// Tells whether it leaves something of a GPU to others.
    pub fn is_fraction(&self) -> bool {
        self.total_milli() < self.count() * WHOLE_MILLI
    }

    /// Returns the size of a share in table steps, `None` if it is none of thousandths. Where GPUs
    /// are given out in replicas, only a replica is one.
    pub(super) fn share_cells(&self, replicas: u16) -> Option<usize> {
        if replicas > 1 {
            let replica = GpuFree::replica(replicas);
            let fits = matches!(self, Want::Gpus { milli, .. } if *milli == replica.0);
            return fits.then(|| replica.cell());
        }
        match self {
            Want::Gpus { milli, .. } => Some(usize::from(milli.div_ceil(STEP_MILLI))),
            Want::Selected(_) => Some(SHARE_CELLS - 1),
            Want::Nothing | Want::Part(_) => None,
        }
    }

    /// Calls `take` with the ways in which it can be had of `free` (ascending): the GPUs that are
    /// changed, from and to. GPUs of which as much is free are one; several GPUs are taken side by
    /// side in the order of what is free.
    pub fn each_outcome(&self, free: &[GpuFree], mut take: impl FnMut(Outcome)) {
        match self {
            Want::Nothing => take(Outcome { from: GpuFree(0), to: GpuFree(0), span: 0..0 }),
            Want::Gpus { count, milli } => {
                shares(free, usize::from(*count), i64::from(*milli)).for_each(take);
            }
            Want::Part(places) => parts(free, places, take),
            Want::Selected(_) => shares(free, 1, WHOLE_MILLI).for_each(take),
        }
    }

    /// Returns what it takes where each GPU is given out in so many replicas by a device plugin: as
    /// many replicas as it asks for GPUs.
    pub(super) fn of_replicas(&self, replicas: u16) -> Cow<'_, Want> {
        match self {
            Want::Gpus { count, milli } if replicas > 1 && i64::from(*milli) == WHOLE_MILLI => {
                let milli = GpuFree::replica(replicas).0;
                Cow::Owned(Want::Gpus { count: *count, milli })
            }
            _ => Cow::Borrowed(self),
        }
    }
}

/// A way to take GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was free of the first of them, and what is left of it.
    pub from: GpuFree,
    pub to: GpuFree,
    /// Their places in the ascending order of what is free.
    pub span: std::ops::Range<usize>,
}

fn shares(free: &[GpuFree], count: usize, milli: i64) -> impl Iterator<Item = Outcome> {
    let starts = 0..(free.len() + 1).saturating_sub(count.max(1));
    starts.filter_map(move |start| {
        let span = start..start + count;
        let same = start > 0 && free[start - 1] == free[start];
        // Of equal GPUs the first ones are taken, so that the same outcome isn't looked at twice.
        let again = same && free[start + count - 1] == free[start];
        let fits = free[span.clone()].iter().all(|gpu| gpu.less_milli(milli).is_some());
        let to = free[start].less_milli(milli)?;
        (fits && !again).then(|| Outcome { from: free[start], to, span })
    })
}

fn parts(free: &[GpuFree], places: &[u8], mut take: impl FnMut(Outcome)) {
    for (at, gpu) in free.iter().enumerate() {
        if at > 0 && free[at - 1] == *gpu {
            continue;
        }
        for taken in places {
            if let Some(to) = gpu.less_slices(*taken) {
                take(Outcome { from: *gpu, to, span: at..at + 1 });
            }
        }
    }
}

impl Outcome {
    /// Returns what is left of each GPU that is taken.
    pub(super) fn after<'a>(
        &'a self,
        free: &'a [GpuFree],
        want: &'a Want,
    ) -> impl Iterator<Item = (GpuFree, GpuFree)> + 'a {
        self.span.clone().map(move |at| {
            let to = match want {
                Want::Gpus { milli, .. } => free[at].less_milli(i64::from(*milli)),
                Want::Nothing | Want::Part(_) | Want::Selected(_) => Some(self.to),
            };
            (free[at], to.unwrap_or(self.to))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(milli: &[i64]) -> Vec<GpuFree> {
        milli.iter().map(|m| GpuFree::milli(*m)).collect()
    }

    fn outcomes(want: &Want, free: &[GpuFree]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        want.each_outcome(free, |outcome| outcomes.push(outcome));
        outcomes
    }

    #[test]
    fn gpus_of_which_as_much_is_free_are_one_outcome() {
        let half = Want::Gpus { count: 1, milli: 500 };
        let found = outcomes(&half, &free(&[0, 500, 500, 700, 1000]));
        let pairs: Vec<(i64, i64)> =
            found.iter().map(|o| (o.from.idle_milli(), o.to.idle_milli())).collect();
        assert_eq!(pairs, [(500, 0), (700, 200), (1000, 500)]);
        assert_eq!(outcomes(&Want::whole(2), &free(&[0, 1000, 1000, 1000])).len(), 1);
        assert!(outcomes(&Want::whole(4), &free(&[0, 1000, 1000, 1000])).is_empty());
    }

    #[test]
    fn a_partition_goes_to_each_place_that_is_free() {
        let places: Arc<[u8]> = [0b0011, 0b1100, 0b11_0000].into();
        let found = outcomes(&Want::Part(places), &[GpuFree::slices(0b1111_1101)]);
        let left: Vec<_> = found.iter().filter_map(|o| o.to.free_slices()).collect();
        assert_eq!(left, [0b1111_0001, 0b1100_1101]);
    }

    #[test]
    fn a_partitioned_gpu_is_given_whole_or_in_parts() {
        let whole = Want::whole(1);
        assert_eq!(outcomes(&whole, &[GpuFree::slices(0xff)]).len(), 1);
        assert!(outcomes(&whole, &[GpuFree::slices(0xfe)]).is_empty());
        let share = Want::Gpus { count: 1, milli: 300 };
        assert!(outcomes(&share, &[GpuFree::slices(0xff)]).is_empty());
    }
}
