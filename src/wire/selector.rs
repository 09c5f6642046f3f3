//! Label selectors and node selectors.
//!
//! Source: `LabelSelectorAsSelector` of apimachinery and `nodeaffinity` of component-helpers.

use berth_core::types::{LabelSelector, NodeSelector, NodeTerm, Operator, Requirement, Text};

use super::field::{Field, List};
use super::k8s::selector as k8s;
use super::problem::Path;
use super::reading::Reading;

/// Returns a selector that nothing meets.
pub fn nothing() -> LabelSelector {
    let never = Requirement { key: Text::default(), operator: Operator::In, values: Vec::new() };
    LabelSelector { requirements: vec![never] }
}

/// Whether a requirement may compare integers: node selectors do, label selectors don't.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparing {
    Integers,
    No,
}

impl Reading<'_> {
    /// Returns the selector; None if there is none (it selects nothing).
    ///
    /// One that can't be understood selects nothing as well, and is a problem.
    pub(super) fn label_selector(
        &mut self,
        at: &Path<'_>,
        selector: &Field<k8s::LabelSelector>,
    ) -> Option<LabelSelector> {
        if let Field::Odd(_) = selector {
            self.opt(at, selector);
            return Some(nothing());
        }
        let selector = selector.value()?;
        let before = self.problems.count();
        let labels = self.pairs(&at.field("matchLabels"), &selector.match_labels);
        let mut requirements: Vec<Requirement> = labels.into_iter().map(equals).collect();
        let at = at.field("matchExpressions");
        self.each(&at, &selector.match_expressions, |reading, at, expression| {
            requirements.extend(reading.requirement(at, expression, Comparing::No));
        });
        if self.problems.count() > before {
            return Some(nothing());
        }
        Some(LabelSelector { requirements })
    }

    /// Returns the terms that can be understood: a broken one matches no node, as upstream has it.
    /// It is a problem only if no good one is left.
    pub(super) fn node_selector(
        &mut self,
        at: &Path<'_>,
        selector: &k8s::NodeSelector,
    ) -> NodeSelector {
        let outer = std::mem::take(&mut self.problems);
        let at = at.field("nodeSelectorTerms");
        let mut terms = Vec::new();
        for (i, term) in
            self.opt(&at, &selector.node_selector_terms).into_iter().flatten().enumerate()
        {
            let at = at.index(i);
            let Some(term) = self.required(&at, term) else { continue };
            terms.extend(self.node_term(&at, term));
        }
        let found = std::mem::replace(&mut self.problems, outer);
        if terms.is_empty() {
            self.problems.append(found);
        }
        NodeSelector { terms }
    }

    /// Returns the term, None with problems if it can't be understood.
    pub(super) fn node_term(
        &mut self,
        at: &Path<'_>,
        term: &k8s::NodeSelectorTerm,
    ) -> Option<NodeTerm> {
        let before = self.problems.count();
        let labels_at = at.field("matchExpressions");
        let mut labels = Vec::new();
        self.each(&labels_at, &term.match_expressions, |reading, at, expression| {
            labels.extend(reading.requirement(at, expression, Comparing::Integers));
        });
        let names = self.name_requirements(&at.field("matchFields"), &term.match_fields);
        (self.problems.count() == before).then_some(NodeTerm { labels, names })
    }

    fn name_requirements(
        &mut self,
        at: &Path<'_>,
        fields: &Field<List<k8s::Requirement>>,
    ) -> Vec<Requirement> {
        let mut names = Vec::new();
        self.each(at, fields, |reading, at, field| {
            let Some(name) = reading.requirement(at, field, Comparing::No) else { return };
            if name.key != "metadata.name" {
                reading.unknown(&at.field("key"), &name.key);
            } else if !matches!(name.operator, Operator::In | Operator::NotIn) {
                reading.problem(&at.field("operator"), "must be In or NotIn");
            } else if name.values.len() != 1 {
                reading.problem(&at.field("values"), "must have one element");
            } else {
                names.push(name);
            }
        });
        names
    }

    fn requirement(
        &mut self,
        at: &Path<'_>,
        wire: &k8s::Requirement,
        comparing: Comparing,
    ) -> Option<Requirement> {
        let before = self.problems.count();
        let key = self.required_text(&at.field("key"), &wire.key);
        let values = self.texts(&at.field("values"), &wire.values);
        let operator = self.operator(&at.field("operator"), &wire.operator, comparing)?;
        if let Some(what) = wrong_values(operator, &values) {
            self.problem(&at.field("values"), what);
        }
        (self.problems.count() == before).then_some(Requirement { key, operator, values })
    }

    fn operator(
        &mut self,
        at: &Path<'_>,
        operator: &Field<String>,
        comparing: Comparing,
    ) -> Option<Operator> {
        let name = self.required(at, operator)?;
        let known = match name.as_str() {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            "Gt" if comparing == Comparing::Integers => Some(Operator::Gt),
            "Lt" if comparing == Comparing::Integers => Some(Operator::Lt),
            _ => None,
        };
        if known.is_none() {
            self.unknown(at, name);
        }
        known
    }
}

