//! SchedulingGates: keeps a pod out of the queue while its spec lists scheduling gates.

use std::sync::Arc;

use berth_core::framework::{
    Args, Gate, Hint, HintContext, Interest, PluginDef, Points, PreEnqueue,
};
use berth_core::snapshot::{Change, Cluster};
use berth_core::types::Pod;

const NAME: &str = "SchedulingGates";

pub(crate) const PLUGIN: PluginDef = PluginDef {
    name: NAME,
    summary: "keeps a pod out of the queue while its spec lists scheduling gates",
    missing: None,
    build,
};

fn build(_args: &Args, points: &mut Points) {
    let plugin = Arc::new(SchedulingGates);
    points.pre_enqueue(plugin.clone());
    points.interest(plugin);
}

struct SchedulingGates;

impl PreEnqueue for SchedulingGates {
    fn gate(&self, pod: &Pod, _cluster: &Cluster) -> Gate {
        if pod.gates.is_empty() {
            return Gate::Open;
        }
        let message = format!("waiting for scheduling gates: [{}]", pod.gates.join(" ")).into();
        // The API server itself writes the condition SchedulingGated.
        Gate::Closed { message, told: false }
    }
}

impl Interest for SchedulingGates {
    fn hint(&self, cx: HintContext<'_>, change: &Change) -> Hint {
        match change {
            Change::PodUpdated { uid, aspects, .. } if *uid == cx.pod.uid && aspects.gates_gone => {
                Hint::Queue
            }
            _ => Hint::Skip,
        }
    }
}
