//! Waiting for a condition with a deadline.

use std::time::{Duration, Instant};

/// Time between two looks: short beside what a server takes, long enough not to load it.
const PERIOD: Duration = Duration::from_millis(20);

/// A condition that did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("not within {} s: {what}", deadline.as_secs_f32())]
pub struct TimedOut {
    pub what: String,
    pub deadline: Duration,
}

/// Returns what `poll` returns, as soon as it returns something. It is asked every 20 ms, and at
/// least once.
///
/// # Errors
/// [`TimedOut`] with the description when `deadline` has passed.
pub fn try_wait_for<T>(
    deadline: Duration,
    what: &str,
    mut poll: impl FnMut() -> Option<T>,
) -> Result<T, TimedOut> {
    let start = Instant::now();
    loop {
        if let Some(found) = poll() {
            return Ok(found);
        }
        if start.elapsed() >= deadline {
            return Err(TimedOut { what: what.to_owned(), deadline });
        }
        std::thread::sleep(PERIOD);
    }
}

/// [`try_wait_for`] for tests.
///
/// # Panics
/// With the description, when `deadline` has passed.
#[track_caller]
pub fn wait_for<T>(deadline: Duration, what: &str, poll: impl FnMut() -> Option<T>) -> T {
    match try_wait_for(deadline, what, poll) {
        Ok(found) => found,
        Err(timed_out) => panic!("{timed_out}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_asked_once_even_without_time() {
        assert_eq!(wait_for(Duration::ZERO, "at once", || Some(1)), 1);
    }

    #[test]
    fn the_error_names_the_condition() {
        let timed_out = try_wait_for(Duration::from_millis(30), "the moon is blue", || None::<()>);
        let text = timed_out.expect_err("never true").to_string();
        assert_eq!(text, "not within 0.03 s: the moon is blue");
    }
}
