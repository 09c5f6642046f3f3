//! PreBind: finalizer, then allocation and reservation of each claim, then a wait for drivers.
//!
//! Every write names the version of the claim that it was decided on, and one whose answer was
//! lost is read back: no device is free again before it is known what became of it.
//!
//! What may go out side by side: the stages of several pods, as long as no two writes of a common
//! stage are about one claim. Labels name pod and claim, so they are unique over the members of a
//! group. Members that share a claim each write that they have it, one after the other: the first
//! brings the allocation, which is not written again. A claim of their group is written by one of
//! them; the binds of all come after that.

use std::sync::Arc;

use berth_core::framework::plan::{LedgerCondition, Limit, NameOf, Progress, Wait, WaitEvent};
use berth_core::framework::{ClaimWrite, Op, PreBind, ReadBack, StageDraft, WriteDraft};
use berth_core::snapshot::devices::claims::ClaimRecord;
use berth_core::snapshot::{Cluster, NodeIdx, Place, PodRecord};
use berth_core::types::claim::{
    Allocation, CLAIM_FINALIZER, ClaimKey, ClaimRef, Consumer, DeviceResult, ResourceClaim,
};
use berth_core::types::{Pod, PodUid, Span, Text, Timestamp};

use super::DynamicResources;
use super::extended::{CLAIMS, Extended, body, pod_status};
use super::lookup::{claims_of_pod, consumer_of, uses};

impl PreBind for DynamicResources {
    fn pre_bind(
        &self,
        pod: &Pod,
        cluster: &Cluster,
        node: NodeIdx,
        _: Timestamp,
    ) -> Vec<StageDraft> {
        let Ok(mut records) = claims_of_pod(pod, cluster) else { return Vec::new() };
        let special = cluster.devices().special_claim(&pod.uid);
        records.extend(special);
        let consumer = |record: &ClaimRecord| consumer_of(pod, cluster, &record.claim.key);
        let written = records.iter().map(|record| (*record, consumer(record)));
        let written = written.filter(|(record, consumer)| writes(pod, cluster, record, consumer));
        let written: Vec<(&ClaimRecord, Consumer)> = written.collect();
        let create = special.filter(|special| special.unborn).map(|record| create(record, pod));
        let open = written.iter().filter(|(record, _)| !protected(&record.claim));
        let protects = open.map(|(record, _)| protect(record, pod));
        let grants = written.iter().map(|(record, consumer)| grant(record, pod, consumer));
        let told = special.and_then(|record| tell(record, pod, cluster, node));
        let stages: [Vec<WriteDraft>; 4] = [
            create.into_iter().collect(),
            protects.collect(),
            grants.collect(),
            told.into_iter().collect(),
        ];
        let stages = stages.into_iter().filter(|writes| !writes.is_empty());
        let mut stages: Vec<StageDraft> = stages.map(StageDraft::Writes).collect();
        stages.extend(self.preparation(&written, pod, &cluster.nodes().slot(node).name));
        stages
    }
}

impl DynamicResources {
    /// Returns the wait for drivers that prepare a device before the pod may be bound. For the claims
    /// of its group the member waits that writes them. Source of the event: as for the rules.
    fn preparation(
        &self,
        written: &[(&ClaimRecord, Consumer)],
        pod: &Pod,
        node: &Text,
    ) -> Option<StageDraft> {
        let waits = written.iter().filter(|(record, _)| waits_for_driver(record));
        let claims: Vec<ClaimRef> = waits.map(|(record, _)| reference(record)).collect();
        if claims.is_empty() {
            return None;
        }
        let names: Vec<String> = claims.iter().map(|claim| claim.key.to_string()).collect();
        let text = format!("device binding timeout: claim={}", names.join(", "));
        Some(StageDraft::Wait(Wait {
            condition: Arc::new(Prepared { claims }),
            limit: Limit::For(Span(self.binding_timeout_ms)),
            on_expiry: text.into(),
            event: Some(WaitEvent {
                pod: pod.reference(),
                reason: "BindingConditionsPending",
                note: format!("waiting for binding conditions for device on node {node}").into(),
            }),
        }))
    }
}

/// Tells whether the pod's plan writes to the claim. To a claim of a group it is the first member
/// with a place that isn't bound yet: a group has one plan at a time.
fn writes(pod: &Pod, cluster: &Cluster, record: &ClaimRecord, consumer: &Consumer) -> bool {
    let ClaimKey { namespace, .. } = &record.claim.key;
    let planned = |member: &PodRecord| {
        matches!(member.place, Place::Assumed(_)) && uses(&member.pod, cluster, &record.claim.key)
    };
    let first = cluster.find_member(namespace, consumer, planned);
    first.is_none_or(|first| first.pod.uid == pod.uid)
}

