//! Answers that are believed for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Source: apiserver/plugin/pkg/authorizer/webhook/webhook.go, LRUExpireCache(8192).
const ENTRIES_MAX: usize = 8192;

pub(super) struct TtlCache<K, V> {
    entries: Mutex<BTreeMap<K, (Instant, V)>>,
}

impl<K: Ord + Clone, V: Clone> TtlCache<K, V> {
    pub(super) fn new() -> Self {
        TtlCache { entries: Mutex::new(BTreeMap::new()) }
    }

    /// Returns what was inserted, unless its time is over.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, value) = entries.get(key)?;
        (now < *until).then(|| value.clone())
    }

    /// Keeps a value for `ttl`. A full cache forgets what has expired, and if nothing has, the
    /// entry that expires first.
    pub(super) fn insert(&self, key: K, value: V, ttl: Duration, now: Instant) {
        if ttl.is_zero() {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&key) {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&key) {
            let first = entries.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                entries.remove(&first);
            }
        }
        entries.insert(key, (now + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_ends_with_its_time() {
        let (cache, now) = (TtlCache::new(), Instant::now());
        cache.insert("a", 1, Duration::from_secs(10), now);
        cache.insert("never", 1, Duration::ZERO, now);
        assert_eq!(cache.get(&"a", now + Duration::from_millis(9_999)), Some(1));
        assert_eq!(cache.get(&"a", now + Duration::from_secs(10)), None);
        assert_eq!(cache.get(&"never", now), None);
    }

    #[test]
    fn a_full_cache_forgets_what_ends_first() {
        let (cache, now) = (TtlCache::new(), Instant::now());
        for key in 0..=ENTRIES_MAX {
            let ttl = Duration::from_millis(100_000 - key as u64);
            cache.insert(key, (), ttl, now);
        }
        assert_eq!(cache.get(&(ENTRIES_MAX - 1), now), None);
        assert_eq!(cache.get(&ENTRIES_MAX, now), Some(()));
        assert_eq!(cache.get(&0, now), Some(()));
    }
}
