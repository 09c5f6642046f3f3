//! What is free of a GPU is worth what could be put there: a knapsack over the sizes in demand.

use super::gpu::{GpuFree, SHARE_CELLS, SLICE_CELLS};

/// Gains and values are in thousandths of a GPU, divided by this.
pub(super) const FINE: i64 = 64;

/// What could be put on GPUs, at one pair of prices.
pub(super) struct Offers<'a> {
    /// Size in cells, largest gain of a class of that size, the class; gains above nothing only.
    pub(super) shares: &'a [(usize, i64, u16)],
    /// Places of a partition, largest gain of a class that wants it, the class.
    pub(super) parts: &'a [(&'a [u8], i64, u16)],
    /// There are partitioned GPUs.
    pub(super) partitioned: bool,
}

/// What was put where the value of a cell comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) class: u16,
    /// The cell of what is left.
    pub(super) left: u16,
}

pub(super) const NO_CLASS: u16 = u16::MAX;
const NOTHING: Taken = Taken { class: NO_CLASS, left: 0 };

/// Value of every cell, and where it comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) values: Vec<i64>,
    pub(super) taken: Vec<Taken>,
}

pub(super) fn n_cells(partitioned: bool) -> usize {
    SHARE_CELLS + if partitioned { SLICE_CELLS } else { 0 }
}

impl Table {
    /// Works the values out anew. Returns the number of steps it took.
    pub(super) fn fill(&mut self, offers: &Offers<'_>) -> u64 {
        let cells = n_cells(offers.partitioned);
        self.values.clear();
        self.values.resize(cells, 0);
        self.taken.clear();
        self.taken.resize(cells, NOTHING);
        self.fill_shares(offers);
        if offers.partitioned {
            self.fill_slices(offers);
        }
        (cells * (offers.shares.len() + 1)) as u64
    }

    fn fill_shares(&mut self, offers: &Offers<'_>) {
        for cell in 1..SHARE_CELLS {
            let mut best = self.values[cell - 1];
            let mut taken = Taken { class: NO_CLASS, left: cell as u16 - 1 };
            for (size, gain, class) in offers.shares.iter().filter(|(size, ..)| *size <= cell) {
                let value = self.values[cell - size] + gain;
                if value > best {
                    (best, taken) = (value, Taken { class: *class, left: (cell - size) as u16 });
                }
            }
            (self.values[cell], self.taken[cell]) = (best, taken);
        }
    }

    fn fill_slices(&mut self, offers: &Offers<'_>) {
        let whole = offers.shares.iter().find(|(size, ..)| *size == SHARE_CELLS - 1);
        for set in 1..=u8::MAX {
            let free = GpuFree::slices(set);
            let (mut best, mut taken) = (0, NOTHING);
            for (places, gain, class) in offers.parts {
                for place in *places {
                    let Some(left) = free.less_slices(*place) else { continue };
                    let value = self.values[left.cell()] + gain;
                    if value > best {
                        best = value;
                        taken = Taken { class: *class, left: left.cell() as u16 };
                    }
                }
            }
            if let Some((_, gain, class)) = whole.filter(|(_, gain, _)| set == u8::MAX && *gain > best)
            {
                best = *gain;
                taken = Taken { class: *class, left: GpuFree::slices(0).cell() as u16 };
            }
            (self.values[free.cell()], self.taken[free.cell()]) = (best, taken);
        }
    }

    /// Counts what is put on `gpus` (a number by cell) into `used`, by class; uses `gpus` up.
    pub(super) fn count_uses(&self, gpus: &mut [i64], used: &mut [i64]) {
        for cell in (1..gpus.len()).rev() {
            let count = std::mem::take(&mut gpus[cell]);
            let Taken { class, left } = self.taken[cell];
            if count == 0 {
                continue;
            }
            if class != NO_CLASS {
                used[usize::from(class)] += count;
            }
            if usize::from(left) < cell {
                gpus[usize::from(left)] += count;
            }
        }
    }

    /// Returns the values in whole thousandths of a GPU.
    pub(super) fn rounded(&self) -> impl Iterator<Item = i32> + '_ {
        self.values.iter().map(|value| ((value + FINE / 2) / FINE) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_worth_the_best_filling() {
        let shares = [(30, 300, 0), (45, 500, 1), (100, 990, 2)];
        let mut table = Table::default();
        table.fill(&Offers { shares: &shares, parts: &[], partitioned: false });
        assert_eq!(table.values[29], 0);
        assert_eq!(table.values[44], 300, "what a smaller one leaves is worth nothing");
        assert_eq!((table.values[75], table.values[90], table.values[100]), (800, 1000, 1000));
        let (mut gpus, mut used) = (vec![0; SHARE_CELLS], vec![0; 3]);
        gpus[100] = 2;
        gpus[75] = 1;
        table.count_uses(&mut gpus, &mut used);
        assert_eq!(used, [1, 5, 0]);
    }

    #[test]
    fn slices_are_worth_the_best_set_of_partitions() {
        let halves: &[u8] = &[0x0f, 0xf0];
        let ones: &[u8] = &[1, 2, 4, 8, 16, 32, 64];
        let parts = [(halves, 500, 0), (ones, 120, 1)];
        let shares = [(100, 1100, 2)];
        let mut table = Table::default();
        table.fill(&Offers { shares: &shares, parts: &parts, partitioned: true });
        let worth = |set| table.values[GpuFree::slices(set).cell()];
        assert_eq!((worth(0x80), worth(0x0f), worth(0x1e), worth(0xfe)), (0, 500, 480, 860));
        assert_eq!(worth(0xff), 1100, "a whole GPU for who wants it whole");
    }
}
