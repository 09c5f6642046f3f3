//! A trouble that goes on is told when it begins, then once a minute, and when it has ended.

use std::time::{Duration, Instant};

/// How often a trouble that goes on is told.
pub(super) const TELL_AGAIN: Duration = Duration::from_secs(60);

/// One trouble, which may come and go.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    told: Option<Instant>,
}

impl Complaint {
    /// Tells whether it is to be told now, for the first time or after `again`.
    pub(super) fn is_due(&mut self, again: Duration) -> bool {
        let due = self.told.is_none_or(|told| told.elapsed() >= again);
        if due {
            self.told = Some(Instant::now());
        }
        due
    }

    /// The trouble has ended. Returns whether it was told.
    pub(super) fn ended(&mut self) -> bool {
        self.told.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_until_it_has_lasted_or_has_ended() {
        let mut complaint = Complaint::default();
        assert!(!complaint.ended());
        assert!(complaint.is_due(TELL_AGAIN) && !complaint.is_due(TELL_AGAIN));
        assert!(complaint.is_due(Duration::ZERO));
        assert!(complaint.ended() && !complaint.ended());
        assert!(complaint.is_due(TELL_AGAIN));
    }
}
