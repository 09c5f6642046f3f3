//! Who leads: client-go's election as a state machine over what is seen of one Lease.
//!
//! A Lease does not fence anybody off, so three rules stand beside it. A leader sends no write
//! once `renewDeadline` has passed since it *sent* the renewal that was last taken
//! ([`gate`]). Each write has a timeout of at most `leaseDuration − renewDeadline`. And a new leader
//! waits until both have passed since it last saw another one renew ([`Elector::fence_left`]).
//!
//! Source: client-go 0.37, tools/leaderelection. What differs: an edited or deleted Lease ends the
//! leadership at once, and standbys wake when the Lease expires instead of at the next poll.

pub mod announce;
pub mod candidate;
pub mod gate;
pub mod leadership;
pub mod moment;
pub mod record;
pub mod run;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use berth_core::types::Span;

use crate::config::LeaderElection;
pub use leadership::Leadership;
use moment::Moment;
use record::{Draft, Record};

/// No write is given longer, however long the Lease lives.
const WRITE_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// The Lease that is run for, and the times of the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub namespace: String,
    pub name: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Rules {
    pub fn new(config: &LeaderElection) -> Rules {
        let duration = |span: Span| Duration::from_millis(span.as_millis());
        Rules {
            namespace: config.resource_namespace.clone(),
            name: config.resource_name.clone(),
            lease_duration: duration(config.lease_duration),
            renew_deadline: duration(config.renew_deadline),
            retry_period: duration(config.retry_period),
        }
    }

    /// Returns how long the server may work on a write that was sent while leading.
    pub fn write_timeout(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline).min(WRITE_TIMEOUT_MAX)
    }
}

/// What a run takes part in. Clone the handle before the run takes the rest.
#[derive(Clone)]
pub struct Election {
    pub rules: Rules,
    pub leadership: Leadership,
    /// Watch only once the Lease is won.
    pub delay_cache: bool,
}

impl Election {
    /// Makes an identity, `<hostname>_<uuid>` as kube-scheduler's.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(config: &LeaderElection, delay_cache: bool) -> io::Result<Election> {
        let rules = Rules::new(config);
        let identity = format!("{}_{}", super::hostname(), uuid()?);
        let leadership = Leadership::new(identity, rules.renew_deadline);
        Ok(Election { rules, leadership, delay_cache })
    }
}

/// Returns a random UUID (version 4).
fn uuid() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    // So few bytes come whole.
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-"))
}

/// What has happened. Records come from reads and answers, never from the watch: that one only
/// says that it is time to look.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// The time that was to be waited has passed.
    Time,
    /// The Lease has changed.
    Changed,
    /// A read found it.
    Seen(Record),
    /// A read found none.
    Absent,
    /// Our write was done; this is the Lease since.
    Written(Record),
    /// Our write or read was refused, or has no answer.
    Failed,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing, for so long or until the Lease changes.
    Wait(Duration),
    Read,
    Write(Draft),
    /// We led and don't any more, because of this.
    Lost(String),
}

/// One candidate.
pub struct Elector {
    rules: Rules,
    identity: String,
    /// The Lease as it was last read or written.
    seen: Option<Record>,
    /// When its content was last seen to have changed. Whose clock says what in it is irrelevant.
    seen_at: Moment,
    /// When another was last seen to acquire or renew; none if it was released since.
    foreign_at: Option<Moment>,
    /// When the write under way was handed out, and whether it follows a read.
    sent: Moment,
    fresh: bool,
    /// While leading: when the last renewal that was taken was sent.
    renewed: Option<Moment>,
}

impl Elector {
    pub fn new(rules: Rules, identity: String) -> Elector {
        let never = Moment::default();
        Elector {
            rules,
            identity,
            seen: None,
            seen_at: never,
            foreign_at: None,
            sent: never,
            fresh: false,
            renewed: None,
        }
    }

    /// Takes in what has happened, and says what to do.
    pub fn step(&mut self, now: Moment, observation: Observation) -> Action {
        // First of all, so that one who slept does nothing else on waking.
        if self.overdue(now) {
            return self.lose(format!("not renewed for {:?}", self.rules.renew_deadline));
        }
        match observation {
            Observation::Time if self.renewed.is_some() => self.renew(now, false),
            Observation::Time | Observation::Changed => Action::Read,
            Observation::Seen(record) => self.seen(now, record),
            Observation::Absent => self.absent(now),
            Observation::Written(record) => self.written(now, record),
            Observation::Failed => self.failed(now),
        }
    }

