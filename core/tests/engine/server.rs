//! A tiny API server: it knows pods and resource claims, and does what writes ask of it.

use std::collections::BTreeMap;

use berth_core::engine::{PodRead, WriteResult, Written};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::{ClaimKey, ClaimRef, Pod, PodRef, PodUid, ResourceClaim, Text};

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) pods: BTreeMap<PodUid, Pod>,
    pub(crate) claims: BTreeMap<ClaimKey, ResourceClaim>,
    version: u64,
    created: u32,
}

impl Server {
    pub(crate) fn put(&mut self, mut pod: Pod) -> Pod {
        self.version += 1;
        pod.resource_version = self.version;
        self.pods.insert(pod.uid.clone(), pod.clone());
        pod
    }

    /// Carries out a write. Returns its result and the pod that it changed.
    pub(crate) fn carry_out(&mut self, op: &Op) -> (WriteResult, Option<Pod>) {
        match op {
            Op::Bind { pod, node, resource_version, plan, gpus } => {
                self.change(pod, (*resource_version > 0).then_some(*resource_version), |pod| {
                    let free = pod.node_name.is_none();
                    pod.node_name.get_or_insert(node.clone());
                    if free {
                        pod.gpu_numbers = gpus.clone();
                    }
                    if let (true, Some(plan)) = (free, plan) {
                        pod.gang.get_or_insert_default().plan = Some(plan.clone());
                    }
                    free
                })
            }
            Op::TryBind { pod, .. } => match self.pods.get(&pod.uid) {
                Some(known) if known.node_name.is_none() => {
                    (WriteResult::Done(Written::default()), None)
                }
                Some(_) => (WriteResult::Stale { message: "it has a node".into() }, None),
                None => (WriteResult::Refused { code: 404, message: "gone".into() }, None),
            },
            Op::SetDisruption { pod, .. } => self.change(pod, None, |_| true),
            Op::TellGroup { .. } => (WriteResult::Done(Written::default()), None),
            Op::Fence { pod, resource_version, .. } => {
                self.change(pod, Some(*resource_version), |_| true)
            }
            Op::SetCondition { pod, resource_version, condition, nominated_node } => {
                self.change(pod, Some(*resource_version), |pod| {
                    pod.unscheduled = Some(condition.clone());
                    if let Some(node) = nominated_node {
                        pod.nominated_node = (!node.is_empty()).then(|| node.clone());
                    }
                    true
                })
            }
            Op::Nominate { pod, resource_version, node } => {
                let (result, pod) = self.change(pod, Some(*resource_version), |pod| {
                    pod.nominated_node = (!node.is_empty()).then(|| node.clone());
                    true
                });
                (answered_with(result, pod.as_ref()), pod)
            }
            Op::DeletePod { pod } => self.change(pod, None, |pod| {
                pod.terminating = true;
                true
            }),
            Op::ReadPod { pod } => {
                let read = self.pods.get(&pod.uid).map_or(PodRead::Gone, read_of);
                let written = Written { pod: Some(read), ..Written::default() };
                (WriteResult::Done(written), None)
            }
            Op::Create { .. } => {
                self.created += 1;
                let name = Some(Text::from(format!("made-{}", self.created)));
                (WriteResult::Done(Written { name, ..Written::default() }), None)
            }
            Op::Claim { claim, resource_version, write } => {
                (self.claim(claim, *resource_version, write), None)
            }
            Op::Patch { .. } | Op::Delete { .. } => (WriteResult::Done(Written::default()), None),
        }
    }

    /// Returns the event that tells of the claim as it is now.
    pub(crate) fn put_claim(&mut self, mut claim: ResourceClaim) -> ClusterEvent {
        self.version += 1;
        claim.resource_version = self.version;
        self.claims.insert(claim.key.clone(), claim.clone());
        ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim)))
    }

    fn claim(&mut self, about: &ClaimRef, version: u64, write: &ClaimWrite) -> WriteResult {
        let known = self.claims.get(&about.key).filter(|known| known.uid == about.uid).cloned();
        let Some(mut claim) = known else {
            return WriteResult::Refused { code: 404, message: "not found".into() };
        };
        if *write != ClaimWrite::Read && version != claim.resource_version {
            return WriteResult::Stale { message: "the object has been modified".into() };
        }
        match write {
            ClaimWrite::Read => {
                let event = DeviceEvent::ClaimApplied(Box::new(claim));
                let event = Some(Box::new(ClusterEvent::Devices(event)));
                return WriteResult::Done(Written { event, ..Written::default() });
            }
            ClaimWrite::Protect { finalizers } => claim.finalizers.clone_from(finalizers),
            ClaimWrite::Allocate { allocation, consumer, .. } => {
                claim.allocation = allocation.clone().or(claim.allocation);
                if !claim.is_reserved_for(consumer) {
                    claim.reserved_for.push(consumer.clone());
                }
            }
            ClaimWrite::Release { consumer, deallocate } => {
                claim.reserved_for.retain(|other| other != consumer);
                claim.allocation.take_if(|_| *deallocate);
            }
        }
        let event = Some(Box::new(self.put_claim(claim)));
        WriteResult::Done(Written { event, ..Written::default() })
    }

    fn change(
        &mut self,
        about: &PodRef,
        version: Option<u64>,
        change: impl FnOnce(&mut Pod) -> bool,
    ) -> (WriteResult, Option<Pod>) {
        let Some(pod) = self.pods.get_mut(&about.uid) else {
            return (WriteResult::Refused { code: 404, message: "not found".into() }, None);
        };
        let current = version.is_none_or(|version| version == pod.resource_version);
        if !current || !change(pod) {
            return (WriteResult::Stale { message: "the object has been modified".into() }, None);
        }
        self.version += 1;
        pod.resource_version = self.version;
        let written = Written { resource_version: self.version, ..Written::default() };
        (WriteResult::Done(written), Some(pod.clone()))
    }
}

fn answered_with(result: WriteResult, pod: Option<&Pod>) -> WriteResult {
    match result {
        WriteResult::Done(written) => {
            let event = pod.map(|pod| Box::new(ClusterEvent::PodApplied(Box::new(pod.clone()))));
            WriteResult::Done(Written { event, ..written })
        }
        other => other,
    }
}

fn read_of(pod: &Pod) -> PodRead {
    match &pod.node_name {
        Some(node) => PodRead::BoundTo { node: node.clone() },
        None => PodRead::Unbound { resource_version: pod.resource_version },
    }
}
