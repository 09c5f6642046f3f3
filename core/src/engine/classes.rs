//! Pod classes: pods that scheduling can't tell apart share verdicts and scores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::framework::profile::Entry;
use crate::framework::{ClassPart, Classify, Profile};
use crate::snapshot::Cluster;
use crate::types::{Pod, PodSpec, PodUid, Text};

use super::budget::Budget;
use super::guard::guarded;
use super::table::Table;

/// Everything that Filter and Score may read of a pod. Which claims it names is not in its spec here:
/// pods that differ in the names alone are alike, unless a plugin's part says who the claims are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    profile: usize,
    spec: Arc<PodSpec>,
    parts: Vec<ClassPart>,
}

impl ClassKey {
    /// # Errors
    /// A plugin failed.
    pub(crate) fn of(
        pod: &Pod,
        profile_idx: usize,
        profile: &Profile,
        cluster: &Cluster,
    ) -> Result<ClassKey, Text> {
        let part = |entry: &Entry<dyn Classify>| {
            guarded(entry.name, || entry.plugin.class_part(pod, cluster))
        };
        Ok(ClassKey {
            profile: profile_idx,
            spec: without_names_of_claims(&pod.spec),
            parts: profile.classify.iter().map(part).collect::<Result<_, _>>()?,
        })
    }

    /// Declares what plugins will ask about for this pod. Returns false if the budget is used up
    /// before every device has been looked at. `selecting`: steps that the decision may still take
    /// for that; without any left, what is missing is given up.
    pub(crate) fn declare(
        &self,
        cluster: &mut Cluster,
        uid: &PodUid,
        budget: &mut Budget,
        selecting: &mut u64,
    ) -> bool {
        for query in self.parts.iter().flat_map(|part| &part.queries) {
            cluster.declare(query);
        }
        let mut given_up = false;
        for selector in self.parts.iter().flat_map(|part| &part.selectors) {
            let mut spend = |steps| {
                let left = budget.left() && *selecting > 0;
                if left {
                    budget.spend(steps);
                    *selecting = selecting.saturating_sub(steps);
                }
                left
            };
            if cluster.declare_selector(selector, &mut spend) {
                continue;
            }
            if *selecting > 0 {
                return false;
            }
            cluster.give_up_selecting(selector);
            given_up = true;
        }
        for size in self.parts.iter().flat_map(|part| &part.gpus) {
            cluster.declare_gpus(usize::from(*size));
        }
        // What is selected must be known by then.
        let demands = self.parts.iter().filter_map(|part| part.packing.as_ref());
        for demand in demands.filter(|_| !given_up) {
            cluster.declare_demand(demand);
            cluster.count_demand(uid, demand);
        }
        true
    }
}

fn without_names_of_claims(spec: &Arc<PodSpec>) -> Arc<PodSpec> {
    if spec.claims.is_empty() {
        return Arc::clone(spec);
    }
    let mut spec = PodSpec::clone(spec);
    spec.claims.iter_mut().for_each(|claim| claim.source = Text::default());
    Arc::new(spec)
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
    /// Classes that have a table, those unused longest first.
    tables: BTreeSet<(u64, u32)>,
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
            tables: BTreeSet::new(),
            next: 0,
            clock: 0,
            bytes_max,
            counts: ClassCounts::default(),
        }
    }

    pub(crate) fn counts(&self) -> ClassCounts {
        ClassCounts { classes: self.ids.len(), tables: self.tables.len(), ..self.counts }
    }

    pub(crate) fn id(&mut self, key: ClassKey) -> u32 {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        if self.ids.len() >= CLASSES_MAX {
            self.forget_oldest();
        }
        let id = self.own_id();
        self.ids.insert(key.clone(), id);
        self.keys.insert(id, key);
        self.records.insert(id, Record { last_used: self.clock, ..Record::default() });
        id
    }

    /// Returns the id of a class that nothing else is in, and that has no table.
    pub(crate) fn own_id(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Takes the table of a class out for use; none the first time.
    pub(crate) fn take(&mut self, class: u32) -> Option<Box<Table>> {
        self.clock += 1;
        let record = self.records.get_mut(&class)?;
        self.tables.remove(&(record.last_used, class));
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

    /// Puts a table back; a class seen once gets none, unless `needed` again soon.
    pub(crate) fn put(&mut self, class: u32, table: Box<Table>, needed: bool) {
        let Some(record) = self.records.get_mut(&class) else { return };
        if record.seen < 2 && !needed {
            return;
        }
        record.bytes = table.bytes();
        self.counts.bytes += record.bytes;
        record.table = Some(table);
        self.tables.insert((record.last_used, class));
        while self.counts.bytes > self.bytes_max && self.evict_oldest(class) {}
    }

    /// Drops the table of a class, if it has one.
    pub(crate) fn forget_table(&mut self, class: u32) {
        let Some(record) = self.records.get_mut(&class) else { return };
        self.tables.remove(&(record.last_used, class));
        record.table = None;
        self.counts.bytes -= std::mem::take(&mut record.bytes);
    }

    fn evict_oldest(&mut self, but: u32) -> bool {
        let Some(key) = self.tables.iter().find(|(_, id)| *id != but).copied() else {
            return false;
        };
        self.tables.remove(&key);
        let Some(record) = self.records.get_mut(&key.1) else { return false };
        record.table = None;
        self.counts.bytes -= std::mem::take(&mut record.bytes);
        self.counts.evictions += 1;
        true
    }

    /// Forgets an eighth at a time, so that pods which are all different don't cost a look at
    /// every class each.
    fn forget_oldest(&mut self) {
        let mut by_age: Vec<(u64, u32)> =
            self.records.iter().map(|(id, record)| (record.last_used, *id)).collect();
        by_age.sort_unstable();
        for (last_used, id) in by_age.into_iter().take(CLASSES_MAX / 8) {
            self.tables.remove(&(last_used, id));
            if let Some(record) = self.records.remove(&id) {
                self.counts.bytes -= record.bytes;
            }
            if let Some(key) = self.keys.remove(&id) {
                self.ids.remove(&key);
            }
        }
    }
}
