//! What a profile says of GPUs that are linked.

use std::collections::BTreeSet;

use crate::types::Text;

/// What counts as a GPU; the rules of the first profile that has some count for the whole ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricRules {
    /// Extended resources that count whole GPUs.
    pub resources: BTreeSet<Text>,
    /// Drivers whose devices are GPUs.
    pub drivers: BTreeSet<Text>,
    /// Device classes whose devices are GPUs.
    pub device_classes: BTreeSet<Text>,
}

impl Default for FabricRules {
    fn default() -> FabricRules {
        let one = |name: &str| BTreeSet::from([Text::from(name)]);
        FabricRules {
            resources: one("nvidia.com/gpu"),
            drivers: one("gpu.nvidia.com"),
            device_classes: one("gpu.nvidia.com"),
        }
    }
}
