//! PreFilter and Filter: can the claims be had on a node?

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::framework::{
    Cycle, CycleState, Filter, PreFilter, PreFilterAnswer, Reads, Reason, Verdict, Work,
};
use berth_core::snapshot::devices::claims::ClaimRecord;
use berth_core::snapshot::devices::gather::PoolState;
use berth_core::snapshot::{Cluster, IndexRef, NodeIdx, Version};
use berth_core::types::claim::{Allocation, DeviceDemand, DeviceToleration};
use berth_core::types::device::DeviceTaint;
use berth_core::types::{Node, Pod, Text};

use super::allocate::{Found, Refused, Search, versions};
use super::extended::Extended;
use super::lookup::{claims_of_pod, class_part};
use super::{DynamicResources, NAME};

const LEFT_OVER: &str = "cannot schedule extended resource claim";
const NOT_AVAILABLE: &str = "resourceclaim not available on the node";

/// What PreFilter worked out: the same for all pods of a class.
pub(super) struct Prepared {
    /// Of the claims without an allocation, in the pod's order.
    pub(super) demands: Vec<Arc<DeviceDemand>>,
    /// Of the others.
    allocated: Vec<Allocated>,
    /// Resources that devices may back, unless there is a claim for them already.
    pub(super) extended: Option<Extended>,
    /// There is a claim for them that an earlier attempt has left, without an allocation.
    left_over: bool,
    /// The raw score depends on what is found on a node.
    pub(super) scored: bool,
    /// What is left over of the devices counts for the score.
    pub(super) packs: bool,
}

struct Allocated {
    uid: Text,
    allocation: Arc<Allocation>,
    /// It is not on the server yet: whether the devices may be granted is asked again.
    planned: bool,
    /// A driver has said that it won't prepare a device.
    failed: bool,
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, cycle: Cycle<'_>, state: &mut CycleState) -> PreFilterAnswer {
        if !concerns(cycle) {
            return PreFilterAnswer::Skip;
        }
        let unresolvable = |text: Text| PreFilterAnswer::Unresolvable(Reason::from(text));
        let records = match claims_of_pod(cycle.pod, cycle.cluster) {
            Ok(records) => records,
            Err(text) => return unresolvable(text),
        };
        let mut prepared = Prepared {
            demands: Vec::new(),
            allocated: Vec::new(),
            extended: None,
            left_over: false,
            scored: false,
            packs: false,
        };
        match cycle.cluster.devices().special_claim(&cycle.pod.uid) {
            None => prepared.extended = Extended::of(cycle.pod, cycle.cluster),
            Some(record) => match allocated(record) {
                Some(allocated) => prepared.allocated.push(allocated),
                None => prepared.left_over = true,
            },
        }
        for record in records {
            if let Some(allocated) = allocated(record) {
                if allocated.planned && !shares_plan(cycle.pod, cycle.cluster, record) {
                    let of = format!("resource claim {}", record.claim.key);
                    let text = format!("{of} is in the process of being allocated");
                    return unresolvable(text.into());
                }
                prepared.allocated.push(allocated);
                continue;
            }
            if let Some(refusal) = malformed(record, cycle.cluster) {
                return refusal;
            }
            let demand = &record.claim.spec.demand;
            prepared.scored |= demand.requests.iter().any(|request| request.first_available);
            prepared.demands.push(Arc::clone(demand));
        }
        if prepared.is_empty() {
            return PreFilterAnswer::Skip;
        }
        prepared.packs = self.pack_claims && !prepared.is_packed_elsewhere(cycle.cluster);
        prepared.scored |= prepared.packs;
        state.put(NAME, prepared);
        PreFilterAnswer::Continue
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads(cycle)
    }
}

impl Prepared {
    fn is_empty(&self) -> bool {
        self.demands.is_empty()
            && self.allocated.is_empty()
            && self.extended.is_none()
            && !self.left_over
    }

