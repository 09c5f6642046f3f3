//! One time axis for what is received, logged and seen on the wire.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 by the wall clock that the auditor saw when it started, carried on by
/// the monotonic clock. The server's log has wall times; they compare as long as nobody sets the
/// machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    /// Reads an RFC 3339 time, as Kubernetes writes them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        Some(Self(timestamp.as_microsecond()))
    }

    /// Returns how long after `earlier` this is; zero if it is not after it.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }
}

/// As the audit log writes it.
impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => write!(formatter, "{timestamp:.3}"),
            Err(_) => write!(formatter, "{} µs", self.0),
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Places monotonic times on the axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Moment,
    instant: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Moment(micros(wall)), instant: Instant::now() }
    }

    pub(crate) fn now(&self) -> Moment {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, instant: Instant) -> Moment {
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.wall + later,
            None => self.wall - self.instant.duration_since(instant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_times_of_the_log_and_monotonic_ones_lie_on_one_axis() {
        let clock = Clock::start();
        let now = clock.instant;
        assert_eq!(clock.at(now + Duration::from_secs(2)).since(clock.at(now)).as_secs(), 2);
        assert_eq!(clock.at(now).since(clock.at(now + Duration::from_secs(2))), Duration::ZERO);
        let logged = Moment::parse("2026-11-29T23:22:37.000250Z").expect("a time");
        assert_eq!(logged.0 % 1_000_000, 250);
        assert_eq!(logged.to_string(), "2026-11-29T23:22:37.000Z");
    }
}
