//! Which volume a pod's volume source means to its driver.

use berth_core::snapshot::storage::{ClaimKey, Storage};
use berth_core::types::volume::PersistentVolumeClaim;
use berth_core::types::{Pod, Text, VolumeSource};

use crate::shared::claims::not_found;

const AWS_EBS: &str = "ebs.csi.aws.com";
const GCE_PD: &str = "pd.csi.storage.gke.io";

/// What makes two volumes of a driver the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Handle {
    Known(Text),
    /// The claim has no volume yet, so it will get one of its own.
    Unbound(ClaimKey),
}

/// Driver and handle.
pub(super) type Attachable = (Text, Handle);

/// Returns what must be attached for a volume of `pod`, if anything.
///
/// # Errors
/// The claim does not exist.
pub(super) fn attachable(
    volume: &VolumeSource,
    pod: &Pod,
    storage: &Storage,
) -> Result<Option<Attachable>, Text> {
    let of_claim = |name: Text| match storage.claim(&pod.namespace, &name) {
        Some(claim) => Ok(behind(claim, storage)),
        None => {
            let missing = not_found("persistentvolumeclaim", &name);
            Err(Text::from(format!("looking up PVC {}/{name}: {missing}", pod.namespace)))
        }
    };
    match volume {
        VolumeSource::Claim { name } => of_claim(name.clone()),
        VolumeSource::Ephemeral { volume } => {
            of_claim(Text::from(format!("{}-{volume}", pod.name)))
        }
        VolumeSource::GcePersistentDisk { name, .. } => {
            let handle = format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}");
            Ok(Some((GCE_PD.into(), Handle::Known(handle.into()))))
        }
        VolumeSource::AwsElasticBlockStore { volume_id } => {
            Ok(Some((AWS_EBS.into(), Handle::Known(ebs_handle(volume_id)))))
        }
        VolumeSource::Iscsi { .. } | VolumeSource::Rbd { .. } | VolumeSource::InlineCsi { .. } => {
            Ok(None)
        }
    }
}

/// Returns the volume behind a claim; without one, that which its class will make.
fn behind(claim: &PersistentVolumeClaim, storage: &Storage) -> Option<Attachable> {
    if let Some(volume) = storage.volume(&claim.volume_name) {
        let (driver, handle) = volume.csi.clone()?;
        let named = !driver.is_empty() && !handle.is_empty();
        return named.then_some((driver, Handle::Known(handle)));
    }
    let class = storage.class(claim.storage_class.as_ref()?)?;
    let key = (claim.namespace.clone(), claim.name.clone());
    Some((class.provisioner.clone(), Handle::Unbound(key)))
}

/// Returns the volume's own id from the form `aws://zone/vol-1`.
fn ebs_handle(volume_id: &Text) -> Text {
    match volume_id.strip_prefix("aws://") {
        Some(rest) => rest.split_once('/').map_or(rest, |(_, path)| path).trim_matches('/').into(),
        None => volume_id.clone(),
    }
}

pub(super) fn may_attach(pod: &Pod) -> bool {
    pod.spec.volumes.iter().any(|volume| match volume {
        VolumeSource::Claim { .. }
        | VolumeSource::Ephemeral { .. }
        | VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. } => true,
        VolumeSource::Iscsi { .. } | VolumeSource::Rbd { .. } | VolumeSource::InlineCsi { .. } => {
            false
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ebs_volumes_have_one_handle_in_both_forms() {
        assert_eq!(ebs_handle(&"aws://us-east-1a/vol-1".into()), "vol-1");
        assert_eq!(ebs_handle(&"vol-1".into()), "vol-1");
    }
}
