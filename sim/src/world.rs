//! The virtual API server: objects with versions from one counter, and a log to watch from.
//!
//! It is the truth of a simulation. What a client sees of it, and when, is the driver's business.

mod carry;
mod claims;
mod groups;
mod made;
mod objects;
mod other;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_core::snapshot::{ClusterEvent, GroupEvent};
use berth_core::types::{Condition, Node, Pod, PodUid, Text, Timestamp};

pub use groups::Denial;
pub use objects::{Key, Kind};
pub(crate) use objects::{deletes, deletion_of};
pub use other::{Other, OtherKey};

/// The message that the API server puts on a gated pod.
///
/// Source: `applySchedulingGatedCondition` of Kubernetes' pkg/registry/core/pod/strategy.go.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

/// An entry of the log: what a watch tells.
#[derive(Clone, Debug)]
pub struct Logged {
    pub resource_version: u64,
    pub kind: Kind,
    pub at: Timestamp,
    pub event: Arc<ClusterEvent>,
}

/// All objects, and everything that ever happened to them.
#[derive(Debug)]
pub struct World {
    pods: BTreeMap<(Text, Text), Pod>,
    /// Namespace and name by UID.
    uids: BTreeMap<PodUid, (Text, Text)>,
    nodes: BTreeMap<Text, Node>,
    /// Applied forms of all objects but pods and nodes.
    rest: BTreeMap<Key, ClusterEvent>,
    others: BTreeMap<OtherKey, Other>,
    /// Ascending by version; each change has one of its own.
    log: Vec<Logged>,
    version: u64,
    names: u64,
    /// Pods that were asked to leave, for their kubelets.
    leaving: Vec<PodUid>,
    /// What admission says no to.
    denials: Vec<Denial>,
    /// Pods with the condition DisruptionTarget.
    disrupted: BTreeSet<PodUid>,
}

/// Label of a pod that a finalizer keeps for a while after its deletion, bound or not.
pub const FINALIZER: &str = "sim.berth/finalizer";

/// The version of an empty store, so that no object has version 0, which means unknown.
const FIRST_VERSION: u64 = 1000;

impl Default for World {
    fn default() -> World {
        World {
            pods: BTreeMap::new(),
            uids: BTreeMap::new(),
            nodes: BTreeMap::new(),
            rest: BTreeMap::new(),
            others: BTreeMap::new(),
            log: Vec::new(),
            version: FIRST_VERSION,
            names: 0,
            leaving: Vec::new(),
            denials: Vec::new(),
            disrupted: BTreeSet::new(),
        }
    }
}

