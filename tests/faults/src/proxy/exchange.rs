//! What was asked through the proxy, and what came of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::request::Asked;

/// What the sender of a request was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is under way.
    Nothing,
    Status(u16),
    /// The connection was cut, or stays silent, because a rule wants it.
    Cut,
    /// The server gave no answer.
    Broken,
    /// The sender closed the connection before there was an answer.
    Gone,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub asked: Asked,
    /// When its last byte had come.
    pub at: Instant,
    /// Whether it went on to the server.
    pub forwarded: bool,
    /// What the server said, whoever heard it.
    pub server: Option<u16>,
    pub told: Told,
    pub told_at: Option<Instant>,
}

impl Exchange {
    /// Tells whether it is no watch and under way.
    pub fn is_open(&self) -> bool {
        self.told == Told::Nothing && !self.asked.is_watch()
    }
}

type Observer = Box<dyn Fn(&Exchange) + Send + Sync>;

#[derive(Default)]
pub(super) struct Log {
    exchanges: Mutex<Vec<Exchange>>,
    observer: Mutex<Option<Observer>>,
    /// By user and resource: how many lists and watches were answered with 410.
    expired: Mutex<BTreeMap<(String, String), u64>>,
}

impl Log {
    pub(super) fn since(&self, from: usize) -> Vec<Exchange> {
        self.lock().get(from..).map(<[Exchange]>::to_vec).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn count(&self, from: usize, counts: impl Fn(&Exchange) -> bool) -> usize {
        let exchanges = self.lock();
        exchanges.get(from..).into_iter().flatten().filter(|exchange| counts(exchange)).count()
    }

    pub(super) fn observe(&self, observer: Observer) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(observer);
    }

    pub(super) fn expired(&self, user: &str, resource: &str) {
        let mut expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        *expired.entry((user.to_owned(), resource.to_owned())).or_default() += 1;
    }

    pub(super) fn n_expired(&self, user: &str, resource: &str) -> u64 {
        let expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        expired.get(&(user.to_owned(), resource.to_owned())).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Exchange>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way. Dropped before its sender was told anything, it is [`Told::Gone`].
pub(super) struct Entry {
    log: Arc<Log>,
    number: usize,
    is_told: bool,
}

impl Entry {
    pub(super) fn begin(log: &Arc<Log>, asked: Asked) -> Entry {
        let mut exchanges = log.lock();
        exchanges.push(Exchange {
            asked,
            at: Instant::now(),
            forwarded: false,
            server: None,
            told: Told::Nothing,
            told_at: None,
        });
        Entry { log: Arc::clone(log), number: exchanges.len() - 1, is_told: false }
    }

    pub(super) fn forwarded(&self) {
        self.change(|exchange| exchange.forwarded = true);
    }

    pub(super) fn answered(&self, status: u16) {
        self.change(|exchange| exchange.server = Some(status));
    }

    /// Notes what the sender is told, and reports it.
    pub(super) fn told(&mut self, told: Told) {
        self.is_told = true;
        self.change(|exchange| {
            exchange.told = told;
            exchange.told_at = Some(Instant::now());
        });
        let told = self.log.lock().get(self.number).cloned();
        let observer = self.log.observer.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(observer), Some(exchange)) = (observer.as_ref(), told) {
            observer(&exchange);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Exchange)) {
        if let Some(exchange) = self.log.lock().get_mut(self.number) {
            change(exchange);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_told {
            self.told(Told::Gone);
        }
    }
}
