//! Storage objects. In-tree volumes and provisioners are given in their CSI form.
//!
//! Source: csi-translation-lib; since 1.31 every cloud volume is served by its CSI driver.

use berth_core::types::volume::{
    CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use berth_core::types::{NodeSelector, Text};

use super::field::Field;
use super::k8s::volume as k8s;
use super::meta::{BETA_STORAGE_CLASS, BIND_COMPLETED, Meta, SELECTED_NODE};
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::tables::Tables;

pub const AWS_EBS: &str = "ebs.csi.aws.com";
pub const GCE_PD: &str = "pd.csi.storage.gke.io";
pub const AZURE_DISK: &str = "disk.csi.azure.com";
pub const CINDER: &str = "cinder.csi.openstack.org";

const ZONE: &str = "topology.kubernetes.io/zone";
const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Stands between the zones of a regional disk in its zone label.
const ZONE_DELIMITER: &str = "__";

/// Returns the claim. One whose `spec` can't be read counts as unbound.
pub fn claim(
    claim: k8s::PersistentVolumeClaim,
    tables: &mut Tables,
) -> (PersistentVolumeClaim, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let meta = &claim.metadata;
    let at = Path::Root("spec");
    let absent = k8s::ClaimSpec::default();
    let spec = reading.opt(&at, &claim.spec).unwrap_or(&absent);
    let modes = reading.texts(&at.field("accessModes"), &spec.access_modes);
    let class_at = at.field("storageClassName");
    let claim = PersistentVolumeClaim {
        namespace: reading.namespace(meta),
        name: reading.name(meta),
        uid: reading.tables.intern(meta.object.uid.as_deref().unwrap_or("")),
        resource_version: meta.resource_version(),
        volume_name: reading.text(&at.field("volumeName"), &spec.volume_name),
        bind_completed: meta.annotation(BIND_COMPLETED).is_some(),
        storage_class: storage_class_name(&mut reading, meta, &class_at, &spec.storage_class_name),
        lost: is_lost(&mut reading, &claim.status),
        terminating: meta.terminating(),
        read_write_once_pod: modes.iter().any(|mode| mode == "ReadWriteOncePod"),
        selected_node: meta.annotation(SELECTED_NODE).map(|node| reading.tables.intern(node)),
    };
    (claim, reading.finish())
}

fn is_lost(reading: &mut Reading<'_>, status: &Field<k8s::ClaimStatus>) -> bool {
    let at = Path::Root("status");
    let Some(status) = reading.opt(&at, status) else { return false };
    reading.text(&at.field("phase"), &status.phase) == "Lost"
}

/// The annotation from before the field existed goes first.
fn storage_class_name(
    reading: &mut Reading<'_>,
    meta: &Meta,
    at: &Path<'_>,
    field: &Field<String>,
) -> Option<Text> {
    let class = match meta.annotation(BETA_STORAGE_CLASS) {
        Some(class) => class,
        None => reading.opt(at, field)?,
    };
    Some(reading.tables.intern(class))
}

/// Returns the volume. A node affinity that can't be understood matches no node.
pub fn volume(
    volume: k8s::PersistentVolume,
    tables: &mut Tables,
) -> (PersistentVolume, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let meta = &volume.metadata;
    let at = Path::Root("spec");
    let absent = k8s::VolumeSpec::default();
    let spec = reading.opt(&at, &volume.spec).unwrap_or(&absent);
    let class_at = at.field("storageClassName");
    let class = storage_class_name(&mut reading, meta, &class_at, &spec.storage_class_name);
    let volume = PersistentVolume {
        name: reading.name(meta),
        resource_version: meta.resource_version(),
        labels: reading.labels(meta),
        node_affinity: volume_affinity(&mut reading, &at.field("nodeAffinity"), spec),
        csi: csi_source(&mut reading, &at, meta, spec),
        storage_class: class.unwrap_or_default(),
        claim: claim_ref(&mut reading, &at.field("claimRef"), spec),
    };
    (volume, reading.finish())
}

fn volume_affinity(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    spec: &k8s::VolumeSpec,
) -> Option<NodeSelector> {
    let no_node = Some(NodeSelector::default());
    if let Field::Odd(_) = spec.node_affinity {
        reading.opt(at, &spec.node_affinity);
        return no_node;
    }
    let required = &spec.node_affinity.value()?.required;
    let at = at.field("required");
    match required {
        Field::Absent => None,
        Field::Odd(_) => {
            reading.opt(&at, required);
            no_node
        }
        Field::Is(selector) => Some(reading.node_selector(&at, selector)),
    }
}

fn claim_ref(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    spec: &k8s::VolumeSpec,
) -> Option<(Text, Text)> {
    let claim = reading.opt(at, &spec.claim_ref)?;
    let namespace = reading.text(&at.field("namespace"), &claim.namespace);
    Some((namespace, reading.text(&at.field("name"), &claim.name)))
}

/// Returns driver and handle.
fn csi_source(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    meta: &Meta,
    spec: &k8s::VolumeSpec,
) -> Option<(Text, Text)> {
    let csi_at = at.field("csi");
    if let Some(csi) = reading.opt(&csi_at, &spec.csi) {
        let driver = reading.required_text(&csi_at.field("driver"), &csi.driver);
        return Some((
            driver,
            reading.required_text(&csi_at.field("volumeHandle"), &csi.volume_handle),
        ));
    }
    let (driver, handle) = in_tree_source(reading, at, meta, spec)?;
    Some((reading.tables.intern(driver), reading.tables.intern(&handle)))
}

fn in_tree_source(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    meta: &Meta,
    spec: &k8s::VolumeSpec,
) -> Option<(&'static str, String)> {
    let aws_at = at.field("awsElasticBlockStore");
    if let Some(aws) = reading.opt(&aws_at, &spec.aws_elastic_block_store) {
        let id = reading.required_text(&aws_at.field("volumeID"), &aws.volume_id);
        return Some((AWS_EBS, ebs_volume_id(&id).to_owned()));
    }
    let gce_at = at.field("gcePersistentDisk");
    if let Some(gce) = reading.opt(&gce_at, &spec.gce_persistent_disk) {
        let name = reading.required_text(&gce_at.field("pdName"), &gce.pd_name);
        return Some((GCE_PD, gce_handle(meta, &name)));
    }
    let azure_at = at.field("azureDisk");
    if let Some(azure) = reading.opt(&azure_at, &spec.azure_disk) {
        let uri = reading.required_text(&azure_at.field("diskURI"), &azure.disk_uri);
        return Some((AZURE_DISK, uri.as_str().to_owned()));
    }
    let cinder_at = at.field("cinder");
    let cinder = reading.opt(&cinder_at, &spec.cinder)?;
    let id = reading.required_text(&cinder_at.field("volumeID"), &cinder.volume_id);
    Some((CINDER, id.as_str().to_owned()))
}

/// Returns the volume's own id from the form `aws://zone/vol-1`.
fn ebs_volume_id(id: &str) -> &str {
    match id.strip_prefix("aws://") {
        Some(rest) => rest.split_once('/').map_or(rest, |(_, path)| path).trim_matches('/'),
        None => id,
    }
}

/// Returns the handle of a zonal or, where the label names several zones, of a regional disk.
fn gce_handle(meta: &Meta, name: &str) -> String {
    let label = |key: &str| meta.object.labels.as_ref()?.get(key).filter(|v| !v.is_empty());
    let zones = label(ZONE_BETA).or_else(|| label(ZONE)).map_or("UNSPECIFIED", String::as_str);
    match zones.split_once(ZONE_DELIMITER) {
        None => format!("projects/UNSPECIFIED/zones/{zones}/disks/{name}"),
        Some((zone, _)) => {
            let region = zone.rsplit_once('-').map_or(zone, |(region, _)| region);
            format!("projects/UNSPECIFIED/regions/{region}/disks/{name}")
        }
    }
}

/// Returns the class. A binding mode that can't be understood is Immediate, as the default is.
pub fn storage_class(
    class: k8s::StorageClass,
    tables: &mut Tables,
) -> (StorageClass, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let at = Path::Root("volumeBindingMode");
    let mode = reading.text(&at, &class.volume_binding_mode);
    if !matches!(mode.as_str(), "" | "Immediate" | "WaitForFirstConsumer") {
        reading.unknown(&at, &mode);
    }
    let provisioner = reading.required_text(&Path::Root("provisioner"), &class.provisioner);
    let class = StorageClass {
        name: reading.name(&class.metadata),
        provisioner: reading.tables.intern(csi_driver(&provisioner)),
        wait_for_first_consumer: mode == "WaitForFirstConsumer",
    };
    (class, reading.finish())
}

fn csi_driver(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => AWS_EBS,
        "kubernetes.io/gce-pd" => GCE_PD,
        "kubernetes.io/azure-disk" => AZURE_DISK,
        "kubernetes.io/cinder" => CINDER,
        other => other,
    }
}

