//! I1 and I14: nothing is given beyond what there is, nor what isn't known for sure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::History;
use crate::judge::Limits;
use crate::judge::author::{Author, Writes};
use crate::judge::stock::Stock;
use crate::moment::Moment;
use crate::objects::{Amounts, Claim, DeviceId, Grant, Name, Object};
use crate::quantity::{Nanos, shown};
use crate::report::{Invariant, Report};
use crate::requests::add;
use crate::world::Step;

pub(crate) struct Devices<'a> {
    limits: &'a Limits,
    writes: Writes<'a>,
    stock: Stock,
    held: BTreeMap<DeviceId, BTreeMap<Arc<str>, Held>>,
    /// When each claim was made.
    born: BTreeMap<Arc<str>, Moment>,
    /// Claims that somebody who is not judged has allocated to last.
    foreign: BTreeSet<Arc<str>>,
}

/// What one claim has of one device.
struct Held {
    claim: Name,
    grants: Vec<Grant>,
    since: Moment,
    by_foreign: bool,
}

/// Grants that are judged, with the claim that they were made to.
struct Allocation<'a> {
    claim: &'a Claim,
    by: &'a Author,
    new: Vec<&'a Grant>,
    /// What happened later than this need not have been known.
    known_to: Moment,
}

impl<'a> Devices<'a> {
    pub(crate) fn new(history: &'a History, limits: &'a Limits) -> Self {
        Self {
            limits,
            writes: Writes::to_claims(history, limits),
            stock: Stock::default(),
            held: BTreeMap::new(),
            born: BTreeMap::new(),
            foreign: BTreeSet::new(),
        }
    }

    /// Tells whether somebody who is not judged has allocated to the claim last.
    pub(crate) fn is_foreign(&self, claim: &str) -> bool {
        self.foreign.contains(claim)
    }

    pub(crate) fn step(&mut self, step: &Step<'_>, report: &mut Report) {
        self.stock.step(step);
        let old = as_claim(step.old.as_ref());
        let new = as_claim(step.change.object.as_ref());
        let key = &step.change.key;
        let Some(new) = new else {
            if old.is_some() {
                self.release(key);
                self.born.remove(key);
                self.foreign.remove(key);
            }
            return;
        };
        if old.is_none_or(|old| old.uid != new.uid) {
            self.born.insert(Arc::clone(key), step.now());
        }
        let before = old.filter(|old| old.uid == new.uid).map_or(&[][..], |old| grants(old));
        if before == grants(new) {
            return;
        }
        let is_new = |grant: &&Grant| !before.iter().any(|b| same(b, grant));
        let added: Vec<&Grant> = grants(new).iter().filter(is_new).collect();
        let (by, sent) = match added.is_empty() {
            true => (Author::Unknown, step.now()),
            false => self.writes.author(&new.name, self.born.get(key).copied(), step.now()),
        };
        self.hold(key, new, &by, step.now());
        if added.is_empty() {
            return;
        }
        if let Author::Foreign(_) = by {
            report.foreign_allocations += 1;
            return;
        }
        report.allocations += 1;
        let known_to = sent - self.limits.node_grace;
        self.judge(&Allocation { claim: new, by: &by, new: added, known_to }, step, report);
    }

    fn release(&mut self, key: &Arc<str>) {
        self.held.retain(|_, holders| {
            holders.remove(key);
            !holders.is_empty()
        });
    }

    /// The claim has these devices and no others.
    fn hold(&mut self, key: &Arc<str>, claim: &Claim, by: &Author, now: Moment) {
        let by_foreign = matches!(by, Author::Foreign(_));
        match by_foreign {
            true => drop(self.foreign.insert(Arc::clone(key))),
            false => drop(self.foreign.remove(key)),
        }
        self.release(key);
        for grant in grants(claim).iter().filter(|grant| !grant.is_admin) {
            let holders = self.held.entry(grant.id.clone()).or_default();
            let held = holders.entry(Arc::clone(key)).or_insert_with(|| Held {
                claim: claim.name.clone(),
                grants: Vec::new(),
                since: now,
                by_foreign,
            });
            held.grants.push(grant.clone());
        }
    }

