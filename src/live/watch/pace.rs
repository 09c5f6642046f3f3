//! How fast a watch tries again, and how long it believes in silence.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::live::complaint;

/// Times of a watch. Tests have shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Pause after the first failure; it doubles with each further one.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// A stream that lived shorter and brought nothing counts as a failure.
    pub short: Duration,
    /// A stream that says nothing for so long is taken for dead: servers send a bookmark a minute.
    /// If the next one says nothing either, a list tells how it stands.
    pub idle: Duration,
    /// A watch after such a silence is given so long, and the server asked to end it after half of
    /// that: a bookmark comes two seconds before the end.
    pub probe: Duration,
    /// One page of a list, and the head of a watch's answer, may take so long.
    pub answer: Duration,
    /// The server is asked to end a stream after a random time of one to two of these.
    pub lifetime: Duration,
    pub complain_again: Duration,
    /// The first list of pods waits so long for the Lease: one that began before we led would have
    /// to be made again.
    pub lead_soon: Duration,
    /// The server is asked so often whether it has come to know of kinds of groups.
    pub look_again: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            pause_min: Duration::from_millis(250),
            pause_max: Duration::from_secs(10),
            short: Duration::from_secs(1),
            idle: Duration::from_secs(90),
            probe: Duration::from_secs(12),
            answer: Duration::from_secs(60),
            // Source: client-go's minWatchTimeout.
            lifetime: Duration::from_secs(300),
            complain_again: complaint::TELL_AGAIN,
            lead_soon: Duration::from_millis(500),
            look_again: Duration::from_secs(30),
        }
    }
}

impl Pace {
    /// Waits after the `failures`-th failure in a row, counted from 0.
    pub(in crate::live) async fn wait(&self, failures: u32) {
        tokio::time::sleep(self.pause(failures).mul_f64(0.5 + unit() / 2.0)).await;
    }

    fn pause(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.pause_min.saturating_mul(doubled).min(self.pause_max)
    }

    /// Returns the `timeoutSeconds` of one watch, of one after a silence if `probing`.
    pub(super) fn timeout_seconds(&self, probing: bool) -> u64 {
        let lifetime = match probing {
            true => self.probe / 2,
            false => self.lifetime.mul_f64(1.0 + unit()),
        };
        lifetime.as_secs().max(1)
    }

    /// Returns how long a stream may say nothing.
    pub(super) fn silence(&self, probing: bool) -> Duration {
        if probing { self.idle.min(self.probe) } else { self.idle }
    }
}

/// Returns a number in [0, 1) so that watches of many processes don't come at the same moment.
fn unit() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pace = Pace::default();
        let pauses = [0, 1, 2, 5, 6, 40].map(|failures| pace.pause(failures).as_millis());
        assert_eq!(pauses, [250, 500, 1000, 8000, 10_000, 10_000]);
        assert!((300..=600).contains(&pace.timeout_seconds(false)));
        assert_eq!(pace.timeout_seconds(true), 6);
    }
}
