//! Reserve: the ledger holds the devices that will be written to the pod's claims.

use std::sync::Arc;

use berth_core::framework::{Cycle, CycleState, Reason, Reserve, Verdict, Work};
use berth_core::snapshot::{Cluster, NodeIdx, Overlay};
use berth_core::types::claim::{Allocation, DeviceDemand, ResourceClaim};
use berth_core::types::{Node, Pod, Text};

use super::allocate::{
    Found, Options, Preference, Refused, Search, Solutions, TIMED_OUT, allocation, versions,
};
use super::extended::{Extended, special_claim};
use super::filter::{FoundAt, STEPS_KEPT, concerns};
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
        work: &mut Work,
    ) -> Result<(), Reason> {
        if !concerns(Cycle { pod, cluster: overlay.cluster() }) {
            return Ok(());
        }
        let wanted = Wanted::of(pod, overlay.cluster(), node)?;
        let found = match wanted.open.is_empty() {
            true => Found::default(),
            false => self.first(pod, (overlay, node), state, &wanted, work)?,
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
        work: &mut Work,
    ) -> Option<Result<bool, Reason>> {
        if nth == 0 {
            return Some(self.reserve(pod, overlay, state, node, work).map(|()| true));
        }
        if !concerns(Cycle { pod, cluster: overlay.cluster() }) {
            return Some(Ok(false));
        }
        let wanted = match Wanted::of(pod, overlay.cluster(), node) {
            Ok(wanted) if wanted.open.is_empty() => return Some(Ok(false)),
            Ok(wanted) => wanted,
            Err(reason) => return Some(Err(reason)),
        };
        let found = match self.other(pod, (overlay, node), state, &wanted, nth, work)? {
            Ok(Some(found)) => found,
            Ok(None) => return Some(Ok(false)),
            Err(reason) => return Some(Err(reason)),
        };
        let mark = overlay.checkpoint();
        let held = wanted.hold(found, pod, overlay, node);
        if held.is_err() {
            overlay.rollback(mark);
        }
        Some(held.map(|()| true))
    }
}

/// Steps of a search for the devices that other plugins prefer; after that what Filter has found does.
const STEPS_PREFERRED: u64 = 20_000;
/// Steps of a search again for what Filter has found and not kept, as it took few.
const STEPS_AGAIN: u64 = 20 * STEPS_KEPT;

impl DynamicResources {
    /// Returns the best solution: what Filter has found, if nothing has changed since and nobody
    /// prefers others.
    fn first(
        &self,
        pod: &Pod,
        (overlay, node): (&Overlay<'_>, NodeIdx),
        state: &CycleState,
        wanted: &Wanted,
        work: &mut Work,
    ) -> Result<Found, Reason> {
        let cluster = overlay.cluster();
        if let Some(preference) = preference(pod, state) {
            let search = self.search_in(node, wanted, STEPS_PREFERRED).preferring(preference);
            match carried_out(search, cluster, work) {
                Err(Refused::NotProven(_)) => {}
                found => return found.map_err(reason),
            }
        }
        let version = overlay.version_before(&pod.uid);
        let version = version.unwrap_or_else(|| cluster.nodes().slot(node).version);
        if let Some(FoundAt { found, versions: at }) = state.found(NAME, node)
            && *at == versions(cluster, version)
        {
            return Ok(found.clone());
        }
        let search = self.search_in(node, wanted, STEPS_AGAIN);
        carried_out(search, cluster, work).map_err(reason)
    }

    fn search_in(&self, node: NodeIdx, wanted: &Wanted, steps_max: u64) -> Search {
        let steps_max = steps_max.min(self.search.steps_max);
        Search::new(node, wanted.demands(), Options { steps_max, ..self.search })
    }

    /// Returns the `nth` solution after the first; `None` if `work` has too few steps.
    fn other(
        &self,
        pod: &Pod,
        (overlay, node): (&Overlay<'_>, NodeIdx),
        state: &CycleState,
        wanted: &Wanted,
        nth: u32,
        work: &mut Work,
    ) -> Option<Result<Option<Found>, Reason>> {
        let cluster = overlay.cluster();
        let first = match self.first(pod, (overlay, node), state, wanted, work) {
            Ok(first) => first,
            Err(reason) => return Some(Err(reason)),
        };
        let (claims, others) = (wanted.demands(), wanted_by_others(pod, cluster, node));
        let preference = preference(pod, state);
        let place = (cluster, node);
        let solutions =
            Solutions::besides(&first, place, &claims, &others, self.search, preference.as_ref());
        let mut solutions = match solutions {
            Ok(solutions) => solutions,
            Err(text) => return Some(Err(text.into())),
        };
        let mut found = None;
        for _ in 0..nth {
            found = match solutions.find_next(work)? {
                Ok(Some(found)) => Some(found),
                Ok(None) => return Some(Ok(None)),
                Err(refused) => return Some(Err(reason(refused))),
            };
        }
        Some(Ok(found))
    }
}

/// Searches to the end, which is near.
fn carried_out(mut search: Search, cluster: &Cluster, work: &mut Work) -> Result<Found, Refused> {
    let mut own = Work::unlimited();
    let found = search.run(cluster, &mut own);
    work.spend(own.spent());
    found.unwrap_or_else(|| Err(Refused::NotProven(TIMED_OUT.into())))
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
