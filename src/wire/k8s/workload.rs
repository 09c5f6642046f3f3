//! Namespaces, services and controllers on the wire.

use super::selector::LabelSelector;
use super::{resource, wire};
use crate::wire::field::{Field, Map};
use crate::wire::meta::Meta;

wire! {
    pub struct Namespace {
        metadata: Meta,
    }

    pub struct Service {
        metadata: Meta,
        spec: Field<MapSelectorSpec>,
    }

    pub struct ReplicationController {
        metadata: Meta,
        spec: Field<MapSelectorSpec>,
    }

    pub struct ReplicaSet {
        metadata: Meta,
        spec: Field<LabelSelectorSpec>,
    }

    pub struct StatefulSet {
        metadata: Meta,
        spec: Field<LabelSelectorSpec>,
    }

    /// A spec whose selector is a plain map of labels.
    pub struct MapSelectorSpec {
        selector: Field<Map<String>>,
    }

    pub struct LabelSelectorSpec {
        selector: Field<LabelSelector>,
    }
}

resource!(Namespace, ClusterResourceScope, "", "Namespace", "namespaces");
resource!(Service, NamespaceResourceScope, "", "Service", "services");
resource!(
    ReplicationController,
    NamespaceResourceScope,
    "",
    "ReplicationController",
    "replicationcontrollers"
);
resource!(ReplicaSet, NamespaceResourceScope, "apps", "ReplicaSet", "replicasets");
resource!(StatefulSet, NamespaceResourceScope, "apps", "StatefulSet", "statefulsets");
