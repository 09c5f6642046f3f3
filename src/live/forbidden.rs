//! Rights that turn out to be missing: each is named when it is first missed, then once a minute.
//!
//! `preflight` asks once, at the start; a right may be taken away later.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

const AGAIN: Duration = Duration::from_secs(60);

/// What was told, and when. By what we wanted to do, which is one of a few fixed texts.
#[derive(Debug, Default)]
pub struct Forbidden {
    told: Mutex<BTreeMap<&'static str, Instant>>,
}

impl Forbidden {
    /// Logs the server's words about a request that it has forbidden.
    pub fn tell(&self, wanted: &'static str, said: &str) {
        if self.is_news(wanted, Instant::now()) {
            warn!(wanted, "the API server forbids it, trying on: {said}");
        }
    }

    fn is_news(&self, wanted: &'static str, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.get(wanted);
        let is_news = last.is_none_or(|last| now.saturating_duration_since(*last) >= AGAIN);
        if is_news {
            told.insert(wanted, now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_is_named_once_a_minute() {
        let (forbidden, now) = (Forbidden::default(), Instant::now());
        assert!(forbidden.is_news("bind pods", now));
        assert!(forbidden.is_news("write events", now));
        assert!(!forbidden.is_news("bind pods", now + Duration::from_secs(59)));
        assert!(forbidden.is_news("bind pods", now + AGAIN));
    }
}