/// Returns a label that no other write of a plan has.
fn label(what: &str, claim: &ClaimRef, pod: &Pod) -> Text {
    format!("{what}-{}-{}", claim.key, pod.uid).into()
}

/// Tells whether a driver has to prepare a device of the claim.
fn waits_for_driver(record: &ClaimRecord) -> bool {
    let results = record.allocation().map(|allocation| allocation.results.iter());
    results.into_iter().flatten().any(|result| !result.binding_conditions.is_empty())
}

/// Returns how writes name the claim. One that the plan makes has no UID yet.
fn reference(record: &ClaimRecord) -> ClaimRef {
    let uid = if record.unborn { Text::default() } else { record.claim.uid.clone() };
    ClaimRef { key: record.claim.key.clone(), uid }
}

/// Makes the claim for the pod's extended resources.
fn create(record: &ClaimRecord, pod: &Pod) -> WriteDraft {
    let claim = reference(record);
    let ClaimKey { namespace, name } = claim.key.clone();
    let born = Arc::new(Born { key: claim.key.clone(), pod: pod.uid.clone() });
    let kind = || Text::from(CLAIMS);
    let undo = Op::Delete {
        kind: kind(),
        namespace: namespace.clone(),
        name: NameOf::Known(name.clone()),
    };
    WriteDraft {
        label: label("create", &claim, pod),
        read_back: Some(ReadBack { read: read(&claim), done: born }),
        op: Op::Create {
            kind: kind(),
            namespace,
            name: NameOf::Known(name),
            generate_name: false,
            body: body(pod, &record.claim),
        },
        undo: Some(undo),
    }
}

/// Tells in the pod's status which devices of the claim each container gets.
fn tell(record: &ClaimRecord, pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Option<WriteDraft> {
    let extended = Extended::of(pod, cluster)?;
    let (_, mappings) = extended.on(cluster.nodes().node(node)?).ok()??;
    let name = &record.claim.key.name;
    let op = Op::Patch {
        kind: "pods".into(),
        namespace: pod.namespace.clone(),
        name: NameOf::Known(pod.name.clone()),
        subresource: Some("status".into()),
        resource_version: 0,
        body: pod_status(pod, name, &mappings),
    };
    Some(WriteDraft::plain(label("tell", &reference(record), pod), op))
}

fn protected(claim: &ResourceClaim) -> bool {
    claim.finalizers.iter().any(|finalizer| *finalizer == CLAIM_FINALIZER)
}

fn read(claim: &ClaimRef) -> Op {
    Op::Claim { claim: claim.clone(), resource_version: 0, write: ClaimWrite::Read }
}

/// Keeps the claim from vanishing while devices are allocated to it.
fn protect(record: &ClaimRecord, pod: &Pod) -> WriteDraft {
    let claim = reference(record);
    let write = ClaimWrite::Protect { finalizers: Vec::new() };
    let done = Arc::new(Protected { claim: claim.clone() });
    WriteDraft {
        label: label("protect", &claim, pod),
        read_back: Some(ReadBack { read: read(&claim), done }),
        op: Op::Claim { claim, resource_version: 0, write },
        undo: None,
    }
}

/// Writes what is allocated, unless the server has it already, and who has it. A claim that an
/// earlier process has reserved for the pod is written once more: so it is known that it still is,
/// and is taken back if the pod can't be bound. So is one of the group's; it is taken back if no
/// member has a node then.
fn grant(record: &ClaimRecord, pod: &Pod, consumer: &Consumer) -> WriteDraft {
    let claim = reference(record);
    let planned = record.planned.as_ref().map(|planned| Arc::clone(&planned.allocation));
    let allocation = planned.filter(|_| record.claim.allocation.is_none());
    let undo = ClaimWrite::Release { consumer: consumer.clone(), deallocate: true };
    let granted = Granted {
        claim: claim.clone(),
        allocation: allocation.clone(),
        consumer: consumer.clone(),
    };
    let (pod_ref, consumer) = (pod.reference(), consumer.clone());
    let write = ClaimWrite::Allocate { allocation, pod: pod_ref, consumer };
    WriteDraft {
        label: label("allocate", &claim, pod),
        op: Op::Claim { claim: claim.clone(), resource_version: 0, write },
        undo: Some(Op::Claim { claim: claim.clone(), resource_version: 0, write: undo }),
        read_back: Some(ReadBack { read: read(&claim), done: Arc::new(granted) }),
    }
}

fn known<'a>(cluster: &'a Cluster, claim: &ClaimRef) -> Result<&'a ResourceClaim, Progress> {
    let known = cluster.devices().claim(&claim.key).filter(|record| !record.unborn);
    let meant = |known: &&ResourceClaim| claim.means(known) && !known.terminating;
    match known.map(|record| &*record.claim).filter(meant) {
        Some(known) => Ok(known),
        None => {
            let text = format!("claim {} got deleted in the meantime", claim.key);
            Err(Progress::Failed(text.into()))
        }
    }
}

