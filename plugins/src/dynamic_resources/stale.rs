//! PostFilter: an allocation that keeps the pod from every node is taken back, one an attempt; so is
//! a reservation that an earlier process has left to a pod that can't be placed, or to its group if
//! no pod of that has a node, since two pods that keep a claim for each other would wait for ever. A
//! claim for extended resources that is left over is deleted, once nothing is allocated to it.

use berth_core::framework::plan::NameOf;
use berth_core::framework::{ClaimWrite, Op, PostFilter, PostFilterAnswer, Verdict};
use berth_core::snapshot::devices::claims::ClaimRecord;
use berth_core::snapshot::{Cluster, NodeIdx, Overlay};
use berth_core::types::Pod;
use berth_core::types::claim::{ClaimKey, Consumer};

use super::DynamicResources;
use super::extended::CLAIMS;
use super::lookup::{claims_of_pod, reserved_for};

const DEALLOCATED: &str = "deallocation of ResourceClaim completed";
const DEALLOCATED_OF_GROUP: &str = "deallocation of PodGroup ResourceClaim completed";
const DELETED: &str = "deletion of ResourceClaim completed";

impl PostFilter for DynamicResources {
    fn post_filter(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        _: &dyn Fn(NodeIdx) -> Verdict,
        _: &dyn Fn(&Cluster, &Pod, NodeIdx) -> bool,
    ) -> PostFilterAnswer {
        let cluster = overlay.cluster();
        let records = claims_of_pod(pod, cluster).unwrap_or_default();
        let unused = records.into_iter();
        let unused = unused.filter(|record| removable(record) && unavailable(record, cluster));
        let own = |record| (record, Consumer::Pod(pod.uid.clone()));
        let special = cluster.devices().special_claim(&pod.uid).filter(|record| !record.unborn);
        let (granted, empty): (Vec<_>, Vec<_>) =
            special.into_iter().partition(|record| record.claim.allocation.is_some());
        let others = unused.chain(granted).map(own);
        if let Some((record, consumer)) = reserved_for(pod, cluster).chain(others).next() {
            return release(record, consumer);
        }
        match empty.into_iter().find(|record| !record.claim.terminating) {
            Some(record) => PostFilterAnswer::Write(vec![delete(record)], DELETED.into()),
            None => PostFilterAnswer::Unschedulable("".into()),
        }
    }
}

fn release(record: &ClaimRecord, consumer: Consumer) -> PostFilterAnswer {
    let text = match consumer {
        Consumer::PodGroup { .. } => DEALLOCATED_OF_GROUP,
        Consumer::Pod(_) | Consumer::Other { .. } => DEALLOCATED,
    };
    let write = ClaimWrite::Release { consumer, deallocate: true };
    let op = Op::Claim { claim: record.claim.reference(), resource_version: 0, write };
    PostFilterAnswer::Write(vec![op], text.into())
}

fn delete(record: &ClaimRecord) -> Op {
    let ClaimKey { namespace, name } = record.claim.key.clone();
    Op::Delete { kind: CLAIMS.into(), namespace, name: NameOf::Known(name) }
}

/// Tells whether the claim is allocated and nobody uses it.
fn removable(record: &ClaimRecord) -> bool {
    record.claim.allocation.is_some() && record.claim.reserved_for.is_empty()
}

/// Tells whether some node can't use what is allocated, or a driver can't prepare it.
fn unavailable(record: &ClaimRecord, cluster: &Cluster) -> bool {
    let Some(allocation) = &record.claim.allocation else { return false };
    let mut results = allocation.results.iter();
    let failed = results.any(|result| record.claim.binding_failure(result).is_some());
    let selector = allocation.node_selector.as_ref();
    let excludes = |selector: &berth_core::types::NodeSelector| {
        cluster.nodes().iter().any(|(_, node)| !selector.matches(&node.name, &node.labels))
    };
    failed || selector.is_some_and(excludes)
}
