//! Selectors on the wire.

use super::wire;
use crate::wire::field::{Field, List, Map};

wire! {
    pub struct LabelSelector {
        match_labels: Field<Map<String>>,
        match_expressions: Field<List<Requirement>>,
    }

    /// An expression of a label selector or a node selector.
    pub struct Requirement {
        key: Field<String>,
        operator: Field<String>,
        values: Field<List<String>>,
    }

    pub struct NodeSelector {
        node_selector_terms: Field<List<NodeSelectorTerm>>,
    }

    pub struct NodeSelectorTerm {
        match_expressions: Field<List<Requirement>>,
        match_fields: Field<List<Requirement>>,
    }
}
