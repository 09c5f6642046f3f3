//! The kinds that are watched: their paths, and from an object's JSON to an event of the ledger.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use berth_core::engine::Dependence;
use berth_core::framework::Profile;
use berth_core::snapshot::{ClusterEvent, DeviceEvent, GroupEvent};
use berth_core::types::group::GroupKey;
use berth_core::types::workload::SelectorKind;
use berth_core::types::{ClaimKey, Pod, PodUid, Text};
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::wire::dialect::object::GroupObject;
use crate::wire::dialect::tree::TreeObject;
use crate::wire::meta::Meta;
use crate::wire::{Kind, Problem, Tables, claim, device, k8s, node, numa, pod, volume, workload};

/// Pods that have ended hold nothing. Source: kube-scheduler's pod informer.
const POD_SELECTOR: &str = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";

/// Who an object is. Order: namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Empty for kinds without one.
    pub namespace: Text,
    pub name: Text,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.is_empty() {
            true => f.write_str(&self.name),
            false => write!(f, "{}/{}", self.namespace, self.name),
        }
    }
}

/// An object's identity at a version.
#[derive(Clone, Debug)]
pub struct Identity {
    pub key: Key,
    pub uid: Text,
    pub version: String,
}

/// An object as it was read.
pub struct Seen {
    pub identity: Identity,
    pub event: ClusterEvent,
    pub problems: Vec<Problem>,
}

/// Why an object can't be told from others.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("not a readable object: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it has no name")]
    Nameless,
}

/// Group and newest version of all that belongs to dynamic resource allocation.
pub const DEVICES: &str = "resource.k8s.io/v1";

/// Returns the kinds that something in the profiles reads, where the server has all of them, but for
/// those of groups ([`super::dialects`]) and others that come and go ([`super::optional`]). Pods that wait for what isn't built yet need namespaces
/// and claims, whatever the profile.
pub fn needed(profiles: &[Profile]) -> Vec<Kind> {
    let runs = |names: &[&str]| profiles.iter().any(|p| names.iter().any(|name| p.runs(name)));
    let spread = runs(&["PodTopologySpread"]);
    let volumes = runs(&["VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"]);
    let devices = runs(&["DynamicResources"]);
    let needed = |kind: &Kind| match kind {
        Kind::Node | Kind::Pod | Kind::Namespace | Kind::PersistentVolumeClaim => true,
        Kind::Service | Kind::ReplicationController | Kind::ReplicaSet | Kind::StatefulSet => {
            spread
        }
        Kind::PersistentVolume | Kind::StorageClass | Kind::CsiNode | Kind::VolumeAttachment => {
            volumes
        }
        Kind::ResourceSlice | Kind::DeviceClass | Kind::ResourceClaim | Kind::DeviceTaintRule => {
            devices
        }
        // The newest one unless the server doesn't have it.
        Kind::DeviceTaintRuleV1beta2 | Kind::DeviceTaintRuleV1alpha3 => false,
        Kind::NodeResourceTopology | Kind::Group(_) | Kind::Tree(_) => false,
    };
    Kind::all().filter(needed).collect()
}

/// Returns the path of all objects of the kind, from the root.
pub fn list_path(kind: Kind) -> String {
    match kind {
        Kind::Node => k8s::Node::url_path(&(), None),
        Kind::Pod => k8s::Pod::url_path(&(), None),
        Kind::Namespace => k8s::Namespace::url_path(&(), None),
        Kind::Service => k8s::Service::url_path(&(), None),
        Kind::ReplicationController => k8s::ReplicationController::url_path(&(), None),
        Kind::ReplicaSet => k8s::ReplicaSet::url_path(&(), None),
        Kind::StatefulSet => k8s::StatefulSet::url_path(&(), None),
        Kind::PersistentVolumeClaim => k8s::PersistentVolumeClaim::url_path(&(), None),
        Kind::PersistentVolume => k8s::PersistentVolume::url_path(&(), None),
        Kind::StorageClass => k8s::StorageClass::url_path(&(), None),
        Kind::CsiNode => k8s::CsiNode::url_path(&(), None),
        Kind::VolumeAttachment => k8s::VolumeAttachment::url_path(&(), None),
        Kind::ResourceSlice => k8s::ResourceSlice::url_path(&(), None),
        Kind::DeviceClass => k8s::DeviceClass::url_path(&(), None),
        Kind::ResourceClaim => k8s::ResourceClaim::url_path(&(), None),
        Kind::DeviceTaintRule | Kind::DeviceTaintRuleV1beta2 | Kind::DeviceTaintRuleV1alpha3 => {
            format!("/apis/{}/devicetaintrules", kind.names().0)
        }
        Kind::NodeResourceTopology => format!("/apis/{}/noderesourcetopologies", kind.names().0),
        Kind::Group(object) => format!("/apis/{}/{}", object.api_version(), object.resource()),
        Kind::Tree(object) => format!("/apis/{}/{}", object.api_version(), object.resource()),
    }
}

