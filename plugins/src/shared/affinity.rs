//! A pod's required node affinity.

use berth_core::types::{Labels, PodSpec};

/// Tells whether a node meets `nodeSelector` and the required node affinity, both.
///
/// Source: `RequiredNodeAffinity.Match` of k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
pub(crate) fn node_matches(spec: &PodSpec, node_name: &str, labels: &Labels) -> bool {
    spec.node_selector.iter().all(|(key, value)| labels.value(key) == Some(value))
        && spec.node_affinity.required.as_ref().is_none_or(|s| s.matches(node_name, labels))
}

#[cfg(test)]
mod tests {
    use berth_core::types::{NodeSelector, NodeTerm, Operator, Requirement};

    use super::*;

    #[test]
    fn selector_and_affinity_must_both_hold() {
        let labels = Labels::new(vec![("pool".into(), "gpu".into()), ("zone".into(), "a".into())]);
        let zone = |value: &str| {
            let labels = vec![Requirement {
                key: "zone".into(),
                operator: Operator::In,
                values: vec![value.into()],
            }];
            Some(NodeSelector { terms: vec![NodeTerm { labels, names: Vec::new() }] })
        };
        let mut spec = PodSpec::default();
        assert!(node_matches(&spec, "n", &labels));
        spec.node_selector = vec![("pool".into(), "gpu".into())];
        spec.node_affinity.required = zone("a");
        assert!(node_matches(&spec, "n", &labels));
        spec.node_affinity.required = zone("b");
        assert!(!node_matches(&spec, "n", &labels));
        spec.node_affinity.required = zone("a");
        spec.node_selector = vec![("pool".into(), "cpu".into())];
        assert!(!node_matches(&spec, "n", &labels));
        spec = PodSpec::default();
        spec.node_affinity.required = Some(NodeSelector::default());
        assert!(!node_matches(&spec, "n", &labels), "a selector without terms matches nothing");
    }
}
