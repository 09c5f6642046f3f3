//! What users and controllers do to the world.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::snapshot::ClusterEvent;
use berth_core::types::pod::TolerationOperator;
use berth_core::types::{Pod, PodUid, Text, Toleration};

use crate::workload::{Action, GPU, passing_taint};

use super::Trial;

const NAMESPACE: &str = "default";

impl Trial<'_> {
    pub(super) fn act(&mut self, action: Action) {
        let now = self.now;
        match action {
            Action::Create(pod) => self.world.apply(ClusterEvent::PodApplied(pod), now),
            Action::Ungate(name) => {
                if let Some(uid) = self.uid(&name) {
                    self.world.change_pod(&uid, now, |pod| pod.gates.clear());
                }
            }
            Action::Delete(name) => {
                if let Some(uid) = self.uid(&name) {
                    self.world.delete_pod(&uid, now);
                }
            }
            Action::AddNode(node) => {
                if self.world.node(&node.name).is_none() {
                    self.world.apply(ClusterEvent::NodeApplied(*node), now);
                }
            }
            Action::Report { node, gpus } => {
                self.change_node(&node, |node| node.allocatable.set(&GPU.into(), gpus));
            }
            Action::Tolerate(name) => {
                if let Some(uid) = self.uid(&name) {
                    self.world.change_pod(&uid, now, tolerate);
                }
            }
            Action::Cordon { node, on } => self.change_node(&node, |node| node.unschedulable = on),
            Action::Taint { node, on } => self.change_node(&node, |node| {
                node.taints.retain(|taint| *taint != passing_taint());
                if on {
                    node.taints.push(passing_taint());
                }
            }),
            Action::Devices(action) => self.act_on_devices(action),
            Action::Gangs(action) => self.act_on_gangs(action),
        }
    }

    fn uid(&self, name: &Text) -> Option<PodUid> {
        self.world.pod(&Text::from(NAMESPACE), name).map(|pod| pod.uid.clone())
    }

    fn change_node(&mut self, name: &Text, change: impl FnOnce(&mut berth_core::types::Node)) {
        if let Some(mut node) = self.world.node(name).cloned() {
            change(&mut node);
            self.world.apply(ClusterEvent::NodeApplied(node), self.now);
        }
    }

    /// The pod garbage collector: pods whose node was missing at the last look too are gone.
    pub(super) fn collect_ghosts(&mut self) {
        let missing = |node: &Text| self.world.node(node).is_none();
        let ghosts: BTreeSet<PodUid> = self
            .world
            .pods()
            .filter(|pod| pod.node_name.as_ref().is_some_and(missing))
            .map(|pod| pod.uid.clone())
            .collect();
        for uid in ghosts.intersection(&self.ghosts) {
            self.world.remove_pod(uid, self.now);
        }
        self.ghosts = ghosts;
    }
}

/// A toleration can be added to a pod that is there; the spec is a new one.
fn tolerate(pod: &mut Pod) {
    let mut spec = (*pod.spec).clone();
    for key in ["dedicated", &passing_taint().key] {
        spec.tolerations.push(Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            ..Toleration::default()
        });
    }
    pod.spec = Arc::new(spec);
}
