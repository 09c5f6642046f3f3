//! Storage objects on the wire.

use super::selector::NodeSelector;
use super::{resource, wire};
use crate::wire::field::{Field, List};
use crate::wire::meta::Meta;

wire! {
    pub struct PersistentVolumeClaim {
        metadata: Meta,
        spec: Field<ClaimSpec>,
        status: Field<ClaimStatus>,
    }

    pub struct ClaimSpec {
        access_modes: Field<List<String>>,
        storage_class_name: Field<String>,
        volume_name: Field<String>,
    }

    pub struct ClaimStatus {
        phase: Field<String>,
    }

    pub struct PersistentVolume {
        metadata: Meta,
        spec: Field<VolumeSpec>,
    }

    pub struct VolumeSpec {
        storage_class_name: Field<String>,
        claim_ref: Field<ClaimRef>,
        node_affinity: Field<VolumeNodeAffinity>,
        csi: Field<CsiVolume>,
        aws_elastic_block_store: Field<VolumeId>,
        gce_persistent_disk: Field<GceDisk>,
        azure_disk: Field<AzureDisk>,
        cinder: Field<VolumeId>,
    }

    pub struct ClaimRef {
        namespace: Field<String>,
        name: Field<String>,
    }

    pub struct VolumeNodeAffinity {
        required: Field<NodeSelector>,
    }

    pub struct CsiVolume {
        driver: Field<String>,
        volume_handle: Field<String>,
    }

    pub struct VolumeId {
        #[serde(rename = "volumeID")]
        volume_id: Field<String>,
    }

    pub struct GceDisk {
        pd_name: Field<String>,
        read_only: Field<bool>,
    }

    pub struct AzureDisk {
        #[serde(rename = "diskURI")]
        disk_uri: Field<String>,
    }

    pub struct StorageClass {
        metadata: Meta,
        provisioner: Field<String>,
        volume_binding_mode: Field<String>,
    }

    pub struct CsiNode {
        metadata: Meta,
        spec: Field<CsiNodeSpec>,
    }

    pub struct CsiNodeSpec {
        drivers: Field<List<CsiNodeDriver>>,
    }

    pub struct CsiNodeDriver {
        name: Field<String>,
        allocatable: Field<VolumeLimit>,
    }

    pub struct VolumeLimit {
        count: Field<i64>,
    }

    pub struct VolumeAttachment {
        metadata: Meta,
        spec: Field<AttachmentSpec>,
    }

    pub struct AttachmentSpec {
        attacher: Field<String>,
        node_name: Field<String>,
        source: Field<AttachmentSource>,
    }

    pub struct AttachmentSource {
        persistent_volume_name: Field<String>,
    }
}

resource!(
    PersistentVolumeClaim,
    NamespaceResourceScope,
    "",
    "PersistentVolumeClaim",
    "persistentvolumeclaims"
);
resource!(PersistentVolume, ClusterResourceScope, "", "PersistentVolume", "persistentvolumes");
resource!(StorageClass, ClusterResourceScope, "storage.k8s.io", "StorageClass", "storageclasses");
resource!(CsiNode, ClusterResourceScope, "storage.k8s.io", "CSINode", "csinodes");
resource!(
    VolumeAttachment,
    ClusterResourceScope,
    "storage.k8s.io",
    "VolumeAttachment",
    "volumeattachments"
);
