//! Memory that the ledger keeps a pod, a node and a device: resident size before and after loading many,
//! each decoded from JSON as a watch would.

#[path = "support/json.rs"]
mod json;

use std::fs;

use berth::wire::{self, Tables, k8s};
use berth_core::snapshot::{Cluster, ClusterEvent, DeviceEvent};
use serde_json::Value;

const NODES: usize = 5_000;
const PODS: usize = 50_000;
/// Nodes with devices.
const WHOLE: usize = 5_000;
const PARTED: usize = 1_000;

/// Resident memory of this process in bytes; 0 where there is no /proc.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn main() {
    let mut tables = Tables::default();
    let mut cluster = Cluster::default();
    let empty = resident();
    for at in 0..NODES {
        let wire_node: k8s::Node =
            serde_json::from_str(&json::node(at).to_string()).expect("a node");
        cluster.fold(ClusterEvent::NodeApplied(wire::node::node(wire_node, &mut tables).0));
    }
    let with_nodes = resident();
    for at in 0..PODS {
        let text = json::pod(at, &format!("node-{}", at % NODES)).to_string();
        let wire_pod: k8s::Pod = serde_json::from_str(&text).expect("a pod");
        let pod = wire::pod::pod(wire_pod, &mut tables);
        cluster.fold(ClusterEvent::PodApplied(Box::new(pod)));
    }
    let with_pods = resident();
    println!("kept a node: {} bytes ({NODES} nodes)", (with_nodes - empty) / NODES as u64);
    println!("kept a pod: {} bytes ({PODS} pods)", (with_pods - with_nodes) / PODS as u64);
    let (bytes, n) = devices((0..WHOLE).map(|node| vec![json::gpus(node)]));
    println!("kept a whole GPU: {bytes} bytes ({n} devices)");
    let (bytes, n) = devices((0..PARTED).map(json::mig_slices));
    println!("kept a placement of MIG: {bytes} bytes ({n} devices)");
}

/// Returns the bytes that a device takes in a ledger of its own, and how many there are.
fn devices(nodes: impl Iterator<Item = Vec<Value>>) -> (u64, u64) {
    let (mut tables, mut cluster) = (Tables::default(), Cluster::default());
    let before = resident();
    for slice in nodes.flatten() {
        let text = slice.to_string();
        drop(slice);
        let wire_slice: k8s::ResourceSlice = serde_json::from_str(&text).expect("a slice");
        let (slice, problems) = wire::device::slice(wire_slice, &mut tables);
        assert!(problems.is_empty(), "{problems:?}");
        cluster.fold(ClusterEvent::Devices(DeviceEvent::SliceApplied(Box::new(slice))));
    }
    let n = cluster.sizes().devices as u64;
    ((resident() - before) / n, n)
}
