//! A group that waits holds no devices: what an earlier process, or a plan that
//! could not be taken back, has written to the claims of members without a place is released.

use crate::framework::{ClaimWrite, Op};
use crate::queue::Station;
use crate::snapshot::Place;
use crate::snapshot::devices::entries::PodClaimState;
use crate::types::claim::{ClaimRef, Consumer};
use crate::types::{GroupKey, Pod};

use super::Engine;
use super::ending::plan_of_writes;

/// What a group that was looked at does with its devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LettingGo {
    /// It has none, or what it has is in use.
    Nothing,
    Begun,
    /// It has some, or may have, and can't be looked into now.
    Later,
}

impl Engine {
    /// Begins to release what the group has and nobody of it uses.
    pub(super) fn lets_go(&mut self, key: &GroupKey) -> LettingGo {
        let entry = self.queue.group(key).and_then(|id| self.queue.entry(id));
        let Some(entry) = entry else { return LettingGo::Nothing };
        let members = entry.members.iter().filter_map(|uid| self.cluster.pod(uid));
        let waiting = members.filter(|record| record.place == Place::Nowhere);
        let claiming = waiting.filter(|record| !record.pod.spec.claims.is_empty());
        let claiming: Vec<&Pod> = claiming.map(|record| &record.pod).collect();
        // Claims may be listed after pods and groups: then it isn't known yet what they have.
        if !claiming.is_empty() && !self.unsynced.is_empty() {
            return LettingGo::Later;
        }
        let ops: Vec<Op> = claiming.into_iter().flat_map(|pod| self.releases(pod)).collect();
        if ops.is_empty() {
            return LettingGo::Nothing;
        }
        if self.draining || !waits(&entry.station) {
            return LettingGo::Later;
        }
        let id = entry.id;
        self.queue.take(id);
        self.begin_plan(plan_of_writes(id, ops));
        LettingGo::Begun
    }

    fn releases(&self, pod: &Pod) -> Vec<Op> {
        let devices = self.cluster.devices();
        let keys =
            pod.spec.claims.iter().filter_map(|entry| match self.cluster.claim_of(pod, entry) {
                PodClaimState::Claim(key) => Some(key),
                _ => None,
            });
        let records = keys.filter_map(|key| devices.claim(&key));
        let held = records
            .filter(|record| record.planned.is_none() && record.claim.reserved_for_pod(&pod.uid));
        let release = |claim: ClaimRef| {
            let consumer = Consumer::Pod(pod.uid.clone());
            let write = ClaimWrite::Release { consumer, deallocate: true };
            Op::Claim { claim, resource_version: 0, write }
        };
        held.map(|record| {
            release(ClaimRef { key: record.claim.key.clone(), uid: record.claim.uid.clone() })
        })
        .collect()
    }
}

fn waits(station: &Station) -> bool {
    match station {
        Station::Gated { .. }
        | Station::Unschedulable
        | Station::Backoff
        | Station::ErrorBackoff => true,
        Station::Active | Station::InFlight => false,
    }
}