    /// Returns when the last renewal that was taken was sent, while leading.
    pub fn renewed(&self) -> Option<Moment> {
        self.renewed
    }

    /// Returns how long a new leader may not write yet: a renewal of its predecessor may have
    /// allowed a write that the server still works on.
    pub fn fence_left(&self, now: Moment) -> Duration {
        let span = self.rules.renew_deadline + self.rules.write_timeout();
        let left = |at| span.saturating_sub(now.at_least_since(at));
        self.foreign_at.map_or(Duration::ZERO, left)
    }

    /// Returns how long we may lead without a further renewal, while leading.
    pub fn time_left(&self, now: Moment) -> Option<Duration> {
        let left = |renewed| self.rules.renew_deadline.saturating_sub(now.at_most_since(renewed));
        self.renewed.map(left)
    }

    /// Returns the Lease as it was last read or written.
    pub fn record(&self) -> Option<&Record> {
        self.seen.as_ref()
    }

    /// Returns the write that gives the Lease up, if it is ours.
    pub fn release(&mut self, now: Moment) -> Option<Draft> {
        let overdue = self.overdue(now);
        if self.renewed.take().is_none() || overdue {
            return None;
        }
        let base = self.seen.clone().filter(|record| record.holder == self.identity)?;
        Some(Draft::release(base))
    }

    fn overdue(&self, now: Moment) -> bool {
        self.time_left(now).is_some_and(|left| left.is_zero())
    }

    fn lose(&mut self, why: String) -> Action {
        self.renewed = None;
        Action::Lost(why)
    }

    fn seen(&mut self, now: Moment, record: Record) -> Action {
        let before = self.seen.as_ref();
        if before.is_none_or(|before| before.spec() != record.spec()) {
            self.seen_at = now;
            if record.is_released() {
                self.foreign_at = None;
            } else if record.holder != self.identity {
                self.foreign_at = Some(now);
            }
        }
        let (ours, free) = (record.holder == self.identity, record.holder.is_empty());
        let holder = record.holder.clone();
        self.seen = Some(record);
        match self.renewed {
            Some(_) if ours => self.renew(now, true),
            Some(_) if free => self.lose("somebody has released it".to_owned()),
            Some(_) => self.lose(format!("{holder} holds it")),
            // Ours though we don't lead: an answer was lost.
            None if ours || free || self.expires_in(now).is_zero() => self.renew(now, true),
            None => self.wait(now),
        }
    }

    fn absent(&mut self, now: Moment) -> Action {
        if self.renewed.is_some() {
            return self.lose("it was deleted".to_owned());
        }
        self.seen = None;
        self.hand_out(now, true, Draft::create(&self.identity, self.rules.lease_duration))
    }

    fn written(&mut self, now: Moment, record: Record) -> Action {
        self.seen = Some(record);
        self.seen_at = now;
        let led = self.renewed.replace(self.sent).is_some();
        if self.overdue(now) {
            let late = "the answer to its renewal came too late";
            // Who didn't lead yet has lost nothing.
            return if led { self.lose(late.to_owned()) } else { self.stand_by() };
        }
        self.wait(now)
    }

    fn stand_by(&mut self) -> Action {
        self.renewed = None;
        Action::Read
    }

    /// Acquires or renews, on the Lease as it was last seen.
    fn renew(&mut self, now: Moment, fresh: bool) -> Action {
        let Some(base) = self.seen.clone() else { return Action::Read };
        let draft = Draft::hold(base, &self.identity, self.rules.lease_duration);
        self.hand_out(now, fresh, draft)
    }

    fn hand_out(&mut self, now: Moment, fresh: bool, draft: Draft) -> Action {
        (self.sent, self.fresh) = (now, fresh);
        Action::Write(draft)
    }

    /// A renewal without a read before may have failed because the Lease is not what we took it
    /// for: look at once, but only once a period.
    fn failed(&mut self, now: Moment) -> Action {
        if self.renewed.is_some() && !self.fresh {
            self.fresh = true;
            return Action::Read;
        }
        self.wait(now)
    }

    fn wait(&self, now: Moment) -> Action {
        let period = self.rules.retry_period;
        let until = self.time_left(now).unwrap_or_else(|| match self.expires_in(now) {
            Duration::ZERO => period,
            left => left,
        });
        Action::Wait(period.min(until))
    }

    /// Returns how long the Lease still counts, from when it was last seen to change.
    fn expires_in(&self, now: Moment) -> Duration {
        let duration = self.seen.as_ref().map_or(Duration::ZERO, |record| record.duration);
        duration.saturating_sub(now.at_least_since(self.seen_at))
    }
}