/// Returns the drivers of a node. A limit that can't be understood is 0.
pub fn csi_node(node: k8s::CsiNode, tables: &mut Tables) -> (CsiNode, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let at = Path::Root("spec");
    let mut drivers = Vec::new();
    if let Some(spec) = reading.opt(&at, &node.spec) {
        reading.each(&at.field("drivers"), &spec.drivers, |reading, at, driver| {
            let name = reading.required_text(&at.field("name"), &driver.name);
            drivers.push((name, volume_limit(reading, &at.field("allocatable"), driver)));
        });
    }
    drivers.sort();
    drivers.dedup_by(|later, earlier| later.0 == earlier.0);
    (CsiNode { name: reading.name(&node.metadata), drivers }, reading.finish())
}

fn volume_limit(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    driver: &k8s::CsiNodeDriver,
) -> Option<i64> {
    if driver.allocatable.is_absent() {
        return None;
    }
    let Some(limit) = reading.opt(at, &driver.allocatable) else { return Some(0) };
    let at = at.field("count");
    match reading.opt(&at, &limit.count) {
        Some(count) if *count < 0 => {
            reading.problem(&at, "must not be negative");
            Some(0)
        }
        Some(count) => Some(*count),
        None if limit.count.is_absent() => None,
        None => Some(0),
    }
}

