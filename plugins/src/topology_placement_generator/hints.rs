//! Which changes may help a group for which no domain had room.

use berth_core::framework::{Hint, HintContext, Interest};
use berth_core::snapshot::Change;

use super::TopologyPlacementGenerator;

impl Interest for TopologyPlacementGenerator {
    /// Anything that gives room somewhere: which domain lacked what is not remembered.
    fn hint(&self, _: HintContext<'_>, change: &Change) -> Hint {
        match change {
            Change::NodeAdded { .. }
            | Change::NodeUpdated { .. }
            | Change::PodFreed { .. }
            | Change::Groups(_)
            | Change::Devices(_) => Hint::Queue,
            // Members that come or go make a need of another size.
            Change::PodUpdated { .. } | Change::PodDeleted { .. } => Hint::Queue,
            Change::NodeDeleted { .. }
            | Change::PodAdded { .. }
            | Change::PodBound { .. }
            | Change::Storage { .. }
            | Change::StorageDeleted { .. }
            | Change::NamespaceChanged { .. }
            | Change::SelectorOwnerChanged => Hint::Skip,
        }
    }
}
