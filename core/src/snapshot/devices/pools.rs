//! Pools: the slices that one driver published under one name.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::device::{Consumption, Placement};
use crate::types::{Device, ResourceSlice, Text};

use super::super::sets::leave;
use super::gather::View;
use super::taken::TakenDevices;
use super::{Devices, PoolKey};

/// Dense index of a slice; reused after the slice is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceIdx(pub u32);

impl SliceIdx {
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Dense index of a pool; reused after the pool is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolIdx(pub u32);

impl PoolIdx {
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Default)]
pub struct Pool {
    pub driver: Text,
    pub name: Text,
    /// By the slice's name, of every generation.
    pub(super) slices: BTreeMap<Text, SliceIdx>,
    pub(super) taken: TakenDevices,
    /// The nodes that have a slice of their own here.
    pub(super) nodes: BTreeSet<Text>,
    /// It has a slice that isn't for one node.
    pub(super) wide: bool,
    /// What its nodes see, if all see the same.
    pub(super) view: Option<View>,
}

/// Whose view of devices has changed.
#[derive(Debug, Default)]
pub(super) struct Seers {
    pub(super) nodes: BTreeSet<Text>,
    /// Any node may see it.
    pub(super) wide: bool,
}

impl Seers {
    pub(super) fn add(&mut self, pool: &Pool) {
        self.nodes.extend(pool.nodes.iter().cloned());
        self.wide |= pool.wide;
    }
}

impl Pool {
    /// Tells whether nobody would miss it.
    pub(super) fn unused(&self) -> bool {
        self.slices.is_empty() && self.taken.is_empty()
    }
}

impl Devices {
    /// Returns the pool's index, made if there is none.
    pub(super) fn enter_pool(&mut self, key: &PoolKey) -> PoolIdx {
        if let Some(known) = self.pool_keys.get(key) {
            return *known;
        }
        let fresh = Pool { driver: key.0.clone(), name: key.1.clone(), ..Pool::default() };
        let idx = match self.free_pools.pop() {
            Some(idx) => {
                self.pools[idx.at()] = Some(fresh);
                idx
            }
            None => {
                self.pools.push(Some(fresh));
                PoolIdx((self.pools.len() - 1) as u32)
            }
        };
        self.pool_keys.insert(key.clone(), idx);
        idx
    }

    pub(super) fn pool_at(&self, driver: &Text, name: &Text) -> Option<PoolIdx> {
        self.pool_keys.get(&(driver.clone(), name.clone())).copied()
    }

    /// Frees the pool's index if it has neither slices nor devices that are taken.
    pub(super) fn leave_pool(&mut self, idx: PoolIdx) {
        let Some(pool) = self.pool(idx) else { return };
        if !pool.unused() {
            return;
        }
        let key = (pool.driver.clone(), pool.name.clone());
        self.pools[idx.at()] = None;
        self.pool_keys.remove(&key);
        self.free_pools.push(idx);
    }

    /// Puts a slice in the place of the one of its name.
    pub(super) fn put_slice(&mut self, slice: ResourceSlice) -> Seers {
        let mut seers = Seers::default();
        let key = (slice.driver.clone(), slice.pool.clone());
        if let Some(known) = self.slice_names.get(&slice.name).copied()
            && self.slice(known).is_some_and(|s| s.driver != key.0 || s.pool != key.1)
        {
            seers = self.take_slice(&slice.name);
        }
        let pool = self.enter_pool(&key);
        let name = slice.name.clone();
        let idx = match self.slice_names.get(&name) {
            Some(known) => *known,
            None => self.free_slices.pop().unwrap_or_else(|| {
                self.slices.push(None);
                SliceIdx((self.slices.len() - 1) as u32)
            }),
        };
        self.slice_names.insert(name.clone(), idx);
        self.selections.forget_slice(idx, slice.devices.len());
        self.slices[idx.at()] = Some(slice);
        if let Some(pool) = &mut self.pools[pool.at()] {
            pool.slices.insert(name, idx);
        }
        self.slices_moved(pool, &mut seers);
        seers
    }

    /// Takes a slice out.
    pub(super) fn take_slice(&mut self, name: &Text) -> Seers {
        let mut seers = Seers::default();
        let Some(idx) = self.slice_names.remove(name) else { return seers };
        let Some(slice) = self.slices[idx.at()].take() else { return seers };
        self.free_slices.push(idx);
        self.selections.forget_slice(idx, 0);
        let Some(pool_idx) = self.pool_at(&slice.driver, &slice.pool) else { return seers };
        if let Some(pool) = &mut self.pools[pool_idx.at()] {
            pool.slices.remove(name);
        }
        self.slices_moved(pool_idx, &mut seers);
        self.leave_pool(pool_idx);
        seers
    }

    /// Brings up to date what follows from a pool's slices. Adds who saw it before or sees it now.
    fn slices_moved(&mut self, idx: PoolIdx, seers: &mut Seers) {
        if let Some(pool) = self.pool(idx) {
            seers.add(pool);
        }
        self.unplace(idx);
        let Some(mut pool) = self.pools[idx.at()].take() else { return };
        let slices = pool.slices.values().filter_map(|slice| self.slice(*slice));
        pool.wide = false;
        for slice in slices {
            match &slice.placement {
                Placement::Node(node) => {
                    pool.nodes.insert(node.clone());
                }
                Placement::Selector(_)
                | Placement::AllNodes
                | Placement::PerDevice
                | Placement::Unknown => pool.wide = true,
            }
        }
        pool.view = self.common_view(&pool);
        let held: Vec<Text> = pool.taken.names().cloned().collect();
        for device in held {
            if let Some(consumes) = self.consumes(&pool, &device) {
                let consumes = consumes.to_vec();
                pool.taken.charge(&device, &consumes);
            }
        }
        for node in &pool.nodes {
            self.local.entry(node.clone()).or_default().insert(idx);
        }
        if pool.wide {
            self.wide.insert(idx);
        }
        seers.add(&pool);
        self.pools[idx.at()] = Some(pool);
    }

    fn unplace(&mut self, idx: PoolIdx) {
        let Some(pool) = &mut self.pools[idx.at()] else { return };
        for node in std::mem::take(&mut pool.nodes) {
            leave(&mut self.local, &node, &idx);
        }
        self.wide.remove(&idx);
    }

    /// Returns what slices say that a device takes of counters, the newest generation's word;
    /// nothing if no slice shows it.
    pub(super) fn consumes<'a>(&'a self, pool: &Pool, device: &str) -> Option<&'a [Consumption]> {
        let slices = pool.slices.values().filter_map(|slice| self.slice(*slice));
        let shows = |slice: &'a ResourceSlice| -> Option<(i64, &'a Device)> {
            let device = slice.devices.iter().find(|known| known.name == device)?;
            Some((slice.generation, device))
        };
        let newest = slices.filter_map(shows).max_by_key(|(generation, _)| *generation);
        newest.map(|(_, device)| &*device.consumes)
    }

    /// Returns the pools that `node` may have devices of.
    pub(super) fn pools_for(&self, node: &str) -> impl Iterator<Item = &Pool> {
        let local = self.local.get(node).into_iter().flatten();
        let local = local.filter(|idx| !self.wide.contains(idx));
        local.chain(&self.wide).filter_map(|idx| self.pool(*idx))
    }
}
