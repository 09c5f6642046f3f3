//! What is free of a GPU is worth what could be put there: a knapsack over the sizes in demand, at
//! every pair of prices at once.

use std::sync::Arc;

use super::gpu::{GpuFree, SHARE_CELLS, SLICE_CELLS};
use super::grid::{Lanes, PAIRS};

/// Gains and values are in thousandths of a GPU, divided by this.
pub(super) const FINE: i64 = 64;

/// Sizes that are wanted, each with what the best class of that size gains. A gain below nothing is
/// never taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    /// By size in cells, ascending.
    pub(super) shares: Vec<(usize, Lanes)>,
    /// Partitions, with their places.
    pub(super) parts: Vec<(Arc<[u8]>, Lanes)>,
}

/// Which of the offers is taken: an index of shares, or of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Share(usize),
    Part(usize),
}

/// Value of every cell at each pair of prices.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) values: Vec<Lanes>,
}

pub(super) fn n_cells(partitioned: bool) -> usize {
    SHARE_CELLS + if partitioned { SLICE_CELLS } else { 0 }
}

impl Table {
    /// Works the values out anew. Returns the number of steps it took.
    pub(super) fn fill(&mut self, offers: &Offers, partitioned: bool) -> u64 {
        let cells = n_cells(partitioned);
        self.values.clear();
        self.values.resize(cells, [0; PAIRS + 1]);
        for cell in 1..SHARE_CELLS {
            let mut best = self.values[cell - 1];
            for (size, gains) in offers.shares.iter().take_while(|(size, _)| *size <= cell) {
                raise(&mut best, &self.values[cell - size], gains);
            }
            self.values[cell] = best;
        }
        if partitioned {
            self.fill_slices(offers);
        }
        (cells * (offers.shares.len() + 8 * offers.parts.len() + 1)) as u64
    }

    fn fill_slices(&mut self, offers: &Offers) {
        for set in 1..=u8::MAX {
            let free = GpuFree::slices(set);
            let mut best = [0; PAIRS + 1];
            for (places, gains) in &offers.parts {
                for left in places.iter().filter_map(|place| free.less_slices(*place)) {
                    raise(&mut best, &self.values[left.cell()], gains);
                }
            }
            if set == u8::MAX
                && let Some((_, gains)) = whole(offers)
            {
                raise(&mut best, &self.values[GpuFree::slices(0).cell()], gains);
            }
            self.values[free.cell()] = best;
        }
    }

    /// Says what is put on `gpus` (a number by cell, used up) at one pair of prices. Calls `take`
    /// with each offer and how often it is taken.
    pub(super) fn place(
        &self,
        offers: &Offers,
        pair: usize,
        gpus: &mut [i64],
        mut take: impl FnMut(Offer, i64),
    ) {
        for cell in (1..gpus.len()).rev() {
            let count = std::mem::take(&mut gpus[cell]);
            if count == 0 || self.values[cell][pair] == 0 {
                continue;
            }
            match cell < SHARE_CELLS {
                true if self.values[cell][pair] == self.values[cell - 1][pair] => {
                    gpus[cell - 1] += count;
                }
                true => {
                    let takes = |(at, (size, gains)): (usize, &(usize, Lanes))| {
                        let left = cell.checked_sub(*size)?;
                        self.comes_from(cell, left, gains, pair).then_some((at, left))
                    };
                    if let Some((at, left)) = offers.shares.iter().enumerate().find_map(takes) {
                        take(Offer::Share(at), count);
                        gpus[left] += count;
                    }
                }
                false => {
                    if let Some((offer, left)) = self.part_at(offers, cell, pair) {
                        take(offer, count);
                        gpus[left] += count;
                    }
                }
            }
        }
    }

    fn part_at(&self, offers: &Offers, cell: usize, pair: usize) -> Option<(Offer, usize)> {
        let free = GpuFree::slices((cell - SHARE_CELLS) as u8);
        for (at, (places, gains)) in offers.parts.iter().enumerate() {
            for left in places.iter().filter_map(|place| free.less_slices(*place)) {
                if self.comes_from(cell, left.cell(), gains, pair) {
                    return Some((Offer::Part(at), left.cell()));
                }
            }
        }
        let (at, _) = whole(offers)?;
        free.is_whole().then_some((Offer::Share(at), GpuFree::slices(0).cell()))
    }

    fn comes_from(&self, cell: usize, left: usize, gains: &Lanes, pair: usize) -> bool {
        self.values[left][pair] + gains[pair] == self.values[cell][pair]
    }

    /// Returns the values in whole thousandths of a GPU.
    pub(super) fn rounded(&self) -> impl Iterator<Item = Lanes> + '_ {
        let fine = FINE as i32;
        self.values.iter().map(move |values| values.map(|value| (value + fine / 2) / fine))
    }
}

/// Returns the offer for whole GPUs.
fn whole(offers: &Offers) -> Option<(usize, &Lanes)> {
    let at = offers.shares.len().checked_sub(1)?;
    let (size, gains) = &offers.shares[at];
    (*size == SHARE_CELLS - 1).then_some((at, gains))
}

fn raise(best: &mut Lanes, left: &Lanes, gains: &Lanes) {
    for lane in 0..best.len() {
        best[lane] = best[lane].max(left[lane] + gains[lane]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(shares: &[(usize, i32)], parts: &[(&[u8], i32)]) -> Offers {
        let lanes = |gain: i32| [gain; PAIRS + 1];
        Offers {
            shares: shares.iter().map(|(size, gain)| (*size, lanes(*gain))).collect(),
            parts: parts.iter().map(|(places, gain)| (Arc::from(*places), lanes(*gain))).collect(),
        }
    }

    #[test]
    fn a_gpu_is_worth_the_best_filling() {
        let offers = offers(&[(30, 300), (45, 500), (80, -9), (100, 990)], &[]);
        let mut table = Table::default();
        table.fill(&offers, false);
        let worth = |cell: usize| table.values[cell][0];
        assert_eq!(worth(29), 0);
        assert_eq!(worth(44), 300, "what a smaller one leaves is worth nothing");
        assert_eq!((worth(75), worth(90), worth(100)), (800, 1000, 1000));
        let (mut gpus, mut used) = (vec![0; SHARE_CELLS], [0; 4]);
        gpus[100] = 2;
        gpus[75] = 1;
        table.place(&offers, 0, &mut gpus, |offer, count| match offer {
            Offer::Share(at) => used[at] += count,
            Offer::Part(_) => {}
        });
        assert_eq!(used, [1, 5, 0, 0]);
    }

    #[test]
    fn slices_are_worth_the_best_set_of_partitions() {
        let (halves, ones): (&[u8], &[u8]) = (&[0x0f, 0xf0], &[1, 2, 4, 8, 16, 32, 64]);
        let offers = offers(&[(100, 1100)], &[(halves, 500), (ones, 120)]);
        let mut table = Table::default();
        table.fill(&offers, true);
        let worth = |set| table.values[GpuFree::slices(set).cell()][7];
        assert_eq!((worth(0x80), worth(0x0f), worth(0x1e), worth(0xfe)), (0, 500, 480, 860));
        assert_eq!(worth(0xff), 1100, "a whole GPU for who wants it whole");
        let (mut gpus, mut used) = (vec![0; n_cells(true)], Vec::new());
        gpus[GpuFree::slices(0x1f).cell()] = 3;
        table.place(&offers, 7, &mut gpus, |offer, count| used.push((offer, count)));
        assert_eq!(used, [(Offer::Part(0), 3), (Offer::Part(1), 3)]);
    }
}
