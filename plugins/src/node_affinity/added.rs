//! The argument `addedAffinity`, read and validated as kube-scheduler does.
//!
//! Source: `ValidateNodeAffinityArgs` (apis/config/validation), `NewNodeSelector` and
//! `NewPreferredSchedulingTerms` (component-helpers), `NewRequirement` (apimachinery/pkg/labels).

use berth_core::framework::Args;
use berth_core::types::{NodeSelector, NodeTerm, Operator, PreferredTerm, Requirement, Text};

use crate::shared::field::{int32, invalid, invalid_text, unsupported};
use crate::shared::label_key;

#[derive(Default)]
pub(super) struct Added {
    pub(super) required: Option<NodeSelector>,
    pub(super) preferred: Vec<PreferredTerm>,
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// In upstream's order, which its message shows.
const ON_LABELS: [(&str, Operator); 6] = [
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
    ("Gt", Operator::Gt),
    ("Lt", Operator::Lt),
];
const ON_FIELDS: [(&str, Operator); 2] = [("In", Operator::In), ("NotIn", Operator::NotIn)];

const VALUE_BYTES_MAX: usize = 63;
const VALUE_SHAPE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

pub(super) fn read(args: &Args) -> Added {
    let Some(affinity) = args.object("addedAffinity") else { return Added::default() };
    let required = affinity.object(REQUIRED).map(|selector| {
        let terms = selector.objects("nodeSelectorTerms").iter().map(term).collect();
        selector.finish();
        NodeSelector { terms }
    });
    let preferred = affinity.objects(PREFERRED).iter().filter_map(preferred).collect();
    affinity.finish();
    Added { required, preferred }
}

/// Returns nothing for a term without weight, which upstream does not even look at.
fn preferred(args: &Args) -> Option<PreferredTerm> {
    let weight = int32(args, "weight").unwrap_or(0);
    if weight == 0 {
        args.raw("preference");
        args.finish();
        return None;
    }
    let term = args.object("preference").map(|preference| term(&preference));
    args.finish();
    Some(PreferredTerm { weight, term: term? })
}

fn term(args: &Args) -> NodeTerm {
    let mut term = NodeTerm {
        labels: args.objects("matchExpressions").iter().filter_map(on_label).collect(),
        names: Vec::new(),
    };
    for requirement in args.objects("matchFields").iter().filter_map(on_field) {
        if requirement.key == "metadata.name" {
            term.names.push(requirement);
        } else {
            term.labels.push(on_missing_field(&requirement));
        }
    }
    args.finish();
    term
}

/// Upstream admits other fields than the name, and nodes have none of them: they read as empty.
/// The requirement is replaced by one that always or never holds.
fn on_missing_field(requirement: &Requirement) -> Requirement {
    let holds = requirement.accepts(Some(""));
    let operator = if holds { Operator::NotIn } else { Operator::In };
    Requirement { key: Text::default(), operator, values: Vec::new() }
}

fn on_label(args: &Args) -> Option<Requirement> {
    let requirement = read_requirement(args, &ON_LABELS)?;
    label_key::check(args, "key", &requirement.key);
    let values = &requirement.values;
    let shown = format!("{:?}", values.iter().map(Text::as_str).collect::<Vec<_>>());
    match requirement.operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            let detail = "for 'in', 'notin' operators, values set can't be empty";
            args.error("values", invalid(shown, detail));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            let detail = "values set must be empty for exists and does not exist";
            args.error("values", invalid(shown, detail));
        }
        Operator::Gt | Operator::Lt => check_bound(args, values, shown),
        Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {}
    }
    for (at, value) in values.iter().enumerate() {
        check_label_value(args, &format!("values[{at}]"), value);
    }
    Some(requirement)
}

fn check_bound(args: &Args, values: &[Text], shown: String) {
    if values.len() != 1 {
        let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
        args.error("values", invalid(shown, detail));
    }
    for (at, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
        let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
        args.error(&format!("values[{at}]"), invalid_text(value, detail));
    }
}

fn on_field(args: &Args) -> Option<Requirement> {
    let requirement = read_requirement(args, &ON_FIELDS)?;
    if requirement.values.len() != 1 {
        let shown: Vec<&str> = requirement.values.iter().map(Text::as_str).collect();
        args.error("values", invalid(format!("{shown:?}"), "must have one element"));
    }
    Some(requirement)
}

fn read_requirement(args: &Args, operators: &[(&str, Operator)]) -> Option<Requirement> {
    let key = args.text("key").unwrap_or_default();
    let values = args.texts("values");
    let name = args.text("operator").unwrap_or_default();
    args.finish();
    let Some((_, operator)) = operators.iter().find(|(known, _)| name == *known) else {
        let known: Vec<&str> = operators.iter().map(|(known, _)| *known).collect();
        args.error("operator", unsupported(&name, &known));
        return None;
    };
    Some(Requirement { key, operator: *operator, values })
}

/// Source: `IsLabelValue` of k8s.io/apimachinery/pkg/api/validate/content.
fn check_label_value(args: &Args, key: &str, value: &str) {
    if value.len() > VALUE_BYTES_MAX {
        let detail = format!("must be no more than {VALUE_BYTES_MAX} bytes");
        args.error(key, invalid_text(value, detail));
    }
    let bytes = value.as_bytes();
    let edge = |c: Option<&u8>| c.is_none_or(u8::is_ascii_alphanumeric);
    let inner = |c: &u8| c.is_ascii_alphanumeric() || b"-_.".contains(c);
    if !(edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)) {
        args.error(key, invalid_text(value, VALUE_SHAPE));
    }
}