/// Reached when the claim is there, and is the pod's.
#[derive(Debug)]
struct Born {
    key: ClaimKey,
    pod: PodUid,
}

impl LedgerCondition for Born {
    fn progress(&self, cluster: &Cluster) -> Progress {
        match cluster.devices().claim(&self.key) {
            Some(record) if record.unborn => Progress::Waiting,
            Some(record) if record.claim.owner_pod.as_ref() == Some(&self.pod) => Progress::Reached,
            Some(_) => Progress::Failed(format!("claim {} is not the pod's", self.key).into()),
            None => Progress::Failed(format!("claim {} is not wanted any more", self.key).into()),
        }
    }
}

/// Reached when the claim has the finalizer.
#[derive(Debug)]
struct Protected {
    claim: ClaimRef,
}

impl LedgerCondition for Protected {
    fn progress(&self, cluster: &Cluster) -> Progress {
        match known(cluster, &self.claim) {
            Ok(claim) if protected(claim) => Progress::Reached,
            Ok(_) => Progress::Waiting,
            Err(failed) => failed,
        }
    }
}

/// Reached when the server has what was to be written.
#[derive(Debug)]
struct Granted {
    claim: ClaimRef,
    /// None: it was there before.
    allocation: Option<Arc<Allocation>>,
    consumer: Consumer,
}

impl LedgerCondition for Granted {
    fn progress(&self, cluster: &Cluster) -> Progress {
        let claim = match known(cluster, &self.claim) {
            Ok(claim) => claim,
            Err(failed) => return failed,
        };
        let of = |what: &str| {
            let text = format!("claim {} got {what} elsewhere in the meantime", self.claim.key);
            Progress::Failed(text.into())
        };
        match (&claim.allocation, &self.allocation) {
            (Some(real), Some(ours)) if !real.grants_as(ours) => of("allocated"),
            (None, None) => of("deallocated"),
            // It was written, and taken back by somebody else: the devices aren't held any more.
            (None, Some(ours)) if !planned(cluster, &self.claim, ours) => of("deallocated"),
            (Some(_), _) if claim.is_reserved_for(&self.consumer) => Progress::Reached,
            (Some(_) | None, _) => Progress::Waiting,
        }
    }
}

fn planned(cluster: &Cluster, claim: &ClaimRef, ours: &Allocation) -> bool {
    let planned = cluster.devices().claim(&claim.key).and_then(|record| record.planned.as_ref());
    planned.is_some_and(|planned| planned.allocation.grants_as(ours))
}

/// Reached when drivers have prepared every device that wants it.
#[derive(Debug)]
struct Prepared {
    claims: Vec<ClaimRef>,
}

impl LedgerCondition for Prepared {
    fn progress(&self, cluster: &Cluster) -> Progress {
        for claim in &self.claims {
            let known = match known(cluster, claim) {
                Ok(known) => known,
                Err(failed) => return failed,
            };
            let Some(allocation) = &known.allocation else {
                let text = format!("claim {} got deallocated elsewhere in the meantime", claim.key);
                return Progress::Failed(text.into());
            };
            for result in &allocation.results {
                match prepared(known, result) {
                    Progress::Reached => {}
                    unready => return unready,
                }
            }
        }
        Progress::Reached
    }

    /// When the first claim that isn't prepared was allocated.
    fn since(&self, cluster: &Cluster) -> Option<Timestamp> {
        let known = self.claims.iter().filter_map(|claim| known(cluster, claim).ok());
        let allocated = known.filter_map(|claim| Some((claim, claim.allocation.as_ref()?)));
        let open = allocated.filter(|(claim, allocation)| {
            allocation.results.iter().any(|result| prepared(claim, result) != Progress::Reached)
        });
        open.filter_map(|(_, allocation)| allocation.timestamp).min()
    }
}

fn prepared(claim: &ResourceClaim, result: &DeviceResult) -> Progress {
    if let Some(failure) = claim.binding_failure(result) {
        let of = format!("claim={}, device={}", claim.key.name, result.id);
        return Progress::Failed(format!("device binding failed: {of}, reason={failure}").into());
    }
    match result.binding_conditions.iter().all(|name| claim.device_is(result, name)) {
        true => Progress::Reached,
        false => Progress::Waiting,
    }
}
