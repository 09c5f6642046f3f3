//! Documents as what an API server would hold: phases, ages, priorities, and what is ignored.

use std::collections::{BTreeMap, BTreeSet};

use berth_core::types::group::NATIVE;
use berth_core::types::{ResourceClaim, Timestamp};
use serde_json::{Value, json};

use crate::config;
use crate::gates::Gates;
use crate::wire::{self, Kind, Object, Tables};

use super::claims::{self, Templates};
use super::input::{Document, InputError};
use super::priorities::Priorities;

/// Documents with this annotation and the value "2" are applied when all else has settled.
pub const PHASE: &str = "scenario.test/phase";

/// Problems told in full; each costs another look at its document.
const ERRORS_MAX: usize = 20;

/// The files as one cluster.
#[derive(Debug, Default)]
pub struct Objects {
    pub configuration: Option<Document>,
    /// One or two, in order.
    pub phases: Vec<Phase>,
    /// Documents whose kind says nothing to the scheduler, by `kind (apiVersion)`.
    pub ignored: BTreeMap<String, usize>,
    /// What the user should know about the input.
    pub notes: Vec<String>,
}

/// What is applied at one moment.
#[derive(Debug, Default)]
pub struct Phase {
    /// Pods last and oldest first, the rest as in the files.
    pub objects: Vec<Object>,
    /// What the ResourceClaimTemplates describe, by `namespace/name`.
    pub templates: Templates,
}

/// Everything wrong with the files.
#[derive(Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines().join("\n"))]
pub struct InputErrors {
    pub told: Vec<InputError>,
    /// How many more there are.
    pub untold: usize,
}

impl InputErrors {
    pub fn lines(&self) -> Vec<String> {
        let more = (self.untold > 0).then(|| format!("and {} more problems", self.untold));
        self.told.iter().map(InputError::to_string).chain(more).collect()
    }

    fn add(&mut self, document: &Document, path: &str, what: impl std::fmt::Display) {
        if self.told.len() < ERRORS_MAX {
            self.told.push(document.error(path, what));
        } else {
            self.untold += 1;
        }
    }
}

impl From<Vec<InputError>> for InputErrors {
    fn from(mut told: Vec<InputError>) -> InputErrors {
        let untold = told.len().saturating_sub(ERRORS_MAX);
        told.truncate(ERRORS_MAX);
        InputErrors { told, untold }
    }
}

/// Sorts documents into phases and decodes them.
///
/// # Errors
/// Every problem of every document: fields that can't be understood, names or UIDs that two pods
/// share, a second configuration, a PriorityClass that is named and not there.
pub fn gather(documents: Vec<Document>, gates: &Gates) -> Result<Objects, InputErrors> {
    let priorities = Priorities::of(&documents);
    let tables = Tables::new(gates.enabled("TaintTolerationComparisonOperators"));
    let mut gathering = Gathering { priorities, tables, ..Gathering::default() };
    let mut phases = [Vec::new(), Vec::new()];
    for document in documents {
        if document.kind() == config::KIND {
            gathering.configuration(document);
            continue;
        }
        match phase_of(&document) {
            Ok(phase) => phases[phase].push(document),
            Err(what) => {
                gathering.errors.add(&document, &format!("metadata.annotations[{PHASE}]"), what);
            }
        }
    }
    let n_phases = if phases[1].is_empty() { 1 } else { 2 };
    for documents in phases.into_iter().take(n_phases) {
        let phase = gathering.phase(documents);
        gathering.objects.phases.push(phase);
    }
    match gathering.errors {
        InputErrors { told, .. } if told.is_empty() => Ok(gathering.objects),
        errors => Err(errors),
    }
}

fn phase_of(document: &Document) -> Result<usize, &'static str> {
    let annotations = document.value.pointer("/metadata/annotations");
    match annotations.and_then(|a| a.get(PHASE)) {
        None => Ok(0),
        Some(Value::String(phase)) if phase == "1" => Ok(0),
        Some(Value::String(phase)) if phase == "2" => Ok(1),
        Some(_) => Err("must be \"1\" or \"2\""),
    }
}

#[derive(Default)]
struct Gathering {
    objects: Objects,
    errors: InputErrors,
    tables: Tables,
    priorities: Priorities,
    /// The pod of each UID: two pods with one would be one pod to the scheduler.
    uids: BTreeMap<String, String>,
}

