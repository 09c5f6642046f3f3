//! What the rest of a pod's group wants of a node's devices: by that it is seen which of them are
//! alike.

use std::sync::Arc;

use berth_core::snapshot::{Cluster, NodeIdx, Place};
use berth_core::types::claim::DeviceDemand;
use berth_core::types::{Node, Pod};

use super::extended::Extended;
use super::lookup::claims_of_pod;

/// Returns the demands of the other members of the pod's group that are not bound yet, each once.
/// Members that a search has placed count: it may place them otherwise.
///
/// Cost: O(members).
pub(super) fn wanted_by_others(
    pod: &Pod,
    cluster: &Cluster,
    node: NodeIdx,
) -> Vec<Arc<DeviceDemand>> {
    let mut demands: Vec<Arc<DeviceDemand>> = Vec::new();
    let Some(node) = cluster.nodes().node(node) else { return demands };
    let Some(group) = cluster.groups().membership(pod).key() else { return demands };
    let Ok(group) = cluster.group_view(&group) else { return demands };
    let records = group.members.iter().filter_map(|member| cluster.pod(&member.uid));
    let open = records.filter(|record| !matches!(record.place, Place::Bound(_)));
    for member in open.map(|record| &record.pod).filter(|member| member.uid != pod.uid) {
        for demand in wanted_by(member, cluster, node) {
            if !demands.iter().any(|known| Arc::ptr_eq(known, &demand) || *known == demand) {
                demands.push(demand);
            }
        }
    }
    demands
}

fn wanted_by(pod: &Pod, cluster: &Cluster, node: &Node) -> Vec<Arc<DeviceDemand>> {
    let records = claims_of_pod(pod, cluster).unwrap_or_default();
    let open = records.iter().filter(|record| record.claim.allocation.is_none());
    let mut demands: Vec<_> = open.map(|r| Arc::clone(&r.claim.spec.demand)).collect();
    let extended = Extended::of(pod, cluster).and_then(|extended| extended.on(node).ok()?);
    demands.extend(extended.map(|(demand, _)| Arc::new(demand)));
    demands
}
