//! Watch streams: passed on event by event, late, in silence, with events missing or doubled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_stand::{TimedOut, try_wait_for};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::{Body, Verdict};
use super::exchange::Log;
use super::request::Asked;
use super::rule::Ending;

mod event;
mod stream;

use event::Seen;

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    Pass,
    Swallow,
    Duplicate,
}

/// A choice of watches, open now or opened later. See [`super::Proxy::watches`].
#[derive(Clone)]
pub struct Watches {
    streams: Arc<Streams>,
    choice: Choice,
}

#[derive(Clone, Debug, Default)]
struct Choice {
    user: String,
    resource: String,
}

enum Trouble {
    Late(Duration),
    Silent,
    Edit(Box<dyn Fn(&Value) -> Edit + Send + Sync>),
}

struct Active {
    choice: Choice,
    trouble: Trouble,
    effective: AtomicU64,
}

/// A trouble of watches in force. Dropping it ends it: what it kept back goes on.
pub struct WatchInjection {
    active: Arc<Active>,
    streams: Arc<Streams>,
}

/// All open watches, and what troubles them.
pub(super) struct Streams {
    troubles: Mutex<Vec<Arc<Active>>>,
    /// Changes with the troubles.
    changed: watch::Sender<u64>,
    open: Mutex<Vec<Arc<Open>>>,
    /// By user and resource: the highest resourceVersion that went out.
    delivered: Mutex<BTreeMap<(String, String), u64>>,
    log: Arc<Log>,
}

/// An open watch.
pub(super) struct Open {
    user: String,
    resource: String,
    /// Some: it is to end. None in it: in good order.
    end: watch::Sender<Option<Option<Ending>>>,
    /// Whether it was counted among the silent.
    silenced: AtomicU64,
}

impl Watches {
    pub(super) fn new(streams: Arc<Streams>, resource: &str) -> Watches {
        let choice = Choice { resource: resource.to_owned(), ..Choice::default() };
        Watches { streams, choice }
    }

    pub fn user(mut self, user: &str) -> Watches {
        self.choice.user = user.to_owned();
        self
    }

    /// Delivers what comes so much later, in the same order. Counts what was late.
    pub fn late(&self, by: Duration) -> WatchInjection {
        self.add(Trouble::Late(by))
    }

    /// Delivers nothing, while the connections stay open. Counts streams.
    pub fn black_hole(&self) -> WatchInjection {
        self.add(Trouble::Silent)
    }

    /// Swallows or doubles events, of JSON streams only. `choose` sees the event (`type` and
    /// `object`), and must not block. Counts events that were not passed.
    pub fn edit(&self, choose: impl Fn(&Value) -> Edit + Send + Sync + 'static) -> WatchInjection {
        self.add(Trouble::Edit(Box::new(choose)))
    }

    /// Ends the open ones as a server does that thinks them slow: in good order. Returns how many.
    pub fn end(&self) -> u64 {
        self.streams.end(&self.choice, None)
    }

    /// Cuts the open ones. Returns how many.
    pub fn cut(&self, ending: Ending) -> u64 {
        self.streams.end(&self.choice, Some(ending))
    }

    /// Returns how many are open.
    pub fn n_open(&self) -> usize {
        let open = lock(&self.streams.open);
        open.iter().filter(|open| self.choice.includes(&open.user, &open.resource)).count()
    }

    /// Returns the highest resourceVersion that went out to the user, by events or as the version
    /// that a watch begins at. JSON streams only.
    pub fn delivered(&self) -> u64 {
        let delivered = lock(&self.streams.delivered);
        let of = delivered.iter().filter(|((u, r), _)| self.choice.includes(u, r));
        of.map(|(_, version)| *version).max().unwrap_or_default()
    }

    /// Returns how many lists and watches of this user and resource were answered with 410.
    pub fn expired(&self) -> u64 {
        self.streams.log.n_expired(&self.choice.user, &self.choice.resource)
    }

    fn add(&self, trouble: Trouble) -> WatchInjection {
        let effective = AtomicU64::new(0);
        let active = Arc::new(Active { choice: self.choice.clone(), trouble, effective });
        lock(&self.streams.troubles).push(Arc::clone(&active));
        self.streams.change();
        WatchInjection { active, streams: Arc::clone(&self.streams) }
    }
}

impl WatchInjection {
    pub fn effective(&self) -> u64 {
        self.active.effective.load(SeqCst)
    }

