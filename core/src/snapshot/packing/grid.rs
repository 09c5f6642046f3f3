//! The grid of prices that CPU and memory may have beside GPUs.

/// Number of pairs of prices.
pub(super) const PAIRS: usize = 31;

/// Levels of the price of a core, in thousandths of a GPU. Source: those that the rule was measured
/// with.
const LEVELS: [i64; 10] = [7, 14, 21, 30, 42, 56, 77, 105, 150, 230];

/// One price each. Unit: eighths of a thousandth of a GPU, for a core and for a GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) core: i64,
    pub(super) gib: i64,
}

/// Nothing, and for each level: cores only, memory only, half of both.
pub(super) const GRID: [Pair; PAIRS] = grid();

const fn grid() -> [Pair; PAIRS] {
    let mut grid = [Pair { core: 0, gib: 0 }; PAIRS];
    let mut at = 0;
    while at < LEVELS.len() {
        let level = LEVELS[at];
        grid[3 * at + 1] = Pair { core: 8 * level, gib: 0 };
        grid[3 * at + 2] = Pair { core: 0, gib: 2 * level };
        grid[3 * at + 3] = Pair { core: 4 * level, gib: level };
        at += 1;
    }
    grid
}

/// Eighths, milli-cores in a core, MiB in a GiB.
const UNIT: u64 = 8 * 1000 * 1024;

/// More than this of milli-cores or MiB is worth as much: at any price more than [`TOO_MUCH`].
const AMOUNT_MAX: i64 = 1 << 40;

/// One number for each pair of prices, and one that stands for none: thirty-two go through the
/// machine together.
pub(super) type Lanes = [i32; PAIRS + 1];

/// What nothing is worth at no price. Sums of a few of these still fit.
pub(super) const TOO_MUCH: i32 = i32::MAX / 8;

/// Returns what so much CPU and memory is worth at each pair of prices; the lane that stands for none
/// is [`TOO_MUCH`], as are amounts beyond it. Unit: thousandths of a GPU, divided by `FINE`.
pub(super) fn worths<const FINE: u64>(cpu_milli: i64, memory_mib: i64) -> Lanes {
    let mut worths = [TOO_MUCH; PAIRS + 1];
    for (worth, pair) in worths.iter_mut().zip(&GRID) {
        *worth = pair.worth::<FINE>(cpu_milli, memory_mib).min(TOO_MUCH as u64) as i32;
    }
    worths
}

pub(super) fn add(sums: &mut Lanes, other: &Lanes) {
    for (sum, other) in sums.iter_mut().zip(other) {
        *sum += other;
    }
}

pub(super) fn least(lanes: &Lanes) -> i32 {
    lanes.iter().copied().fold(i32::MAX, i32::min)
}

impl Pair {
    /// Returns what so much CPU and memory is worth, rounded down. Unit: thousandths of a GPU,
    /// divided by `FINE`.
    fn worth<const FINE: u64>(self, cpu_milli: i64, memory_mib: i64) -> u64 {
        let amount = |amount: i64| amount.clamp(0, AMOUNT_MAX) as u64;
        let cpu = self.core as u64 * 1024 * amount(cpu_milli);
        let memory = self.gib as u64 * 1000 * amount(memory_mib);
        (cpu + memory) / (UNIT / FINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worth_is_in_thousandths_of_a_gpu_and_rounded_down() {
        assert_eq!(GRID[0].worth::<1>(96_000, 1 << 20), 0);
        assert_eq!(GRID[1].worth::<1>(1_500, 1 << 20), 10, "7 a core");
        assert_eq!(GRID[2].worth::<1>(96_000, 2 * 1024), 3, "7/4 a GiB");
        assert_eq!(GRID[30].worth::<1>(1_000, 8 * 1024), 115 + 230, "half of both");
        assert_eq!(GRID[2].worth::<64>(0, 1024), 112, "as many sixty-fourths");
        let all = worths::<64>(i64::MAX, i64::MAX);
        assert_eq!((all[0], all[1], all[2]), (0, TOO_MUCH, TOO_MUCH), "no amount is too large");
    }
}
