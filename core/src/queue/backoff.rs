//! How long an entry waits after it was turned away.

use crate::types::{Span, Timestamp};

use super::entry::Entry;

/// Backoff doubles from `initial` to `max` with each rejection (or error) in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    pub initial: Span,
    /// Zero turns backoff off.
    pub max: Span,
}

/// Backoffs that end in one second are one window, in which the queue's own order decides.
const WINDOW_MS: u64 = 1000;

impl BackoffPolicy {
    pub const UPSTREAM: BackoffPolicy =
        BackoffPolicy { initial: Span::from_secs(1), max: Span::from_secs(10) };

    /// Returns how long `entry` backs off: `initial · 2^(n−1)`, at most `max · √members`.
    pub fn length(&self, entry: &Entry) -> Span {
        let count = match entry.consecutive_errors {
            0 => entry.unschedulable_count,
            errors => errors,
        };
        if count == 0 || self.max == Span::ZERO {
            return Span::ZERO;
        }
        let max = self.max.0.saturating_mul(root(entry.members.len() as u64 * 10_000)) / 100;
        let doubled = 1u64.checked_shl(count - 1).unwrap_or(u64::MAX);
        Span(self.initial.0.saturating_mul(doubled).min(max))
    }

    /// Returns the start of the window in which the backoff of `entry` ends.
    pub fn expiry(&self, entry: &Entry) -> Timestamp {
        window_of(entry.enqueued + self.length(entry))
    }

    /// Tells whether a backoff with this expiry is over: its window has passed. So it lasts at
    /// least as long as [`BackoffPolicy::length`] says, and at most a window longer.
    ///
    /// Source: `isPodBackingoff` of upstream's backend/queue/backoff_queue.go.
    pub fn over(expiry: Timestamp, now: Timestamp) -> bool {
        expiry < window_of(now)
    }

    /// Returns the first moment at which [`BackoffPolicy::over`] holds.
    pub fn end(expiry: Timestamp) -> Timestamp {
        expiry + Span(WINDOW_MS)
    }
}

fn window_of(time: Timestamp) -> Timestamp {
    Timestamp(time.0 - time.0 % WINDOW_MS)
}

/// Integer square root, rounded down.
fn root(n: u64) -> u64 {
    n.isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::EntryId;
    use crate::types::PodUid;

    #[test]
    fn backoff_doubles_to_its_maximum_and_errors_win() {
        let mut entry = Entry::new(EntryId(1), PodUid::default(), 0, 0);
        let policy = BackoffPolicy::UPSTREAM;
        assert_eq!(policy.length(&entry), Span::ZERO);
        let lengths = [1, 2, 4, 8, 10, 10].map(Span::from_secs);
        for (count, want) in (1..).zip(lengths) {
            entry.unschedulable_count = count;
            assert_eq!(policy.length(&entry), want);
        }
        entry.consecutive_errors = 1;
        assert_eq!(policy.length(&entry), Span::from_secs(1));
        entry.unschedulable_count = u32::MAX;
        entry.consecutive_errors = u32::MAX;
        assert_eq!(policy.length(&entry), Span::from_secs(10));
        entry.members = vec![PodUid::default(); 4];
        assert_eq!(policy.length(&entry), Span::from_secs(20));
    }

    #[test]
    fn a_backoff_is_over_when_the_window_it_ends_in_has_passed() {
        let mut entry = Entry::new(EntryId(1), PodUid::default(), 0, 0);
        (entry.enqueued, entry.unschedulable_count) = (Timestamp(1_999), 1);
        let expiry = BackoffPolicy::UPSTREAM.expiry(&entry);
        assert_eq!(expiry, Timestamp(2_000));
        assert!(!BackoffPolicy::over(expiry, Timestamp(2_999)));
        assert!(BackoffPolicy::over(expiry, Timestamp(3_000)));
        assert_eq!(BackoffPolicy::end(expiry), Timestamp(3_000));
    }
}
