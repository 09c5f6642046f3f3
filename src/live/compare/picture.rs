//! What the ledger holds at one moment, in the form that the API server's objects are read into.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::engine::Engine;
use berth_core::snapshot::{
    Cluster, ClusterEvent, DeviceEvent, GroupEvent, NodeIdx, Place, PodRecord, ResourceId,
};
use berth_core::types::resources::AMOUNT_MAX;
use berth_core::types::volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use berth_core::types::workload::{Namespace, PodSelectorOwner, SelectorKind};
use berth_core::types::{
    DeviceClass, DeviceTaintRule, GroupKey, Node, NumaReport, Pod, PodGroup, PodRequests,
    ResourceClaim, ResourceSlice, Text, TopologyKey, TopologyObject,
};

use crate::live::kinds::Key;
use crate::wire::dialect::DialectDef;
use crate::wire::{Kind, dialect};

/// One object, told from a namesake by its UID where the ledger holds it by that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub kind: Kind,
    pub key: Key,
    /// Of pods only; else empty.
    pub uid: Text,
}

/// What is read of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Node(Arc<Node>),
    Pod(Box<Pod>),
    Namespace(Namespace),
    Owner(PodSelectorOwner),
    Claim(PersistentVolumeClaim),
    Volume(PersistentVolume),
    Class(StorageClass),
    CsiNode(CsiNode),
    Attachment(VolumeAttachment),
    Slice(Box<ResourceSlice>),
    DeviceClass(Box<DeviceClass>),
    TaintRule(Box<DeviceTaintRule>),
    DeviceClaim(Box<ResourceClaim>),
    Group(Box<PodGroup>),
    NumaReport(Box<NumaReport>),
    Topology(Box<TopologyObject>),
}

impl Content {
    /// Returns the object of an event that tells one, none of an event that one is gone.
    pub fn of(event: ClusterEvent) -> Option<Content> {
        match event {
            ClusterEvent::NodeApplied(node) => Some(Content::Node(Arc::new(node))),
            ClusterEvent::PodApplied(pod) => Some(Content::Pod(pod)),
            ClusterEvent::NamespaceApplied(namespace) => Some(Content::Namespace(namespace)),
            ClusterEvent::SelectorOwnerApplied(owner) => Some(Content::Owner(owner)),
            ClusterEvent::ClaimApplied(claim) => Some(Content::Claim(claim)),
            ClusterEvent::VolumeApplied(volume) => Some(Content::Volume(volume)),
            ClusterEvent::StorageClassApplied(class) => Some(Content::Class(class)),
            ClusterEvent::CsiNodeApplied(node) => Some(Content::CsiNode(node)),
            ClusterEvent::AttachmentApplied(attachment) => Some(Content::Attachment(attachment)),
            ClusterEvent::Devices(event) => Content::of_devices(event),
            ClusterEvent::Groups(GroupEvent::Applied(group)) => Some(Content::Group(group)),
            ClusterEvent::NumaReportApplied(report) => Some(Content::NumaReport(report)),
            ClusterEvent::Groups(GroupEvent::TopologyApplied(it)) => Some(Content::Topology(it)),
            ClusterEvent::Groups(
                GroupEvent::Deleted { .. }
                | GroupEvent::Served { .. }
                | GroupEvent::TopologyDeleted { .. },
            )
            | ClusterEvent::NodeDeleted { .. }
            | ClusterEvent::PodDeleted { .. }
            | ClusterEvent::NamespaceDeleted { .. }
            | ClusterEvent::SelectorOwnerDeleted { .. }
            | ClusterEvent::ClaimDeleted { .. }
            | ClusterEvent::VolumeDeleted { .. }
            | ClusterEvent::StorageClassDeleted { .. }
            | ClusterEvent::CsiNodeDeleted { .. }
            | ClusterEvent::AttachmentDeleted { .. }
            | ClusterEvent::NumaReportDeleted { .. } => None,
        }
    }

