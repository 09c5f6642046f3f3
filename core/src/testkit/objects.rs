//! Statements about storage, namespaces and selector owners, and which file has those about
//! devices and groups; `-kind name` deletes.

use crate::snapshot::{ClusterEvent, DeviceEvent};
use crate::types::volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use crate::types::workload::{Namespace, PodSelectorOwner, SelectorKind};
use crate::types::{Labels, Text};

use super::words::{self, Key, Line};
use super::{claims, devices, groups, numa, selectors};

/// Reads a statement about anything but nodes and pods.
pub fn read(line: &Line) -> Result<ClusterEvent, String> {
    let name = line.name.clone();
    let namespace = Text::from(line.value("ns").unwrap_or("default"));
    Ok(match line.kind.as_str() {
        "pvc" => ClusterEvent::ClaimApplied(claim(line, namespace)?),
        "-pvc" => ClusterEvent::ClaimDeleted { namespace, name },
        "pv" => ClusterEvent::VolumeApplied(volume(line)?),
        "-pv" => ClusterEvent::VolumeDeleted { name },
        "class" => ClusterEvent::StorageClassApplied(class(line)?),
        "-class" => ClusterEvent::StorageClassDeleted { name },
        "csinode" => ClusterEvent::CsiNodeApplied(csi_node(line)?),
        "-csinode" => ClusterEvent::CsiNodeDeleted { name },
        "attachment" => ClusterEvent::AttachmentApplied(attachment(line)?),
        "-attachment" => ClusterEvent::AttachmentDeleted { name },
        "namespace" => ClusterEvent::NamespaceApplied(namespace_object(line)?),
        "-namespace" => ClusterEvent::NamespaceDeleted { name },
        "slice" | "-slice" | "deviceclass" | "-deviceclass" | "taintrule" | "-taintrule"
        | "claim" | "-claim" => ClusterEvent::Devices(of_devices(line)?),
        "group" | "-group" => ClusterEvent::Groups(groups::read(line)?),
        "numa" | "-numa" => numa::read(line)?,
        kind => match (kind.strip_prefix('-'), owner_kind(kind.trim_start_matches('-'))) {
            (None, Some(kind)) => ClusterEvent::SelectorOwnerApplied(owner(line, kind, namespace)?),
            (Some(_), Some(kind)) => ClusterEvent::SelectorOwnerDeleted { kind, namespace, name },
            (_, None) => return Err(format!("unknown statement {kind:?}")),
        },
    })
}

/// A deletion means whichever object has the name, or with `uid=` that one only.
fn of_devices(line: &Line) -> Result<DeviceEvent, String> {
    let name = line.name.clone();
    let uid = Text::from(line.value("uid").unwrap_or_default());
    Ok(match line.kind.as_str() {
        "slice" => DeviceEvent::SliceApplied(Box::new(devices::slice(line)?)),
        "-slice" => DeviceEvent::SliceDeleted { name, uid },
        "deviceclass" => DeviceEvent::ClassApplied(Box::new(devices::class(line)?)),
        "-deviceclass" => DeviceEvent::ClassDeleted { name },
        "taintrule" => DeviceEvent::TaintRuleApplied(Box::new(devices::rule(line)?)),
        "-taintrule" => DeviceEvent::TaintRuleDeleted { name },
        "claim" => DeviceEvent::ClaimApplied(Box::new(claims::read(line)?)),
        _ => DeviceEvent::ClaimDeleted { key: claims::key(line), uid },
    })
}

const CLAIM: &[Key<PersistentVolumeClaim>] = &[
    ("ns", "its namespace", |_, _| Ok(())),
    ("bound", "the volume it is bound to", |claim, v| {
        claim.volume_name = v.into();
        claim.bind_completed = true;
        Ok(())
    }),
    ("volume", "spec.volumeName, not yet bound", |claim, v| {
        claim.volume_name = v.into();
        Ok(())
    }),
    ("class", "its storage class", |claim, v| {
        claim.storage_class = Some(v.into());
        Ok(())
    }),
    ("lost", "its phase is Lost", |claim, _| {
        claim.lost = true;
        Ok(())
    }),
    ("terminating", "it has a deletionTimestamp", |claim, _| {
        claim.terminating = true;
        Ok(())
    }),
    ("rwop", "its access mode is ReadWriteOncePod", |claim, _| {
        claim.read_write_once_pod = true;
        Ok(())
    }),
    ("selected-node", "the annotation", |claim, v| {
        claim.selected_node = Some(v.into());
        Ok(())
    }),
];

