//! Which members share a ComputeDomain, and which cliques are left to others.

use std::sync::Arc;

use berth_core::snapshot::{ClusterEvent, DeviceEvent};
use berth_core::types::claim::{ClaimRequest, DeviceDemand, DeviceRequest};
use berth_core::types::{Node, PodClaim, PodSpec, PodUid, ResourceClaim};

use super::*;

const CLASSES: [&str; 2] = [CHANNEL, "gpu.nvidia.com"];

/// Two cliques of two nodes.
fn cluster(cliques: [&str; 4]) -> Cluster {
    let mut cluster = Cluster::default();
    for (at, clique) in cliques.iter().enumerate() {
        let (name, clique) = (Text::from(format!("n{at}")), Text::from(*clique));
        let labels = [(Text::from(CLIQUE), clique)].into_iter();
        let labels = labels.filter(|(_, clique)| !clique.is_empty()).collect();
        let node = Node { uid: name.clone(), name, labels, ..Node::default() };
        cluster.fold(ClusterEvent::NodeApplied(node));
    }
    cluster.declare_domains(&Text::from(CLIQUE));
    cluster
}

/// Adds a pod whose claim was made from a template for a class, on a node if there is one.
fn pod(cluster: &mut Cluster, name: &str, template: &str, class: &str, node: Option<&str>) -> Pod {
    let claim = Text::from(format!("{name}-claim"));
    let request = ClaimRequest::only(DeviceRequest::exact("r", class, 1));
    let demand = DeviceDemand { requests: vec![request], ..DeviceDemand::default() };
    let mut object = ResourceClaim::default();
    object.key.name = claim.clone();
    object.uid = claim.clone();
    Arc::make_mut(&mut object.spec).demand = Arc::new(demand);
    cluster.fold(ClusterEvent::Devices(DeviceEvent::ClaimApplied(Box::new(object))));
    let entry = PodClaim { name: "c".into(), source: template.into(), from_template: true };
    let pod = Pod {
        name: name.into(),
        uid: PodUid(name.into()),
        spec: Arc::new(PodSpec { claims: vec![entry], ..PodSpec::default() }),
        claim_statuses: vec![("c".into(), Some(claim))],
        node_name: node.map(Text::from),
        ..Pod::default()
    };
    cluster.fold(ClusterEvent::PodApplied(Box::new(pod.clone())));
    pod
}

#[test]
fn members_of_one_compute_domain_share_a_clique() {
    let mut known = cluster(["x", "x", "y", "y"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| pod(&mut known, name, "cd", CHANNEL, None));
    let other = pod(&mut known, "d", "other", CHANNEL, None);
    let [gpu, gpu2] = ["e", "f"].map(|name| pod(&mut known, name, "gpus", CLASSES[1], None));
    let members = [&a, &other, &b, &gpu, &c, &gpu2];
    let rules = ComputeDomains::default();
    let shared = rules.shared(&members, &known);
    let [shared] = &shared[..] else { panic!("one has several pods: {shared:?}") };
    assert_eq!((shared.members.clone(), &*shared.name), (vec![0, 2, 4], "ComputeDomain cd"));
    assert_eq!(shared.constraint, TopologyConstraint::required(CLIQUE.into()));
    let with = |inside| ComputeDomains { inside, ..rules }.shared(&members, &known);
    assert!(!with(Inside::Preferred)[0].constraint.required);
    assert!(with(Inside::Ignored).is_empty());
    // Claims are as they were; there just are no cliques.
    let mut bare = cluster(["", "", "", ""]);
    let [a, b] = ["a", "b"].map(|name| pod(&mut bare, name, "cd", CHANNEL, None));
    assert!(rules.shared(&[&a, &b], &bare).is_empty());
}

#[test]
fn cliques_of_other_compute_domains_are_left_to_them() {
    let mut known = cluster(["x", "x", "y", ""]);
    let own = pod(&mut known, "a", "cd", CHANNEL, None);
    pod(&mut known, "b", "cd", CHANNEL, Some("n2"));
    pod(&mut known, "c", "gpus", CLASSES[1], Some("n2"));
    pod(&mut known, "d", "other", CHANNEL, Some("n0"));
    let left = |rules: ComputeDomains, members: &[&Pod]| -> Vec<usize> {
        let mut nodes: NodeSet = known.nodes().iter().map(|(node, _)| node).collect();
        let n_taken = rules.leave_to_others(&mut nodes, members, &known);
        assert_eq!(n_taken > 0, nodes.len() < 4);
        nodes.iter().map(|node| node.at()).collect()
    };
    let exclusive = ComputeDomains { exclusive: true, ..ComputeDomains::default() };
    assert_eq!(left(exclusive, &[&own]), [2, 3], "x has a pod of another, y of this one only");
    assert_eq!(left(ComputeDomains::default(), &[&own]), [0, 1, 2, 3]);
    let other = known.pods().find(|it| &*it.pod.name == "c").expect("it is there").pod.clone();
    assert_eq!(left(exclusive, &[&other]), [0, 1, 2, 3], "it has no channel");
}
