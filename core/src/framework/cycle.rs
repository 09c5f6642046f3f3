//! What a plugin may read while one pod is looked at, and what it may keep until the end of it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::snapshot::devices::gather::NodeDevice;
use crate::snapshot::{Cluster, NodeIdx};
use crate::types::Pod;

use super::work::Kept;

/// One pod looked at against one state of the ledger.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    pub pod: &'a Pod,
    pub cluster: &'a Cluster,
}

/// What plugins worked out in PreFilter and PreScore for the points after it, by plugin name.
///
/// A plugin keeps nothing between calls but this. What is put here in PreFilter must depend only
/// on the pod's class and on the indexes that the plugin's [`Reads`](super::Reads) names.
#[derive(Default)]
pub struct CycleState {
    kept: BTreeMap<&'static str, Kept>,
    /// What searches left on nodes.
    found: BTreeMap<(&'static str, NodeIdx), Kept>,
    device_orders: Vec<Arc<dyn DeviceOrder>>,
}

/// Says which devices of the chosen node a pod had better take, to the plugin that allocates them.
pub trait DeviceOrder: Send + Sync + fmt::Debug {
    /// Returns a rank for each of `devices`, the least first; equal ranks where it makes no
    /// difference. The pod may have taken its place on the node already, but no devices.
    fn ranks(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        devices: &[NodeDevice<'_>],
    ) -> Vec<i64>;

    /// Returns who judges sets of `devices`, where it matters which are taken together. That comes
    /// before [`DeviceOrder::ranks`] of the same plugin; of several judges the first is heard.
    fn sets(
        &self,
        _pod: &Pod,
        _cluster: &Cluster,
        _node: NodeIdx,
        _devices: &[NodeDevice<'_>],
    ) -> Option<Arc<dyn DeviceSets>> {
        None
    }
}

/// Judges which devices go well together. They are named by their place in the list that was given.
pub trait DeviceSets: Send + Sync + fmt::Debug {
    /// Tells whether it makes a difference what a device is taken with; others are left out of sets.
    fn counts(&self, device: u32) -> bool;

    /// Rates the best set that has all of `picked` and `open` more devices of `candidates`. `None` if
    /// there is no such set.
    fn rate(&self, picked: &[u32], candidates: &[u32], open: usize) -> Option<SetRating>;

    /// Tells how far a device is from what it is to work with: to one that counts these are the others among
    /// `picked`, to another those that count, and where none is picked the nearest of `candidates`. The least
    /// is best; it is compared for one `picked` only.
    fn distance(
        &self,
        _device: u32,
        _picked: &[u32],
        _candidates: &mut dyn Iterator<Item = u32>,
    ) -> u64 {
        0
    }
}

/// How good a set is; the least is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetRating {
    /// How badly its devices go together.
    pub apart: u64,
    /// How far it is from being what the rest of the pod's group has elsewhere.
    pub off_rail: u64,
    /// What it breaks for those who come next.
    pub broken: u64,
}

impl CycleState {
    pub fn put<T: Any + Send + Sync>(&mut self, plugin: &'static str, value: T) {
        self.kept.insert(plugin, Box::new(value));
    }

    /// Returns what `plugin` kept, `None` if it kept nothing or something of another type.
    pub fn kept<T: Any>(&self, plugin: &'static str) -> Option<&T> {
        self.kept.get(plugin)?.downcast_ref()
    }

    /// Returns what the last search of `plugin` on `node` kept, `None` if it kept nothing or
    /// something of another type.
    pub fn found<T: Any>(&self, plugin: &'static str, node: NodeIdx) -> Option<&T> {
        self.found.get(&(plugin, node))?.downcast_ref()
    }

    /// Has devices chosen in an order; that of plugins before this one decides first.
    pub fn order_devices(&mut self, order: Arc<dyn DeviceOrder>) {
        self.device_orders.push(order);
    }

    pub fn device_orders(&self) -> &[Arc<dyn DeviceOrder>] {
        &self.device_orders
    }

    pub(crate) fn take_found(&mut self, plugin: &'static str, node: NodeIdx) -> Option<Kept> {
        self.found.remove(&(plugin, node))
    }

    pub(crate) fn put_found(&mut self, plugin: &'static str, node: NodeIdx, kept: Option<Kept>) {
        if let Some(kept) = kept {
            self.found.insert((plugin, node), kept);
        }
    }

    pub(crate) fn n_found(&self) -> usize {
        self.found.len()
    }
}

impl fmt::Debug for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kept.keys()).finish()
    }
}
