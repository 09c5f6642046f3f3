//! Namespaces, and the services and controllers that select pods.

use berth_core::types::workload::{Namespace, PodSelectorOwner, SelectorKind};
use berth_core::types::{LabelSelector, Labels, Text};

use super::field::{Field, Map};
use super::k8s::workload as k8s;
use super::meta::Meta;
use super::problem::{Path, Problem};
use super::reading::Reading;
use super::selector;
use super::tables::Tables;

/// The label by which namespace selectors name one namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Returns the namespace; the label with its name is added as the API server adds it.
pub fn namespace(namespace: k8s::Namespace, tables: &mut Tables) -> (Namespace, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let name = reading.name(&namespace.metadata);
    let labels = reading.labels(&namespace.metadata);
    let name_label = (reading.tables.intern(NAMESPACE_NAME), name.clone());
    let labels: Labels = if labels.value(NAMESPACE_NAME).is_some() {
        labels
    } else {
        labels.iter().cloned().chain([name_label]).collect()
    };
    (Namespace { name, labels }, reading.finish())
}

/// Returns the owner; a service without selector selects nothing.
pub fn service(service: k8s::Service, tables: &mut Tables) -> (PodSelectorOwner, Vec<Problem>) {
    let meta = &service.metadata;
    with_map(SelectorKind::Service, meta, &service.spec, tables)
}

pub fn replication_controller(
    controller: k8s::ReplicationController,
    tables: &mut Tables,
) -> (PodSelectorOwner, Vec<Problem>) {
    let meta = &controller.metadata;
    with_map(SelectorKind::ReplicationController, meta, &controller.spec, tables)
}

pub fn replica_set(set: k8s::ReplicaSet, tables: &mut Tables) -> (PodSelectorOwner, Vec<Problem>) {
    with_selector(SelectorKind::ReplicaSet, &set.metadata, &set.spec, tables)
}

pub fn stateful_set(
    set: k8s::StatefulSet,
    tables: &mut Tables,
) -> (PodSelectorOwner, Vec<Problem>) {
    with_selector(SelectorKind::StatefulSet, &set.metadata, &set.spec, tables)
}

fn with_map(
    kind: SelectorKind,
    meta: &Meta,
    spec: &Field<k8s::MapSelectorSpec>,
    tables: &mut Tables,
) -> (PodSelectorOwner, Vec<Problem>) {
    let absent = Field::Absent;
    owner(kind, meta, tables, |reading, at| {
        let map: &Field<Map<String>> = reading.opt(at, spec).map_or(&absent, |s| &s.selector);
        let before = reading.problems.count();
        let labels = reading.pairs(&at.field("selector"), map);
        if reading.problems.count() > before {
            return selector::nothing();
        }
        of_labels(labels)
    })
}

fn with_selector(
    kind: SelectorKind,
    meta: &Meta,
    spec: &Field<k8s::LabelSelectorSpec>,
    tables: &mut Tables,
) -> (PodSelectorOwner, Vec<Problem>) {
    let absent = Field::Absent;
    owner(kind, meta, tables, |reading, at| {
        let wire = reading.opt(at, spec).map_or(&absent, |s| &s.selector);
        reading.label_selector(&at.field("selector"), wire).unwrap_or_else(selector::nothing)
    })
}

fn owner(
    kind: SelectorKind,
    meta: &Meta,
    tables: &mut Tables,
    read: impl FnOnce(&mut Reading<'_>, &Path<'_>) -> LabelSelector,
) -> (PodSelectorOwner, Vec<Problem>) {
    let mut reading = Reading::of(tables);
    let owner = PodSelectorOwner {
        kind,
        namespace: reading.namespace(meta),
        name: reading.name(meta),
        selector: read(&mut reading, &Path::Root("spec")),
    };
    (owner, reading.finish())
}

fn of_labels(labels: Vec<(Text, Text)>) -> LabelSelector {
    if labels.is_empty() {
        return selector::nothing();
    }
    LabelSelector { requirements: labels.into_iter().map(selector::equals).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(value: &str) -> Labels {
        Labels::new(vec![("app".into(), value.into())])
    }

    #[test]
    fn a_namespace_carries_its_name_as_a_label() {
        let wire = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        let (namespace, problems) = namespace(wire, &mut Tables::default());
        assert_eq!(namespace.labels.value(NAMESPACE_NAME).unwrap(), "a");
        assert_eq!(problems, []);
    }

    #[test]
    fn a_service_without_selector_selects_nothing() {
        let read = |spec| {
            let json = json!({"metadata": {"name": "s"}, "spec": spec});
            service(serde_json::from_value(json).unwrap(), &mut Tables::default()).0
        };
        assert!(!read(json!({})).selector.selects(&labels("a")));
        let with = read(json!({"selector": {"app": "a"}}));
        assert!(with.selector.selects(&labels("a")));
        assert_eq!((with.namespace.as_str(), with.kind), ("default", SelectorKind::Service));
    }

    #[test]
    fn a_broken_selector_selects_nothing() {
        let json = json!({
            "metadata": {"name": "r", "namespace": "x"},
            "spec": {"selector": {"matchLabels": {"app": ["a"]}}},
        });
        let wire = serde_json::from_value(json).unwrap();
        let (owner, problems) = replica_set(wire, &mut Tables::default());
        assert!(!owner.selector.selects(&labels("a")));
        let problem = "spec.selector.matchLabels.app: is a list, not a string";
        assert_eq!(problems[0].to_string(), problem);
    }
}