/// Returns the path of the objects of the kind in one namespace; all, if that is empty.
pub fn collection_path(kind: Kind, namespace: &str) -> String {
    let path = list_path(kind);
    match path.rsplit_once('/') {
        Some((base, resource)) if !namespace.is_empty() => {
            format!("{base}/namespaces/{namespace}/{resource}")
        }
        _ => path,
    }
}

/// Returns the resource's name, such as `pods`: the last part of its path.
pub fn plural(kind: Kind) -> String {
    let path = list_path(kind);
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Returns what tells the resource from all others: its name, and of dialects, which several have by
/// one name, the API group too, as in `podgroups.scheduling.k8s.io`.
pub fn resource(kind: Kind) -> String {
    match kind {
        Kind::Group(_) | Kind::Tree(_) => {
            let group = kind.names().0.split('/').next().unwrap_or_default();
            format!("{}.{group}", plural(kind))
        }
        kind => plural(kind),
    }
}

/// Returns the kind with this [`resource`], in the newest version.
pub fn by_resource(name: &str) -> Option<Kind> {
    static KINDS: OnceLock<BTreeMap<String, Kind>> = OnceLock::new();
    let all = || Kind::all().map(|kind| (resource(kind), kind.family())).collect();
    KINDS.get_or_init(all).get(name).copied()
}

/// Tells whose decisions stand on which kind, so that a new list of one kind holds nobody else.
pub struct ByKind;

impl Dependence for ByKind {
    fn needs(&self, of_kind: &str, pod: &Pod) -> Option<bool> {
        // What is none of these is the Lease, without which nothing is decided.
        match by_resource(of_kind)? {
            Kind::Node | Kind::Pod | Kind::Namespace => None,
            Kind::PersistentVolumeClaim
            | Kind::PersistentVolume
            | Kind::StorageClass
            | Kind::CsiNode
            | Kind::VolumeAttachment => Some(!pod.spec.volumes.is_empty()),
            Kind::ResourceSlice
            | Kind::DeviceClass
            | Kind::ResourceClaim
            | Kind::DeviceTaintRule
            | Kind::DeviceTaintRuleV1beta2
            | Kind::DeviceTaintRuleV1alpha3 => {
                // Extended resources may be backed by a class.
                Some(!pod.spec.claims.is_empty() || !pod.spec.extended.is_empty())
            }
            // They matter to the spread defaults of pods without constraints of their own.
            Kind::Service | Kind::ReplicationController | Kind::ReplicaSet | Kind::StatefulSet => {
                Some(pod.spec.spread.is_empty())
            }
            Kind::NodeResourceTopology => Some(pod.spec.alignment.is_some()),
            Kind::Group(object) => {
                Some(pod.group_hints().iter().any(|hint| hint.dialect == object.dialect()))
            }
            // Objects of the dialect may name a level that the pod does not.
            Kind::Tree(object) => Some(
                pod.group_hints()
                    .iter()
                    .any(|hint| hint.dialect == object.dialect() || !hint.topology.is_empty()),
            ),
        }
    }
}

/// Returns what the list of a kind is narrowed down by, as part of a query.
pub fn selector(kind: Kind) -> Option<&'static str> {
    (kind == Kind::Pod).then_some(POD_SELECTOR)
}

