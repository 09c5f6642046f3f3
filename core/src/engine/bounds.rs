//! Where a member of a group may go, and for how many like it there is room.

use std::sync::Arc;

use crate::framework::profile::Entry;
use crate::framework::{Cycle, Placement, Room};
use crate::snapshot::{NodeIdx, Overlay};
use crate::types::Pod;

use super::budget::Budget;
use super::guard::guarded;
use super::placing::{NODES_A_STEP, Placer};
use super::unfit::Unplaced;

impl Placer<'_> {
    /// The next pod goes to a node that is in all of these, and those alone count for it.
    pub(super) fn stay_within(
        &mut self,
        overlay: &mut Overlay<'_>,
        placements: Vec<Arc<Placement>>,
    ) {
        let mut nodes = placements.iter().map(|placement| placement.nodes.clone());
        let both = nodes.next().map(|first| nodes.fold(first, |a, b| a.intersection(&b)));
        overlay.keep_within(both.map(Arc::new));
        self.within = placements;
    }

    pub(super) fn is_within(&self, node: NodeIdx) -> bool {
        self.within.iter().all(|placement| placement.nodes.contains(node))
    }

    pub(super) fn is_open(&self, node: NodeIdx) -> bool {
        self.open.as_ref().is_none_or(|open| open.contains(node))
    }

    /// Returns for how many such pods each node has room at most, whatever counts by domains say: they
    /// change with each member that is placed. Shape: by node, 0 where none fits; it ends with the last
    /// that has some.
    pub(super) fn room(
        &mut self,
        overlay: &mut Overlay<'_>,
        pod: &Pod,
        budget: &mut Budget,
    ) -> Result<Vec<u32>, Unplaced> {
        let (class, table) = self.looked_at(overlay, pod, budget)?;
        let cycle = Cycle { pod, cluster: overlay.cluster() };
        let mut room = Vec::new();
        let fit = table.may_fit();
        for node in fit.iter() {
            room.resize(node.at(), 0);
            let of = |entry: &Entry<dyn Room>| entry.plugin.room(cycle, &table.state, node);
            let counted = || self.profile.room.iter().map(of).min().unwrap_or(u32::MAX);
            room.push(guarded("in its cycle", counted).map_err(Unplaced::Error)?.max(1));
        }
        budget.spend((fit.len() / NODES_A_STEP) as u64);
        self.classes.put(class, table, self.group);
        Ok(room)
    }
}
