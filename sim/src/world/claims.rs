//! What the API server does with writes to resource claims.

use std::sync::Arc;

use berth_core::engine::{WriteResult, Written};
use berth_core::framework::ClaimWrite;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{ClaimKey, ClaimRef};
use berth_core::types::{ResourceClaim, Text, Timestamp};

use super::World;
use super::carry::{not_found, stale};
use super::objects::{Key, Kind};

/// A claim can be reserved for so many. Source: `ResourceClaimReservedForMaxSize` of the API.
const RESERVED_MAX: usize = 256;

impl World {
    /// Returns the resource claims, by namespace and name.
    pub fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.rest.values().filter_map(claim_in)
    }

    pub fn claim(&self, key: &ClaimKey) -> Option<&ResourceClaim> {
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        self.rest.get(&Key { kind: Kind::ResourceClaims, namespace, name }).and_then(claim_in)
    }

    /// Changes a claim that is there, as a controller, driver or user does. One that is being
    /// deleted goes with its last finalizer. Returns false if there is none.
    pub fn change_claim(
        &mut self,
        key: &ClaimKey,
        now: Timestamp,
        change: impl FnOnce(&mut ResourceClaim),
    ) -> bool {
        let Some(mut claim) = self.claim(key).cloned() else { return false };
        change(&mut claim);
        let event = match claim.terminating && claim.finalizers.is_empty() {
            true => DeviceEvent::ClaimDeleted { key: claim.key, uid: claim.uid },
            false => DeviceEvent::ClaimApplied(Box::new(claim)),
        };
        self.apply_rest(ClusterEvent::Devices(event), now);
        true
    }

    /// Creates a claim; it gets a UID if it has none. With `generate` its name is a prefix. Returns
    /// its name, `None` if there is one of that name.
    pub fn add_claim(
        &mut self,
        mut claim: ResourceClaim,
        generate: bool,
        now: Timestamp,
    ) -> Option<Text> {
        let number = self.fresh_number();
        if generate {
            claim.key.name = format!("{}{number:04}", claim.key.name).into();
        }
        if self.claim(&claim.key).is_some() {
            return None;
        }
        if claim.uid.is_empty() {
            claim.uid = format!("{}-uid-{number:04}", claim.key.name).into();
        }
        let name = claim.key.name.clone();
        let event = DeviceEvent::ClaimApplied(Box::new(claim));
        self.apply_rest(ClusterEvent::Devices(event), now);
        Some(name)
    }

    /// A delete: the claim is gone at once, or with its last finalizer.
    pub fn end_claim(&mut self, key: &ClaimKey, now: Timestamp) {
        if self.claim(key).is_some_and(|claim| !claim.terminating) {
            self.change_claim(key, now, |claim| claim.terminating = true);
        }
    }

    pub(super) fn write_claim(
        &mut self,
        claim: &ClaimRef,
        at: u64,
        write: &ClaimWrite,
        now: Timestamp,
    ) -> WriteResult {
        let Some(known) = self.claim(&claim.key) else {
            return not_found(&format!("resourceclaims {:?}", &*claim.key.name));
        };
        if matches!(write, ClaimWrite::Read) {
            return done(known.clone());
        }
        if known.uid != claim.uid {
            return stale(format!("resourceclaims {:?} has another UID", &*claim.key.name));
        }
        if at != 0 && at != known.resource_version {
            return stale(format!("resourceclaims {:?} was modified", &*claim.key.name));
        }
        let mut changed = known.clone();
        if let Err(text) = change(&mut changed, write) {
            return WriteResult::Refused { code: 422, message: text };
        }
        if changed != *known {
            self.change_claim(&claim.key, now, |claim| *claim = changed);
        }
        match self.claim(&claim.key) {
            Some(written) => done(written.clone()),
            None => not_found(&format!("resourceclaims {:?}", &*claim.key.name)),
        }
    }
}

fn claim_in(event: &ClusterEvent) -> Option<&ResourceClaim> {
    match event {
        ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim)) => Some(claim),
        _ => None,
    }
}

pub(super) fn done(claim: ResourceClaim) -> WriteResult {
    let resource_version = claim.resource_version;
    let event = ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim)));
    WriteResult::Done(Written {
        resource_version,
        event: Some(Box::new(event)),
        ..Written::default()
    })
}

/// # Errors
/// What the API server's validation says.
fn change(claim: &mut ResourceClaim, write: &ClaimWrite) -> Result<(), Text> {
    match write {
        ClaimWrite::Read => {}
        ClaimWrite::Protect { finalizers } => {
            let new = |finalizer: &Text| !claim.finalizers.contains(finalizer);
            if claim.terminating && finalizers.iter().any(new) {
                let text = "metadata.finalizers: no new finalizers if the object is being deleted";
                return Err(text.into());
            }
            claim.finalizers.clone_from(finalizers);
        }
        ClaimWrite::Allocate { allocation, consumer, .. } => {
            if let Some(allocation) = allocation {
                if claim.allocation.is_some() {
                    return Err("status.allocation: field is immutable".into());
                }
                claim.allocation = Some(Arc::clone(allocation));
            }
            if claim.allocation.is_none() {
                return Err("status.reservedFor: may not be specified without allocation".into());
            }
            if !claim.is_reserved_for(consumer) {
                claim.reserved_for.push(consumer.clone());
            }
            if claim.reserved_for.len() > RESERVED_MAX {
                return Err(format!("status.reservedFor: must have at most {RESERVED_MAX}").into());
            }
        }
        ClaimWrite::Release { consumer, deallocate } => {
            claim.reserved_for.retain(|other| other != consumer);
            if *deallocate {
                if !claim.reserved_for.is_empty() {
                    return Err("status.allocation: deallocation of a claim in use".into());
                }
                claim.allocation = None;
                claim.devices.clear();
            }
        }
    }
    Ok(())
}
