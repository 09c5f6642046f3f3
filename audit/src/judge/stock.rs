//! What there was of devices, and when: pools with their slices, taint rules and classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::moment::Moment;
use crate::objects::{
    Amounts, Class, Device, DeviceId, Grant, Object, PoolId, Slice, Taint, TaintRule,
};
use crate::world::Step;

/// All states since the beginning.
#[derive(Default)]
pub(super) struct Stock {
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    rules: BTreeMap<Arc<str>, Arc<TaintRule>>,
    pools: BTreeMap<PoolId, States<Pool>>,
    classes: BTreeMap<String, States<Option<Arc<Class>>>>,
}

/// States, each with its beginning.
type States<T> = Vec<(Moment, T)>;

/// A pool as it was for a while.
#[derive(Default)]
pub(super) struct Pool {
    slices: Vec<Arc<Slice>>,
    rules: Vec<Arc<TaintRule>>,
}

impl Stock {
    pub(super) fn step(&mut self, step: &Step<'_>) {
        let key = &step.change.key;
        match (&step.old, &step.change.object) {
            (Some(Object::Slice(_)), _) | (_, Some(Object::Slice(_))) => self.note_slice(step),
            (Some(Object::TaintRule(_)), _) | (_, Some(Object::TaintRule(_))) => {
                match &step.change.object {
                    Some(Object::TaintRule(rule)) => {
                        self.rules.insert(Arc::clone(key), Arc::clone(rule));
                    }
                    _ => drop(self.rules.remove(key)),
                }
                let pools: Vec<PoolId> = self.pools.keys().cloned().collect();
                pools.iter().for_each(|pool| self.note_pool(pool, step.now()));
            }
            (_, Some(Object::Class(class))) => {
                let states = self.classes.entry(class.name.clone()).or_default();
                states.push((step.now(), Some(Arc::clone(class))));
            }
            (Some(Object::Class(class)), _) => {
                self.classes.entry(class.name.clone()).or_default().push((step.now(), None));
            }
            _ => {}
        }
    }

    fn note_slice(&mut self, step: &Step<'_>) {
        let old = self.slices.remove(&step.change.key);
        let mut moved: Vec<PoolId> = old.map(|slice| slice.pool.clone()).into_iter().collect();
        if let Some(Object::Slice(slice)) = &step.change.object {
            moved.push(slice.pool.clone());
            self.slices.insert(Arc::clone(&step.change.key), Arc::clone(slice));
        }
        moved.iter().for_each(|pool| self.note_pool(pool, step.now()));
    }

    fn note_pool(&mut self, id: &PoolId, now: Moment) {
        let slices = self.slices.values().filter(|slice| slice.pool == *id).cloned().collect();
        let pool = Pool { slices, rules: self.rules.values().cloned().collect() };
        self.pools.entry(id.clone()).or_default().push((now, pool));
    }

    /// Returns why a device must not be granted, by each state of its pool from `known_to` on: one
    /// that allows it is enough. Of several reasons the newest.
    pub(super) fn refuses(&self, grant: &Grant, known_to: Moment) -> Option<String> {
        let refusals = self.of_pool(&grant.id.pool, known_to).map(|pool| pool.refuses(grant));
        let refusals: Vec<String> = refusals.collect::<Option<_>>()?;
        Some(refusals.into_iter().next_back().unwrap_or("no such pool".to_owned()))
    }

    /// Returns why nothing must be granted for this class.
    pub(super) fn refuses_class(&self, class: &str, known_to: Moment) -> Option<String> {
        let states = self.classes.get(class).map(|states| since(states, known_to));
        let mut classes = states.into_iter().flatten().filter_map(|(_, class)| class.as_ref());
        match classes.next() {
            None => Some(format!("class {class} is not there")),
            Some(first) if first.is_unreadable && classes.all(|class| class.is_unreadable) => {
                Some(format!("class {class} can't be read"))
            }
            Some(_) => None,
        }
    }

    /// Returns the largest amounts that the device had of its capacities from `known_to` on, by
    /// the last state that shows it if none of these does.
    pub(super) fn capacity(&self, id: &DeviceId, known_to: Moment) -> Amounts {
        let mut largest = Amounts::new();
        for pool in self.of_pool(&id.pool, known_to) {
            let named = pool.devices().filter(|device| device.name == id.device);
            named.for_each(|device| raise(&mut largest, &device.capacity));
        }
        if largest.is_empty()
            && let Some(device) = self.last_seen(id)
        {
            largest.clone_from(&device.capacity);
        }
        largest
    }

    /// Returns the largest amounts of a pool's counters, by set, from `known_to` on.
    pub(super) fn counters(&self, id: &PoolId, known_to: Moment) -> BTreeMap<String, Amounts> {
        let mut largest: BTreeMap<String, Amounts> = BTreeMap::new();
        for slice in self.of_pool(id, known_to).flat_map(|pool| &pool.slices) {
            for (set, counters) in &slice.counters {
                raise(largest.entry(set.clone()).or_default(), counters);
            }
        }
        largest
    }

