//! The claims of a pod, and what of them makes its class.

use std::sync::Arc;

use berth_core::framework::{ClassPart, Classify};
use berth_core::snapshot::Cluster;
use berth_core::snapshot::devices::claims::{ClaimRecord, PodClaimState, claim_of};
use berth_core::types::claim::{ClaimKey, DeviceRequest};
use berth_core::types::{DeviceClass, Pod, Text};

use super::DynamicResources;
use super::extended::Extended;

/// Returns the claims of a pod, in the order of its spec, without those that it doesn't need.
///
/// # Errors
/// Why there is one that can't be used yet.
pub(super) fn claims_of_pod<'a>(
    pod: &Pod,
    cluster: &'a Cluster,
) -> Result<Vec<&'a ClaimRecord>, Text> {
    let mut records = Vec::new();
    for entry in &pod.spec.claims {
        match claim_of(pod, entry) {
            PodClaimState::NotNeeded => {}
            PodClaimState::NotGenerated => {
                let text = format!("pod \"{}\": ResourceClaim not created yet", pod.reference());
                return Err(text.into());
            }
            PodClaimState::Claim(key) => {
                let record = usable(pod, cluster, &key, entry.from_template)?;
                // Two entries may name one claim.
                if !records.iter().any(|known: &&ClaimRecord| known.claim.key == key) {
                    records.push(record);
                }
            }
        }
    }
    Ok(records)
}

/// Returns the claims of a pod that are reserved for it, also those that it can't use.
pub(super) fn reserved_for<'a>(
    pod: &'a Pod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = &'a ClaimRecord> {
    let named = pod.spec.claims.iter().filter_map(|entry| match claim_of(pod, entry) {
        PodClaimState::Claim(key) => cluster.devices().claim(&key),
        PodClaimState::NotNeeded | PodClaimState::NotGenerated => None,
    });
    named.filter(|record| record.claim.reserved_for_pod(&pod.uid))
}

/// Tells whether the pod keeps a claim that is being deleted.
pub(super) fn keeps_back(pod: &Pod, cluster: &Cluster) -> bool {
    reserved_for(pod, cluster).any(|record| record.claim.terminating)
}

fn usable<'a>(
    pod: &Pod,
    cluster: &'a Cluster,
    key: &ClaimKey,
    from_template: bool,
) -> Result<&'a ClaimRecord, Text> {
    let Some(record) = cluster.devices().claim(key) else {
        let name = &*key.name;
        return Err(format!("resourceclaim.resource.k8s.io {name:?} not found").into());
    };
    let claim = &record.claim;
    if claim.terminating {
        return Err(format!("resourceclaim {:?} is being deleted", &*key.name).into());
    }
    if from_template && claim.owner_pod.as_ref() != Some(&pod.uid) {
        let of = format!("ResourceClaim {key} was not created for Pod {}", pod.reference());
        return Err(format!("{of} (Pod is not owner)").into());
    }
    if let Some(problem) = &claim.problem {
        return Err(format!("resource claim {key} can't be understood: {problem}").into());
    }
    Ok(record)
}

/// Returns the selectors that a request's devices must meet: the class's, then its own.
pub(super) fn selectors_of<'a>(
    request: &'a DeviceRequest,
    class: Option<&'a DeviceClass>,
) -> impl Iterator<Item = &'a Text> {
    class.into_iter().flat_map(|class| &class.selectors).chain(&request.selectors)
}

/// Returns every request of a claim, alternatives included.
pub(super) fn requests_of(record: &ClaimRecord) -> impl Iterator<Item = &DeviceRequest> {
    record.claim.spec.demand.requests.iter().flat_map(|request| &request.alternatives)
}

impl Classify for DynamicResources {
    /// Claims without an allocation count by what they ask for, others by who they are.
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        let mut part = ClassPart::default();
        if let Some(extended) = Extended::of(pod, cluster) {
            part.texts.extend(extended.backing().cloned());
            for (_, class) in extended.backed() {
                let class = cluster.devices().class(class);
                part.selectors.extend(class.into_iter().flat_map(|c| &c.selectors).cloned());
            }
        }
        if let Some(special) = cluster.devices().special_claim(&pod.uid) {
            part.texts.push(special.claim.uid.clone());
            part.numbers.push(special.version.0.cast_signed());
        }
        if pod.spec.claims.is_empty() {
            return part;
        }
        let Ok(records) = claims_of_pod(pod, cluster) else {
            // Not worth a table: nothing is decided about it.
            part.texts.push(pod.uid.0.clone());
            return part;
        };
        for record in records {
            if record.allocation().is_some() {
                part.texts.push(record.claim.uid.clone());
                part.numbers.push(record.version.0.cast_signed());
                continue;
            }
            part.demands.push(Arc::clone(&record.claim.spec.demand));
            for request in requests_of(record) {
                let class = cluster.devices().class(&request.class);
                part.selectors.extend(selectors_of(request, class).cloned());
            }
        }
        part
    }
}
