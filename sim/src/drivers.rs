//! Drivers: what they publish of their devices, and how they prepare devices that want it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::framework::rng::Rng;
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{ClaimKey, DeviceStatus};
use berth_core::types::device::{DeviceTaint, DeviceTaintEffect};
use berth_core::types::{ResourceClaim, ResourceSlice, Span, Text, Timestamp};

use crate::fault::{Fault, FaultPlan};
use crate::world::World;

/// Driver and pool.
pub type PoolKey = (Text, Text);

/// What becomes of one device of a pool with the pool's next generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Republish {
    Same,
    /// It has a taint, or loses it.
    Tainted(Text, bool),
    /// It is left out, or is back.
    Dropped(Text, bool),
}

/// The slices of a pool as their driver wants them.
#[derive(Debug)]
struct Pool {
    generation: i64,
    slices: Vec<ResourceSlice>,
    tainted: BTreeSet<Text>,
    dropped: BTreeSet<Text>,
    /// Grows when a slice is deleted: it comes back as another object.
    lives: u64,
}

/// All drivers.
#[derive(Debug)]
pub(crate) struct Drivers {
    pools: BTreeMap<PoolKey, Pool>,
    /// When a claim's devices are prepared.
    due: BTreeSet<(Timestamp, ClaimKey, Text)>,
    /// Claims whose driver never says anything, by UID.
    silent: BTreeSet<Text>,
    known: BTreeSet<Text>,
    seen: u64,
    rng: Rng,
}

/// What a driver reports of a device that is ready, and of one that it can't prepare.
pub const READY: &str = "Ready";
pub const FAILED: &str = "Failed";

impl Drivers {
    pub(crate) fn new(slices: Vec<ResourceSlice>, rng: Rng) -> Drivers {
        let mut pools: BTreeMap<PoolKey, Pool> = BTreeMap::new();
        for slice in slices {
            let fresh = || Pool {
                generation: 1,
                slices: Vec::new(),
                tainted: BTreeSet::new(),
                dropped: BTreeSet::new(),
                lives: 0,
            };
            let key = (slice.driver.clone(), slice.pool.clone());
            pools.entry(key).or_insert_with(fresh).slices.push(slice);
        }
        let (due, silent, known) = Default::default();
        Drivers { pools, due, silent, known, seen: 0, rng }
    }

    /// Begins another generation of the pool. Returns how many slices it has.
    pub(crate) fn roll(&mut self, pool: &PoolKey, change: &Republish) -> usize {
        let Some(pool) = self.pools.get_mut(pool) else { return 0 };
        pool.generation += 1;
        let (set, device, on) = match change {
            Republish::Same => return pool.slices.len(),
            Republish::Tainted(device, on) => (&mut pool.tainted, device, *on),
            Republish::Dropped(device, on) => (&mut pool.dropped, device, *on),
        };
        if on {
            set.insert(device.clone());
        } else {
            set.remove(device);
        }
        pool.slices.len()
    }

    /// Returns a slice of the pool as it is to be published.
    pub(crate) fn slice(&self, pool: &PoolKey, at: usize) -> Option<ResourceSlice> {
        let pool = self.pools.get(pool)?;
        let mut slice = pool.slices.get(at)?.clone();
        slice.uid = format!("{}-{}", slice.name, pool.lives).into();
        slice.generation = pool.generation;
        slice.devices.retain(|device| !pool.dropped.contains(&device.name));
        for device in slice.devices.iter_mut().filter(|d| pool.tainted.contains(&d.name)) {
            Arc::make_mut(&mut device.model).taints = Box::new([failing()]);
        }
        Some(slice)
    }

    /// A slice is deleted. Returns the deletion.
    pub(crate) fn vanish(&mut self, pool: &PoolKey, at: usize) -> Option<DeviceEvent> {
        let slice = self.slice(pool, at)?;
        self.pools.get_mut(pool)?.lives += 1;
        Some(DeviceEvent::SliceDeleted { name: slice.name, uid: slice.uid })
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Prepares the devices that are due by `now`.
    pub(crate) fn step(&mut self, world: &mut World, now: Timestamp, plan: &mut FaultPlan) {
        self.look(world, plan);
        while let Some((at, key, uid)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.due.pop_first();
            let fails = self.rng.below(8) == 0;
            if world.claim(&key).is_some_and(|claim| claim.uid == uid && wants_preparation(claim)) {
                world.change_claim(&key, now, |claim| prepare(claim, fails));
            }
            self.look(world, plan);
        }
    }

    fn look(&mut self, world: &World, plan: &mut FaultPlan) {
        for logged in world.since(self.seen) {
            let ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim)) = &*logged.event else {
                continue;
            };
            if !wants_preparation(claim) {
                if claim.allocation.is_none() && self.silent.remove(&claim.uid) {
                    plan.took_effect(Fault::DriverSilent);
                }
                self.known.remove(&claim.uid);
                continue;
            }
            if !self.known.insert(claim.uid.clone()) {
                continue;
            }
            if plan.strikes(Fault::DriverSilent) {
                self.silent.insert(claim.uid.clone());
            } else {
                let at = logged.at + Span(300 + self.rng.below(4000));
                self.due.insert((at, claim.key.clone(), claim.uid.clone()));
            }
        }
        self.seen = world.version();
    }
}

fn failing() -> DeviceTaint {
    let effect = DeviceTaintEffect::NoSchedule;
    DeviceTaint { key: "example.com/unhealthy".into(), value: Text::default(), effect }
}

/// Tells whether a device of the claim waits for its driver's word.
fn wants_preparation(claim: &ResourceClaim) -> bool {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    let mut waiting = results.filter(|result| !result.binding_conditions.is_empty());
    waiting.any(|result| claim.devices.iter().all(|status| status.id != result.id))
}

fn prepare(claim: &mut ResourceClaim, fails: bool) {
    let Some(allocation) = claim.allocation.clone() else { return };
    for result in allocation.results.iter().filter(|r| !r.binding_conditions.is_empty()) {
        let says = if fails { FAILED } else { READY };
        claim.devices.push(DeviceStatus {
            id: result.id.clone(),
            share_id: result.share_id.clone(),
            conditions: BTreeMap::from([(says.into(), true)]),
        });
    }
}
