//! The compiled-in plugins, one module each, and the table that lists them.
//!
//! A plugin names neither the engine, the queue nor another plugin. Adding one: the module with
//! its [`PluginDef`], a line in [`ALL`], a case file `tests/cases/<module>.md`.
#![forbid(unsafe_code)]

mod default_binder;
mod default_preemption;
mod dynamic_resources;
mod gang_scheduling;
mod gpu_fractions;
mod gpu_packing;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod numa_topology;
mod nvlink_topology;
mod pod_group_pods_count;
mod pod_topology_spread;
mod priority_sort;
mod scheduling_gates;
mod selectors;
mod shared;
mod taint_toleration;
mod topology_placement_generator;
pub mod unbuilt;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use berth_core::framework::{PluginDef, Registry};

pub use dynamic_resources::allocate;
pub use selectors::selectors;
pub use unbuilt::UnbuiltGate;

/// Every plugin, in the order of the default profile
/// ([`DEFAULT_MULTI_POINT`](berth_core::framework::profile_spec::DEFAULT_MULTI_POINT), then
/// [`GROUP_MULTI_POINT`](berth_core::framework::profile_spec::GROUP_MULTI_POINT)), own ones last.
pub const ALL: &[&PluginDef] = &[
    &scheduling_gates::PLUGIN,
    &priority_sort::PLUGIN,
    &node_name::PLUGIN,
    &node_unschedulable::PLUGIN,
    &taint_toleration::PLUGIN,
    &node_affinity::PLUGIN,
    &node_ports::PLUGIN,
    &node_resources_fit::PLUGIN,
    &volume_restrictions::PLUGIN,
    &node_volume_limits::PLUGIN,
    &volume_binding::PLUGIN,
    &volume_zone::PLUGIN,
    &pod_topology_spread::PLUGIN,
    &inter_pod_affinity::PLUGIN,
    &dynamic_resources::PLUGIN,
    &default_preemption::PLUGIN,
    &node_resources_balanced_allocation::PLUGIN,
    &image_locality::PLUGIN,
    &default_binder::PLUGIN,
    &node_declared_features::PLUGIN,
    &gang_scheduling::PLUGIN,
    &topology_placement_generator::PLUGIN,
    &pod_group_pods_count::PLUGIN,
    &gpu_packing::PLUGIN,
    &gpu_fractions::PLUGIN,
    &nvlink_topology::PLUGIN,
    &numa_topology::PLUGIN,
];

/// Returns the table as the framework takes it.
pub fn registry() -> Registry {
    Registry(ALL)
}

#[cfg(test)]
mod tests {
    use berth_core::framework::profile_spec::{DEFAULT_MULTI_POINT, GROUP_MULTI_POINT};

    use super::*;

    #[test]
    fn the_table_has_every_default_plugin_in_the_order_of_the_default_profile() {
        let names: Vec<&str> = ALL.iter().map(|def| def.name).collect();
        let defaults = DEFAULT_MULTI_POINT.iter().chain(&GROUP_MULTI_POINT);
        let wanted: Vec<&str> = defaults.map(|(name, _)| *name).collect();
        assert_eq!(names.get(..wanted.len()), Some(wanted.as_slice()));
    }
}
