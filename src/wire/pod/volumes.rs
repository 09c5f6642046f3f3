//! Volumes that scheduling cares about, and device claims.

use berth_core::types::{ImageId, PodClaim, PodSpec, VolumeSource};

use super::SPEC;
use crate::wire::field::Field;
use crate::wire::k8s::pod as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;

/// The pool of an RBD volume that names none.
const RBD_POOL: &str = "rbd";

pub(super) fn read(reading: &mut Reading<'_>, spec: &k8s::PodSpec, pod_spec: &mut PodSpec) {
    reading.each(&SPEC.field("volumes"), &spec.volumes, |reading, at, volume| {
        pod_spec.volumes.extend(named_source(reading, at, volume));
        pod_spec.volumes.extend(shared_disk(reading, at, volume));
        pod_spec.volumes.extend(iscsi(reading, &at.field("iscsi"), volume));
        pod_spec.volumes.extend(rbd(reading, &at.field("rbd"), volume));
        let at = at.field("image");
        let image = reading.opt(&at, &volume.image);
        let reference =
            image.and_then(|image| reading.opt(&at.field("reference"), &image.reference));
        pod_spec.image_volumes.extend(reference.map(|image| ImageId::of(image)));
    });
    reading.each(&SPEC.field("resourceClaims"), &spec.resource_claims, |reading, at, claim| {
        pod_spec.claims.extend(device_claim(reading, at, claim));
    });
}

fn named_source(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    volume: &k8s::Volume,
) -> Option<VolumeSource> {
    let claim_at = at.field("persistentVolumeClaim");
    if let Some(claim) = reading.opt(&claim_at, &volume.persistent_volume_claim) {
        let name = reading.required_text(&claim_at.field("claimName"), &claim.claim_name);
        return Some(VolumeSource::Claim { name });
    }
    if reading.opt(&at.field("ephemeral"), &volume.ephemeral).is_some() {
        let volume = reading.required_text(&at.field("name"), &volume.name);
        return Some(VolumeSource::Ephemeral { volume });
    }
    let csi_at = at.field("csi");
    let csi = reading.opt(&csi_at, &volume.csi)?;
    Some(VolumeSource::InlineCsi {
        driver: reading.required_text(&csi_at.field("driver"), &csi.driver),
        volume: reading.required_text(&at.field("name"), &volume.name),
    })
}

fn shared_disk(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    volume: &k8s::Volume,
) -> Option<VolumeSource> {
    let gce_at = at.field("gcePersistentDisk");
    if let Some(gce) = reading.opt(&gce_at, &volume.gce_persistent_disk) {
        return Some(VolumeSource::GcePersistentDisk {
            name: reading.required_text(&gce_at.field("pdName"), &gce.pd_name),
            read_only: reading.flag(&gce_at.field("readOnly"), &gce.read_only),
        });
    }
    let aws_at = at.field("awsElasticBlockStore");
    let aws = reading.opt(&aws_at, &volume.aws_elastic_block_store)?;
    let volume_id = reading.required_text(&aws_at.field("volumeID"), &aws.volume_id);
    Some(VolumeSource::AwsElasticBlockStore { volume_id })
}

fn iscsi(reading: &mut Reading<'_>, at: &Path<'_>, volume: &k8s::Volume) -> Option<VolumeSource> {
    let iscsi = reading.opt(at, &volume.iscsi)?;
    Some(VolumeSource::Iscsi {
        iqn: reading.required_text(&at.field("iqn"), &iscsi.iqn),
        read_only: reading.flag(&at.field("readOnly"), &iscsi.read_only),
    })
}

fn rbd(reading: &mut Reading<'_>, at: &Path<'_>, volume: &k8s::Volume) -> Option<VolumeSource> {
    let rbd = reading.opt(at, &volume.rbd)?;
    let pool = reading.opt_text(&at.field("pool"), &rbd.pool);
    Some(VolumeSource::Rbd {
        monitors: reading.texts(&at.field("monitors"), &rbd.monitors),
        pool: pool.unwrap_or_else(|| reading.tables.intern(RBD_POOL)),
        image: reading.required_text(&at.field("image"), &rbd.image),
        read_only: reading.flag(&at.field("readOnly"), &rbd.read_only),
    })
}

fn device_claim(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    claim: &k8s::PodResourceClaim,
) -> Option<PodClaim> {
    let template_at = at.field("resourceClaimTemplateName");
    let from_template =
        matches!(&claim.resource_claim_template_name, Field::Is(t) if !t.is_empty());
    let own = reading.opt_text(&at.field("resourceClaimName"), &claim.resource_claim_name);
    let template = reading.opt_text(&template_at, &claim.resource_claim_template_name);
    let source = match (own, template) {
        (Some(source), None) | (None, Some(source)) => source,
        _ => {
            let what = "must name either resourceClaimName or resourceClaimTemplateName";
            reading.problem(at, what);
            return None;
        }
    };
    let name = reading.required_text(&at.field("name"), &claim.name);
    Some(PodClaim { name, source, from_template })
}