    /// Tells whether the index of packing counts some of the devices: where they had better be taken is
    /// for who looks at that to say.
    fn is_packed_elsewhere(&self, cluster: &Cluster) -> bool {
        let Some(packing) = cluster.packing() else { return false };
        let demands = self.demands.iter().flat_map(|demand| demand.alternatives());
        let backed = self.extended.iter().flat_map(Extended::backed);
        let classes = demands.map(|request| &request.class).chain(backed.map(|(_, class)| class));
        classes.into_iter().any(|class| packing.counts_class(class))
    }

    /// Returns what is to be allocated on the node: the claims' demands, then that of extended
    /// resources.
    ///
    /// # Errors
    /// Why nothing can be.
    pub(super) fn demands_on(&self, node: &Node) -> Result<Vec<Arc<DeviceDemand>>, Verdict> {
        let mut demands = self.demands.clone();
        if let Some(extended) = &self.extended {
            demands.extend(extended.on(node)?.map(|(demand, _)| Arc::new(demand)));
        }
        Ok(demands)
    }
}

/// Tells whether the pod has claims, or resources that may become one.
pub(super) fn concerns(cycle: Cycle<'_>) -> bool {
    !cycle.pod.spec.claims.is_empty()
        || !cycle.pod.spec.extended.is_empty()
            && (cycle.cluster.devices().special_claim(&cycle.pod.uid).is_some()
                || Extended::of(cycle.pod, cycle.cluster).is_some())
}

pub(super) fn reads(cycle: Cycle<'_>) -> Reads {
    match concerns(cycle) {
        true => {
            let selectors: BTreeSet<Text> =
                class_part(cycle.pod, cycle.cluster).selectors.into_iter().collect();
            let mut indexes = vec![IndexRef::WideDevices, IndexRef::DeviceClasses];
            indexes.extend(selectors.into_iter().map(IndexRef::Selections));
            Reads { indexes }
        }
        false => Reads::NODE,
    }
}

fn allocated(record: &ClaimRecord) -> Option<Allocated> {
    let allocation = Arc::clone(record.allocation()?);
    let mut results = allocation.results.iter();
    let failed = results.any(|result| record.claim.binding_failure(result).is_some());
    let planned = record.claim.allocation.is_none();
    Some(Allocated { uid: record.claim.uid.clone(), allocation, planned, failed })
}

/// Tells whether the allocation that is on its way is the pod's own, or that of a pod of its group.
pub(super) fn shares_plan(pod: &Pod, cluster: &Cluster, record: &ClaimRecord) -> bool {
    let Some(planned) = &record.planned else { return true };
    if planned.pods.contains(&pod.uid) {
        return true;
    }
    let group_of = |pod: &Pod| cluster.groups().membership(pod).key();
    let Some(group) = group_of(pod) else { return false };
    let others = planned.pods.iter().filter_map(|uid| cluster.pod(uid));
    others.map(|other| group_of(&other.pod)).any(|other| other.as_ref() == Some(&group))
}

/// Says what of a claim can't be allocated on any node.
fn malformed(record: &ClaimRecord, cluster: &Cluster) -> Option<PreFilterAnswer> {
    let unresolvable =
        |text: String| Some(PreFilterAnswer::Unresolvable(Reason::from(Text::from(text))));
    let claim = &record.claim;
    let unknown = claim.spec.demand.requests.iter().find(|request| request.alternatives.is_empty());
    if let Some(request) = unknown {
        let of = format!("resource claim {}, request {}", claim.key, request.name);
        return unresolvable(format!("{of}: unknown request type"));
    }
    for request in record.claim.spec.demand.alternatives() {
        if let Some(field) = &request.unsupported {
            let of = format!("resource claim {}, request {}", claim.key, request.name);
            return unresolvable(format!("{of}: {field} is not supported"));
        }
        if cluster.devices().class(&request.class).is_none() {
            let (name, class) = (&request.name, &request.class);
            return unresolvable(format!("request {name}: device class {class} does not exist"));
        }
    }
    None
}

impl Filter for DynamicResources {
    fn filter(&self, cycle: Cycle<'_>, state: &CycleState, node: NodeIdx) -> Verdict {
        let verdict = self.search(cycle, state, node, &mut Work::unlimited());
        verdict.unwrap_or_else(|| Verdict::Broken("the search for devices did not end".into()))
    }

