//! DefaultBinder: binds a pod by creating its Binding.

use std::sync::Arc;

use berth_core::framework::{Args, Bind, Op, PluginDef, Points, WriteDraft};
use berth_core::snapshot::{Cluster, NodeIdx};
use berth_core::types::Pod;

const NAME: &str = "DefaultBinder";

pub(crate) const PLUGIN: PluginDef =
    PluginDef { name: NAME, summary: "binds a pod by creating its Binding", missing: None, build };

fn build(_args: &Args, points: &mut Points) {
    points.bind(Arc::new(DefaultBinder));
}

struct DefaultBinder;

impl Bind for DefaultBinder {
    /// Nothing undoes a binding but deleting the pod, so the draft has no undo.
    fn bind(&self, pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Option<WriteDraft> {
        let node = cluster.nodes().node(node)?.name.clone();
        let op =
            Op::Bind { pod: pod.reference(), node, resource_version: 0, plan: None, gpus: None };
        Some(WriteDraft::plain(format!("bind-{}", pod.uid), op))
    }
}
