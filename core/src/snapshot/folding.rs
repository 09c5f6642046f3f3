//! How each event changes the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::workload::PodSelectorOwner;
use crate::types::{Node, Phase, Pod, PodUid, Text};

use super::cluster::Cluster;
use super::event::{Change, ClusterEvent, GroupEvent, NodeAspects, PodAspects, StorageKind, older};
use super::nodes::NodeIdx;
use super::pods::{Place, PodRecord};

impl Cluster {
    /// Folds one event and returns what it changed.
    pub fn fold(&mut self, event: ClusterEvent) -> Vec<Change> {
        self.folded += 1;
        match event {
            ClusterEvent::NodeApplied(node) => self.apply_node(node),
            ClusterEvent::NodeDeleted { name, uid } => {
                // A UID that is not known yet must not come back either.
                self.gone.insert(&uid);
                let known = self.nodes.index(&name).and_then(|idx| self.nodes.node(idx));
                match known {
                    Some(node) if uid.is_empty() || node.uid == uid => self.delete_node(&name),
                    Some(_) | None => Vec::new(),
                }
            }
            ClusterEvent::PodApplied(pod) => self.apply_pod(*pod),
            ClusterEvent::PodDeleted { uid } => self.delete_pod(&uid),
            ClusterEvent::NamespaceApplied(namespace) => {
                let name = namespace.name.clone();
                let old = self.namespaces.insert(name.clone(), namespace);
                let same = old.as_ref() == self.namespaces.get(&name);
                if same { Vec::new() } else { vec![Change::NamespaceChanged { name }] }
            }
            ClusterEvent::NamespaceDeleted { name } => {
                let known = self.namespaces.remove(&name).is_some();
                if known { vec![Change::NamespaceChanged { name }] } else { Vec::new() }
            }
            ClusterEvent::SelectorOwnerApplied(owner) => self.apply_owner(owner),
            ClusterEvent::SelectorOwnerDeleted { kind, namespace, name } => {
                match self.owners.remove(&(namespace, kind, name)) {
                    Some(_) => self.owners_moved(),
                    None => Vec::new(),
                }
            }
            ClusterEvent::Devices(event) => self.fold_devices(event),
            ClusterEvent::Groups(GroupEvent::TopologyApplied(object)) => {
                self.apply_topology(*object)
            }
            ClusterEvent::Groups(GroupEvent::TopologyDeleted { key, uid }) => {
                self.delete_topology(key, &uid)
            }
            ClusterEvent::Groups(event) => self.groups.fold(event),
            ClusterEvent::NumaReportApplied(report) => self.apply_numa_report(*report),
            ClusterEvent::NumaReportDeleted { node, uid } => self.delete_numa_report(&node, &uid),
            storage => self.fold_storage(storage),
        }
    }

    fn apply_owner(&mut self, owner: PodSelectorOwner) -> Vec<Change> {
        let key = (owner.namespace.clone(), owner.kind, owner.name.clone());
        if self.owners.get(&key) == Some(&owner) {
            return Vec::new();
        }
        self.owners.insert(key, owner);
        self.owners_moved()
    }

    fn owners_moved(&mut self) -> Vec<Change> {
        self.owners_version = self.nodes.fresh_version();
        vec![Change::SelectorOwnerChanged]
    }

    fn fold_storage(&mut self, event: ClusterEvent) -> Vec<Change> {
        let storage = &mut self.storage;
        let (kind, change) = match event {
            ClusterEvent::ClaimApplied(claim) => {
                let key = (claim.namespace.clone(), claim.name.clone());
                (StorageKind::Claim, put(&mut storage.claims, key, claim))
            }
            ClusterEvent::ClaimDeleted { namespace, name } => {
                (StorageKind::Claim, take(&mut storage.claims, &(namespace, name)))
            }
            ClusterEvent::VolumeApplied(volume) => {
                (StorageKind::Volume, put(&mut storage.volumes, volume.name.clone(), volume))
            }
            ClusterEvent::VolumeDeleted { name } => {
                (StorageKind::Volume, take(&mut storage.volumes, &name))
            }
            ClusterEvent::StorageClassApplied(class) => {
                (StorageKind::StorageClass, put(&mut storage.classes, class.name.clone(), class))
            }
            ClusterEvent::StorageClassDeleted { name } => {
                (StorageKind::StorageClass, take(&mut storage.classes, &name))
            }
            ClusterEvent::CsiNodeApplied(node) => {
                (StorageKind::CsiNode, put(&mut storage.csi_nodes, node.name.clone(), node))
            }
            ClusterEvent::CsiNodeDeleted { name } => {
                (StorageKind::CsiNode, take(&mut storage.csi_nodes, &name))
            }
            ClusterEvent::AttachmentApplied(attachment) => {
                let name = attachment.name.clone();
                (StorageKind::Attachment, put(&mut storage.attachments, name, attachment))
            }
            ClusterEvent::AttachmentDeleted { name } => {
                (StorageKind::Attachment, take(&mut storage.attachments, &name))
            }
            ClusterEvent::NodeApplied(_)
            | ClusterEvent::NodeDeleted { .. }
            | ClusterEvent::PodApplied(_)
            | ClusterEvent::PodDeleted { .. }
            | ClusterEvent::NamespaceApplied(_)
            | ClusterEvent::NamespaceDeleted { .. }
            | ClusterEvent::SelectorOwnerApplied(_)
            | ClusterEvent::SelectorOwnerDeleted { .. }
            | ClusterEvent::Devices(_)
            | ClusterEvent::Groups(_)
            | ClusterEvent::NumaReportApplied(_)
            | ClusterEvent::NumaReportDeleted { .. } => return Vec::new(),
        };
        let change = match change {
            Stored::Same => return Vec::new(),
            Stored::Added => Change::Storage { kind, added: true },
            Stored::Changed => Change::Storage { kind, added: false },
            Stored::Removed => Change::StorageDeleted { kind },
        };
        let version = self.nodes.fresh_version();
        self.storage.moved(version);
        vec![change]
    }

