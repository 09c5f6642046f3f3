//! What the members of a group have.

use std::sync::Arc;

use super::*;
use crate::snapshot::{ClusterEvent, DeviceEvent, FabricRules, GroupEvent, Overlay};
use crate::types::claim::{Allocation, ClaimKey, DeviceResult};
use crate::types::device::{AttributeValue, Placement};
use crate::types::group::{GroupHint, NATIVE, PodGroup};
use crate::types::pod::{PodClaim, PodSpec};
use crate::types::{Device, Node, ResourceClaim, ResourceSlice, Text};

const DRIVER: &str = "gpu.nvidia.com";

/// Nodes with eight GPUs each, and the groups `g` and `h`.
fn cluster(nodes: &[&str]) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.set_fabric(FabricRules::default());
    cluster.groups_mut().honour("".into(), BTreeSet::from([NATIVE.name.into()]));
    for node in nodes {
        let object = Node { name: (*node).into(), pods_max: 110, ..Node::default() };
        cluster.fold(ClusterEvent::NodeApplied(object));
        cluster.fold(ClusterEvent::Devices(DeviceEvent::SliceApplied(Box::new(slice(node)))));
    }
    for name in ["g", "h"] {
        let group = Box::new(PodGroup::gang(key(name), name, 1));
        cluster.fold(ClusterEvent::Groups(GroupEvent::Applied(group)));
    }
    cluster
}

fn key(name: &str) -> GroupKey {
    GroupHint::of_object(NATIVE, name.into()).key(&"default".into())
}

fn slice(node: &str) -> ResourceSlice {
    let kind = || Arc::new([("type".into(), AttributeValue::String("gpu".into()))]);
    let gpu =
        |at: usize| Device { name: format!("gpu-{at}").into(), own: kind(), ..Device::default() };
    ResourceSlice {
        name: node.into(),
        uid: node.into(),
        resource_version: 1,
        driver: DRIVER.into(),
        pool: node.into(),
        generation: 1,
        slice_count: 1,
        placement: Placement::Node(node.into()),
        devices: (0..8).map(gpu).collect(),
        counter_sets: Vec::new(),
        skip_node_operations: Vec::new(),
        problem: None,
    }
}

fn allocation(node: &str, gpus: &[usize], admin: bool) -> Arc<Allocation> {
    let result = |at: &usize| DeviceResult {
        request: "r".into(),
        id: DeviceId {
            driver: DRIVER.into(),
            pool: node.into(),
            device: format!("gpu-{at}").into(),
        },
        admin,
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: None,
        consumed: Vec::new(),
        skip_node_operations: Vec::new(),
    };
    let results = gpus.iter().map(result).collect();
    Arc::new(Allocation { results, ..Allocation::default() })
}

/// A pod with a claim of its name.
fn pod(name: &str, group: Option<&str>, on: Option<&str>) -> Pod {
    let entry = PodClaim { name: "gpus".into(), source: name.into(), from_template: false };
    let spec = PodSpec { claims: vec![entry], ..PodSpec::default() };
    let mut pod = Pod {
        uid: PodUid(name.into()),
        name: name.into(),
        namespace: "default".into(),
        node_name: on.map(Text::from),
        spec: Arc::new(spec),
        ..Pod::default()
    };
    if let Some(group) = group {
        pod.add_group_hint(GroupHint::of_object(NATIVE, group.into()));
    }
    pod
}

fn claim_key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: name.into() }
}

/// Adds the pod, and its claim as the API server has it.
fn put(cluster: &mut Cluster, pod: Pod, had: Option<Arc<Allocation>>) {
    let claim = ResourceClaim {
        key: claim_key(&pod.name),
        uid: pod.name.clone(),
        allocation: had,
        ..ResourceClaim::default()
    };
    cluster.fold(ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(claim))));
    cluster.fold(ClusterEvent::PodApplied(Box::new(pod)));
}

fn rails(cluster: &Cluster, pod: &Pod) -> Vec<u8> {
    let rails = cluster.fabric().unwrap().rails(pod, cluster);
    (0..8).map(|gpu| rails.on(gpu)).collect()
}

#[test]
fn members_that_have_a_place_count_with_the_gpus_of_their_claims() {
    let mut cluster = cluster(&["a", "b", "c"]);
    let asking = pod("asking", Some("g"), None);
    put(&mut cluster, asking.clone(), None);
    assert_eq!(rails(&cluster, &asking), [0; 8]);
    put(&mut cluster, pod("bound", Some("g"), Some("a")), Some(allocation("a", &[1, 2], false)));
    put(&mut cluster, pod("other", Some("h"), Some("a")), Some(allocation("a", &[3], false)));
    put(&mut cluster, pod("alone", None, Some("a")), Some(allocation("a", &[4], false)));
    put(&mut cluster, pod("nowhere", Some("g"), None), Some(allocation("b", &[5], false)));
    put(&mut cluster, pod("watching", Some("g"), Some("b")), Some(allocation("b", &[6], true)));
    put(&mut cluster, pod("bare", Some("g"), Some("b")), None);
    assert_eq!(rails(&cluster, &asking), [0, 1, 1, 0, 0, 0, 0, 0]);
    // One that a search has placed counts as long as it stays there.
    put(&mut cluster, pod("planned", Some("g"), None), None);
    let node = cluster.nodes().index("c").unwrap();
    let mut overlay = Overlay::new(&mut cluster);
    let mark = overlay.checkpoint();
    let planned = PodUid("planned".into());
    assert!(overlay.assume(&planned, node));
    let had = allocation("c", &[2, 7], false);
    assert!(overlay.plan_claim(&claim_key("planned"), &had, &planned));
    assert_eq!(rails(overlay.cluster(), &asking), [0, 1, 2, 0, 0, 0, 0, 1]);
    overlay.rollback(mark);
    assert_eq!(rails(overlay.cluster(), &asking), [0, 1, 1, 0, 0, 0, 0, 0]);
    drop(overlay);
    // Those of another group have nothing of it, nor has one in no group.
    assert_eq!(rails(&cluster, &pod("h-1", Some("h"), None)), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(rails(&cluster, &pod("x", None, None)), [0; 8]);
}

#[test]
fn of_a_large_group_some_members_speak_for_all() {
    let names: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
    let mut cluster = cluster(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for node in &names {
        let name = format!("on-{node}");
        put(&mut cluster, pod(&name, Some("g"), Some(node)), Some(allocation(node, &[0], false)));
    }
    let asking = pod("asking", Some("g"), None);
    assert_eq!(rails(&cluster, &asking)[0], ASKED_MAX as u8);
}

#[test]
fn bounds_hold_for_every_set_that_makes_the_most_pairs() {
    let mut rails = Rails::NONE;
    [[0, 1], [1, 2], [5, 6]].iter().for_each(|set| rails.add(set.iter().copied().collect()));
    let within: GpuSet = (0..8).filter(|gpu| *gpu != 5).collect();
    for size in 1..=7 {
        for picked in [GpuSet::default(), GpuSet::default().with(3)] {
            let sets = (0..256_u128).map(GpuSet);
            let sets: Vec<GpuSet> = sets
                .filter(|set| set.len() == size && set.is_within(within) && picked.is_within(*set))
                .collect();
            let most = sets.iter().map(|set| rails.met(*set)).max();
            let (must, may) = rails.bounds(picked, within, size);
            for set in sets {
                let fits = must.is_within(set) && set.is_within(may);
                assert_eq!(fits, Some(rails.met(set)) == most, "{set:?}: {must:?} {may:?}");
            }
        }
    }
}
