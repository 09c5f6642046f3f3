//! Reserve: the ledger holds the devices that will be written to the pod's claims.

use std::sync::Arc;

use berth_core::framework::{Cycle, CycleState, Reason, Reserve, Verdict, Work};
use berth_core::snapshot::{Cluster, NodeIdx, Overlay};
use berth_core::types::claim::{Allocation, DeviceDemand, ResourceClaim};
use berth_core::types::{Node, Pod, Text};

use super::allocate::{
    Found, Preference, Refused, Search, Solutions, TIMED_OUT, allocation, versions,
};
use super::extended::{Extended, special_claim};
use super::filter::{FoundAt, concerns};
use super::lookup::claims_of_pod;
use super::others::wanted_by_others;
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
        let wanted = Wanted::of(pod, overlay.cluster(), node)?;
        let found = match wanted.open.is_empty() {
            true => Found::default(),
            false => self.first(pod, overlay, state, node, &wanted)?,
        };
        wanted.hold(found, pod, overlay, node)
    }

    /// The ways are the solutions for the claims without an allocation, told apart by what they
    /// leave to the pod's group.
    fn reserve_other(
        &self,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        state: &CycleState,
        node: NodeIdx,
        nth: u32,
    ) -> Result<bool, Reason> {
        if nth == 0 {
            return self.reserve(pod, overlay, state, node).map(|()| true);
        }
        if !concerns(Cycle { pod, cluster: overlay.cluster() }) {
            return Ok(false);
        }
        let wanted = Wanted::of(pod, overlay.cluster(), node)?;
        if wanted.open.is_empty() {
            return Ok(false);
        }
        let first = self.first(pod, overlay, state, node, &wanted)?;
        let preference = preference(pod, state);
        let place = (overlay.cluster(), node);
        let found = self.other(pod, place, &wanted, preference.as_ref(), (&first, nth))?;
        let Some(found) = found else { return Ok(false) };
        let mark = overlay.checkpoint();
        let held = wanted.hold(found, pod, overlay, node);
        if held.is_err() {
            overlay.rollback(mark);
        }
        held.map(|()| true)
    }
}

impl DynamicResources {
    /// Returns the best solution: what Filter has found, if nothing has changed since.
    fn first(
        &self,
        pod: &Pod,
        overlay: &Overlay<'_>,
        state: &CycleState,
        node: NodeIdx,
        wanted: &Wanted,
    ) -> Result<Found, Reason> {
        let cluster = overlay.cluster();
        let version = overlay.version_before(&pod.uid);
        let version = version.unwrap_or_else(|| cluster.nodes().slot(node).version);
        let orders = state.device_orders();
        if orders.is_empty()
            && let Some(FoundAt { found, versions: at }) = state.found(NAME, node)
            && *at == versions(cluster, version)
        {
            return Ok(found.clone());
        }
        let mut search = Search::new(node, wanted.demands(), self.search);
        if let Some(preference) = preference(pod, state) {
            search = search.preferring(preference);
        }
        match search.run(cluster, &mut Work::unlimited()) {
            Some(found) => found.map_err(reason),
            None => Err(Reason::of(TIMED_OUT)),
        }
    }

    /// Returns the `nth` solution after the first.
    fn other(
        &self,
        pod: &Pod,
        place: (&Cluster, NodeIdx),
        wanted: &Wanted,
        preference: Option<&Preference>,
        (first, nth): (&Found, u32),
    ) -> Result<Option<Found>, Reason> {
        let (claims, others) = (wanted.demands(), wanted_by_others(pod, place.0, place.1));
        let mut solutions =
            Solutions::besides(first, place, &claims, &others, self.search, preference)?;
        let mut found = None;
        for _ in 0..nth {
            found = solutions.find_next().map_err(reason)?;
            if found.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// What other plugins say of devices.
fn preference(pod: &Pod, state: &CycleState) -> Option<Preference> {
    let orders = state.device_orders();
    (!orders.is_empty()).then(|| Preference { pod: pod.clone(), orders: orders.to_vec() })
}

fn reason(refused: Refused) -> Reason {
    match refused {
        Refused::NoFit(text) | Refused::Broken(text) | Refused::NotProven(text) => {
            Reason::from(text)
        }
    }
}

/// What the ledger is to hold for a pod.
struct Wanted {
    /// Claims whose allocation is on its way, with that.
    planned: Vec<(Arc<ResourceClaim>, Arc<Allocation>)>,
    /// Claims without one, and whether the plan will make them.
    open: Vec<(Arc<ResourceClaim>, bool)>,
}

impl Wanted {
    fn of(pod: &Pod, cluster: &Cluster, node: NodeIdx) -> Result<Wanted, Reason> {
        let records = claims_of_pod(pod, cluster).map_err(Reason::from)?;
        let mut wanted = Wanted { planned: Vec::new(), open: Vec::new() };
        for record in records {
            let claim = Arc::clone(&record.claim);
            match &record.planned {
                Some(planned) => wanted.planned.push((claim, Arc::clone(&planned.allocation))),
                None if claim.allocation.is_none() => wanted.open.push((claim, false)),
                None => {}
            }
        }
        let object = cluster.nodes().node(node).ok_or_else(|| Reason::of("node is gone"))?;
        let made = made_for(pod, cluster, object)?;
        wanted.open.extend(made.map(|claim| (Arc::new(claim), true)));
        Ok(wanted)
    }

    fn demands(&self) -> Vec<Arc<DeviceDemand>> {
        self.open.iter().map(|(claim, _)| Arc::clone(&claim.spec.demand)).collect()
    }

    /// Has the ledger hold what is on its way and what was found.
    fn hold(
        self,
        found: Found,
        pod: &Pod,
        overlay: &mut Overlay<'_>,
        node: NodeIdx,
    ) -> Result<(), Reason> {
        for (claim, allocation) in &self.planned {
            let planned = overlay.plan_claim(&claim.key, allocation, &pod.uid);
            held(claim, planned)?;
        }
        for ((claim, new), results) in self.open.iter().zip(found.claims) {
            let cluster = overlay.cluster();
            let object = cluster.nodes().node(node).ok_or_else(|| Reason::of("node is gone"))?;
            let made = Arc::new(allocation(cluster, object, &claim.spec, results, &claim.uid));
            let planned = match new {
                true => overlay.plan_new_claim(claim, &made, &pod.uid),
                false => overlay.plan_claim(&claim.key, &made, &pod.uid),
            };
            held(claim, planned)?;
        }
        Ok(())
    }
}

fn held(claim: &ResourceClaim, planned: bool) -> Result<(), Reason> {
    if planned {
        return Ok(());
    }
    let of = format!("resource claim {}", claim.key);
    Err(Reason::from(Text::from(format!("{of} is in the process of being allocated"))))
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
