//! What a pod asks for, as packing sees it, and which nodes admit it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::claim::{AllocationMode, DeviceRequest};
use crate::types::gpu_share::GPU_MEMORY;
use crate::types::{
    GpuShare, Node, NodeSelector, Pod, ShareSize, SharingNode, TaintEffect, Text, Toleration,
};

use super::super::cluster::Cluster;
use super::super::devices::entries::PodClaimState;
use super::PackingRules;
use super::gpu::{Selection, WHOLE_MILLI, Want};

/// What a pod asks for. Pods with equal demands are one class for packing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    pub cpu_milli: i64,
    /// Rounded up.
    pub memory_mib: i64,
    pub want: Want,
    pub admits: Arc<Admits>,
}

/// What a pod says of nodes that it can't be placed on, whatever is free there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Admits {
    /// Resources of device plugins that it asks for, ascending.
    pub counted: Vec<Text>,
    /// It asks for a part of GPUs by annotation.
    pub shares: bool,
    pub node_selector: Vec<(Text, Text)>,
    pub required: Option<NodeSelector>,
    pub tolerations: Vec<Toleration>,
}

const MIB: i64 = 1 << 20;

impl Admits {
    pub(super) fn node(&self, node: &Node) -> bool {
        let selected = |(key, value): &(Text, Text)| node.labels.value(key) == Some(value);
        let required = self.required.as_ref();
        !node.unschedulable
            && self.counted.iter().all(|name| node.allocatable.amount(name) > 0)
            && (!self.shares || SharingNode::of(node).is_ok())
            && self.node_selector.iter().all(selected)
            && required.is_none_or(|selector| selector.matches(&node.name, &node.labels))
            && node.taints.iter().all(|taint| {
                taint.effect == TaintEffect::PreferNoSchedule
                    || self.tolerations.iter().any(|toleration| toleration.covers(taint))
            })
    }
}

/// What devices of the cluster have at most of each capacity. Unit: billionths; of the label that tells
/// how much memory GPUs have, which are given out by annotations, MiB.
pub(super) type Capacities = BTreeMap<Text, i128>;

impl Demand {
    pub(super) fn of(
        pod: &Pod,
        cluster: &Cluster,
        rules: &PackingRules,
        capacities: &Capacities,
    ) -> Demand {
        let requests = &pod.spec.requests.real;
        let counted = rules.resources.iter().filter(|name| requests.amount(name) > 0);
        let share = pod.gpu_share().filter(|_| cluster.keeps_gpu_shares());
        let admits = Admits {
            shares: share.is_some(),
            // What a class backs may be had of devices where there is no plugin.
            counted: counted
                .filter(|n| cluster.devices().class_for(n).is_none())
                .cloned()
                .collect(),
            node_selector: pod.spec.node_selector.clone(),
            required: pod.spec.node_affinity.required.clone(),
            tolerations: pod.spec.tolerations.clone(),
        };
        let whole: i64 = rules.resources.iter().map(|name| requests.amount(name)).sum();
        let of_share = share.map(|share| wanted_of_share(&share, capacities));
        let of_claims = || wanted_of_claims(pod, cluster, rules, capacities);
        let want = match of_share.unwrap_or_else(of_claims) {
            Want::Nothing => Want::whole(u16::try_from(whole).unwrap_or(u16::MAX)),
            want => want,
        };
        Demand {
            cpu_milli: requests.cpu_milli,
            memory_mib: requests.memory_bytes.div_euclid(MIB)
                + i64::from(requests.memory_bytes % MIB != 0),
            want,
            admits: Arc::new(admits),
        }
    }
}

/// Of memory it is so much of the largest GPU.
fn wanted_of_share(share: &GpuShare, capacities: &Capacities) -> Want {
    let milli = match share.size {
        ShareSize::Milli(milli) => i64::from(milli),
        ShareSize::Mib(mib) => milli_of_all(i128::from(mib), capacities.get(GPU_MEMORY).copied()),
    };
    Want::Gpus { count: share.n_gpus, milli: milli as u16 }
}

/// Rounded up; a whole GPU where it isn't known how much there is.
fn milli_of_all(amount: i128, all: Option<i128>) -> i64 {
    let whole = i128::from(WHOLE_MILLI);
    let Some(all) = all.filter(|all| *all > 0) else { return WHOLE_MILLI };
    let milli = amount.saturating_mul(whole).saturating_add(all - 1) / all;
    milli.clamp(1, whole) as i64
}

/// Requests of several sizes count as so many of the largest.
fn wanted_of_claims(
    pod: &Pod,
    cluster: &Cluster,
    rules: &PackingRules,
    capacities: &Capacities,
) -> Want {
    let (mut count, mut milli, mut selected) = (0i64, 0, None);
    for entry in &pod.spec.claims {
        let PodClaimState::Claim(key) = cluster.claim_of(pod, entry) else { continue };
        let Some(record) = cluster.devices().claim(&key) else { continue };
        let first = record.claim.spec.demand.requests.iter().filter_map(|r| r.alternatives.first());
        for request in first.filter(|request| rules.device_classes.contains(&request.class)) {
            if request.admin {
                continue;
            }
            count += match request.mode {
                AllocationMode::ExactCount(count) => count,
                AllocationMode::All | AllocationMode::Unknown(_) => 1,
            };
            milli = milli.max(milli_of(request, capacities));
            selected = selected.or((request.capacity.is_empty()).then_some(request));
        }
    }
    match u16::try_from(count) {
        Ok(0) => Want::Nothing,
        Ok(count) => match selected.filter(|_| count == 1) {
            Some(request) => {
                let (class, selectors) = (request.class.clone(), request.selectors.clone());
                Want::Selected(Arc::new(Selection { class, selectors }))
            }
            None => Want::Gpus { count, milli: milli as u16 },
        },
        Err(_) => Want::whole(u16::MAX),
    }
}

/// Returns how much of a device a request takes, by the capacity of which it takes most. Unit:
/// thousandths, rounded up.
fn milli_of(request: &DeviceRequest, capacities: &Capacities) -> i64 {
    let share = |(name, amount): &(Text, crate::types::device::Quantity)| {
        let total = capacities.get(name).copied().filter(|total| *total > 0)?;
        Some(milli_of_all(amount.nanos, Some(total)))
    };
    request.capacity.iter().filter_map(share).max().unwrap_or(WHOLE_MILLI)
}