/// Reads an object that is there.
///
/// # Errors
/// If nobody can say which object it is; anything else that is odd about it is a problem.
pub fn read(kind: Kind, json: &str, tables: &Mutex<Tables>) -> Result<Seen, Unreadable> {
    use ClusterEvent as Event;
    let raw = Raw { json, tables };
    match kind {
        Kind::Node => raw.read(node::node, Event::NodeApplied),
        Kind::Pod => raw.read(pod::pod_and_problems, |pod| Event::PodApplied(Box::new(pod))),
        Kind::Namespace => raw.read(workload::namespace, Event::NamespaceApplied),
        Kind::Service => raw.read(workload::service, Event::SelectorOwnerApplied),
        Kind::ReplicationController => {
            raw.read(workload::replication_controller, Event::SelectorOwnerApplied)
        }
        Kind::ReplicaSet => raw.read(workload::replica_set, Event::SelectorOwnerApplied),
        Kind::StatefulSet => raw.read(workload::stateful_set, Event::SelectorOwnerApplied),
        Kind::PersistentVolumeClaim => raw.read(volume::claim, Event::ClaimApplied),
        Kind::PersistentVolume => raw.read(volume::volume, Event::VolumeApplied),
        Kind::StorageClass => raw.read(volume::storage_class, Event::StorageClassApplied),
        Kind::CsiNode => raw.read(volume::csi_node, Event::CsiNodeApplied),
        Kind::VolumeAttachment => raw.read(volume::attachment, Event::AttachmentApplied),
        Kind::ResourceSlice => raw.read(device::slice, |slice| {
            Event::Devices(DeviceEvent::SliceApplied(Box::new(slice)))
        }),
        Kind::DeviceClass => raw.read(device::class, |class| {
            Event::Devices(DeviceEvent::ClassApplied(Box::new(class)))
        }),
        Kind::ResourceClaim => raw
            .read(claim::claim, |claim| Event::Devices(DeviceEvent::ClaimApplied(Box::new(claim)))),
        Kind::DeviceTaintRule | Kind::DeviceTaintRuleV1beta2 | Kind::DeviceTaintRuleV1alpha3 => raw
            .read(device::taint_rule, |rule| {
                Event::Devices(DeviceEvent::TaintRuleApplied(Box::new(rule)))
            }),
        Kind::NodeResourceTopology => {
            raw.read(numa::report, |report| Event::NumaReportApplied(Box::new(report)))
        }
        Kind::Group(object) => raw.group(object),
        Kind::Tree(object) => raw.tree(object),
    }
}

/// Tells whether a pod has ended as it should.
pub fn work_is_done(json: &str) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        phase: String,
    }
    #[derive(Deserialize)]
    struct Only {
        #[serde(default)]
        status: Status,
    }
    serde_json::from_str::<Only>(json).is_ok_and(|only| only.status.phase == "Succeeded")
}

/// Reads who an object is, and nothing else.
///
/// # Errors
/// As [`read`].
pub fn identity(json: &str) -> Result<Identity, Unreadable> {
    #[derive(Deserialize)]
    struct Only {
        #[serde(default)]
        metadata: Meta,
    }
    let only: Only = serde_json::from_str(json)?;
    identity_of(&only.metadata.object)
}

fn identity_of(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> Result<Identity, Unreadable> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let name = text(&meta.name);
    if name.is_empty() {
        return Err(Unreadable::Nameless);
    }
    let key = Key { namespace: Text::from(text(&meta.namespace)), name: Text::from(name) };
    Ok(Identity { key, uid: Text::from(text(&meta.uid)), version: text(&meta.resource_version) })
}

struct Raw<'a> {
    json: &'a str,
    tables: &'a Mutex<Tables>,
}

impl Raw<'_> {
    fn read<W, T>(
        self,
        convert: impl Fn(W, &mut Tables) -> (T, Vec<Problem>),
        event: impl Fn(T) -> ClusterEvent,
    ) -> Result<Seen, Unreadable>
    where
        W: DeserializeOwned + Resource,
    {
        let wire: W = serde_json::from_str(self.json)?;
        let identity = identity_of(wire.meta())?;
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let (converted, problems) = convert(wire, &mut tables);
        Ok(Seen { identity, event: event(converted), problems })
    }

    fn group(self, object: GroupObject) -> Result<Seen, Unreadable> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let read = object.read(self.json, &mut tables)?;
        let identity = identity_of(&read.meta.object)?;
        let event = ClusterEvent::Groups(GroupEvent::Applied(Box::new(read.group)));
        Ok(Seen { identity, event, problems: read.problems })
    }

    fn tree(self, object: TreeObject) -> Result<Seen, Unreadable> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let read = object.read(self.json, &mut tables)?;
        let identity = identity_of(&read.meta.object)?;
        let event = ClusterEvent::Groups(GroupEvent::TopologyApplied(Box::new(read.object)));
        Ok(Seen { identity, event, problems: read.problems })
    }
}

