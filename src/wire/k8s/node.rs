//! Nodes on the wire.

use super::{resource, wire};
use crate::wire::field::{Field, List, Map};
use crate::wire::meta::Meta;
use crate::wire::quantity::Quantity;

wire! {
    pub struct Node {
        metadata: Meta,
        spec: Field<NodeSpec>,
        status: Field<NodeStatus>,
    }

    pub struct NodeSpec {
        unschedulable: Field<bool>,
        taints: Field<List<Taint>>,
    }

    pub struct Taint {
        key: Field<String>,
        value: Field<String>,
        effect: Field<String>,
    }

    pub struct NodeStatus {
        capacity: Field<Map<Quantity>>,
        allocatable: Field<Map<Quantity>>,
        images: Field<List<ContainerImage>>,
        declared_features: Field<List<String>>,
    }

    pub struct ContainerImage {
        names: Field<List<String>>,
        size_bytes: Field<i64>,
    }
}

resource!(Node, ClusterResourceScope, "", "Node", "nodes");