    fn of_devices(event: DeviceEvent) -> Option<Content> {
        match event {
            DeviceEvent::SliceApplied(slice) => Some(Content::Slice(slice)),
            DeviceEvent::ClassApplied(class) => Some(Content::DeviceClass(class)),
            DeviceEvent::TaintRuleApplied(rule) => Some(Content::TaintRule(rule)),
            DeviceEvent::ClaimApplied(claim) => Some(Content::DeviceClaim(claim)),
            DeviceEvent::SliceDeleted { .. }
            | DeviceEvent::ClassDeleted { .. }
            | DeviceEvent::TaintRuleDeleted { .. }
            | DeviceEvent::ClaimDeleted { .. } => None,
        }
    }

    /// Returns the version, 0 for kinds of which the ledger keeps none.
    pub fn version(&self) -> u64 {
        match self {
            Content::Node(node) => node.resource_version,
            Content::Pod(pod) => pod.resource_version,
            Content::Claim(claim) => claim.resource_version,
            Content::Volume(volume) => volume.resource_version,
            Content::Slice(slice) => slice.resource_version,
            Content::DeviceClass(class) => class.resource_version,
            Content::TaintRule(rule) => rule.resource_version,
            Content::DeviceClaim(claim) => claim.resource_version,
            Content::Group(group) => group.resource_version,
            Content::NumaReport(report) => report.resource_version,
            Content::Topology(object) => object.resource_version,
            Content::Namespace(_)
            | Content::Owner(_)
            | Content::Class(_)
            | Content::CsiNode(_)
            | Content::Attachment(_) => 0,
        }
    }

    pub fn id(&self) -> Id {
        let id = |kind, namespace: &Text, name: &Text, uid: &Text| Id {
            kind,
            key: Key { namespace: namespace.clone(), name: name.clone() },
            uid: uid.clone(),
        };
        let none = Text::default();
        match self {
            Content::Node(node) => id(Kind::Node, &none, &node.name, &none),
            Content::Pod(pod) => id(Kind::Pod, &pod.namespace, &pod.name, &pod.uid.0),
            Content::Namespace(namespace) => id(Kind::Namespace, &none, &namespace.name, &none),
            Content::Owner(owner) => {
                id(owner_kind(owner.kind), &owner.namespace, &owner.name, &none)
            }
            Content::Claim(claim) => {
                id(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name, &none)
            }
            Content::Volume(volume) => id(Kind::PersistentVolume, &none, &volume.name, &none),
            Content::Class(class) => id(Kind::StorageClass, &none, &class.name, &none),
            Content::CsiNode(node) => id(Kind::CsiNode, &none, &node.name, &none),
            Content::Attachment(it) => id(Kind::VolumeAttachment, &none, &it.name, &none),
            Content::Slice(slice) => id(Kind::ResourceSlice, &none, &slice.name, &none),
            Content::DeviceClass(class) => id(Kind::DeviceClass, &none, &class.name, &none),
            Content::TaintRule(rule) => id(Kind::DeviceTaintRule, &none, &rule.name, &none),
            Content::DeviceClaim(claim) => {
                id(Kind::ResourceClaim, &claim.key.namespace, &claim.key.name, &none)
            }
            Content::NumaReport(report) => {
                id(Kind::NodeResourceTopology, &none, &report.node, &none)
            }
            Content::Group(group) => {
                id(group_kind(&group.key), &group.key.namespace, &group.key.name, &none)
            }
            Content::Topology(object) => id(tree_kind(&object.key), &none, &object.key.name, &none),
        }
    }
}

/// Objects are read by the kind that their key is of, so there always is one.
fn group_kind(key: &GroupKey) -> Kind {
    let object = dialect::object_of(key.dialect, key.kind);
    object.map(Kind::Group).expect("a group has an object of its own dialect")
}

/// As [`group_kind`].
fn tree_kind(key: &TopologyKey) -> Kind {
    let tree = DialectDef::named(key.dialect).and_then(DialectDef::tree);
    tree.map(Kind::Tree).expect("a dialect has the kind that was read")
}

fn owner_kind(kind: SelectorKind) -> Kind {
    match kind {
        SelectorKind::Service => Kind::Service,
        SelectorKind::ReplicationController => Kind::ReplicationController,
        SelectorKind::ReplicaSet => Kind::ReplicaSet,
        SelectorKind::StatefulSet => Kind::StatefulSet,
    }
}

/// What pods take on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub pods: usize,
    /// Amounts other than 0.
    pub requested: BTreeMap<Text, i64>,
    /// Milli-CPU and bytes, with the score defaults.
    pub nonzero: (i64, i64),
}

