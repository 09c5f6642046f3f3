//! What a profile says of packing.

use std::collections::BTreeSet;

use crate::types::Text;

use super::demand::Demand;

/// Rules for packing; those of the first profile that has some count for the whole ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackingRules {
    /// Extended resources that count GPUs, or replicas of them where a node's label
    /// `<resource>.replicas` says that a plugin shares them by time.
    pub resources: BTreeSet<Text>,
    /// Drivers whose devices are GPUs.
    pub drivers: BTreeSet<Text>,
    /// Device classes whose devices are GPUs.
    pub device_classes: BTreeSet<Text>,
    /// What pods are expected, and how often: only the proportions count.
    pub prior: Vec<(Demand, u32)>,
    /// What is expected counts as so many pods that were seen.
    pub prior_pods: u32,
    /// A pod seen counts half after so many others; 0: all count alike.
    pub half_life: u64,
    /// Prices are found anew after so many pods; 0: never.
    pub solve_every: u32,
    /// More is expected than fits where pods name models of GPUs: more whole nodes stay free, and
    /// less is given out when the cluster is full.
    pub room_for_named: bool,
}

impl Default for PackingRules {
    fn default() -> PackingRules {
        PackingRules {
            resources: ["nvidia.com/gpu", "nvidia.com/gpu.shared"].map(Text::from).into(),
            drivers: BTreeSet::from([Text::from("gpu.nvidia.com")]),
            device_classes: ["gpu.nvidia.com", "mig.nvidia.com"].map(Text::from).into(),
            prior: Vec::new(),
            prior_pods: 500,
            half_life: 5_000,
            solve_every: 100,
            room_for_named: false,
        }
    }
}
