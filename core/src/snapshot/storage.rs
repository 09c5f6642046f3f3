//! Index of storage: claims, volumes, classes, drivers, attachments, and which pods use a claim.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use crate::types::{Pod, PodUid, Text, VolumeSource};

use super::changes::Version;
use super::sets::leave;

/// Namespace and name of a claim.
pub type ClaimKey = (Text, Text);

#[derive(Debug, Default)]
pub struct Storage {
    pub(crate) claims: BTreeMap<ClaimKey, PersistentVolumeClaim>,
    pub(crate) volumes: BTreeMap<Text, PersistentVolume>,
    pub(crate) classes: BTreeMap<Text, StorageClass>,
    pub(crate) csi_nodes: BTreeMap<Text, CsiNode>,
    pub(crate) attachments: BTreeMap<Text, VolumeAttachment>,
    users: BTreeMap<ClaimKey, BTreeSet<PodUid>>,
    version: Version,
    users_version: Version,
}

impl Storage {
    pub fn claim(&self, namespace: &Text, name: &Text) -> Option<&PersistentVolumeClaim> {
        self.claims.get(&(namespace.clone(), name.clone()))
    }

    pub fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name)
    }

    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name)
    }

    pub fn csi_node(&self, node_name: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(node_name)
    }

    pub fn attachments(&self) -> impl Iterator<Item = &VolumeAttachment> {
        self.attachments.values()
    }

    /// Returns the placed and assumed pods that use a claim.
    pub fn users(&self, namespace: &Text, claim: &Text) -> impl Iterator<Item = &PodUid> {
        self.users.get(&(namespace.clone(), claim.clone())).into_iter().flatten()
    }

    /// Moves when a storage object changes.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Moves when a pod that uses a claim takes or leaves its place.
    pub fn users_version(&self) -> Version {
        self.users_version
    }

    pub(crate) fn moved(&mut self, version: Version) {
        self.version = version;
    }

    pub(crate) fn add_user(&mut self, pod: &Pod, version: Version) {
        for claim in claims_of(pod) {
            self.users.entry(claim).or_default().insert(pod.uid.clone());
            self.users_version = version;
        }
    }

    pub(crate) fn remove_user(&mut self, pod: &Pod, version: Version) {
        for claim in claims_of(pod) {
            leave(&mut self.users, &claim, &pod.uid);
            self.users_version = version;
        }
    }
}

/// Returns the claims that the volumes of `pod` name, ephemeral ones by their generated name.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = ClaimKey> + '_ {
    pod.spec.volumes.iter().filter_map(|volume| match volume {
        VolumeSource::Claim { name } => Some((pod.namespace.clone(), name.clone())),
        VolumeSource::Ephemeral { volume } => {
            Some((pod.namespace.clone(), Text::from(format!("{}-{volume}", pod.name))))
        }
        VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. }
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. }
        | VolumeSource::InlineCsi { .. } => None,
    })
}