impl Gathering {
    fn configuration(&mut self, document: Document) {
        if let Some(first) = &self.objects.configuration {
            let what = format!("another {}; the first is in {}", config::KIND, first.place);
            self.errors.add(&document, "", what);
        } else {
            self.objects.configuration = Some(document);
        }
    }

    fn phase(&mut self, documents: Vec<Document>) -> Phase {
        let mut phase = Phase::default();
        let mut pods = Vec::new();
        let mut youngest = Timestamp::default();
        for document in self.last_of_each_name(documents) {
            match Kind::of(&document.value) {
                Some(kind) => {
                    let Some(object) = self.decode(kind, &document) else { continue };
                    let Object::Pod(pod) = object else {
                        phase.objects.push(object);
                        continue;
                    };
                    // A pod without a time is as old as its place in the files says.
                    youngest = youngest.max(pod.created);
                    let age = if pod.created.0 == 0 { youngest } else { pod.created };
                    pods.push((age, Object::Pod(pod)));
                }
                None if is_template(&document) => {
                    let claim = self.template(&document);
                    phase.templates.extend(claim.map(|it| (document.namespaced_name(), it)));
                }
                None => self.ignore(&document),
            }
        }
        pods.sort_by_key(|(age, _)| *age);
        phase.objects.extend(pods.into_iter().map(|(_, pod)| pod));
        phase
    }

    /// Drops what a later document of the same kind and name replaces, as `kubectl apply` would.
    fn last_of_each_name(&mut self, documents: Vec<Document>) -> Vec<Document> {
        let mut seen = BTreeSet::new();
        let mut kept = Vec::with_capacity(documents.len());
        for document in documents.into_iter().rev() {
            let key = (document.api_version().to_owned(), document.kind().to_owned());
            if document.name().is_empty() || seen.insert((key, document.namespaced_name())) {
                kept.push(document);
            } else {
                let (kind, name) = (document.kind(), document.name());
                let note = format!("{}: {kind} {name} is replaced further on", document.place);
                self.objects.notes.push(note);
            }
        }
        kept.reverse();
        kept
    }

    fn decode(&mut self, kind: Kind, document: &Document) -> Option<Object> {
        let mut value = document.value.clone();
        if kind == Kind::Pod {
            self.check_uid(document);
        }
        if has_priority(kind)
            && let Err(what) = self.priorities.resolve(&mut value)
        {
            self.errors.add(document, "spec.priorityClassName", what);
        }
        match wire::decode(kind, value, &mut self.tables) {
            Ok(decoded) => {
                for problem in &decoded.problems {
                    self.errors.add(document, &problem.path, &problem.what);
                }
                Some(with_uid(decoded.object))
            }
            Err(error) => {
                self.errors.add(document, "metadata", error);
                None
            }
        }
    }

    /// Returns a claim as the template describes it.
    fn template(&mut self, document: &Document) -> Option<ResourceClaim> {
        let at = |pointer| document.value.pointer(pointer).cloned().unwrap_or_default();
        let claim = json!({
            "metadata": {"name": document.name(), "namespace": at("/metadata/namespace")},
            "spec": at("/spec/spec"),
        });
        match wire::decode(Kind::ResourceClaim, claim, &mut self.tables) {
            Ok(decoded) => {
                for problem in &decoded.problems {
                    self.errors.add(document, &format!("spec.{}", problem.path), &problem.what);
                }
                match decoded.object {
                    Object::ResourceClaim(claim) => Some(*claim),
                    _ => None,
                }
            }
            Err(error) => {
                self.errors.add(document, "metadata", error);
                None
            }
        }
    }

    fn check_uid(&mut self, document: &Document) {
        let Some(uid) = document.text_at("/metadata/uid").filter(|uid| !uid.is_empty()) else {
            return;
        };
        let name = document.namespaced_name();
        match self.uids.get(uid) {
            Some(other) if *other != name => {
                let what = format!("pod {other} has the same UID");
                self.errors.add(document, "metadata.uid", what);
            }
            Some(_) => {}
            None => {
                self.uids.insert(uid.to_owned(), name);
            }
        }
    }

    /// PriorityClasses have been read already.
    fn ignore(&mut self, document: &Document) {
        if !Priorities::reads(document) {
            let kind = format!("{} ({})", document.kind(), document.api_version());
            *self.objects.ignored.entry(kind).or_default() += 1;
        }
    }
}

/// The API server makes numbers of the classes of its own kinds only.
fn has_priority(kind: Kind) -> bool {
    match kind {
        Kind::Pod => true,
        Kind::Group(object) => object.dialect() == NATIVE,
        _ => false,
    }
}

