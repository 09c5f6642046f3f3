//! Every kind that is watched, behind one `decode`; `berth simulate` reads files through it.

use berth_core::types::volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use berth_core::types::workload::{Namespace, PodSelectorOwner};
use berth_core::types::{
    DeviceClass, DeviceTaintRule, Node, NumaReport, Pod, PodGroup, ResourceClaim, ResourceSlice,
    TopologyObject,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::dialect;
use super::dialect::object::GroupObject;
use super::dialect::tree::TreeObject;
use super::problem::Problem;
use super::tables::Tables;
use super::{claim, device, node, numa, pod, volume, workload};

/// Every kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Node,
    Pod,
    Namespace,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    VolumeAttachment,
    ResourceSlice,
    DeviceClass,
    ResourceClaim,
    DeviceTaintRule,
    /// Of a server that doesn't know v1; the content is the same.
    DeviceTaintRuleV1beta2,
    /// Of a server that knows neither.
    DeviceTaintRuleV1alpha3,
    /// What nodes tell of their NUMA cells, where that is installed.
    NodeResourceTopology,
    /// Objects that make groups of pods.
    Group(GroupObject),
    /// Objects that describe topologies.
    Tree(TreeObject),
}

impl Kind {
    /// Those that are in every cluster, or none.
    const OF_KUBERNETES: [Kind; 18] = [
        Kind::Node,
        Kind::Pod,
        Kind::Namespace,
        Kind::Service,
        Kind::ReplicationController,
        Kind::ReplicaSet,
        Kind::StatefulSet,
        Kind::PersistentVolumeClaim,
        Kind::PersistentVolume,
        Kind::StorageClass,
        Kind::CsiNode,
        Kind::VolumeAttachment,
        Kind::ResourceSlice,
        Kind::DeviceClass,
        Kind::ResourceClaim,
        Kind::DeviceTaintRule,
        Kind::DeviceTaintRuleV1beta2,
        Kind::DeviceTaintRuleV1alpha3,
    ];

    /// Returns every kind, in every version.
    pub fn all() -> impl Iterator<Item = Kind> {
        let custom = [Kind::NodeResourceTopology];
        let of_dialects = dialect::objects().map(Kind::Group);
        let of_dialects = of_dialects.chain(dialect::trees().map(Kind::Tree));
        Kind::OF_KUBERNETES.into_iter().chain(custom).chain(of_dialects)
    }

    /// Returns `apiVersion` and `kind` as they stand in an object.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Node => ("v1", "Node"),
            Kind::Pod => ("v1", "Pod"),
            Kind::Namespace => ("v1", "Namespace"),
            Kind::Service => ("v1", "Service"),
            Kind::ReplicationController => ("v1", "ReplicationController"),
            Kind::ReplicaSet => ("apps/v1", "ReplicaSet"),
            Kind::StatefulSet => ("apps/v1", "StatefulSet"),
            Kind::PersistentVolumeClaim => ("v1", "PersistentVolumeClaim"),
            Kind::PersistentVolume => ("v1", "PersistentVolume"),
            Kind::StorageClass => ("storage.k8s.io/v1", "StorageClass"),
            Kind::CsiNode => ("storage.k8s.io/v1", "CSINode"),
            Kind::VolumeAttachment => ("storage.k8s.io/v1", "VolumeAttachment"),
            Kind::ResourceSlice => ("resource.k8s.io/v1", "ResourceSlice"),
            Kind::DeviceClass => ("resource.k8s.io/v1", "DeviceClass"),
            Kind::ResourceClaim => ("resource.k8s.io/v1", "ResourceClaim"),
            Kind::DeviceTaintRule => ("resource.k8s.io/v1", "DeviceTaintRule"),
            Kind::DeviceTaintRuleV1beta2 => ("resource.k8s.io/v1beta2", "DeviceTaintRule"),
            Kind::DeviceTaintRuleV1alpha3 => ("resource.k8s.io/v1alpha3", "DeviceTaintRule"),
            Kind::NodeResourceTopology => ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"),
            Kind::Group(object) => (object.api_version(), object.kind()),
            Kind::Tree(object) => (object.api_version(), object.kind()),
        }
    }

    /// Returns the kind that stands for it in the ledger, which knows no versions.
    pub fn family(self) -> Kind {
        match self {
            Kind::DeviceTaintRuleV1beta2 | Kind::DeviceTaintRuleV1alpha3 => Kind::DeviceTaintRule,
            Kind::Group(object) => Kind::Group(object.family()),
            Kind::Tree(object) => Kind::Tree(object.family()),
            kind => kind,
        }
    }

    /// Returns a kind of a dialect in every version, newest first; of others just the kind.
    pub fn versions(self) -> Vec<Kind> {
        match self {
            Kind::Group(object) => object.versions().map(Kind::Group).collect(),
            Kind::Tree(object) => object.versions().map(Kind::Tree).collect(),
            kind => vec![kind],
        }
    }

    /// Returns the kind that an object says it has; None if it isn't one of those watched.
    pub fn of(object: &Value) -> Option<Kind> {
        let api_version = object.get("apiVersion")?.as_str()?;
        let kind = object.get("kind")?.as_str()?;
        Kind::named(api_version, kind)
    }

    /// Returns the kind with this `apiVersion` and `kind`, if it is one of those watched.
    pub fn named(api_version: &str, kind: &str) -> Option<Kind> {
        Kind::all().find(|known| known.names() == (api_version, kind))
    }
}

