//! Storage objects as scheduling reads them.

use super::{Labels, NodeSelector, Text};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolumeClaim {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub resource_version: u64,
    /// `spec.volumeName`; empty while unbound.
    pub volume_name: Text,
    /// The annotation `pv.kubernetes.io/bind-completed` is set.
    pub bind_completed: bool,
    /// None where the field is absent.
    pub storage_class: Option<Text>,
    /// `status.phase` is Lost.
    pub lost: bool,
    pub terminating: bool,
    pub read_write_once_pod: bool,
    /// Annotation `volume.kubernetes.io/selected-node`.
    pub selected_node: Option<Text>,
}

impl PersistentVolumeClaim {
    pub fn bound(&self) -> bool {
        !self.volume_name.is_empty() && self.bind_completed
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    pub name: Text,
    pub resource_version: u64,
    pub labels: Labels,
    pub node_affinity: Option<NodeSelector>,
    /// CSI driver and volume handle; in-tree sources are given in their CSI form.
    pub csi: Option<(Text, Text)>,
    pub storage_class: Text,
    /// Namespace and name of `spec.claimRef`.
    pub claim: Option<(Text, Text)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageClass {
    pub name: Text,
    pub provisioner: Text,
    /// volumeBindingMode is WaitForFirstConsumer.
    pub wait_for_first_consumer: bool,
}

/// The CSI drivers of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNode {
    pub name: Text,
    /// Driver and the number of volumes that it can attach, None if unlimited; sorted by driver.
    pub drivers: Vec<(Text, Option<i64>)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeAttachment {
    pub name: Text,
    pub driver: Text,
    pub node_name: Text,
    pub volume_name: Text,
}
