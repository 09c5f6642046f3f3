//! Kinds that are watched, and the keys of their objects.

use berth_core::snapshot::{ClusterEvent, DeviceEvent, GroupEvent};
use berth_core::types::{ClaimKey, GroupKey, Text, TopologyKey};

/// A kind with a watch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pods,
    Nodes,
    Namespaces,
    SelectorOwners,
    Claims,
    Volumes,
    StorageClasses,
    CsiNodes,
    Attachments,
    ResourceSlices,
    DeviceClasses,
    DeviceTaintRules,
    ResourceClaims,
    PodGroups,
    NumaReports,
}

impl Kind {
    pub const ALL: [Kind; 15] = [
        Kind::Pods,
        Kind::Nodes,
        Kind::Namespaces,
        Kind::SelectorOwners,
        Kind::Claims,
        Kind::Volumes,
        Kind::StorageClasses,
        Kind::CsiNodes,
        Kind::Attachments,
        Kind::ResourceSlices,
        Kind::DeviceClasses,
        Kind::DeviceTaintRules,
        Kind::ResourceClaims,
        Kind::PodGroups,
        Kind::NumaReports,
    ];

    /// Returns those that clusters of a trial may have objects of: what its processes watch.
    pub fn played() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| *kind != Kind::NumaReports)
    }

    /// Returns the name under which the engine knows the watch.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Pods => "pods",
            Kind::Nodes => "nodes",
            Kind::Namespaces => "namespaces",
            Kind::SelectorOwners => "selectorowners",
            Kind::Claims => "persistentvolumeclaims",
            Kind::Volumes => "persistentvolumes",
            Kind::StorageClasses => "storageclasses",
            Kind::CsiNodes => "csinodes",
            Kind::Attachments => "volumeattachments",
            Kind::ResourceSlices => "resourceslices",
            Kind::DeviceClasses => "deviceclasses",
            Kind::DeviceTaintRules => "devicetaintrules",
            Kind::ResourceClaims => "resourceclaims",
            Kind::PodGroups => "podgroups",
            Kind::NumaReports => "noderesourcetopologies",
        }
    }
}

/// What makes an object that one, apart from its UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    /// Empty for objects of the whole cluster.
    pub namespace: Text,
    /// The UID for pods, since that is all that their deletion tells.
    pub name: Text,
}

impl Key {
    /// Returns the key of the object that the event is about.
    pub fn of(event: &ClusterEvent) -> Key {
        let key = |kind, namespace: &Text, name: &Text| Key {
            kind,
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let global = |kind, name: &Text| key(kind, &Text::default(), name);
        match event {
            ClusterEvent::PodApplied(pod) => global(Kind::Pods, &pod.uid.0),
            ClusterEvent::PodDeleted { uid } => global(Kind::Pods, &uid.0),
            ClusterEvent::NodeApplied(node) => global(Kind::Nodes, &node.name),
            ClusterEvent::NodeDeleted { name, .. } => global(Kind::Nodes, name),
            ClusterEvent::NamespaceApplied(namespace) => global(Kind::Namespaces, &namespace.name),
            ClusterEvent::NamespaceDeleted { name } => global(Kind::Namespaces, name),
            ClusterEvent::SelectorOwnerApplied(owner) => {
                key(Kind::SelectorOwners, &owner.namespace, &owner_name(owner.kind, &owner.name))
            }
            ClusterEvent::SelectorOwnerDeleted { kind, namespace, name } => {
                key(Kind::SelectorOwners, namespace, &owner_name(*kind, name))
            }
            ClusterEvent::ClaimApplied(claim) => key(Kind::Claims, &claim.namespace, &claim.name),
            ClusterEvent::ClaimDeleted { namespace, name } => key(Kind::Claims, namespace, name),
            ClusterEvent::VolumeApplied(volume) => global(Kind::Volumes, &volume.name),
            ClusterEvent::VolumeDeleted { name } => global(Kind::Volumes, name),
            ClusterEvent::StorageClassApplied(class) => global(Kind::StorageClasses, &class.name),
            ClusterEvent::StorageClassDeleted { name } => global(Kind::StorageClasses, name),
            ClusterEvent::CsiNodeApplied(node) => global(Kind::CsiNodes, &node.name),
            ClusterEvent::CsiNodeDeleted { name } => global(Kind::CsiNodes, name),
            ClusterEvent::AttachmentApplied(attachment) => {
                global(Kind::Attachments, &attachment.name)
            }
            ClusterEvent::AttachmentDeleted { name } => global(Kind::Attachments, name),
            ClusterEvent::Devices(event) => Key::of_devices(event),
            ClusterEvent::Groups(event) => Key::of_groups(event),
            ClusterEvent::NumaReportApplied(report) => global(Kind::NumaReports, &report.node),
            ClusterEvent::NumaReportDeleted { node, .. } => global(Kind::NumaReports, node),
        }
    }
}

impl Key {
    fn of_groups(event: &GroupEvent) -> Key {
        let group = |key: &GroupKey| Key {
            kind: Kind::PodGroups,
            namespace: key.namespace.clone(),
            name: format!("{}/{:?}/{}", key.dialect.name, key.kind, key.name).into(),
        };
        let topology = |key: &TopologyKey| Key {
            kind: Kind::PodGroups,
            namespace: Text::default(),
            name: format!("topology/{key}").into(),
        };
        match event {
            GroupEvent::Applied(known) => group(&known.key),
            GroupEvent::Deleted { key, .. } => group(key),
            GroupEvent::TopologyApplied(object) => topology(&object.key),
            GroupEvent::TopologyDeleted { key, .. } => topology(key),
            // No object: what the server has is told for itself.
            GroupEvent::Served { dialect, .. } => {
                let (namespace, name) = (Text::default(), Text::from(*dialect));
                Key { kind: Kind::PodGroups, namespace, name }
            }
        }
    }

