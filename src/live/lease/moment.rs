//! Time as an election measures it: by two clocks that nobody can set.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A reading of both clocks, from some unknown beginning.
///
/// CLOCK_MONOTONIC stands still while the machine is suspended, CLOCK_BOOTTIME does not. Whoever
/// asks takes the one that errs to its safe side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub monotonic: Duration,
    pub boottime: Duration,
}

impl Moment {
    pub fn now() -> Moment {
        Moment { monotonic: read(ClockId::Monotonic), boottime: read(ClockId::Boottime) }
    }

    /// Returns what has passed by the clock that says more: for what we may do until a deadline.
    pub fn at_most_since(self, earlier: Moment) -> Duration {
        let (monotonic, boottime) = self.since(earlier);
        monotonic.max(boottime)
    }

    /// Returns what has passed by the clock that says less: for what we may do only after a while.
    pub fn at_least_since(self, earlier: Moment) -> Duration {
        let (monotonic, boottime) = self.since(earlier);
        monotonic.min(boottime)
    }

    fn since(self, earlier: Moment) -> (Duration, Duration) {
        let monotonic = self.monotonic.saturating_sub(earlier.monotonic);
        (monotonic, self.boottime.saturating_sub(earlier.boottime))
    }
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
