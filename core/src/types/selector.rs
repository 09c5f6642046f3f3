//! Labels and the selectors over them.

use std::sync::Arc;

use super::Text;

/// Labels of an object, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[(Text, Text)]>);

impl Default for Labels {
    fn default() -> Labels {
        Labels(Arc::from([]))
    }
}

impl Labels {
    pub fn new(mut pairs: Vec<(Text, Text)>) -> Labels {
        pairs.sort();
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
        Labels(Arc::from(pairs))
    }

    pub fn value(&self, key: &str) -> Option<&Text> {
        let at = self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Text, Text)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(pairs: I) -> Labels {
        Labels::new(pairs.into_iter().collect())
    }
}

/// How a requirement compares a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// The label's value is an integer above the requirement's.
    Gt,
    /// The label's value is an integer below the requirement's.
    Lt,
}

/// One expression of a selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub key: Text,
    pub operator: Operator,
    pub values: Vec<Text>,
}

impl Requirement {
    /// Tells whether a label value (`None`: no such label) meets the requirement.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::In, Some(v)) => self.values.iter().any(|w| w == v),
            (Operator::In, None) => false,
            (Operator::NotIn, Some(v)) => !self.values.iter().any(|w| w == v),
            (Operator::NotIn, None) => true,
            (Operator::Exists, v) => v.is_some(),
            (Operator::DoesNotExist, v) => v.is_none(),
            (Operator::Gt, Some(v)) => self.compares(v, |have, want| have > want),
            (Operator::Lt, Some(v)) => self.compares(v, |have, want| have < want),
            (Operator::Gt | Operator::Lt, None) => false,
        }
    }

    /// Values that are no integers meet neither Gt nor Lt.
    fn compares(&self, have: &str, ordered: fn(i64, i64) -> bool) -> bool {
        let [want] = self.values.as_slice() else { return false };
        match (have.parse::<i64>(), want.parse::<i64>()) {
            (Ok(have), Ok(want)) => ordered(have, want),
            _ => false,
        }
    }
}

/// A selector over pod or namespace labels: all requirements must hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSelector {
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    pub fn equals(key: impl Into<Text>, value: impl Into<Text>) -> LabelSelector {
        LabelSelector {
            requirements: vec![Requirement {
                key: key.into(),
                operator: Operator::In,
                values: vec![value.into()],
            }],
        }
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| r.accepts(labels.value(&r.key).map(Text::as_str)))
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

/// One term of a node selector: all expressions and all fields must hold.
///
/// A term without both matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTerm {
    pub labels: Vec<Requirement>,
    /// Over `metadata.name` only; the API server admits no other field.
    pub names: Vec<Requirement>,
}

impl NodeTerm {
    pub fn matches(&self, node_name: &str, labels: &Labels) -> bool {
        if self.labels.is_empty() && self.names.is_empty() {
            return false;
        }
        self.labels.iter().all(|r| r.accepts(labels.value(&r.key).map(Text::as_str)))
            && self.names.iter().all(|r| r.accepts(Some(node_name)))
    }
}

/// A node selector: one of its terms must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSelector {
    pub terms: Vec<NodeTerm>,
}

impl NodeSelector {
    pub fn matches(&self, node_name: &str, labels: &Labels) -> bool {
        self.terms.iter().any(|term| term.matches(node_name, labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(operator: Operator, values: &[&str]) -> Requirement {
        Requirement {
            key: "k".into(),
            operator,
            values: values.iter().map(|v| Text::from(*v)).collect(),
        }
    }

    #[test]
    fn operators_treat_missing_labels_as_kubernetes_does() {
        assert!(!requirement(Operator::In, &["a"]).accepts(None));
        assert!(requirement(Operator::NotIn, &["a"]).accepts(None));
        assert!(requirement(Operator::DoesNotExist, &[]).accepts(None));
        assert!(requirement(Operator::Gt, &["4"]).accepts(Some("5")));
        assert!(!requirement(Operator::Lt, &["4"]).accepts(Some("five")));
        assert!(!requirement(Operator::Gt, &["4"]).accepts(None));
    }

    #[test]
    fn an_empty_node_term_matches_nothing_and_an_empty_label_selector_everything() {
        assert!(!NodeTerm::default().matches("n", &Labels::default()));
        assert!(LabelSelector::default().selects(&Labels::default()));
    }

    #[test]
    fn labels_are_sorted_and_found() {
        let labels = Labels::new(vec![("b".into(), "2".into()), ("a".into(), "1".into())]);
        assert_eq!(labels.value("b").map(Text::as_str), Some("2"));
        assert_eq!(labels.value("c"), None);
    }
}
