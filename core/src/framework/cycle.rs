//! What a plugin may read while one pod is looked at, and what it may keep until the end of it.

use std::any::Any;
use std::collections::BTreeMap;

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

impl std::fmt::Debug for CycleState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.kept.keys()).finish()
    }
}
