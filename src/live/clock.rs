//! The engine's time: wall time when the program began, and from then on only forward.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use berth_core::types::Timestamp;

/// Milliseconds since 1970, as far as the wall clock was right at the start. Setting that clock
/// later moves nothing here.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun_ms: u64,
    begun: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX / 2);
        Clock { begun_ms, begun: Instant::now() }
    }

    pub fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX / 2);
        Timestamp(self.begun_ms.saturating_add(passed))
    }

    /// Returns how long it is until `at`; zero if that is past.
    pub fn until(&self, at: Timestamp) -> Duration {
        Duration::from_millis(at.since(self.now()).as_millis())
    }
}
