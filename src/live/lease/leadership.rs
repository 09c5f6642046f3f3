//! What the rest of the program knows of the election: a handle that all share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::moment::Moment;

/// Whether we lead. Clones share it.
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
}

struct Shared {
    identity: String,
    renew_deadline: Duration,
    state: Mutex<State>,
    /// Writes that were begun and have no answer yet.
    under_way: AtomicUsize,
    fewer: Notify,
}

#[derive(Clone, Copy, Default)]
struct State {
    renewed: Option<Moment>,
    /// The fence has passed as well, and we neither lost nor gave up the Lease.
    writes: bool,
    transitions: i64,
}

impl Leadership {
    pub fn new(identity: String, renew_deadline: Duration) -> Leadership {
        let shared = Shared {
            identity,
            renew_deadline,
            state: Mutex::default(),
            under_way: AtomicUsize::new(0),
            fewer: Notify::new(),
        };
        Leadership { shared: Arc::new(shared) }
    }

    /// Tells whether the Lease is ours by our own clocks, at this moment.
    pub fn is_leading(&self) -> bool {
        self.last_renew_age().is_some_and(|age| age < self.shared.renew_deadline)
    }

    /// Returns how long ago the renewal was sent that the server took last; none while another
    /// leads.
    pub fn last_renew_age(&self) -> Option<Duration> {
        let renewed = self.state(|state| state.renewed)?;
        Some(Moment::now().at_most_since(renewed))
    }

    /// Returns `<hostname>_<uuid>`, as it stands in the Lease.
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }

    /// Returns how often the Lease has changed hands, as far as we have seen.
    pub fn transitions(&self) -> i64 {
        self.state(|state| state.transitions)
    }

    /// Tells whether a write may be sent at this moment.
    pub fn may_write(&self) -> bool {
        self.state(|state| state.writes) && self.is_leading()
    }

    /// Waits until no write is under way, at most for `limit`; returns whether that is so.
    pub async fn settled(&self, limit: Duration) -> bool {
        let none_left = async {
            loop {
                let fewer = self.shared.fewer.notified();
                if self.shared.under_way.load(Ordering::SeqCst) == 0 {
                    return;
                }
                fewer.await;
            }
        };
        tokio::time::timeout(limit, none_left).await.is_ok()
    }

    pub(super) fn set_renewed(&self, renewed: Option<Moment>) {
        self.change(|state| state.renewed = renewed);
    }

    pub(super) fn set_transitions(&self, transitions: i64) {
        self.change(|state| state.transitions = transitions);
    }

    /// Lets writes be sent, or none any more.
    pub(super) fn set_writes(&self, writes: bool) {
        self.change(|state| state.writes = writes);
    }

    /// Counts a write until what is returned is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        self.shared.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(self.clone())
    }

    fn state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A write that was begun.
pub struct UnderWay(Leadership);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.shared.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.shared.fewer.notify_one();
    }
}