impl World {
    /// Returns the pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    pub fn pod(&self, namespace: &Text, name: &Text) -> Option<&Pod> {
        self.pods.get(&(namespace.clone(), name.clone()))
    }

    pub fn pod_by_uid(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(self.uids.get(uid)?)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub fn node(&self, name: &Text) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// Returns the objects that writes have made of kinds that scheduling does not watch.
    pub fn others(&self) -> impl Iterator<Item = (&OtherKey, &Other)> {
        self.others.iter()
    }

    /// The newest version: that of a list taken by now.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn log(&self) -> &[Logged] {
        &self.log
    }

    /// Returns what was logged after version `version`.
    pub fn since(&self, version: u64) -> &[Logged] {
        let at = self.log.partition_point(|logged| logged.resource_version <= version);
        &self.log[at..]
    }

    /// Returns every object of `kind`, as a list does.
    pub fn list(&self, kind: Kind) -> Vec<ClusterEvent> {
        match kind {
            Kind::Pods => {
                let pods = self.pods.values().cloned();
                pods.map(|pod| ClusterEvent::PodApplied(Box::new(pod))).collect()
            }
            Kind::Nodes => self.nodes.values().cloned().map(ClusterEvent::NodeApplied).collect(),
            _ => {
                let of_kind = self.rest.iter().filter(|(key, _)| key.kind == kind);
                of_kind.map(|(_, event)| event.clone()).collect()
            }
        }
    }

    /// Creates, updates or deletes an object as a user or controller does: it gets a version, and
    /// a UID and a creation time if it is new and has none.
    pub fn apply(&mut self, event: ClusterEvent, now: Timestamp) {
        match event {
            ClusterEvent::PodApplied(pod) => self.apply_pod(*pod, now),
            ClusterEvent::NodeApplied(node) => self.apply_node(node, now),
            ClusterEvent::PodDeleted { uid } => self.remove_pod(&uid, now),
            ClusterEvent::NodeDeleted { name, uid: _ } => {
                if let Some(Node { name, uid, .. }) = self.nodes.remove(&name) {
                    self.record(Kind::Nodes, ClusterEvent::NodeDeleted { name, uid }, now);
                }
            }
            ClusterEvent::Groups(GroupEvent::Applied(group)) => self.apply_group(*group, now),
            event => self.apply_rest(event, now),
        }
    }

    fn apply_pod(&mut self, mut pod: Pod, now: Timestamp) {
        let known = self.pods.get(&(pod.namespace.clone(), pod.name.clone()));
        match known {
            Some(known) if pod.uid.0.is_empty() || pod.uid == known.uid => {
                pod.uid = known.uid.clone();
                pod.created = known.created;
            }
            Some(known) => {
                let uid = known.uid.clone();
                self.remove_pod(&uid, now);
                self.admit_pod(&mut pod, now);
            }
            None => self.admit_pod(&mut pod, now),
        }
        self.store_pod(pod, now);
    }

    /// What the API server does to a new pod.
    fn admit_pod(&mut self, pod: &mut Pod, now: Timestamp) {
        if pod.uid.0.is_empty() {
            let number = self.fresh_number();
            pod.uid = PodUid(Text::from(format!("{}-{number:04}", pod.name)));
        }
        if pod.created == Timestamp::default() {
            pod.created = now;
        }
        if !pod.gates.is_empty() && pod.unscheduled.is_none() {
            let (reason, message) = (Text::from("SchedulingGated"), Text::from(GATED));
            pod.unscheduled = Some(Condition { reason, message });
        }
    }

    fn apply_node(&mut self, mut node: Node, now: Timestamp) {
        match self.nodes.get(&node.name) {
            Some(known) if node.uid.is_empty() => node.uid = known.uid.clone(),
            Some(known) if known.uid != node.uid => {
                let (name, uid) = (known.name.clone(), known.uid.clone());
                self.record(Kind::Nodes, ClusterEvent::NodeDeleted { name, uid }, now);
            }
            None if node.uid.is_empty() => {
                let number = self.fresh_number();
                node.uid = Text::from(format!("{}-{number:04}", node.name));
            }
            Some(_) | None => {}
        }
        self.version += 1;
        node.resource_version = self.version;
        self.nodes.insert(node.name.clone(), node.clone());
        self.log_at(Kind::Nodes, ClusterEvent::NodeApplied(node), now);
    }

    /// Changes a pod that is there. Returns false if it is not.
    pub fn change_pod(
        &mut self,
        uid: &PodUid,
        now: Timestamp,
        change: impl FnOnce(&mut Pod),
    ) -> bool {
        let Some(mut pod) = self.pod_by_uid(uid).cloned() else { return false };
        change(&mut pod);
        self.store_pod(pod, now);
        true
    }

    fn store_pod(&mut self, mut pod: Pod, now: Timestamp) {
        self.version += 1;
        pod.resource_version = self.version;
        let key = (pod.namespace.clone(), pod.name.clone());
        self.uids.insert(pod.uid.clone(), key.clone());
        self.pods.insert(key, pod.clone());
        self.log_at(Kind::Pods, ClusterEvent::PodApplied(Box::new(pod)), now);
    }

    /// Takes a pod out at once, as its kubelet's last delete does.
    pub fn remove_pod(&mut self, uid: &PodUid, now: Timestamp) {
        let Some(key) = self.uids.remove(uid) else { return };
        self.pods.remove(&key);
        self.record(Kind::Pods, ClusterEvent::PodDeleted { uid: uid.clone() }, now);
    }

    /// A user's delete: a pod on a node keeps its place until its kubelet lets it go, any other is
    /// gone at once.
    pub fn delete_pod(&mut self, uid: &PodUid, now: Timestamp) {
        let Some(pod) = self.pod_by_uid(uid) else { return };
        let kept = pod.labels.value(FINALIZER).is_some();
        if (pod.node_name.is_none() || pod.finished()) && !kept {
            self.remove_pod(uid, now);
        } else if !pod.terminating {
            self.change_pod(uid, now, |pod| pod.terminating = true);
            self.leaving.push(uid.clone());
        }
    }

    /// Takes the pods that were asked to leave since the last call.
    pub fn take_leaving(&mut self) -> Vec<PodUid> {
        std::mem::take(&mut self.leaving)
    }

    fn apply_rest(&mut self, event: ClusterEvent, now: Timestamp) {
        let key = Key::of(&event);
        let kind = key.kind;
        if deletes(&event) {
            if self.rest.remove(&key).is_none() {
                return;
            }
            self.record(kind, event, now);
            return;
        }
        self.version += 1;
        let event = objects::with_version(event, self.version);
        self.rest.insert(key, event.clone());
        self.log_at(kind, event, now);
    }

    fn record(&mut self, kind: Kind, event: ClusterEvent, now: Timestamp) {
        self.version += 1;
        self.log_at(kind, event, now);
    }

    fn log_at(&mut self, kind: Kind, event: ClusterEvent, at: Timestamp) {
        let resource_version = self.version;
        self.log.push(Logged { resource_version, kind, at, event: Arc::new(event) });
    }

    fn fresh_number(&mut self) -> u64 {
        self.names += 1;
        self.names
    }
}