/// An object as core knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Node(Box<Node>),
    Pod(Box<Pod>),
    Namespace(Namespace),
    SelectorOwner(PodSelectorOwner),
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    PersistentVolume(Box<PersistentVolume>),
    StorageClass(StorageClass),
    CsiNode(CsiNode),
    VolumeAttachment(VolumeAttachment),
    ResourceSlice(Box<ResourceSlice>),
    DeviceClass(Box<DeviceClass>),
    ResourceClaim(Box<ResourceClaim>),
    DeviceTaintRule(Box<DeviceTaintRule>),
    NumaReport(Box<NumaReport>),
    PodGroup(Box<PodGroup>),
    Topology(Box<TopologyObject>),
}

/// An object and what couldn't be understood of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub object: Object,
    /// The first one of a pod is also its [`Pod::problem`], of a group [`PodGroup::problem`].
    pub problems: Vec<Problem>,
}

/// Why there is no object at all: it can't be told which one it would be.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("{kind} is not an object")]
    NotAnObject { kind: &'static str },
    #[error("{kind} can't be decoded")]
    Undecodable {
        kind: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("{kind} has no name")]
    Nameless { kind: &'static str },
}

/// Converts an object of a known kind.
///
/// # Errors
/// If it isn't a JSON object, or has no name.
pub fn decode(kind: Kind, json: Value, tables: &mut Tables) -> Result<Decoded, WireError> {
    check_name(kind, &json)?;
    let owner = Object::SelectorOwner;
    let claim = |claim| Object::PersistentVolumeClaim(Box::new(claim));
    let volume = |volume| Object::PersistentVolume(Box::new(volume));
    let from = From { kind, json, tables };
    match kind {
        Kind::Node => from.read(node::node, |node| Object::Node(Box::new(node))),
        Kind::Pod => from.read(pod::pod_and_problems, |pod| Object::Pod(Box::new(pod))),
        Kind::Namespace => from.read(workload::namespace, Object::Namespace),
        Kind::Service => from.read(workload::service, owner),
        Kind::ReplicationController => from.read(workload::replication_controller, owner),
        Kind::ReplicaSet => from.read(workload::replica_set, owner),
        Kind::StatefulSet => from.read(workload::stateful_set, owner),
        Kind::PersistentVolumeClaim => from.read(volume::claim, claim),
        Kind::PersistentVolume => from.read(volume::volume, volume),
        Kind::StorageClass => from.read(volume::storage_class, Object::StorageClass),
        Kind::CsiNode => from.read(volume::csi_node, Object::CsiNode),
        Kind::VolumeAttachment => from.read(volume::attachment, Object::VolumeAttachment),
        Kind::ResourceSlice => from.read(device::slice, |s| Object::ResourceSlice(Box::new(s))),
        Kind::DeviceClass => from.read(device::class, |c| Object::DeviceClass(Box::new(c))),
        Kind::ResourceClaim => from.read(claim::claim, |c| Object::ResourceClaim(Box::new(c))),
        Kind::DeviceTaintRule | Kind::DeviceTaintRuleV1beta2 | Kind::DeviceTaintRuleV1alpha3 => {
            from.read(device::taint_rule, |rule| Object::DeviceTaintRule(Box::new(rule)))
        }
        Kind::NodeResourceTopology => {
            from.read(numa::report, |report| Object::NumaReport(Box::new(report)))
        }
        Kind::Group(object) => from.group(object),
        Kind::Tree(object) => from.tree(object),
    }
}

fn check_name(kind: Kind, json: &Value) -> Result<(), WireError> {
    let kind = kind.names().1;
    let object = json.as_object().ok_or(WireError::NotAnObject { kind })?;
    match object.get("metadata").and_then(|meta| meta.get("name")) {
        Some(Value::String(name)) if !name.is_empty() => Ok(()),
        _ => Err(WireError::Nameless { kind }),
    }
}

struct From<'t> {
    kind: Kind,
    json: Value,
    tables: &'t mut Tables,
}

