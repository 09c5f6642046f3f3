//! Claims: what the API server says of them, and what plans under way will write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::types::claim::{Allocation, ClaimKey, DeviceResult, ResourceClaim};
use crate::types::{DeviceId, PodUid, Text};

use super::super::changes::Version;
use super::super::sets::leave;
use super::Devices;
use super::pools::Seers;

/// A claim with what is known of it.
#[derive(Clone, Debug)]
pub struct ClaimRecord {
    pub claim: Arc<ResourceClaim>,
    /// An allocation that is on its way to the API server.
    pub planned: Option<Planned>,
    /// Moves when the claim changes, or what is planned for it; not when one more pod joins a plan.
    pub version: Version,
    /// A plan will make it: the API server doesn't have it yet.
    pub unborn: bool,
}

#[derive(Clone, Debug)]
pub struct Planned {
    pub allocation: Arc<Allocation>,
    /// Pods whose plans will write it, or wait for it to be written.
    pub pods: BTreeSet<PodUid>,
}

impl ClaimRecord {
    /// Returns what is allocated to the claim, on the server or by a plan.
    pub fn allocation(&self) -> Option<&Arc<Allocation>> {
        let planned = self.planned.as_ref().map(|planned| &planned.allocation);
        self.claim.allocation.as_ref().or(planned)
    }

    /// Returns everything that it keeps from others. Both, where the server has another allocation
    /// than the plan: until the plan is taken back each may be real.
    fn held(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        let real = self.claim.allocation.as_ref();
        let planned = self.planned.as_ref().map(|planned| &planned.allocation);
        let planned = planned.filter(|p| real.is_none_or(|real| !real.grants_as(p)));
        real.into_iter().chain(planned)
    }
}

/// A device that two claims have for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub id: DeviceId,
    /// UIDs of the claims, the one that came later last.
    pub claims: [Text; 2],
}

/// What a change of claims did to pools.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) seers: Seers,
    pub(super) conflicts: Vec<Conflict>,
}

impl Devices {
    /// Puts a record in the place of the one with its key, none takes it out. What both hold is not
    /// let go in between: only the ledger knows what a device takes of counters that no slice shows.
    pub(super) fn put_claim(&mut self, key: &ClaimKey, record: Option<ClaimRecord>) -> Moved {
        let mut moved = Moved::default();
        let old = match &record {
            Some(record) => self.claims.insert(key.clone(), record.clone()),
            None => self.claims.remove(key),
        };
        self.note_special(key, old.as_ref(), record.as_ref());
        let (was, is) = (holds(old.as_ref()), holds(record.as_ref()));
        let as_much = |hold: &Hold<'_>, result: &DeviceResult| {
            was.get(hold).is_some_and(|known| known.consumed == result.consumed)
        };
        let gone = was.iter().filter(|(hold, _)| !is.contains_key(*hold));
        let new = is.iter().filter(|(hold, result)| !as_much(hold, result));
        new.for_each(|((claim, ..), result)| self.take(claim, result, &mut moved));
        gone.for_each(|((claim, ..), result)| self.release(claim, result, &mut moved));
        if let Some(old) = &old {
            // A claim is in no conflict with the one whose name it has.
            moved.conflicts.retain(|conflict| conflict.claims[0] != old.claim.uid);
        }
        moved
    }

    /// Keeps [`Devices::special_claim`] in step with one claim.
    fn note_special(
        &mut self,
        key: &ClaimKey,
        was: Option<&ClaimRecord>,
        is: Option<&ClaimRecord>,
    ) {
        let (was, is) = (was.and_then(special_of), is.and_then(special_of));
        if let Some(pod) = was.filter(|pod| is != Some(pod)) {
            leave(&mut self.special, pod, key);
        }
        if let Some(pod) = is {
            self.special.entry(pod.clone()).or_default().insert(key.clone());
        }
    }

    fn take(&mut self, claim: &Text, result: &DeviceResult, moved: &mut Moved) {
        let idx = self.enter_pool(&(result.id.driver.clone(), result.id.pool.clone()));
        let Some(mut pool) = self.pools[idx.at()].take() else { return };
        moved.seers.add(&pool);
        let known = pool.taken.device(&result.id.device).is_some();
        let consumes = match known {
            true => None,
            false => self.consumes(&pool, &result.id.device).map(<[_]>::to_vec),
        };
        let other = pool.taken.take(claim, result, &consumes.unwrap_or_default());
        self.pools[idx.at()] = Some(pool);
        if let Some(other) = other {
            let claims = [other, claim.clone()];
            moved.conflicts.push(Conflict { id: result.id.clone(), claims });
        }
    }

    fn release(&mut self, claim: &Text, result: &DeviceResult, moved: &mut Moved) {
        let Some(idx) = self.pool_at(&result.id.driver, &result.id.pool) else { return };
        if let Some(pool) = &mut self.pools[idx.at()] {
            pool.taken.release(claim, result);
            moved.seers.add(pool);
        }
        self.leave_pool(idx);
    }

    pub(super) fn note_planned(&mut self, pod: &PodUid, key: &ClaimKey) {
        self.planned.entry(pod.clone()).or_default().insert(key.clone());
    }

    pub(super) fn note_unplanned(&mut self, pod: &PodUid, key: &ClaimKey) {
        leave(&mut self.planned, pod, key);
    }
}

/// Returns the pod for whose extended resources the claim is.
fn special_of(record: &ClaimRecord) -> Option<&PodUid> {
    record.claim.owner_pod.as_ref().filter(|_| record.claim.extended_resources)
}

/// The claim's UID, the device, and the share unless it is had alone.
type Hold<'a> = (&'a Text, &'a DeviceId, Option<&'a Text>);

/// Returns what a claim keeps from others: each device and share once, though the plan grants it
/// too. Administrators' results take nothing from anybody.
fn holds(record: Option<&ClaimRecord>) -> BTreeMap<Hold<'_>, &DeviceResult> {
    let mut holds = BTreeMap::new();
    let Some(record) = record else { return holds };
    let results = record.held().flat_map(|allocation| &allocation.results);
    for result in results.filter(|result| !result.admin) {
        let hold = (&record.claim.uid, &result.id, result.share_id.as_ref());
        holds.entry(hold).or_insert(result);
    }
    holds
}
