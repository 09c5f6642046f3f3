//! Pod classes: pods that scheduling can't tell apart share verdicts and scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::framework::{ClassPart, Profile};
use crate::snapshot::Cluster;
use crate::types::{Pod, PodSpec};

use super::table::Table;

/// Everything that Filter and Score may read of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    profile: usize,
    spec: Arc<PodSpec>,
    parts: Vec<ClassPart>,
}

impl ClassKey {
    pub(crate) fn of(pod: &Pod, profile_idx: usize, profile: &Profile, cluster: &Cluster) -> Self {
        let part = |entry: &crate::framework::profile::Entry<dyn crate::framework::Classify>| {
            entry.plugin.class_part(pod, cluster)
        };
        ClassKey {
            profile: profile_idx,
            spec: pod.spec.clone(),
            parts: profile.classify.iter().map(part).collect(),
        }
    }

    pub(crate) fn declare(&self, cluster: &mut Cluster) {
        for query in self.parts.iter().flat_map(|part| &part.queries) {
            cluster.declare(query);
        }
    }
}

#[derive(Default)]
struct Record {
    seen: u32,
    last_used: u64,
    bytes: usize,
    table: Option<Box<Table>>,
}

/// Figures about the tables, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    pub classes: usize,
    pub tables: usize,
    pub bytes: usize,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}

/// The known classes. Tables are kept up to a number of bytes; those unused longest go first.
pub(crate) struct Classes {
    ids: BTreeMap<ClassKey, u32>,
    keys: BTreeMap<u32, ClassKey>,
    records: BTreeMap<u32, Record>,
    next: u32,
    clock: u64,
    bytes_max: usize,
    counts: ClassCounts,
}

pub(crate) const TABLE_BYTES_MAX: usize = 64 << 20;
/// Classes without a table cost little, but all-different pods would pile them up for ever.
const CLASSES_MAX: usize = 1 << 16;

impl Classes {
    pub(crate) fn new(bytes_max: usize) -> Classes {
        Classes {
            ids: BTreeMap::new(),
            keys: BTreeMap::new(),
            records: BTreeMap::new(),
            next: 0,
            clock: 0,
            bytes_max,
            counts: ClassCounts::default(),
        }
    }

    pub(crate) fn counts(&self) -> ClassCounts {
        let tables = self.records.values().filter(|record| record.table.is_some()).count();
        ClassCounts { classes: self.ids.len(), tables, ..self.counts }
    }

    pub(crate) fn id(&mut self, key: ClassKey) -> u32 {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        if self.ids.len() >= CLASSES_MAX {
            self.forget_oldest();
        }
        self.next = self.next.wrapping_add(1);
        let id = self.next;
        self.ids.insert(key.clone(), id);
        self.keys.insert(id, key);
        self.records.insert(id, Record { last_used: self.clock, ..Record::default() });
        id
    }

    /// Takes the table of a class out for use; none the first time.
    pub(crate) fn take(&mut self, class: u32) -> Option<Box<Table>> {
        self.clock += 1;
        let record = self.records.get_mut(&class)?;
        record.last_used = self.clock;
        record.seen = record.seen.saturating_add(1);
        let table = record.table.take();
        self.counts.bytes -= std::mem::take(&mut record.bytes);
        match table {
            Some(_) => self.counts.hits += 1,
            None => self.counts.misses += 1,
        }
        table
    }

    /// Puts a table back; a class seen once gets none, unless it is still being filled.
    pub(crate) fn put(&mut self, class: u32, table: Box<Table>, unfinished: bool) {
        let Some(record) = self.records.get_mut(&class) else { return };
        if record.seen < 2 && !unfinished {
            return;
        }
        record.bytes = table.bytes();
        self.counts.bytes += record.bytes;
        record.table = Some(table);
        while self.counts.bytes > self.bytes_max && self.evict_oldest(class) {}
    }

    fn evict_oldest(&mut self, but: u32) -> bool {
        let oldest = self
            .records
            .iter()
            .filter(|(id, record)| record.table.is_some() && **id != but)
            .min_by_key(|(_, record)| record.last_used)
            .map(|(id, _)| *id);
        let Some(record) = oldest.and_then(|id| self.records.get_mut(&id)) else { return false };
        record.table = None;
        self.counts.bytes -= std::mem::take(&mut record.bytes);
        self.counts.evictions += 1;
        true
    }

    fn forget_oldest(&mut self) {
        let oldest = self.records.iter().min_by_key(|(_, record)| record.last_used);
        let Some(id) = oldest.map(|(id, _)| *id) else { return };
        if let Some(record) = self.records.remove(&id) {
            self.counts.bytes -= record.bytes;
        }
        if let Some(key) = self.keys.remove(&id) {
            self.ids.remove(&key);
        }
    }
}
