//! Object metadata: what scheduling reads of it; managedFields and the like are skipped at decode.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess};

use berth_core::types::Timestamp;
use berth_core::types::group::PLAN_ANNOTATION;

use super::dialect;
use super::field::{Field, List, Map, Shape, object_shape};
use super::pod::SHARE_ANNOTATIONS;
use super::topology::GPU_TOPOLOGY;

/// The class of claims and volumes, from before the field existed.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// On claims that a scheduler made for extended resources.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// Annotations that something in Berth reads, beside those of the dialects of groups and those that
/// ask for parts of GPUs; all others are skipped.
pub const ANNOTATIONS: [&str; 6] = [
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    SELECTED_NODE,
    EXTENDED_RESOURCE_CLAIM,
    PLAN_ANNOTATION,
    GPU_TOPOLOGY,
];

/// `metadata` in the form that kube asks for, and what couldn't be understood of it.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    pub object: ObjectMeta,
    pub problems: Vec<MetaProblem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProblem {
    pub field: &'static str,
    pub what: String,
}

impl Meta {
    /// Returns the resource version as a number; 0 if there is none, or one that is no number.
    pub fn resource_version(&self) -> u64 {
        self.object.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub fn terminating(&self) -> bool {
        self.object.deletion_timestamp.is_some()
    }

    pub fn created(&self) -> Timestamp {
        self.object.creation_timestamp.as_ref().map(timestamp).unwrap_or_default()
    }

    /// Returns the reference to the object's controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.object.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }
}

/// Returns milliseconds since 1970; earlier times are 0.
pub fn timestamp(time: &Time) -> Timestamp {
    Timestamp(u64::try_from(time.0.as_millisecond()).unwrap_or(0))
}

/// Reads a time as Kubernetes writes it (RFC 3339).
pub fn parse_time(text: &str) -> Option<Time> {
    text.parse::<jiff::Timestamp>().ok().map(Time)
}

/// A time that few readers ask for: it is kept as it came, and understood only then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    bytes: [u8; STAMP_MAX],
    length: usize,
}

/// As long as a time is with nanoseconds; a longer text is none.
const STAMP_MAX: usize = 32;

impl Stamp {
    /// Returns the time, `None` if it can't be understood.
    pub fn time(&self) -> Option<Timestamp> {
        let text = std::str::from_utf8(self.bytes.get(..self.length)?).ok()?;
        parse_time(text).as_ref().map(timestamp)
    }
}

impl Shape for Stamp {
    const WANTED: &'static str = "a time";

