//! PreEnqueue: a pod waits until all of its claims are there.

use berth_core::framework::{Gate, PreEnqueue};
use berth_core::snapshot::Cluster;
use berth_core::types::Pod;

use super::DynamicResources;
use super::lookup::{claims_of_pod, keeps_back};

impl PreEnqueue for DynamicResources {
    fn gate(&self, pod: &Pod, cluster: &Cluster) -> Gate {
        match claims_of_pod(pod, cluster) {
            Ok(_) => Gate::Open,
            // The claim can't go before the pod lets go of it: PostFilter sees to that.
            Err(_) if keeps_back(pod, cluster) => Gate::Open,
            Err(message) => Gate::Closed { message, told: true },
        }
    }
}