/// Nothing is scheduled by a template itself.
fn is_template(document: &Document) -> bool {
    let api_version = document.api_version();
    document.kind() == "ResourceClaimTemplate" && api_version == Kind::ResourceClaim.names().0
}

/// Gives a UID to what the ledger knows by it and no server has seen.
fn with_uid(mut object: Object) -> Object {
    match &mut object {
        Object::ResourceClaim(claim) if claim.uid.is_empty() => {
            claim.uid = claims::own_uid(&claim.key);
        }
        Object::ResourceSlice(slice) if slice.uid.is_empty() => slice.uid = slice.name.clone(),
        Object::PodGroup(group) if group.uid.is_empty() => {
            group.uid = format!("{}/{}", group.key.dialect.name, group.key).into();
        }
        _ => {}
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::input::read;

    fn objects(text: &str) -> Result<Objects, InputErrors> {
        gather(read("f", text).unwrap(), &Gates::default())
    }

    fn pod(name: &str, more: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{more}}}\nspec: {{containers: [{{name: c}}]}}\n"
        )
    }

    #[test]
    fn pods_are_ordered_by_age_then_place() {
        let text = [
            pod("c", ", creationTimestamp: '2026-01-02T00:00:00Z'"),
            pod("a", ", creationTimestamp: '2026-01-01T00:00:00Z'"),
            pod("new", ""),
            pod("b", ", creationTimestamp: '2026-01-01T00:00:00Z'"),
        ];
        let objects = objects(&text.concat()).unwrap();
        let name = |object: &Object| match object {
            Object::Pod(pod) => pod.name.to_string(),
            other => panic!("{other:?}"),
        };
        let names: Vec<String> = objects.phases[0].objects.iter().map(name).collect();
        assert_eq!(names, ["a", "b", "c", "new"]);
    }

    #[test]
    fn phases_ignored_kinds_and_replaced_documents() {
        let group = "---\napiVersion: x/v1\nkind: Group\nmetadata: {name: g, annotations: {scenario.test/phase: '2'}}\n";
        let text = [pod("a", ""), pod("a", ", labels: {x: y}"), group.to_owned()];
        let objects = objects(&text.concat()).unwrap();
        assert_eq!((objects.phases.len(), objects.phases[0].objects.len()), (2, 1));
        assert_eq!(objects.ignored.get("Group (x/v1)"), Some(&1));
        assert_eq!(objects.notes, ["f: document 1, line 2: Pod a is replaced further on"]);
    }

    #[test]
    fn groups_are_read_in_every_dialect_and_native_ones_get_their_priority() {
        let text = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: vip}, value: 7}\n---\n\
                    {apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: a}, spec: {schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: vip}}\n---\n\
                    {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: a}, spec: {minMember: 3}}\n---\n\
                    {apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: a}, spec: {minMember: 4, priorityClassName: vip}}\n";
        let objects = objects(text).unwrap();
        let group = |object: &Object| match object {
            Object::PodGroup(group) => {
                (group.uid.to_string(), format!("{:?}", group.quorum), group.priority)
            }
            other => panic!("{other:?}"),
        };
        let groups: Vec<_> = objects.phases[0].objects.iter().map(group).collect();
        let expected = [
            ("native/default/a", "AtLeast(2)", Some(7)),
            ("coscheduling/default/a", "AtLeast(3)", None),
            ("volcano/default/a", "AtLeast(4)", None),
        ];
        let owned =
            |(uid, quorum, priority): (&str, &str, _)| (uid.into(), quorum.into(), priority);
        assert_eq!(groups, expected.map(owned));
        assert!(objects.ignored.is_empty(), "{:?}", objects.ignored);
    }

    #[test]
    fn problems_are_told_with_file_document_line_and_path() {
        let text = [
            pod("a", ", uid: u"),
            pod("b", ", uid: u"),
            pod("c", ", annotations: {scenario.test/phase: '3'}"),
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n\nstatus:\n  allocatable:\n    cpu: 4 cores\n".into(),
        ];
        let errors = objects(&text.concat()).unwrap_err().lines();
        assert_eq!(errors.len(), 3, "{errors:#?}");
        assert!(errors[0].starts_with("f: document 3, line 14: metadata.annotations[scenario"));
        assert_eq!(
            errors[1],
            "f: document 2, line 9: metadata.uid: pod default/a has the same UID"
        );
        assert!(errors[2].starts_with("f: document 4, line 23: status.allocatable.cpu: "));
    }
}