    /// Returns the device as it was shown last: what is granted holds its counters also when no
    /// slice shows it any more.
    pub(super) fn last_seen(&self, id: &DeviceId) -> Option<&Device> {
        let states = self.pools.get(&id.pool)?;
        states.iter().rev().find_map(|(_, pool)| pool.devices().find(|d| d.name == id.device))
    }

    fn of_pool(&self, id: &PoolId, known_to: Moment) -> impl Iterator<Item = &Pool> {
        let states = self.pools.get(id).map(|states| since(states, known_to));
        states.into_iter().flatten().map(|(_, pool)| pool)
    }
}

/// Returns the states that were so at `from` or later.
fn since<T>(states: &States<T>, from: Moment) -> &[(Moment, T)] {
    let first = states.partition_point(|(since, _)| *since < from).saturating_sub(1);
    &states[first..]
}

fn raise(largest: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = largest.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

impl Pool {
    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.slices.iter().flat_map(|slice| &slice.devices)
    }

    fn refuses(&self, grant: &Grant) -> Option<String> {
        let named = |slice: &&Arc<Slice>| slice.devices.iter().any(|d| d.name == grant.id.device);
        let mut showing: Vec<&Arc<Slice>> = self.slices.iter().filter(named).collect();
        showing.sort_by_key(|slice| slice.generation);
        let refusals = showing.iter().map(|slice| self.refuses_from(slice, grant));
        let refusals: Vec<String> = refusals.collect::<Option<_>>()?;
        Some(refusals.into_iter().next_back().unwrap_or("no slice of its pool has it".to_owned()))
    }

    /// The slices that count are those of the newest generation that the slice's node may see. Of
    /// a slice for several nodes that is every one: whether its devices are for a node is not asked.
    fn refuses_from(&self, slice: &Slice, grant: &Grant) -> Option<String> {
        let seen = |other: &&Arc<Slice>| {
            other.node.is_none() || slice.node.is_none() || other.node == slice.node
        };
        let seen: Vec<&Arc<Slice>> = self.slices.iter().filter(seen).collect();
        let newest = seen.iter().map(|other| other.generation).max().unwrap_or_default();
        if slice.generation < newest {
            return Some(format!("it is of generation {}, its pool of {newest}", slice.generation));
        }
        let of_newest = |other: &&&Arc<Slice>| other.generation == newest;
        let current: Vec<&&Arc<Slice>> = seen.iter().filter(of_newest).collect();
        let everywhere = self.slices.iter().filter(|other| other.generation == newest).count();
        let newer = self.slices.iter().any(|other| other.generation > newest);
        if current.len() as u64 != slice.count && (newer || everywhere as u64 != slice.count) {
            let (has, count) = (current.len().max(everywhere), slice.count);
            return Some(format!("its pool has {has} of {count} slices of generation {newest}"));
        }
        if current.iter().any(|slice| slice.is_unreadable) {
            return Some("a slice of its pool can't be read".to_owned());
        }
        let devices: Vec<&Device> = current.iter().flat_map(|slice| &slice.devices).collect();
        contradicts(&current, &devices).or_else(|| self.taints(slice, grant))
    }

    fn taints(&self, slice: &Slice, grant: &Grant) -> Option<String> {
        let own = slice.devices.iter().filter(|device| device.name == grant.id.device);
        let by_rule = self.rules.iter().filter(|rule| rule.is_about(&grant.id));
        let mut taints =
            own.flat_map(|d| &d.taints).chain(by_rule.filter_map(|rule| rule.taint.as_ref()));
        let tolerated = |taint: &Taint| grant.tolerations.iter().any(|t| t.tolerates(taint));
        let taint = taints.find(|taint| !tolerated(taint))?;
        Some(format!("its taint {} is not tolerated", taint.key))
    }
}

/// Says what in a pool can't be true at once. Such a pool counts for nothing.
fn contradicts(slices: &[&&Arc<Slice>], devices: &[&Device]) -> Option<String> {
    let mut names = BTreeSet::new();
    if let Some(twice) = devices.iter().find(|device| !names.insert(&device.name)) {
        return Some(format!("its pool has {} twice", twice.name));
    }
    let mut sets: BTreeMap<&String, &Amounts> = BTreeMap::new();
    for (set, counters) in slices.iter().flat_map(|slice| &slice.counters) {
        if sets.insert(set, counters).is_some() {
            return Some(format!("its pool has counter set {set} twice"));
        }
    }
    let mut taken = devices.iter().flat_map(|device| &device.consumes);
    let unknown = taken.find(|(set, counters)| {
        let known = sets.get(set);
        known.is_none_or(|known| counters.keys().any(|counter| !known.contains_key(counter)))
    });
    unknown.map(|(set, _)| format!("its pool has no such counters as {set}"))
}
