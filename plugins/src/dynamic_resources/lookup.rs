//! The claims of a pod, and what of them makes its class.

use std::sync::Arc;

use berth_core::framework::{ClassPart, Classify};
use berth_core::snapshot::Cluster;
use berth_core::snapshot::devices::claims::ClaimRecord;
use berth_core::snapshot::devices::entries::PodClaimState;
use berth_core::types::claim::{ClaimKey, Consumer, DeviceRequest};
use berth_core::types::{DeviceClass, Pod, PodClaim, Text};

use super::DynamicResources;
use super::extended::Extended;
use super::filter::shares_plan;

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
        match cluster.claim_of(pod, entry) {
            PodClaimState::NotNeeded => {}
            PodClaimState::NotGenerated => {
                let text = format!("pod \"{}\": ResourceClaim not created yet", pod.reference());
                return Err(text.into());
            }
            PodClaimState::Claim(key) => {
                let record = usable(pod, cluster, &key, entry)?;
                // Two entries may name one claim.
                if !records.iter().any(|known: &&ClaimRecord| known.claim.key == key) {
                    records.push(record);
                }
            }
        }
    }
    Ok(records)
}

/// Returns who has the claim when the pod uses it: the pod, or its group.
pub(super) fn consumer_of(pod: &Pod, cluster: &Cluster, key: &ClaimKey) -> Consumer {
    let of_group = |entry: &&PodClaim| cluster.group_with_claim(pod, entry).is_some();
    let entry = entries_for(pod, cluster, key).find(of_group);
    let own = || Consumer::Pod(pod.uid.clone());
    entry.map_or_else(own, |entry| cluster.consumer_of(pod, entry))
}

/// Tells whether the claim is one of the pod's.
pub(super) fn uses(pod: &Pod, cluster: &Cluster, key: &ClaimKey) -> bool {
    entries_for(pod, cluster, key).next().is_some()
}

fn entries_for<'a>(
    pod: &'a Pod,
    cluster: &'a Cluster,
    key: &'a ClaimKey,
) -> impl Iterator<Item = &'a PodClaim> {
    let names = move |entry: &&PodClaim| match cluster.claim_of(pod, entry) {
        PodClaimState::Claim(known) => known == *key,
        PodClaimState::NotNeeded | PodClaimState::NotGenerated => false,
    };
    pod.spec.claims.iter().filter(names)
}

/// Returns the claims of a pod that are reserved for it, also those that it can't use, with who has
/// them: the pod, or its group if no pod of that has a node.
pub(super) fn reserved_for<'a>(
    pod: &'a Pod,
    cluster: &'a Cluster,
) -> impl Iterator<Item = (&'a ClaimRecord, Consumer)> {
    pod.spec.claims.iter().filter_map(|entry| {
        let PodClaimState::Claim(key) = cluster.claim_of(pod, entry) else { return None };
        let record = cluster.devices().claim(&key)?;
        let consumer = cluster.consumer_of(pod, entry);
        let idle = !cluster.group_runs(&pod.namespace, &consumer, &|_| false);
        (idle && record.claim.is_reserved_for(&consumer)).then_some((record, consumer))
    })
}

/// Tells whether the pod keeps a claim that is being deleted.
pub(super) fn keeps_back(pod: &Pod, cluster: &Cluster) -> bool {
    reserved_for(pod, cluster).any(|(record, _)| record.claim.terminating)
}

fn usable<'a>(
    pod: &Pod,
    cluster: &'a Cluster,
    key: &ClaimKey,
    entry: &PodClaim,
) -> Result<&'a ClaimRecord, Text> {
    let Some(record) = cluster.devices().claim(key) else {
        let name = &*key.name;
        return Err(format!("resourceclaim.resource.k8s.io {name:?} not found").into());
    };
    let claim = &record.claim;
    if claim.terminating {
        return Err(format!("resourceclaim {:?} is being deleted", &*key.name).into());
    }
    if entry.from_template {
        check_owner(pod, cluster, record, entry)?;
    }
    if let Some(problem) = &claim.problem {
        return Err(format!("resource claim {key} can't be understood: {problem}").into());
    }
    Ok(record)
}

/// Source of the texts: `IsForPod` and `IsForPodGroup` of k8s.io/dynamic-resource-allocation 1.37.
fn check_owner(
    pod: &Pod,
    cluster: &Cluster,
    record: &ClaimRecord,
    entry: &PodClaim,
) -> Result<(), Text> {
    let claim = &record.claim;
    let of = format!("ResourceClaim {} was not created for", claim.key);
    match cluster.group_with_claim(pod, entry) {
        Some(group) if claim.owner_group.as_ref() != Some(&group.uid) => {
            Err(format!("{of} PodGroup {} (PodGroup is not owner)", group.key).into())
        }
        None if claim.owner_pod.as_ref() != Some(&pod.uid) => {
            Err(format!("{of} Pod {} (Pod is not owner)", pod.reference()).into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the selectors that a request's devices must meet: the class's, then its own.
pub(super) fn selectors_of<'a>(
    request: &'a DeviceRequest,
    class: Option<&'a DeviceClass>,
) -> impl Iterator<Item = &'a Text> {
    class.into_iter().flat_map(|class| &class.selectors).chain(&request.selectors)
}

impl Classify for DynamicResources {
    fn class_part(&self, pod: &Pod, cluster: &Cluster) -> ClassPart {
        class_part(pod, cluster)
    }

    fn selecting_steps_max(&self) -> u64 {
        self.search.steps_max
    }
}

/// Claims without an allocation count by what they ask for, others by who they are. Of one that
/// is on its way it matters whether the pod may join it.
pub(super) fn class_part(pod: &Pod, cluster: &Cluster) -> ClassPart {
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
            part.numbers.push(i64::from(shares_plan(pod, cluster, record)));
            continue;
        }
        part.demands.push(Arc::clone(&record.claim.spec.demand));
        for request in record.claim.spec.demand.alternatives() {
            let class = cluster.devices().class(&request.class);
            part.selectors.extend(selectors_of(request, class).cloned());
        }
    }
    part
}
