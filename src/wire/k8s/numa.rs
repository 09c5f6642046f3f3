//! NodeResourceTopologies on the wire, of whichever version.

use super::{resource, wire};
use crate::wire::field::{Field, List};
use crate::wire::meta::Meta;
use crate::wire::quantity::Quantity;

wire! {
    pub struct NodeResourceTopology {
        metadata: Meta,
        topology_policies: Field<List<String>>,
        zones: Field<List<Zone>>,
        attributes: Field<List<Attribute>>,
    }

    pub struct Zone {
        name: Field<String>,
        #[serde(rename = "type")]
        kind: Field<String>,
        resources: Field<List<ZoneResource>>,
    }

    pub struct ZoneResource {
        name: Field<String>,
        allocatable: Field<Quantity>,
        available: Field<Quantity>,
    }

    pub struct Attribute {
        name: Field<String>,
        value: Field<String>,
    }
}

resource!(
    NodeResourceTopology,
    ClusterResourceScope,
    "topology.node.k8s.io",
    "NodeResourceTopology",
    "noderesourcetopologies"
);
