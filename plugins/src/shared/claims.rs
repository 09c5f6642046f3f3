//! The claims of a pod: what the volume plugins and the gate read of them.

use berth_core::framework::{ClassPart, Classify, Reads};
use berth_core::snapshot::storage::{Storage, claims_of};
use berth_core::snapshot::{Cluster, IndexRef};
use berth_core::types::volume::PersistentVolumeClaim;
use berth_core::types::{Pod, Text, VolumeSource};

/// Splits pods of one spec by which claims they mean.
///
/// A spec names its claims without their namespace, and the claim of an ephemeral volume is named
/// after the pod. Pods without claims stay together.
pub(crate) struct ClaimIdentity;

impl Classify for ClaimIdentity {
    fn class_part(&self, pod: &Pod, _cluster: &Cluster) -> ClassPart {
        let mut texts: Vec<Text> = Vec::new();
        for (namespace, name) in claims_of(pod) {
            if texts.is_empty() {
                texts.push(namespace);
            }
            if pod.spec.volumes.iter().any(|v| matches!(v, VolumeSource::Ephemeral { .. })) {
                texts.push(name);
            }
        }
        ClassPart { texts, ..ClassPart::default() }
    }
}

/// Returns the claims that the volumes of `pod` name themselves, in the order of the spec.
pub(crate) fn named_claims(pod: &Pod) -> impl Iterator<Item = &Text> {
    pod.spec.volumes.iter().filter_map(|volume| match volume {
        VolumeSource::Claim { name } => Some(name),
        VolumeSource::Ephemeral { .. }
        | VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. }
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. }
        | VolumeSource::InlineCsi { .. } => None,
    })
}

/// Tells whether `pod` has a claim, named or ephemeral.
pub(crate) fn uses_claims(pod: &Pod) -> bool {
    claims_of(pod).next().is_some()
}

/// Tells whether some named claim of `pod` does not exist.
pub(crate) fn misses_a_claim(pod: &Pod, storage: &Storage) -> bool {
    named_claims(pod).any(|name| storage.claim(&pod.namespace, name).is_none())
}

/// What a plugin's answer depends on that looks at a pod's claims.
pub(crate) fn reads_of_claims(pod: &Pod) -> Reads {
    match uses_claims(pod) {
        true => Reads { indexes: vec![IndexRef::Storage] },
        false => Reads::NODE,
    }
}

/// Returns a claim of `pod`.
///
/// # Errors
/// The API server's own words for a claim that does not exist.
pub(crate) fn find_claim<'a>(
    pod: &Pod,
    name: &Text,
    storage: &'a Storage,
) -> Result<&'a PersistentVolumeClaim, Text> {
    let missing = || not_found("persistentvolumeclaim", name);
    storage.claim(&pod.namespace, name).ok_or_else(missing)
}

/// Words an object that does not exist as client-go does.
pub(crate) fn not_found(kind: &str, name: &str) -> Text {
    Text::from(format!("{kind} {name:?} not found"))
}

/// Tells whether `claim` waits for a volume. One that lost its volume, or is on its way out,
/// doesn't: no volume will come, and VolumeBinding says so.
pub(crate) fn awaits_volume(claim: &PersistentVolumeClaim) -> bool {
    !claim.bound() && !claim.lost && !claim.terminating
}

/// Says that a claim waits for its volume, which Berth can't bind yet.
pub(crate) fn unbound_text(claim: &str) -> Text {
    let what = "is not bound yet: volume binding of unbound claims is not supported yet";
    Text::from(format!("persistentvolumeclaim {claim:?} {what}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_core::types::PodSpec;

    use super::*;

    fn pod(namespace: &str, name: &str, volumes: Vec<VolumeSource>) -> Pod {
        let spec = Arc::new(PodSpec { volumes, ..PodSpec::default() });
        Pod { namespace: namespace.into(), name: name.into(), spec, ..Pod::default() }
    }

    fn part(pod: &Pod) -> ClassPart {
        ClaimIdentity.class_part(pod, &Cluster::default())
    }

    #[test]
    fn only_pods_with_claims_are_split_and_only_by_what_names_the_claim() {
        let none = pod("a", "p", vec![]);
        assert_eq!(part(&none), ClassPart::default());
        let claim = || vec![VolumeSource::Claim { name: "data".into() }];
        assert_eq!(part(&pod("a", "p", claim())), part(&pod("a", "q", claim())));
        assert_ne!(part(&pod("a", "p", claim())), part(&pod("b", "p", claim())));
        let ephemeral = || vec![VolumeSource::Ephemeral { volume: "tmp".into() }];
        assert_ne!(part(&pod("a", "p", ephemeral())), part(&pod("a", "q", ephemeral())));
    }
}