/// Returns the attachment; an inline one has no volume name.
pub fn attachment(
    attachment: k8s::VolumeAttachment,
    tables: &mut Tables,
) -> (VolumeAttachment, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let at = Path::Root("spec");
    let absent = k8s::AttachmentSpec::default();
    let spec = reading.required(&at, &attachment.spec).unwrap_or(&absent);
    let source_at = at.field("source");
    let source = reading.opt(&source_at, &spec.source).cloned().unwrap_or_default();
    let volume_at = source_at.field("persistentVolumeName");
    let attachment = VolumeAttachment {
        name: reading.name(&attachment.metadata),
        driver: reading.text(&at.field("attacher"), &spec.attacher),
        node_name: reading.text(&at.field("nodeName"), &spec.node_name),
        volume_name: reading.text(&volume_at, &source.persistent_volume_name),
    };
    (attachment, reading.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn texts(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    fn csi_of(labels: Value, spec: Value) -> (String, String) {
        let json = json!({"metadata": {"name": "v", "labels": labels}, "spec": spec});
        let (volume, problems) =
            volume(serde_json::from_value(json).unwrap(), &mut Tables::default());
        assert_eq!(problems, []);
        let (driver, handle) = volume.csi.unwrap();
        (driver.to_string(), handle.to_string())
    }

    #[test]
    fn in_tree_volumes_have_the_names_of_their_csi_drivers() {
        let csi = |driver: &str, handle: &str| (driver.to_owned(), handle.to_owned());
        let of = |spec| csi_of(json!({}), spec);
        let aws = |id: &str| of(json!({"awsElasticBlockStore": {"volumeID": id}}));
        assert_eq!(aws("vol-1"), csi(AWS_EBS, "vol-1"));
        assert_eq!(aws("aws://us-east-1a/vol-1"), csi(AWS_EBS, "vol-1"));
        assert_eq!(aws("aws:///vol-1"), csi(AWS_EBS, "vol-1"));
        assert_eq!(of(json!({"azureDisk": {"diskURI": "/d"}})), csi(AZURE_DISK, "/d"));
        assert_eq!(of(json!({"cinder": {"volumeID": "c"}})), csi(CINDER, "c"));
        let gce = json!({"gcePersistentDisk": {"pdName": "p"}});
        let handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/p";
        assert_eq!(of(gce.clone()), csi(GCE_PD, handle));
        let handle = "projects/UNSPECIFIED/zones/us-central1-a/disks/p";
        assert_eq!(csi_of(json!({ZONE: "us-central1-a"}), gce.clone()), csi(GCE_PD, handle));
        let handle = "projects/UNSPECIFIED/regions/us-central1/disks/p";
        let zones = json!({ZONE_BETA: "us-central1-a__us-central1-b"});
        assert_eq!(csi_of(zones, gce), csi(GCE_PD, handle));
    }

    #[test]
    fn a_broken_node_affinity_matches_no_node() {
        for affinity in [
            json!(1),
            json!({"required": 1}),
            json!({"required": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}),
        ] {
            let json = json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": affinity}});
            let wire = serde_json::from_value(json).unwrap();
            let (volume, problems) = volume(wire, &mut Tables::default());
            assert_eq!(volume.node_affinity, Some(NodeSelector::default()));
            assert_eq!(problems.len(), 1);
        }
    }

    #[test]
    fn a_claim_is_read() {
        let json = json!({
            "metadata": {"name": "c", "annotations": {
                BETA_STORAGE_CLASS: "old", BIND_COMPLETED: "yes", SELECTED_NODE: "n"}},
            "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v",
                     "storageClassName": "new"},
            "status": {"phase": "Lost"},
        });
        let wire = serde_json::from_value(json).unwrap();
        let (claim, problems) = claim(wire, &mut Tables::default());
        assert_eq!(problems, []);
        assert!(claim.bound() && claim.lost && claim.read_write_once_pod);
        assert_eq!(claim.storage_class.unwrap(), "old");
        assert_eq!(claim.selected_node.unwrap(), "n");
        assert_eq!(claim.namespace, "default");
    }

    #[test]
    fn classes_and_limits_that_are_odd_are_told() {
        let json = json!({"metadata": {"name": "s"}, "provisioner": "kubernetes.io/gce-pd",
            "volumeBindingMode": "Never"});
        let wire = serde_json::from_value(json).unwrap();
        let (class, problems) = storage_class(wire, &mut Tables::default());
        assert_eq!((class.provisioner.as_str(), class.wait_for_first_consumer), (GCE_PD, false));
        assert_eq!(texts(&problems), ["volumeBindingMode: unknown value \"Never\""]);

        let json = json!({"metadata": {"name": "n"}, "spec": {"drivers": [
            {"name": "b", "allocatable": {"count": -1}}, {"name": "a"},
            {"name": "c", "allocatable": {"count": 25}}, {"name": "d", "allocatable": 3}]}});
        let wire = serde_json::from_value(json).unwrap();
        let (node, problems) = csi_node(wire, &mut Tables::default());
        let limits: Vec<_> = node.drivers.iter().map(|(_, limit)| *limit).collect();
        assert_eq!(limits, [None, Some(0), Some(25), Some(0)]);
        assert_eq!(problems.len(), 2);
    }
}