    /// Waits until it has taken effect `n` times.
    ///
    /// # Errors
    /// [`TimedOut`].
    pub fn wait_effective(&self, n: u64, deadline: Duration) -> Result<(), TimedOut> {
        let what = format!("the watches are troubled {n} times");
        try_wait_for(deadline, &what, || (self.effective() >= n).then_some(()))
    }
}

impl Drop for WatchInjection {
    fn drop(&mut self) {
        lock(&self.streams.troubles).retain(|active| !Arc::ptr_eq(active, &self.active));
        self.streams.change();
    }
}

impl Choice {
    fn includes(&self, user: &str, resource: &str) -> bool {
        (self.user.is_empty() || self.user == user)
            && (self.resource.is_empty() || self.resource == resource)
    }
}

impl Streams {
    pub(super) fn new(log: Arc<Log>) -> Streams {
        Streams {
            troubles: Mutex::default(),
            changed: watch::Sender::new(0),
            open: Mutex::default(),
            delivered: Mutex::default(),
            log,
        }
    }

    /// Passes on the body of a watch.
    pub(super) fn forward(
        self: &Arc<Self>,
        asked: &Asked,
        body: Incoming,
        is_json: bool,
        verdict: Verdict,
    ) -> Body {
        let open = Arc::new(Open {
            user: asked.user.clone(),
            resource: asked.resource.clone(),
            end: watch::Sender::new(None),
            silenced: AtomicU64::new(0),
        });
        let version = asked.parameter("resourceVersion").and_then(|text| text.parse().ok());
        self.note_delivered(&open, version.unwrap_or_default());
        lock(&self.open).push(Arc::clone(&open));
        stream::outgoing(Arc::clone(self), open, body, is_json, verdict)
    }

    fn end(&self, choice: &Choice, how: Option<Ending>) -> u64 {
        let open = lock(&self.open);
        let chosen = open.iter().filter(|open| choice.includes(&open.user, &open.resource));
        let ended = chosen.filter(|open| open.end.send_replace(Some(how)).is_none());
        u64::try_from(ended.count()).unwrap_or(u64::MAX)
    }

    fn close(&self, closed: &Arc<Open>) {
        lock(&self.open).retain(|open| !Arc::ptr_eq(open, closed));
    }

    fn change(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    fn troubles_of(&self, open: &Open) -> Vec<Arc<Active>> {
        let troubles = lock(&self.troubles);
        let of =
            troubles.iter().filter(|active| active.choice.includes(&open.user, &open.resource));
        of.cloned().collect()
    }

    /// Waits until what came at `arrived` may go out.
    async fn let_through(&self, open: &Open, arrived: Instant) {
        let mut changed = self.changed.subscribe();
        let mut was_late = None;
        loop {
            changed.mark_unchanged();
            let mut until = Some(arrived);
            for active in self.troubles_of(open) {
                match &active.trouble {
                    Trouble::Silent => {
                        if open.silenced.swap(1, SeqCst) == 0 {
                            active.effective.fetch_add(1, SeqCst);
                        }
                        until = None;
                    }
                    Trouble::Late(by) => {
                        until = until.map(|until| until.max(arrived + *by));
                        was_late = Some(active);
                    }
                    Trouble::Edit(_) => {}
                }
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                break;
            }
            let due = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                _ = changed.changed() => {}
            }
        }
        if let Some(late) = was_late {
            late.effective.fetch_add(1, SeqCst);
        }
    }

    /// Returns how often the event goes out.
    fn copies(&self, open: &Open, event: &[u8]) -> usize {
        let mut copies = 1;
        for active in self.troubles_of(open) {
            let Trouble::Edit(choose) = &active.trouble else { continue };
            let event: Value = serde_json::from_slice(event).unwrap_or_default();
            copies = match choose(&event) {
                Edit::Pass => continue,
                Edit::Swallow => 0,
                Edit::Duplicate => 2,
            };
            active.effective.fetch_add(1, SeqCst);
        }
        copies
    }

    fn note(&self, open: &Open, event: &[u8]) {
        let seen = Seen::of(event);
        if seen.expired {
            self.log.expired(&open.user, &open.resource);
        }
        self.note_delivered(open, seen.version);
    }

    fn note_delivered(&self, open: &Open, version: u64) {
        let key = (open.user.clone(), open.resource.clone());
        let mut delivered = lock(&self.delivered);
        let highest = delivered.entry(key).or_default();
        *highest = version.max(*highest);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