    fn text(text: &str) -> Option<Stamp> {
        let mut stamp = Stamp { length: text.len(), ..Stamp::default() };
        if let Some(bytes) = stamp.bytes.get_mut(..text.len()) {
            bytes.copy_from_slice(text.as_bytes());
        }
        Some(stamp)
    }
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Meta, D::Error> {
        Ok(match Field::<Raw>::deserialize(deserializer)? {
            Field::Is(raw) => raw.into_meta(),
            Field::Absent => Meta::default(),
            Field::Odd(shape) => {
                let what = format!("metadata is {shape}, not an object");
                Meta { problems: vec![MetaProblem { field: "name", what }], ..Meta::default() }
            }
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Raw {
    name: Field<String>,
    namespace: Field<String>,
    uid: Field<String>,
    resource_version: Field<String>,
    generation: Field<i64>,
    labels: Field<Map<String>>,
    annotations: Field<Annotations>,
    creation_timestamp: Field<String>,
    deletion_timestamp: Field<String>,
    owner_references: Field<List<RawOwner>>,
    finalizers: Field<List<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawOwner {
    api_version: Field<String>,
    kind: Field<String>,
    name: Field<String>,
    uid: Field<String>,
    controller: Field<bool>,
}

object_shape!(Raw, RawOwner);

fn is_read(annotation: &str) -> bool {
    ANNOTATIONS.contains(&annotation)
        || SHARE_ANNOTATIONS.contains(&annotation)
        || dialect::reads_annotation(annotation)
}

/// The annotations that are read.
struct Annotations(BTreeMap<String, String>);

impl Shape for Annotations {
    const WANTED: &'static str = "an object";
    fn object<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Option<Self>, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !is_read(&key) {
                entries.next_value::<IgnoredAny>()?;
            } else if let Field::Is(value) = entries.next_value::<Field<String>>()? {
                kept.insert(key, value);
            }
        }
        Ok(Some(Annotations(kept)))
    }
}

impl Raw {
    fn into_meta(self) -> Meta {
        let mut problems = Vec::new();
        let problems_ref = &mut problems;
        let object = ObjectMeta {
            name: take(problems_ref, "name", self.name),
            namespace: take(problems_ref, "namespace", self.namespace),
            uid: take(problems_ref, "uid", self.uid),
            resource_version: take(problems_ref, "resourceVersion", self.resource_version),
            generation: take(problems_ref, "generation", self.generation),
            labels: take(problems_ref, "labels", self.labels).map(|l| labels(problems_ref, l)),
            annotations: take(problems_ref, "annotations", self.annotations).map(|a| a.0),
            creation_timestamp: time(problems_ref, "creationTimestamp", self.creation_timestamp),
            deletion_timestamp: time(problems_ref, "deletionTimestamp", self.deletion_timestamp),
            owner_references: take(problems_ref, "ownerReferences", self.owner_references)
                .map(|list| owners(problems_ref, list)),
            finalizers: take(problems_ref, "finalizers", self.finalizers)
                .map(|list| finalizers(problems_ref, list)),
            ..ObjectMeta::default()
        };
        Meta { object, problems }
    }
}

fn take<T: Shape>(
    problems: &mut Vec<MetaProblem>,
    field: &'static str,
    value: Field<T>,
) -> Option<T> {
    match value {
        Field::Is(value) => Some(value),
        Field::Absent => None,
        Field::Odd(shape) => {
            problems.push(MetaProblem { field, what: format!("is {shape}, not {}", T::WANTED) });
            None
        }
    }
}

/// Labels with an odd value are left out. One problem is told, however many there are.
fn labels(problems: &mut Vec<MetaProblem>, labels: Map<String>) -> BTreeMap<String, String> {
    let n_all = labels.len();
    let kept: BTreeMap<String, String> = labels
        .into_iter()
        .filter_map(|(key, value)| match value {
            Field::Is(value) => Some((key, value)),
            Field::Absent => Some((key, String::new())),
            Field::Odd(_) => None,
        })
        .collect();
    if kept.len() < n_all {
        let what = format!("{} of {n_all} labels have no string value", n_all - kept.len());
        problems.push(MetaProblem { field: "labels", what });
    }
    kept
}

/// A time that is there but unreadable is the epoch: that it is there matters for deletion.
fn time(
    problems: &mut Vec<MetaProblem>,
    field: &'static str,
    value: Field<String>,
) -> Option<Time> {
    let known = match &value {
        Field::Absent => return None,
        Field::Is(text) => parse_time(text),
        Field::Odd(_) => None,
    };
    Some(known.unwrap_or_else(|| {
        problems.push(MetaProblem { field, what: "is not a time".to_owned() });
        Time(jiff::Timestamp::UNIX_EPOCH)
    }))
}

fn owners(problems: &mut Vec<MetaProblem>, list: List<RawOwner>) -> Vec<OwnerReference> {
    let mut owners = Vec::new();
    for owner in list {
        let Some(owner) = take(problems, "ownerReferences", owner) else { continue };
        let mut text = |value| take(problems, "ownerReferences", value).unwrap_or_default();
        owners.push(OwnerReference {
            api_version: text(owner.api_version),
            kind: text(owner.kind),
            name: text(owner.name),
            uid: text(owner.uid),
            controller: take(problems, "ownerReferences", owner.controller),
            block_owner_deletion: None,
        });
    }
    owners
}

fn finalizers(problems: &mut Vec<MetaProblem>, list: List<String>) -> Vec<String> {
    list.into_iter().filter_map(|name| take(problems, "finalizers", name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(json: &str) -> Meta {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_scheduling_reads_is_kept_and_the_rest_skipped() {
        let meta = meta(
            r#"{"name":"a","resourceVersion":"42","managedFields":[{"manager":"m"}],
                "annotations":{"x":"y","pv.kubernetes.io/bind-completed":"yes"},
                "creationTimestamp":"1970-01-01T00:00:01Z",
                "ownerReferences":[{"kind":"Job","name":"j","uid":"u","controller":true}]}"#,
        );
        assert_eq!((meta.resource_version(), meta.created()), (42, Timestamp(1000)));
        assert_eq!(meta.annotation(BIND_COMPLETED), Some("yes"));
        assert_eq!(meta.annotation("x"), None);
        assert!(meta.object.managed_fields.is_none());
        assert_eq!(meta.controller().unwrap().kind, "Job");
        assert_eq!(meta.problems, []);
    }

    #[test]
    fn an_unreadable_deletion_time_still_means_terminating() {
        let meta = meta(r#"{"name":"a","deletionTimestamp":7,"labels":{"a":1,"b":"2"}}"#);
        assert!(meta.terminating());
        assert_eq!(meta.object.labels.as_ref().unwrap().len(), 1);
        assert_eq!(meta.problems.len(), 2);
    }

    #[test]
    fn a_stamp_is_understood_when_it_is_asked_for() {
        let stamp = |text: &str| Stamp::text(text).unwrap().time();
        assert_eq!(stamp("1970-01-01T00:00:02Z"), Some(Timestamp(2000)));
        assert_eq!(stamp("1970-01-01T00:00:02.500000Z"), Some(Timestamp(2500)));
        for text in ["", "yesterday", "1970-01-01T00:00:02.0000000000000000Z"] {
            assert_eq!(stamp(text), None, "{text}");
        }
    }

    #[test]
    fn metadata_of_another_shape_is_a_problem() {
        assert_eq!(meta("[1]").problems[0].what, "metadata is a list, not an object");
    }
}
