//! Taints, tolerations and selectors in the notation.

use crate::types::pod::TolerationOperator;
use crate::types::{
    LabelSelector, NodeSelector, NodeTerm, Operator, Requirement, Taint, TaintEffect, Text,
    Toleration,
};

use super::words;

/// The key that stands for the field metadata.name in a node term.
const NAME_FIELD: &str = "@name";

fn effect(text: &str) -> Result<TaintEffect, String> {
    match text {
        "NoSchedule" => Ok(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Ok(TaintEffect::PreferNoSchedule),
        "NoExecute" => Ok(TaintEffect::NoExecute),
        _ => Err(format!("unknown effect {text:?}")),
    }
}

/// Reads `key=value:Effect` or `key:Effect`.
pub fn taint(text: &str) -> Result<Taint, String> {
    let (left, right) = text.rsplit_once(':').ok_or("a taint needs an effect")?;
    let (key, value) = left.split_once('=').unwrap_or((left, ""));
    Ok(Taint { key: key.into(), value: value.into(), effect: effect(right)? })
}

/// Reads `key=value`, `key` (exists), `*` (every key), `key<5`, `key>5`, each with `:Effect` or
/// without (every effect).
pub fn toleration(text: &str) -> Result<Toleration, String> {
    let (left, effect) = match text.rsplit_once(':') {
        Some((left, right)) => (left, Some(effect(right)?)),
        None => (text, None),
    };
    let found = left.find(['=', '<', '>']).map(|at| (at, left.as_bytes()[at]));
    let (key, operator, value) = match found {
        Some((at, b'=')) => (&left[..at], TolerationOperator::Equal, &left[at + 1..]),
        Some((at, b'<')) => (&left[..at], TolerationOperator::Lt, &left[at + 1..]),
        Some((at, _)) => (&left[..at], TolerationOperator::Gt, &left[at + 1..]),
        None if left == "*" => ("", TolerationOperator::Exists, ""),
        None => (left, TolerationOperator::Exists, ""),
    };
    Ok(Toleration { key: key.into(), operator, value: value.into(), effect })
}

/// Reads one requirement; see the notation in [`super`].
pub fn requirement(text: &str) -> Result<Requirement, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (key, operator, values) = match words.as_slice() {
        [pair] => {
            let (key, value) = pair.split_once('=').ok_or_else(|| bad_requirement(text))?;
            (key, Operator::In, vec![Text::from(value)])
        }
        [key, "exists"] => (*key, Operator::Exists, Vec::new()),
        [key, "absent"] => (*key, Operator::DoesNotExist, Vec::new()),
        [key, "in", values] => (*key, Operator::In, words::texts(values)),
        [key, "notin", values] => (*key, Operator::NotIn, words::texts(values)),
        [key, ">", value] => (*key, Operator::Gt, vec![Text::from(*value)]),
        [key, "<", value] => (*key, Operator::Lt, vec![Text::from(*value)]),
        _ => return Err(bad_requirement(text)),
    };
    Ok(Requirement { key: key.into(), operator, values })
}

fn bad_requirement(text: &str) -> String {
    format!("{text:?} is no requirement")
}

fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    text.split(';').filter(|part| !part.trim().is_empty()).map(requirement).collect()
}

/// Reads requirements joined by `;`. `*` selects everything.
pub fn label_selector(text: &str) -> Result<LabelSelector, String> {
    let text = if text.trim() == "*" { "" } else { text };
    Ok(LabelSelector { requirements: requirements(text)? })
}

/// Reads one node term: requirements joined by `;`.
pub fn node_term(text: &str) -> Result<NodeTerm, String> {
    let (names, labels) =
        requirements(text)?.into_iter().partition(|requirement| requirement.key == NAME_FIELD);
    let renamed = |requirement| Requirement { key: "metadata.name".into(), ..requirement };
    let names: Vec<Requirement> = names;
    Ok(NodeTerm { labels, names: names.into_iter().map(renamed).collect() })
}

/// Reads node terms joined by `|`.
pub fn node_selector(text: &str) -> Result<NodeSelector, String> {
    Ok(NodeSelector { terms: text.split('|').map(node_term).collect::<Result<_, _>>()? })
}