fn claim(line: &Line, namespace: Text) -> Result<PersistentVolumeClaim, String> {
    let uid = format!("pvc-{namespace}-{}", line.name).into();
    let name = line.name.clone();
    let mut claim = PersistentVolumeClaim { namespace, name, uid, ..Default::default() };
    words::apply(line, CLAIM, &mut claim, words::unknown)?;
    Ok(claim)
}

const VOLUME: &[Key<PersistentVolume>] = &[
    ("labels", "k=v,k=v", |volume, v| {
        volume.labels = Labels::new(words::pairs(v));
        Ok(())
    }),
    ("affinity", "node terms", |volume, v| {
        volume.node_affinity = Some(selectors::node_selector(v)?);
        Ok(())
    }),
    ("csi", "driver/handle", |volume, v| {
        let (driver, handle) = v.rsplit_once('/').ok_or("driver/handle is needed")?;
        volume.csi = Some((driver.into(), handle.into()));
        Ok(())
    }),
    ("class", "its storage class", |volume, v| {
        volume.storage_class = v.into();
        Ok(())
    }),
    ("claim", "namespace/name", |volume, v| {
        let (namespace, name) = v.split_once('/').ok_or("namespace/name is needed")?;
        volume.claim = Some((namespace.into(), name.into()));
        Ok(())
    }),
];

fn volume(line: &Line) -> Result<PersistentVolume, String> {
    let mut volume = PersistentVolume { name: line.name.clone(), ..Default::default() };
    words::apply(line, VOLUME, &mut volume, words::unknown)?;
    Ok(volume)
}

const CLASS: &[Key<StorageClass>] = &[
    ("provisioner", "who makes volumes of it", |class, v| {
        class.provisioner = v.into();
        Ok(())
    }),
    ("wait", "volumeBindingMode: WaitForFirstConsumer", |class, _| {
        class.wait_for_first_consumer = true;
        Ok(())
    }),
];

fn class(line: &Line) -> Result<StorageClass, String> {
    let mut class = StorageClass { name: line.name.clone(), ..Default::default() };
    words::apply(line, CLASS, &mut class, words::unknown)?;
    Ok(class)
}

const CSI_NODE: &[Key<CsiNode>] =
    &[("drivers", "driver=limit,driver (no limit)", |node, value| {
        for (driver, limit) in words::pairs(value) {
            let limit = if limit.is_empty() { None } else { Some(words::number(&limit)?) };
            node.drivers.push((driver, limit));
        }
        node.drivers.sort();
        Ok(())
    })];

fn csi_node(line: &Line) -> Result<CsiNode, String> {
    let mut node = CsiNode { name: line.name.clone(), ..Default::default() };
    words::apply(line, CSI_NODE, &mut node, words::unknown)?;
    Ok(node)
}

const ATTACHMENT: &[Key<VolumeAttachment>] = &[
    ("driver", "spec.attacher", |attachment, v| {
        attachment.driver = v.into();
        Ok(())
    }),
    ("node", "where it is attached", |attachment, v| {
        attachment.node_name = v.into();
        Ok(())
    }),
    ("volume", "the persistent volume", |attachment, v| {
        attachment.volume_name = v.into();
        Ok(())
    }),
];

fn attachment(line: &Line) -> Result<VolumeAttachment, String> {
    let mut attachment = VolumeAttachment { name: line.name.clone(), ..Default::default() };
    words::apply(line, ATTACHMENT, &mut attachment, words::unknown)?;
    Ok(attachment)
}

const NAMESPACE: &[Key<Namespace>] = &[("labels", "k=v,k=v", |namespace, v| {
    namespace.labels = Labels::new(words::pairs(v));
    Ok(())
})];

fn namespace_object(line: &Line) -> Result<Namespace, String> {
    let mut namespace = Namespace { name: line.name.clone(), ..Default::default() };
    words::apply(line, NAMESPACE, &mut namespace, words::unknown)?;
    Ok(namespace)
}

const OWNER: &[Key<PodSelectorOwner>] = &[
    ("ns", "its namespace", |_, _| Ok(())),
    ("select", "requirements on pods", |owner, v| {
        owner.selector = selectors::label_selector(v)?;
        Ok(())
    }),
];

fn owner_kind(kind: &str) -> Option<SelectorKind> {
    match kind {
        "service" => Some(SelectorKind::Service),
        "rc" => Some(SelectorKind::ReplicationController),
        "replicaset" => Some(SelectorKind::ReplicaSet),
        "statefulset" => Some(SelectorKind::StatefulSet),
        _ => None,
    }
}

fn owner(line: &Line, kind: SelectorKind, namespace: Text) -> Result<PodSelectorOwner, String> {
    let name = line.name.clone();
    let mut owner = PodSelectorOwner { kind, namespace, name, selector: Default::default() };
    words::apply(line, OWNER, &mut owner, words::unknown)?;
    Ok(owner)
}
