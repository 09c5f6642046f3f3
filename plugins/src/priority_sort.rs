//! PrioritySort: lets pods of higher priority go first, then those queued for longer.

use std::cmp::Reverse;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use berth_core::framework::{Args, PluginDef, Points, QueueOrdering, QueueSort, Ranked};
use berth_core::snapshot::Cluster;
use berth_core::types::Timestamp;
use priority_queue::PriorityQueue;

const NAME: &str = "PrioritySort";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "lets pods of higher priority go first, then those queued for longer",
    missing: None,
    build,
};

fn build(_args: &Args, points: &mut Points) {
    points.queue_sort(Arc::new(PrioritySort));
}

struct PrioritySort;

impl QueueSort for PrioritySort {
    fn ordering(&self) -> Box<dyn QueueOrdering> {
        Box::new(ByPriority::default())
    }
}

/// The largest goes first. The entry's id breaks ties (upstream leaves them open), since the heap
/// does not keep equal ranks in the order of their arrival.
type Rank = (i32, Reverse<Timestamp>, Reverse<u64>);

#[derive(Default)]
struct ByPriority {
    entries: PriorityQueue<u64, Rank, BuildHasherDefault<EntryHasher>>,
}

impl QueueOrdering for ByPriority {
    fn push(&mut self, ranked: Ranked) {
        let rank = (ranked.priority, Reverse(ranked.enqueued), Reverse(ranked.entry));
        self.entries.push(ranked.entry, rank);
    }

    fn remove(&mut self, entry: u64) -> bool {
        self.entries.remove(&entry).is_some()
    }

    fn pop(&mut self, _cluster: &Cluster) -> Option<u64> {
        self.entries.pop().map(|(entry, _)| entry)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Hashes an entry's id the same way in every process. Ids are ours, so nobody can choose them to
/// collide.
///
/// Source of the factor: 2^64 divided by the golden ratio (Fibonacci hashing).
#[derive(Default)]
struct EntryHasher(u64);

impl Hasher for EntryHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(entry: u64, priority: i32, enqueued_ms: u64) -> Ranked {
        let enqueued = Timestamp(enqueued_ms);
        Ranked { entry, priority, enqueued, leader: Default::default() }
    }

    fn drained(ordering: &mut dyn QueueOrdering) -> Vec<u64> {
        let cluster = Cluster::default();
        std::iter::from_fn(|| ordering.pop(&cluster)).collect()
    }

    #[test]
    fn priority_then_time_then_entry_decide() {
        let mut ordering = PrioritySort.ordering();
        let entries = [(4, 0, 20), (3, 0, 10), (2, 0, 10), (1, 7, 90), (5, -1, 0)];
        for (entry, priority, enqueued) in entries {
            ordering.push(ranked(entry, priority, enqueued));
        }
        assert_eq!(drained(ordering.as_mut()), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn equal_ranks_leave_in_order_of_entry_whatever_the_order_of_arrival() {
        let mut ordering = PrioritySort.ordering();
        for entry in (0..500).rev() {
            ordering.push(ranked(entry * 7 % 500, 0, 0));
        }
        assert_eq!(drained(ordering.as_mut()), (0..500).collect::<Vec<u64>>());
    }

    #[test]
    fn entries_can_be_taken_out_and_ranked_again() {
        let mut ordering = PrioritySort.ordering();
        ordering.push(ranked(1, 0, 0));
        ordering.push(ranked(2, 0, 1));
        ordering.push(ranked(1, 0, 2));
        assert_eq!(ordering.len(), 2);
        assert!(!ordering.remove(9));
        assert!(ordering.remove(2));
        assert_eq!(drained(ordering.as_mut()), [1]);
        assert!(ordering.is_empty());
    }
}
