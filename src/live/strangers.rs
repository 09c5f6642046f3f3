//! Binds by somebody else: a second scheduler for the same pods, or one on the same nodes.
//!
//! Nothing forbids them, and what they place counts as what we place. But neither knows what the other
//! has under way, so both can give away what is left of a node: it is told, counted, and left alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::engine::Input;
use berth_core::snapshot::{Cluster, ClusterEvent, Place};
use berth_core::types::{Pod, Text};
use tracing::warn;

use super::complaint::{Complaint, TELL_AGAIN};
use super::events::{EventQueue, Happening};
use super::kinds;
use crate::observe::metrics::Metrics;
use crate::wire::Kind;

/// Looks at what the engine is about to hear.
pub struct Strangers {
    /// The schedulers that we are.
    names: BTreeSet<Text>,
    metrics: Metrics,
    events: Arc<EventQueue>,
    /// All pods are known that whoever led before has bound; only then is a bind of ours known as one.
    listed: bool,
    ours: Complaint,
    others: Complaint,
}

/// Whose pod somebody else has bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Another scheduler's, on a node where pods of ours are.
    Others,
}

impl Strangers {
    pub fn new(names: BTreeSet<Text>, metrics: Metrics, events: Arc<EventQueue>) -> Strangers {
        let (ours, others) = Default::default();
        Strangers { names, metrics, events, listed: false, ours, others }
    }

    /// Takes in an input before `cluster` does.
    pub fn see(&mut self, input: &Input, cluster: &Cluster) {
        match input {
            Input::Watch { kind, synced } if **kind == *kinds::resource(Kind::Pod) => {
                self.listed = *synced;
            }
            Input::Cluster(ClusterEvent::PodApplied(pod)) if self.listed => {
                if let Some((whose, node)) = self.bound_by_another(pod, cluster) {
                    self.tell(whose, pod, node);
                }
            }
            _ => {}
        }
    }

    /// Tells whether a pod that was known without a node has one that was not decided on here.
    fn bound_by_another<'a>(&self, pod: &'a Pod, cluster: &Cluster) -> Option<(Whose, &'a Text)> {
        let node = pod.node_name.as_ref()?;
        let (place, at) = (cluster.pod(&pod.uid)?.place, cluster.nodes().index(node));
        if matches!(place, Place::Bound(_)) || at.is_some_and(|at| place == Place::Assumed(at)) {
            return None;
        }
        if self.names.contains(&pod.spec.scheduler_name) {
            return Some((Whose::Ours, node));
        }
        // Each node has those of DaemonSets, whoever else may use it.
        let everywhere = pod.owner.as_ref().is_some_and(|owner| *owner.kind == *"DaemonSet");
        let ours = |pod: &Pod| self.names.contains(&pod.spec.scheduler_name);
        let shared = !everywhere && cluster.pods_on(at?).any(ours);
        shared.then_some((Whose::Others, node))
    }

    fn tell(&mut self, whose: Whose, pod: &Pod, node: &Text) {
        let name = &pod.spec.scheduler_name;
        let (pods, complaint) = match whose {
            Whose::Ours => ("ours", &mut self.ours),
            Whose::Others => ("others", &mut self.others),
        };
        self.metrics.bound_by_another(pods);
        if !complaint.is_due(TELL_AGAIN) {
            return;
        }
        let pod = pod.reference();
        match whose {
            Whose::Ours => {
                warn!(
                    %pod, %node, scheduler_name = %name,
                    "somebody else has bound a pod of ours: is another scheduler of this name installed?"
                );
                self.events.push(Happening::bound_by_another(pod, name.clone(), node));
            }
            Whose::Others => warn!(
                %pod, %node, scheduler_name = %name,
                "another scheduler places pods on a node that we use: both can make it too full"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::types::{Node, Owner, PodSpec, PodUid};

    use super::*;

    fn pod(name: &str, scheduler: &str, node: Option<&str>) -> Pod {
        let spec = PodSpec { scheduler_name: scheduler.into(), ..PodSpec::default() };
        Pod {
            uid: PodUid(name.into()),
            name: name.into(),
            spec: Arc::new(spec),
            node_name: node.map(Text::from),
            ..Pod::default()
        }
    }

    fn applied(pod: Pod) -> ClusterEvent {
        ClusterEvent::PodApplied(Box::new(pod))
    }

    /// A cluster in which `a` and `b` wait, and a pod of ours is on n-1.
    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["n-1", "n-2"] {
            let node = Node { name: name.into(), ..Node::default() };
            cluster.fold(ClusterEvent::NodeApplied(node));
        }
        for pod in [pod("a", "us", None), pod("b", "them", None), pod("c", "us", Some("n-1"))] {
            cluster.fold(applied(pod));
        }
        cluster
    }

    #[test]
    fn what_others_bind_is_told_and_what_we_bind_is_not() {
        let events = Arc::new(EventQueue::default());
        let names = BTreeSet::from([Text::from("us")]);
        let mut strangers = Strangers::new(names, Metrics::default(), Arc::clone(&events));
        let mut cluster = cluster();
        let judged = |strangers: &Strangers, pod: Pod, cluster: &Cluster| {
            strangers.bound_by_another(&pod, cluster).map(|(whose, _)| whose)
        };
        let of = |strangers: &Strangers, name, scheduler, node, cluster: &Cluster| {
            judged(strangers, pod(name, scheduler, Some(node)), cluster)
        };
        assert_eq!(of(&strangers, "a", "us", "n-2", &cluster), Some(Whose::Ours));
        assert_eq!(of(&strangers, "b", "them", "n-1", &cluster), Some(Whose::Others));
        // A node without pods of ours is theirs; and so is what runs everywhere.
        assert_eq!(of(&strangers, "b", "them", "n-2", &cluster), None);
        let mut everywhere = pod("b", "them", Some("n-1"));
        let (kind, name, uid) = ("DaemonSet".into(), "d".into(), "d".into());
        everywhere.owner = Some(Owner { kind, name, uid });
        assert_eq!(judged(&strangers, everywhere, &cluster), None);
        // Known as bound, or never known to wait.
        assert_eq!(of(&strangers, "c", "us", "n-1", &cluster), None);
        assert_eq!(of(&strangers, "new", "us", "n-1", &cluster), None);

        let bound = Input::Cluster(applied(pod("a", "us", Some("n-2"))));
        strangers.see(&bound, &cluster);
        assert_eq!(events.counts().0, 0, "the list of pods may bring what was bound before");
        strangers.see(&Input::Watch { kind: "pods".into(), synced: true }, &cluster);
        strangers.see(&bound, &cluster);
        strangers.see(&bound, &cluster);
        assert_eq!(events.counts().0, 1, "once a minute");
        cluster.fold(applied(pod("a", "us", Some("n-2"))));
        assert_eq!(of(&strangers, "a", "us", "n-2", &cluster), None);
    }
}
