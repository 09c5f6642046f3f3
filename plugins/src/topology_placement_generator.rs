//! TopologyPlacementGenerator: not built yet. It takes no arguments; pods with a scheduling group wait outside the queue
//! ([`crate::unbuilt`]), also where the gate of this plugin is off.

use berth_core::framework::PluginDef;

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: "TopologyPlacementGenerator",
    summary: "proposes topology domains for a pod group (not built yet)",
    missing: Some("pods with a scheduling group wait"),
    build: |_args, _points| {},
};