/// Returns the event that an object is gone.
pub fn deleted(kind: Kind, key: &Key, uid: &Text) -> ClusterEvent {
    let (namespace, name) = (key.namespace.clone(), key.name.clone());
    let owner = |kind| ClusterEvent::SelectorOwnerDeleted {
        kind,
        namespace: namespace.clone(),
        name: name.clone(),
    };
    match kind {
        Kind::Node => ClusterEvent::NodeDeleted { name, uid: uid.clone() },
        Kind::Pod => ClusterEvent::PodDeleted { uid: PodUid(uid.clone()) },
        Kind::Namespace => ClusterEvent::NamespaceDeleted { name },
        Kind::Service => owner(SelectorKind::Service),
        Kind::ReplicationController => owner(SelectorKind::ReplicationController),
        Kind::ReplicaSet => owner(SelectorKind::ReplicaSet),
        Kind::StatefulSet => owner(SelectorKind::StatefulSet),
        Kind::PersistentVolumeClaim => ClusterEvent::ClaimDeleted { namespace, name },
        Kind::PersistentVolume => ClusterEvent::VolumeDeleted { name },
        Kind::StorageClass => ClusterEvent::StorageClassDeleted { name },
        Kind::CsiNode => ClusterEvent::CsiNodeDeleted { name },
        Kind::VolumeAttachment => ClusterEvent::AttachmentDeleted { name },
        Kind::ResourceSlice => {
            ClusterEvent::Devices(DeviceEvent::SliceDeleted { name, uid: uid.clone() })
        }
        Kind::DeviceClass => ClusterEvent::Devices(DeviceEvent::ClassDeleted { name }),
        Kind::ResourceClaim => {
            let (key, uid) = (ClaimKey { namespace, name }, uid.clone());
            ClusterEvent::Devices(DeviceEvent::ClaimDeleted { key, uid })
        }
        Kind::DeviceTaintRule | Kind::DeviceTaintRuleV1beta2 | Kind::DeviceTaintRuleV1alpha3 => {
            ClusterEvent::Devices(DeviceEvent::TaintRuleDeleted { name })
        }
        Kind::NodeResourceTopology => {
            ClusterEvent::NumaReportDeleted { node: name, uid: uid.clone() }
        }
        Kind::Group(object) => {
            let key = GroupKey { dialect: object.dialect(), kind: object.makes(), namespace, name };
            ClusterEvent::Groups(GroupEvent::Deleted { key, uid: uid.clone() })
        }
        Kind::Tree(object) => {
            let (key, uid) = (object.key(name), uid.clone());
            ClusterEvent::Groups(GroupEvent::TopologyDeleted { key, uid })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_deleted_by_its_own_events() {
        let tables = Mutex::new(Tables::default());
        let json = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}"#;
        for kind in Kind::all() {
            let seen = read(kind, json, &tables).unwrap();
            assert_eq!((seen.identity.key.to_string().as_str(), &*seen.identity.uid), ("a", "u"));
            assert_eq!(identity(json).unwrap().version, "7");
            let named = |event: &ClusterEvent| {
                let text = format!("{event:?}");
                let text = text.replace("Devices(", "Devices-").replace("Groups(", "Groups-");
                let end = text.find(['(', ' ']).unwrap();
                text[..end].replace("Applied", "").replace("Deleted", "")
            };
            let gone = deleted(kind, &seen.identity.key, &seen.identity.uid);
            assert_eq!(named(&seen.event), named(&gone));
        }
        assert_eq!(resource(Kind::CsiNode), "csinodes");
        for kind in Kind::all() {
            assert_eq!(by_resource(&resource(kind)), Some(kind.family()), "a name of its own");
        }
    }

    #[test]
    fn an_object_without_a_name_is_unreadable() {
        let tables = Mutex::new(Tables::default());
        for json in ["{}", r#"{"metadata":7}"#, r#"{"metadata":{"name":""}}"#, "[]", "{"] {
            assert!(read(Kind::Pod, json, &tables).is_err(), "{json}");
            assert!(identity(json).is_err(), "{json}");
        }
    }
}