    fn judge(&self, allocation: &Allocation<'_>, step: &Step<'_>, report: &mut Report) {
        let Allocation { claim, by, new, known_to } = allocation;
        let mut convict = |invariant, grant: &Grant, why: String| {
            let text = format!("{} gets {}{}: {why}", claim.name, grant.id, by.shown());
            report.convict(invariant, step.change.revision, text);
        };
        for grant in new {
            if let Some(why) = self.over(grant, *known_to).filter(|_| !grant.is_admin) {
                convict(Invariant::I1, grant, why);
            }
            let class = claim.classes.get(&grant.request);
            let unknown = || Some(format!("it has no request {}", grant.request));
            let of_class =
                || class.map_or_else(unknown, |c| self.stock.refuses_class(c, *known_to));
            if let Some(why) = self.stock.refuses(grant, *known_to).or_else(of_class) {
                convict(Invariant::I14, grant, why);
            }
        }
    }

    /// Says what of a device is given beyond what there is.
    fn over(&self, grant: &Grant, known_to: Moment) -> Option<String> {
        let id = &grant.id;
        self.twice(id, known_to)
            .or_else(|| self.over_capacity(id, known_to))
            .or_else(|| self.over_counters(id, known_to))
    }

    fn twice(&self, id: &DeviceId, known_to: Moment) -> Option<String> {
        let holders: Vec<&Held> = self.holders(id, known_to).collect();
        let grants = || holders.iter().flat_map(|held| &held.grants);
        if grants().all(|grant| grant.share.is_some()) || grants().count() < 2 {
            return None;
        }
        let names: Vec<String> = holders.iter().map(|held| held.claim.to_string()).collect();
        Some(format!("it is given {} times, to {}", grants().count(), names.join(", ")))
    }

    fn over_capacity(&self, id: &DeviceId, known_to: Moment) -> Option<String> {
        let mut consumed = Amounts::new();
        for grant in self.holders(id, known_to).flat_map(|held| &held.grants) {
            add(&mut consumed, &grant.consumed);
        }
        let there = self.stock.capacity(id, known_to);
        exceeds(&consumed, &there).map(|(name, taken, there)| {
            format!("{name} {} of {} are given", shown(taken), shown(there))
        })
    }

    fn over_counters(&self, id: &DeviceId, known_to: Moment) -> Option<String> {
        let mut taken: BTreeMap<&String, Amounts> = BTreeMap::new();
        for other in self.held.keys().filter(|other| other.pool == id.pool) {
            if self.holders(other, known_to).next().is_none() {
                continue;
            }
            for (set, counters) in self.stock.last_seen(other).into_iter().flat_map(|d| &d.consumes)
            {
                add(taken.entry(set).or_default(), counters);
            }
        }
        let there = self.stock.counters(&id.pool, known_to);
        let own = self.stock.last_seen(id)?.consumes.iter();
        let mut own = own.filter_map(|(set, _)| Some((set, taken.get(set)?, there.get(set)?)));
        own.find_map(|(set, taken, there)| {
            let (counter, taken, there) = exceeds(taken, there)?;
            Some(format!("counter {set}/{counter} {} of {} are given", shown(taken), shown(there)))
        })
    }

    /// Returns who has the device, but for what others gave too late to be known.
    fn holders(&self, id: &DeviceId, known_to: Moment) -> impl Iterator<Item = &Held> {
        let holders = self.held.get(id).into_iter().flat_map(BTreeMap::values);
        holders.filter(move |held| !held.by_foreign || held.since <= known_to)
    }
}

/// Returns an amount that is larger than what there is. What isn't there at all is not looked at.
fn exceeds<'a>(taken: &'a Amounts, there: &Amounts) -> Option<(&'a String, Nanos, Nanos)> {
    let mut known = taken.iter().filter_map(|(name, n)| Some((name, *n, *there.get(name)?)));
    known.find(|(_, taken, there)| taken > there)
}

fn grants(claim: &Claim) -> &[Grant] {
    claim.allocation.as_deref().unwrap_or_default()
}

fn same(one: &Grant, other: &Grant) -> bool {
    one.id == other.id && one.share == other.share && one.is_admin == other.is_admin
}

fn as_claim(object: Option<&Object>) -> Option<&Arc<Claim>> {
    match object {
        Some(Object::Claim(claim)) => Some(claim),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