impl Taken {
    /// Adds what one pod takes.
    pub fn add(&mut self, usage: &PodRequests) {
        self.pods += 1;
        self.nonzero.0 += usage.nonzero_cpu_milli.min(AMOUNT_MAX);
        self.nonzero.1 += usage.nonzero_memory_bytes.min(AMOUNT_MAX);
        for (name, amount) in usage.real.iter().filter(|(_, amount)| *amount != 0) {
            *self.requested.entry(Text::from(name)).or_default() += amount;
        }
    }
}

/// The ledger at one moment, by object.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub objects: BTreeMap<Id, Content>,
    /// The node that each pod's place is on.
    pub places: BTreeMap<Id, Text>,
    /// Pods that were decided on and not yet seen bound, a part of the places.
    pub assumed: BTreeMap<Id, Text>,
    /// What is counted on each node name that has an object or pods.
    pub taken: BTreeMap<Text, Taken>,
    /// Binds whose fate is not known.
    pub unconfirmed: usize,
}

/// The ledger at one moment as it leaves the engine's thread, in the order in which it lies there:
/// sorting it by object is nobody's business but the comparison's.
pub struct Negative {
    nodes: Vec<Arc<Node>>,
    pods: Vec<PodRecord>,
    others: Vec<ClusterEvent>,
    resources: Vec<Text>,
    /// By index of node.
    slots: Vec<Slot>,
    unconfirmed: usize,
}

/// What is counted on one index.
struct Slot {
    /// Empty: it is free.
    name: Text,
    pods: usize,
    /// One amount a resource.
    requested: Vec<i64>,
    nonzero: (i64, i64),
}

impl Negative {
    /// Cost: O(objects), without copying nodes or specs.
    pub fn of(engine: &Engine) -> Negative {
        Negative { unconfirmed: engine.under_way().1, ..Negative::of_cluster(engine.cluster()) }
    }

    pub(super) fn of_cluster(cluster: &Cluster) -> Negative {
        let nodes = cluster.nodes();
        let ids: Vec<ResourceId> = nodes.resources().map(|(_, id)| id).collect();
        let slot = |node: NodeIdx| Slot {
            name: nodes.slot(node).name.clone(),
            pods: nodes.slot(node).pods.len(),
            requested: ids.iter().map(|id| nodes.requested(*id, node)).collect(),
            nonzero: nodes.nonzero(node),
        };
        let indices = (0..nodes.capacity()).filter_map(|at| u32::try_from(at).ok().map(NodeIdx));
        Negative {
            nodes: nodes.iter().map(|(_, node)| Arc::clone(node)).collect(),
            pods: cluster.pods().cloned().collect(),
            others: cluster.other_facts().collect(),
            resources: nodes.resources().map(|(name, _)| name.clone()).collect(),
            slots: indices.map(slot).collect(),
            unconfirmed: 0,
        }
    }

    /// Sorts it.
    pub fn develop(self) -> Picture {
        let mut picture = Picture { unconfirmed: self.unconfirmed, ..Picture::default() };
        for PodRecord { pod, place } in self.pods {
            let id = picture.add(Content::Pod(Box::new(pod)));
            let Some(node) = place.node().and_then(|node| self.slots.get(node.at())) else {
                continue;
            };
            if matches!(place, Place::Assumed(_)) {
                picture.assumed.insert(id.clone(), node.name.clone());
            }
            picture.places.insert(id, node.name.clone());
        }
        let nodes = self.nodes.into_iter().map(Content::Node);
        for content in nodes.chain(self.others.into_iter().filter_map(Content::of)) {
            picture.add(content);
        }
        let used = self.slots.into_iter().filter(|slot| !slot.name.is_empty());
        picture.taken = used.map(|slot| slot.taken(&self.resources)).collect();
        picture
    }
}

impl Slot {
    fn taken(self, resources: &[Text]) -> (Text, Taken) {
        let amounts = resources.iter().cloned().zip(self.requested);
        let requested = amounts.filter(|(_, amount)| *amount != 0).collect();
        (self.name, Taken { pods: self.pods, requested, nonzero: self.nonzero })
    }
}

impl Picture {
    fn add(&mut self, content: Content) -> Id {
        let id = content.id();
        self.objects.insert(id.clone(), content);
        id
    }
}