    fn of_devices(event: &DeviceEvent) -> Key {
        let global =
            |kind, name: &Text| Key { kind, namespace: Text::default(), name: name.clone() };
        let claim = |key: &ClaimKey| Key {
            kind: Kind::ResourceClaims,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        };
        match event {
            DeviceEvent::SliceApplied(slice) => global(Kind::ResourceSlices, &slice.name),
            DeviceEvent::SliceDeleted { name, .. } => global(Kind::ResourceSlices, name),
            DeviceEvent::ClassApplied(class) => global(Kind::DeviceClasses, &class.name),
            DeviceEvent::ClassDeleted { name } => global(Kind::DeviceClasses, name),
            DeviceEvent::TaintRuleApplied(rule) => global(Kind::DeviceTaintRules, &rule.name),
            DeviceEvent::TaintRuleDeleted { name } => global(Kind::DeviceTaintRules, name),
            DeviceEvent::ClaimApplied(known) => claim(&known.key),
            DeviceEvent::ClaimDeleted { key, .. } => claim(key),
        }
    }
}

fn owner_name(kind: berth_core::types::workload::SelectorKind, name: &Text) -> Text {
    Text::from(format!("{}/{name}", kind.as_str()))
}

/// Tells whether the event says that its object is gone.
pub(crate) fn deletes(event: &ClusterEvent) -> bool {
    match event {
        ClusterEvent::PodDeleted { .. }
        | ClusterEvent::NodeDeleted { .. }
        | ClusterEvent::NamespaceDeleted { .. }
        | ClusterEvent::SelectorOwnerDeleted { .. }
        | ClusterEvent::ClaimDeleted { .. }
        | ClusterEvent::VolumeDeleted { .. }
        | ClusterEvent::StorageClassDeleted { .. }
        | ClusterEvent::CsiNodeDeleted { .. }
        | ClusterEvent::AttachmentDeleted { .. }
        | ClusterEvent::Devices(
            DeviceEvent::SliceDeleted { .. }
            | DeviceEvent::ClassDeleted { .. }
            | DeviceEvent::TaintRuleDeleted { .. }
            | DeviceEvent::ClaimDeleted { .. },
        )
        | ClusterEvent::Groups(GroupEvent::Deleted { .. } | GroupEvent::TopologyDeleted { .. })
        | ClusterEvent::NumaReportDeleted { .. } => true,
        ClusterEvent::PodApplied(_)
        | ClusterEvent::NodeApplied(_)
        | ClusterEvent::NamespaceApplied(_)
        | ClusterEvent::SelectorOwnerApplied(_)
        | ClusterEvent::ClaimApplied(_)
        | ClusterEvent::VolumeApplied(_)
        | ClusterEvent::StorageClassApplied(_)
        | ClusterEvent::CsiNodeApplied(_)
        | ClusterEvent::AttachmentApplied(_)
        | ClusterEvent::Devices(
            DeviceEvent::SliceApplied(_)
            | DeviceEvent::ClassApplied(_)
            | DeviceEvent::TaintRuleApplied(_)
            | DeviceEvent::ClaimApplied(_),
        )
        | ClusterEvent::Groups(
            GroupEvent::Applied(_) | GroupEvent::Served { .. } | GroupEvent::TopologyApplied(_),
        )
        | ClusterEvent::NumaReportApplied(_) => false,
    }
}

/// Puts the version on objects that carry one.
pub(super) fn with_version(event: ClusterEvent, version: u64) -> ClusterEvent {
    match event {
        ClusterEvent::ClaimApplied(mut claim) => {
            claim.resource_version = version;
            ClusterEvent::ClaimApplied(claim)
        }
        ClusterEvent::VolumeApplied(mut volume) => {
            volume.resource_version = version;
            ClusterEvent::VolumeApplied(volume)
        }
        ClusterEvent::Devices(DeviceEvent::SliceApplied(mut slice)) => {
            slice.resource_version = version;
            ClusterEvent::Devices(DeviceEvent::SliceApplied(slice))
        }
        ClusterEvent::Devices(DeviceEvent::ClassApplied(mut class)) => {
            class.resource_version = version;
            ClusterEvent::Devices(DeviceEvent::ClassApplied(class))
        }
        ClusterEvent::Devices(DeviceEvent::TaintRuleApplied(mut rule)) => {
            rule.resource_version = version;
            ClusterEvent::Devices(DeviceEvent::TaintRuleApplied(rule))
        }
        ClusterEvent::Devices(DeviceEvent::ClaimApplied(mut claim)) => {
            claim.resource_version = version;
            ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim))
        }
        ClusterEvent::Groups(GroupEvent::Applied(mut group)) => {
            group.resource_version = version;
            ClusterEvent::Groups(GroupEvent::Applied(group))
        }
        ClusterEvent::NumaReportApplied(mut report) => {
            report.resource_version = version;
            ClusterEvent::NumaReportApplied(report)
        }
        event => event,
    }
}