impl From<'_> {
    fn read<W: DeserializeOwned, T>(
        self,
        convert: impl Fn(W, &mut Tables) -> (T, Vec<Problem>),
        object: impl Fn(T) -> Object,
    ) -> Result<Decoded, WireError> {
        let kind = self.kind.names().1;
        let wire =
            W::deserialize(self.json).map_err(|source| WireError::Undecodable { kind, source })?;
        let (converted, problems) = convert(wire, self.tables);
        Ok(Decoded { object: object(converted), problems })
    }

    fn group(self, object: GroupObject) -> Result<Decoded, WireError> {
        let read = object.read(&self.json.to_string(), self.tables);
        let kind = object.kind();
        let read = read.map_err(|source| WireError::Undecodable { kind, source })?;
        Ok(Decoded { object: Object::PodGroup(Box::new(read.group)), problems: read.problems })
    }

    fn tree(self, object: TreeObject) -> Result<Decoded, WireError> {
        let read = object.read(&self.json.to_string(), self.tables);
        let kind = object.kind();
        let read = read.map_err(|source| WireError::Undecodable { kind, source })?;
        Ok(Decoded { object: Object::Topology(Box::new(read.object)), problems: read.problems })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_is_known_by_its_names_and_decodes() {
        for kind in Kind::all() {
            let (api_version, name) = kind.names();
            let mut object = json!({"apiVersion": api_version, "kind": name});
            assert_eq!(Kind::of(&object), Some(kind));
            let error = decode(kind, object.clone(), &mut Tables::default()).unwrap_err();
            assert_eq!(error.to_string(), format!("{name} has no name"));
            object["metadata"] = json!({"name": "a"});
            object["spec"] = json!({});
            object["provisioner"] = json!("p");
            if name == "ResourceSlice" {
                let pool = json!({"name": "p", "resourceSliceCount": 1});
                object["spec"] = json!({"driver": "d", "pool": pool});
            } else if name == "DeviceTaintRule" {
                object["spec"] = json!({"taint": {"key": "k", "effect": "NoSchedule"}});
            } else if matches!(kind, Kind::Group(_)) {
                object["spec"] = json!({"schedulingPolicy": {"basic": {}}});
            } else if matches!(kind, Kind::Tree(_)) {
                object["spec"] = json!({"levels": [], "tier": 1});
            }
            let decoded = decode(kind, object, &mut Tables::default()).unwrap();
            assert_eq!(decoded.problems, []);
        }
        assert_eq!(Kind::of(&json!({"apiVersion": "v2", "kind": "Pod"})), None);
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for json in [json!(null), json!([]), json!("x"), json!(7)] {
            let error = decode(Kind::Pod, json, &mut Tables::default()).unwrap_err();
            assert_eq!(error.to_string(), "Pod is not an object");
        }
    }
}