    fn apply_node(&mut self, node: Node) -> Vec<Change> {
        if self.gone.contains(&node.uid) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        let known = self.nodes.index(&node.name).and_then(|idx| self.nodes.node(idx)).cloned();
        if let Some(old) = &known {
            if older(node.resource_version, old.resource_version) && node.uid == old.uid {
                return Vec::new();
            }
            if node.uid != old.uid {
                changes.extend(self.delete_node(&node.name));
            }
        }
        let old = known.filter(|old| old.uid == node.uid);
        let idx = self.nodes.enter(&node.name);
        let node = Arc::new(node);
        match old {
            Some(old) => {
                let aspects = NodeAspects::between(&old, &node);
                self.replace_node(idx, Some(&old), node, aspects);
                if aspects.any() {
                    changes.push(Change::NodeUpdated { node: idx, old, aspects });
                }
            }
            None => {
                self.replace_node(idx, None, node, NodeAspects::ALL);
                changes.push(Change::NodeAdded { node: idx });
            }
        }
        changes
    }

    fn replace_node(
        &mut self,
        idx: NodeIdx,
        old: Option<&Arc<Node>>,
        new: Arc<Node>,
        aspects: NodeAspects,
    ) {
        let version = self.nodes.fresh_version();
        if aspects.images {
            self.images.replace(old.map(Arc::as_ref), Some(&new), version);
        }
        if aspects.labels || aspects.taints {
            self.topology_version = version;
            self.domains.replace(idx, old.map(Arc::as_ref), Some(&new));
            self.topologies.follow_node(idx, old.map(Arc::as_ref), Some(&new));
        }
        if aspects.any() {
            self.nodes.set_object(idx, Some(new));
        } else {
            self.nodes.refresh_object(idx, new);
        }
    }

    fn delete_node(&mut self, name: &Text) -> Vec<Change> {
        let Some(idx) = self.nodes.index(name) else { return Vec::new() };
        let Some(old) = self.nodes.node(idx).cloned() else { return Vec::new() };
        self.gone.insert(&old.uid);
        self.refusals.forget(idx);
        let version = self.nodes.fresh_version();
        self.images.replace(Some(&old), None, version);
        self.topology_version = version;
        self.domains.replace(idx, Some(&old), None);
        self.topologies.follow_node(idx, Some(&old), None);
        self.nodes.set_object(idx, None);
        self.leave(idx);
        vec![Change::NodeDeleted { old }]
    }

    fn apply_pod(&mut self, pod: Pod) -> Vec<Change> {
        if self.gone.contains(&pod.uid.0) {
            return Vec::new();
        }
        match self.pods.get(&pod.uid) {
            None => self.add_pod(pod),
            Some(known) if older(pod.resource_version, known.pod.resource_version) => Vec::new(),
            Some(_) => self.update_pod(pod),
        }
    }

    fn add_pod(&mut self, pod: Pod) -> Vec<Change> {
        let uid = pod.uid.clone();
        let place = self.place_on_object(&pod);
        if let Place::Bound(node) = place {
            self.occupy(&pod, node);
        }
        self.groups.join(&pod);
        self.note_in_numa_report(&pod, place);
        self.pods.insert(uid.clone(), PodRecord { pod, place });
        self.follow_nomination(&uid);
        match place {
            Place::Bound(node) => {
                self.note_placed(&uid);
                vec![Change::PodBound { uid, node }]
            }
            Place::Assumed(_) | Place::Nowhere => vec![Change::PodAdded { uid }],
        }
    }