/// Makes the event that says that the object of `event` is gone; a relist finds such objects.
pub(crate) fn deletion_of(event: &ClusterEvent) -> ClusterEvent {
    match event {
        ClusterEvent::PodApplied(pod) => ClusterEvent::PodDeleted { uid: pod.uid.clone() },
        ClusterEvent::NodeApplied(node) => {
            ClusterEvent::NodeDeleted { name: node.name.clone(), uid: node.uid.clone() }
        }
        ClusterEvent::NamespaceApplied(namespace) => {
            ClusterEvent::NamespaceDeleted { name: namespace.name.clone() }
        }
        ClusterEvent::SelectorOwnerApplied(owner) => ClusterEvent::SelectorOwnerDeleted {
            kind: owner.kind,
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
        },
        ClusterEvent::ClaimApplied(claim) => ClusterEvent::ClaimDeleted {
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
        },
        ClusterEvent::VolumeApplied(volume) => {
            ClusterEvent::VolumeDeleted { name: volume.name.clone() }
        }
        ClusterEvent::StorageClassApplied(class) => {
            ClusterEvent::StorageClassDeleted { name: class.name.clone() }
        }
        ClusterEvent::CsiNodeApplied(node) => {
            ClusterEvent::CsiNodeDeleted { name: node.name.clone() }
        }
        ClusterEvent::AttachmentApplied(attachment) => {
            ClusterEvent::AttachmentDeleted { name: attachment.name.clone() }
        }
        ClusterEvent::Devices(event) => ClusterEvent::Devices(deletion_of_devices(event)),
        ClusterEvent::Groups(GroupEvent::Applied(group)) => {
            let (key, uid) = (group.key.clone(), group.uid.clone());
            ClusterEvent::Groups(GroupEvent::Deleted { key, uid })
        }
        ClusterEvent::NumaReportApplied(report) => {
            ClusterEvent::NumaReportDeleted { node: report.node.clone(), uid: report.uid.clone() }
        }
        ClusterEvent::Groups(GroupEvent::TopologyApplied(object)) => {
            let (key, uid) = (object.key.clone(), object.uid.clone());
            ClusterEvent::Groups(GroupEvent::TopologyDeleted { key, uid })
        }
        deletion => deletion.clone(),
    }
}

fn deletion_of_devices(event: &DeviceEvent) -> DeviceEvent {
    match event {
        DeviceEvent::SliceApplied(slice) => {
            DeviceEvent::SliceDeleted { name: slice.name.clone(), uid: slice.uid.clone() }
        }
        DeviceEvent::ClassApplied(class) => DeviceEvent::ClassDeleted { name: class.name.clone() },
        DeviceEvent::TaintRuleApplied(rule) => {
            DeviceEvent::TaintRuleDeleted { name: rule.name.clone() }
        }
        DeviceEvent::ClaimApplied(claim) => {
            DeviceEvent::ClaimDeleted { key: claim.key.clone(), uid: claim.uid.clone() }
        }
        deletion => deletion.clone(),
    }
}