    fn search(
        &self,
        cycle: Cycle<'_>,
        state: &CycleState,
        node: NodeIdx,
        work: &mut Work,
    ) -> Option<Verdict> {
        let Some(prepared) = state.kept::<Prepared>(NAME) else { return Some(Verdict::Fit) };
        let Some(object) = cycle.cluster.nodes().node(node) else {
            return Some(Verdict::Unresolvable("node is gone".into()));
        };
        if !prepared.allocated.iter().all(|claim| available(claim, cycle.cluster, object)) {
            return Some(Verdict::Unresolvable(NOT_AVAILABLE.into()));
        }
        if prepared.left_over {
            return Some(Verdict::Unresolvable(LEFT_OVER.into()));
        }
        let mut search = match work.take::<Search>() {
            Some(paused) => *paused,
            None => match prepared.demands_on(object) {
                Ok(demands) if demands.is_empty() => return Some(Verdict::Fit),
                Ok(demands) => Search::new(node, demands, self.search).counting(prepared.packs),
                Err(verdict) => return Some(verdict),
            },
        };
        let Some(result) = search.run(cycle.cluster, work) else {
            work.keep(search);
            return None;
        };
        let versions = versions(cycle.cluster, cycle.cluster.nodes().slot(node).version);
        let result = result.map(|found| FoundAt { found, versions });
        let kept = prepared.scored || search.steps() > STEPS_KEPT;
        Some(verdict(result, kept, object, work))
    }

    fn reads(&self, cycle: Cycle<'_>) -> Reads {
        reads(cycle)
    }
}

/// A solution that took longer to find is kept for Reserve.
pub(super) const STEPS_KEPT: u64 = 1_000;

/// What a search has found, and of which state of the ledger that is so.
pub(super) struct FoundAt {
    pub(super) found: Found,
    pub(super) versions: [Version; 3],
}

fn verdict(result: Result<FoundAt, Refused>, kept: bool, node: &Node, work: &mut Work) -> Verdict {
    match result {
        Ok(found) => {
            if kept {
                work.keep(found);
            }
            Verdict::Fit
        }
        Err(Refused::NoFit(text)) => Verdict::Unresolvable(text.into()),
        Err(Refused::Broken(text)) => Verdict::Broken(text),
        Err(Refused::NotProven(text)) => {
            Verdict::Broken(format!("node {}: {text}", node.name).into())
        }
    }
}

fn available(claim: &Allocated, cluster: &Cluster, node: &Node) -> bool {
    let selector = claim.allocation.node_selector.as_ref();
    !claim.failed
        && selector.is_none_or(|selector| selector.matches(&node.name, &node.labels))
        && (!claim.planned || grantable(claim, cluster, node))
}

/// Tells whether an allocation that isn't written yet may still be: the devices are there, nobody
/// else holds them, and no taint has come.
fn grantable(claim: &Allocated, cluster: &Cluster, node: &Node) -> bool {
    let devices = cluster.devices();
    let pools = devices.pools_on(node);
    claim.allocation.results.iter().all(|result| {
        let pool =
            pools.iter().find(|p| *p.driver == result.id.driver && *p.name == result.id.pool);
        let Some(pool) = pool.filter(|pool| pool.state == PoolState::Complete) else {
            return false;
        };
        let found = pool.devices.iter().find(|device| device.device.name == result.id.device);
        let Some(found) = found else { return false };
        let alone = found.taken.is_none_or(|taken| taken.holders.iter().all(|h| *h == claim.uid));
        let mut taints = devices.taints(found.slice, found.device);
        alone && taints.all(|taint| tolerated(taint, &result.tolerations))
    })
}

/// Source: `ToleratesTaint` of the resource.k8s.io helpers.
pub(super) fn tolerated(taint: &DeviceTaint, tolerations: &[DeviceToleration]) -> bool {
    tolerations.iter().any(|toleration| {
        let key = toleration.key.is_empty() && toleration.exists || toleration.key == taint.key;
        let effect = toleration.effect.is_none_or(|effect| effect == taint.effect);
        key && effect && (toleration.exists || toleration.value == taint.value)
    })
}
