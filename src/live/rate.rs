//! The client-side rate limit: client-go's token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Hands out `qps` tokens a second, and up to `burst` at once after a rest.
///
/// Source: `flowcontrol.NewTokenBucketRateLimiter` of client-go.
pub struct TokenBucket {
    /// None: no limit.
    qps: Option<f64>,
    burst: f64,
    state: Mutex<State>,
}

struct State {
    /// Below zero: promised to callers that still wait.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// `qps` of zero or below means no limit.
    pub fn new(qps: f64, burst: i32) -> TokenBucket {
        let burst = f64::from(burst.max(1));
        let state = State { tokens: burst, at: Instant::now() };
        TokenBucket { qps: (qps > 0.0).then_some(qps), burst, state: Mutex::new(state) }
    }

    /// Waits for a token, and returns for how long; callers are served in the order in which they
    /// ask.
    pub async fn take(&self) -> Duration {
        let wait = self.reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        wait
    }

    /// Takes a token and returns how long its owner must wait before using it.
    fn reserve(&self, now: Instant) -> Duration {
        let Some(qps) = self.qps else { return Duration::ZERO };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = now.saturating_duration_since(state.at).as_secs_f64();
        state.at = state.at.max(now);
        state.tokens = (state.tokens + rested * qps).min(self.burst) - 1.0;
        if state.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-state.tokens / qps).unwrap_or(Duration::from_secs(3600))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_the_rate_counts() {
        let bucket = TokenBucket::new(50.0, 100);
        let now = Instant::now();
        let waits: Vec<Duration> = (0..150).map(|_| bucket.reserve(now)).collect();
        assert!(waits[..100].iter().all(Duration::is_zero));
        assert_eq!(waits[100].as_millis(), 20);
        assert_eq!(waits[149].as_millis(), 1000);
        // Two seconds later the promised ones are paid off and one second is saved up.
        let later = now + Duration::from_secs(2);
        assert!((0..50).all(|_| bucket.reserve(later).is_zero()));
        assert!(!bucket.reserve(later).is_zero());
    }

    #[test]
    fn a_negative_rate_is_no_limit() {
        let bucket = TokenBucket::new(-1.0, 1);
        assert!((0..1000).all(|_| bucket.reserve(Instant::now()).is_zero()));
    }
}
