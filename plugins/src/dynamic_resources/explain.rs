//! Numbers after the message of a pod that fits nowhere.

use berth_core::framework::{Cycle, CycleState, Explain};
use berth_core::snapshot::Cluster;
use berth_core::snapshot::devices::gather::{NodeDevice, PoolState};
use berth_core::snapshot::devices::selections::Selected;
use berth_core::types::claim::{AllocationMode, DeviceRequest};
use berth_core::types::{Node, Text};

use super::filter::{Prepared, tolerated};
use super::lookup::selectors_of;
use super::{DynamicResources, NAME};

impl Explain for DynamicResources {
    fn explain(&self, cycle: Cycle<'_>, state: &CycleState) -> Option<Text> {
        let prepared = state.kept::<Prepared>(NAME)?;
        let requests = prepared.demands.iter().flat_map(|demand| &demand.requests);
        let mut requests = requests.filter_map(|request| request.alternatives.first());
        requests.find_map(|request| shortage(cycle.cluster, request))
    }
}

/// Says how much of a request the best node has, if none has enough.
fn shortage(cluster: &Cluster, request: &DeviceRequest) -> Option<Text> {
    let AllocationMode::ExactCount(wanted) = request.mode else { return None };
    let mut best: Option<((usize, usize), &Node)> = None;
    for (_, node) in cluster.nodes().iter() {
        let counts = free_devices(cluster, node, request);
        if usize::try_from(wanted).is_ok_and(|wanted| counts.0 >= wanted) {
            return None;
        }
        // Of equals the first by name.
        let better = |(most, first): &((usize, usize), &Node)| {
            counts.cmp(most).then_with(|| first.name.cmp(&node.name)).is_gt()
        };
        if best.as_ref().is_none_or(better) {
            best = Some((counts, node));
        }
    }
    let ((free, all), node) = best?;
    let class = &request.class;
    let needs = format!("needs {wanted} {class}");
    Some(Text::from(match all {
        0 => format!("{needs}, no node has a device that request {:?} selects", &*request.name),
        _ => format!("{needs}, at most {free} of {all} are free on one node ({})", node.name),
    }))
}

/// Returns how many devices of a node a request could take by itself, and how many it selects.
fn free_devices(cluster: &Cluster, node: &Node, request: &DeviceRequest) -> (usize, usize) {
    let devices = cluster.devices();
    let class = devices.class(&request.class);
    let selected = |device: &NodeDevice<'_>| {
        let says = |expression: &Text| {
            devices.selections().selected(expression, device.slice_idx, device.at)
        };
        selectors_of(request, class).all(|expression| says(expression) == Selected::Yes)
    };
    let free = |device: &NodeDevice<'_>| {
        let mut taints = devices.taints(device.slice, device.device);
        device.taken.is_none_or(|taken| !taken.dedicated())
            && taints.all(|taint| tolerated(taint, &request.tolerations))
    };
    let pools = devices.pools_on(node);
    let complete = pools.iter().filter(|pool| pool.state == PoolState::Complete);
    let mut counts = (0, 0);
    for device in complete.flat_map(|pool| &pool.devices).filter(|device| selected(device)) {
        counts.0 += usize::from(free(device));
        counts.1 += 1;
    }
    counts
}