    fn place_on_object(&mut self, pod: &Pod) -> Place {
        match &pod.node_name {
            Some(name) if !pod.finished() => Place::Bound(self.nodes.enter(name)),
            Some(_) | None => Place::Nowhere,
        }
    }

    fn update_pod(&mut self, pod: Pod) -> Vec<Change> {
        let uid = pod.uid.clone();
        let Some(PodRecord { pod: old, place: was }) = self.pods.remove(&uid) else {
            return Vec::new();
        };
        let place = match (self.place_on_object(&pod), was) {
            // Decided here and not yet on the object: the place stays taken.
            (Place::Nowhere, Place::Assumed(node)) if !pod.finished() => Place::Assumed(node),
            (place, _) => place,
        };
        let had = self.share_gpus_of(&old);
        if !matches!(place, Place::Assumed(_)) {
            // Whatever the plan had chosen, the object is right.
            self.forget_gpus(&uid);
        }
        let same_gpus = had == self.share_gpus_of(&pod);
        self.move_pod((&old, was.node()), (&pod, place.node()), same_gpus);
        let aspects = PodAspects::between(&old, &pod);
        let nomination_moved = old.nominated_node != pod.nominated_node
            || was != place
            || old.finished() != pod.finished();
        self.count_assumed(was, place);
        if aspects.groups {
            self.groups.part(&old);
            self.groups.join(&pod);
        }
        self.pods.insert(uid.clone(), PodRecord { pod, place });
        let mut changes = if nomination_moved { self.follow_nomination(&uid) } else { Vec::new() };
        match (was, place) {
            (Place::Nowhere, Place::Bound(node)) | (Place::Assumed(_), Place::Bound(node)) => {
                changes.push(Change::PodBound { uid: uid.clone(), node });
            }
            _ => {}
        }
        match was.node() {
            Some(node) if place.node() != Some(node) => {
                changes.push(Change::PodFreed { old: Box::new(old), node });
            }
            _ if aspects.any() => {
                changes.push(Change::PodUpdated { uid, old: Box::new(old), aspects });
            }
            _ => {}
        }
        changes
    }

    /// Counts `new` on `to` in place of `old` on `from`; does nothing if what counts is the same.
    fn move_pod(
        &mut self,
        (old, from): (&Pod, Option<NodeIdx>),
        (new, to): (&Pod, Option<NodeIdx>),
        same_gpus: bool,
    ) {
        let same = same_gpus
            && from == to
            && old.usage == new.usage
            && old.labels == new.labels
            && old.terminating == new.terminating
            && old.spec == new.spec
            && old.group_hints() == new.group_hints();
        if same {
            return;
        }
        if let Some(node) = from {
            self.vacate(old, node);
        }
        if let Some(node) = to {
            self.occupy(new, node);
        }
        if let Some(node) = from {
            self.leave(node);
        }
    }

    fn delete_pod(&mut self, uid: &PodUid) -> Vec<Change> {
        self.gone.insert(&uid.0);
        self.forget_demand(uid);
        self.forget_gpus(uid);
        let freed = self.unnominate(uid);
        let Some(PodRecord { pod, place }) = self.pods.remove(uid) else { return Vec::new() };
        self.groups.part(&pod);
        if pod.phase == Phase::Succeeded {
            self.groups.retire(&pod);
        }
        self.count_assumed(place, Place::Nowhere);
        match place.node() {
            Some(node) => {
                self.vacate(&pod, node);
                self.leave(node);
                vec![Change::PodFreed { old: Box::new(pod), node }]
            }
            None if !freed.is_empty() => freed,
            None => vec![Change::PodDeleted { old: Box::new(pod) }],
        }
    }

    /// Takes over the nomination that stands on the object. The node may be unknown as yet.
    pub(super) fn follow_nomination(&mut self, uid: &PodUid) -> Vec<Change> {
        let Some(record) = self.pods.get(uid) else { return Vec::new() };
        let wanted = match (record.place, &record.pod.nominated_node) {
            (Place::Nowhere, Some(name)) if !record.pod.finished() => Some(self.nodes.enter(name)),
            _ => None,
        };
        match wanted {
            Some(node) => self.nominate(uid, node),
            None => self.unnominate(uid),
        }
    }
}

enum Stored {
    Same,
    Added,
    Changed,
    Removed,
}

fn put<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Stored {
    match map.get_mut(&key) {
        Some(known) if *known == value => Stored::Same,
        Some(known) => {
            *known = value;
            Stored::Changed
        }
        None => {
            map.insert(key, value);
            Stored::Added
        }
    }
}

fn take<K: Ord, V>(map: &mut BTreeMap<K, V>, key: &K) -> Stored {
    if map.remove(key).is_some() { Stored::Removed } else { Stored::Same }
}