/// Returns the requirement that a label has this value.
pub(super) fn equals((key, value): (Text, Text)) -> Requirement {
    Requirement { key, operator: Operator::In, values: vec![value] }
}

fn wrong_values(operator: Operator, values: &[Text]) -> Option<&'static str> {
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => Some("must not be empty"),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => Some("must be empty"),
        Operator::Gt | Operator::Lt => match values {
            [one] if one.parse::<i64>().is_ok() => None,
            [_] => Some("must be an integer"),
            _ => Some("must have one element"),
        },
        Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::Tables;
    use super::*;
    use berth_core::types::Labels;

    fn read<T>(read: impl FnOnce(&mut Reading<'_>) -> T) -> (T, Vec<String>) {
        let mut tables = Tables::default();
        let mut reading = Reading::of(&mut tables);
        let value = read(&mut reading);
        (value, reading.finish().iter().map(ToString::to_string).collect())
    }

    fn label_selector(json: &str) -> (Option<LabelSelector>, Vec<String>) {
        let wire: Field<k8s::LabelSelector> = serde_json::from_str(json).unwrap();
        read(|reading| reading.label_selector(&Path::Root("s"), &wire))
    }

    fn node_selector(json: &str) -> (NodeSelector, Vec<String>) {
        let wire: k8s::NodeSelector = serde_json::from_str(json).unwrap();
        read(|reading| reading.node_selector(&Path::Root("s"), &wire))
    }

    #[test]
    fn absent_and_empty_selectors_differ() {
        assert_eq!(label_selector("null"), (None, vec![]));
        assert_eq!(label_selector("{}"), (Some(LabelSelector::default()), vec![]));
    }

    #[test]
    fn labels_and_expressions_are_read() {
        let (selector, problems) = label_selector(
            r#"{"matchLabels":{"a":"1"},
                "matchExpressions":[{"key":"b","operator":"NotIn","values":["x"]}]}"#,
        );
        assert_eq!(problems, Vec::<String>::new());
        let selector = selector.unwrap();
        let labels = |v: &str| Labels::new(vec![("a".into(), "1".into()), ("b".into(), v.into())]);
        assert!(selector.selects(&labels("y")));
        assert!(!selector.selects(&labels("x")));
    }

    #[test]
    fn broken_label_selectors_select_nothing_and_say_why() {
        for (json, problem) in [
            (r#"[]"#, "s: is a list, not an object"),
            (
                r#"{"matchExpressions":[{"key":"a","operator":"Near"}]}"#,
                "s.matchExpressions[0].operator: unknown value \"Near\"",
            ),
            (
                r#"{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}"#,
                "s.matchExpressions[0].operator: unknown value \"Gt\"",
            ),
            (
                r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#,
                "s.matchExpressions[0].values: must not be empty",
            ),
            (
                r#"{"matchExpressions":[{"operator":"Exists"}]}"#,
                "s.matchExpressions[0].key: is missing",
            ),
            (r#"{"matchLabels":{"a":1}}"#, "s.matchLabels.a: is an integer, not a string"),
        ] {
            let (selector, problems) = label_selector(json);
            assert_eq!(problems, [problem]);
            assert!(!selector.unwrap().selects(&Labels::default()), "{json}");
        }
    }

    #[test]
    fn a_broken_node_term_matches_nothing_beside_a_good_one() {
        let good = r#"{"matchExpressions":[{"key":"a","operator":"Exists"}]}"#;
        let bad = r#"{"matchExpressions":[{"key":"a","operator":"Gt","values":["x"]}]}"#;
        let (selector, problems) =
            node_selector(&format!(r#"{{"nodeSelectorTerms":[{bad},{good}]}}"#));
        assert_eq!((selector.terms.len(), problems.len()), (1, 0));
        let (selector, problems) = node_selector(&format!(r#"{{"nodeSelectorTerms":[{bad}]}}"#));
        assert_eq!(selector.terms.len(), 0);
        let path = "s.nodeSelectorTerms[0].matchExpressions[0].values";
        assert_eq!(problems, [format!("{path}: must be an integer")]);
    }

    #[test]
    fn node_fields_are_names_only() {
        let (_, problems) = node_selector(
            r#"{"nodeSelectorTerms":[{"matchFields":[
                {"key":"spec.x","operator":"In","values":["a"]}]}]}"#,
        );
        assert_eq!(
            problems,
            ["s.nodeSelectorTerms[0].matchFields[0].key: unknown value \"spec.x\""]
        );
    }
}
