//! Reserve: the ledger holds the devices that will be written to the pod's claims.

use std::sync::Arc;

use berth_core::framework::{Cycle, CycleState, Reason, Reserve, Verdict, Work};
use berth_core::snapshot::{Cluster, NodeIdx, Overlay};
use berth_core::types::claim::{Allocation, DeviceDemand, ResourceClaim};
use berth_core::types::{Node, Pod, Text};

use super::allocate::{Found, Refused, Search, allocation};
use super::extended::{Extended, special_claim};
use super::filter::concerns;
use super::lookup::claims_of_pod;
use super::{DynamicResources, NAME};

impl Reserve for DynamicResources {
    fn reserve(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        state: &CycleState,
        node: NodeIdx,
    ) -> Result<(), Reason> {
        if !concerns(Cycle { pod, cluster: overlay.cluster() }) {
            return Ok(());
        }
        for Held { claim, new, allocation } in self.allocations(pod, overlay, state, node)? {
            let planned = match new {
                true => overlay.plan_new_claim(&claim, &allocation, &pod.uid),
                false => overlay.plan_claim(&claim.key, &allocation, &pod.uid),
            };
            if !planned {
                let of = format!("resource claim {}", claim.key);
                let text = format!("{of} is in the process of being allocated");
                return Err(Reason::from(Text::from(text)));
            }
        }
        Ok(())
    }
}

/// What the ledger is to hold for a claim.
struct Held {
    claim: Arc<ResourceClaim>,
    /// The plan will make the claim.
    new: bool,
    allocation: Arc<Allocation>,
}

impl DynamicResources {
    /// Returns what is to be held: new allocations, and those that are on their way.
    fn allocations(
        &self,
        pod: &Pod,
        overlay: &Overlay<'_>,
        state: &CycleState,
        node: NodeIdx,
    ) -> Result<Vec<Held>, Reason> {
        let cluster = overlay.cluster();
        let records = claims_of_pod(pod, cluster).map_err(Reason::from)?;
        let on_their_way =
            records.iter().filter_map(|record| record.planned.as_ref().map(|p| (record, p)));
        let mut held: Vec<Held> = on_their_way
            .map(|(record, planned)| Held {
                claim: Arc::clone(&record.claim),
                new: false,
                allocation: Arc::clone(&planned.allocation),
            })
            .collect();
        let Some(object) = cluster.nodes().node(node) else {
            return Err(Reason::of("node is gone"));
        };
        let open = records.iter().filter(|record| record.allocation().is_none());
        let mut claims: Vec<(Arc<ResourceClaim>, bool)> =
            open.map(|record| (Arc::clone(&record.claim), false)).collect();
        claims.extend(made_for(pod, cluster, object)?.map(|claim| (Arc::new(claim), true)));
        if claims.is_empty() {
            return Ok(held);
        }
        let demands: Vec<_> = claims.iter().map(|(c, _)| Arc::clone(&c.spec.demand)).collect();
        let found = match state.found::<Found>(NAME, node) {
            Some(found) => found.clone(),
            None => self.search_again(overlay, node, demands)?,
        };
        for ((claim, new), results) in claims.into_iter().zip(found.claims) {
            let made = allocation(cluster, object, &claim.spec, results, &claim.uid);
            held.push(Held { claim, new, allocation: Arc::new(made) });
        }
        Ok(held)
    }

    fn search_again(
        &self,
        overlay: &Overlay<'_>,
        node: NodeIdx,
        demands: Vec<Arc<DeviceDemand>>,
    ) -> Result<Found, Reason> {
        let mut search = Search::new(node, demands, self.search);
        match search.run(overlay.cluster(), &mut Work::unlimited()) {
            Some(Ok(found)) => Ok(found),
            Some(Err(Refused::NoFit(text) | Refused::Broken(text))) => Err(Reason::from(text)),
            Some(Err(Refused::NotProven)) | None => {
                Err(Reason::of("timed out trying to allocate devices"))
            }
        }
    }
}

/// Returns the claim that is to be made for the pod's extended resources, if the node needs one.
fn made_for(pod: &Pod, cluster: &Cluster, node: &Node) -> Result<Option<ResourceClaim>, Reason> {
    if cluster.devices().special_claim(&pod.uid).is_some() {
        return Ok(None);
    }
    let Some(extended) = Extended::of(pod, cluster) else { return Ok(None) };
    match extended.on(node) {
        Ok(demand) => Ok(demand.map(|(demand, _)| special_claim(pod, demand))),
        Err(Verdict::Unresolvable(reason)) => Err(reason),
        Err(_) => Err(Reason::default()),
    }
}
