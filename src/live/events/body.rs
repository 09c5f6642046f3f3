//! The JSON of an event, within the bounds of the API server's validation.

use std::sync::atomic::{AtomicU64, Ordering};

use berth_core::types::Text;
use k8s_openapi::jiff;
use serde::{Serialize, Serializer};

use super::{Happening, Subject, What};

/// Bytes of a note. Source: validation of events.k8s.io/v1.
const NOTE_MAX: usize = 1024;
const NOTE_TAIL: &str = " ...";
/// Bytes of `reportingInstance`. Source: as above.
const INSTANCE_MAX: usize = 128;
/// Bytes of a name, of which 17 are `.` and the digits.
const NAME_MAX: usize = 253;

/// An event as the server takes it. Typed, because one is written for each pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    event_time: String,
    r#type: &'static str,
    reason: &'static str,
    action: &'static str,
    note: String,
    regarding: Regarding,
    #[serde(serialize_with = "text")]
    reporting_controller: Text,
    reporting_instance: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) series: Option<Series>,
}

#[derive(Clone, Debug, Serialize)]
struct Metadata {
    name: String,
    #[serde(serialize_with = "text")]
    namespace: Text,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Regarding {
    api_version: &'static str,
    kind: &'static str,
    #[serde(serialize_with = "text", skip_serializing_if = "is_empty")]
    namespace: Text,
    #[serde(serialize_with = "text")]
    name: Text,
    #[serde(serialize_with = "text")]
    uid: Text,
}

/// What a series adds to its event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Series {
    pub(super) count: u32,
    last_observed_time: String,
}

fn text<S: Serializer>(text: &Text, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn is_empty(text: &Text) -> bool {
    text.is_empty()
}

/// Returns the event as it is created.
pub(super) fn event(happening: &Happening, name: &str, hostname: &str) -> Event {
    let (reason, action, kind) = match happening.what {
        What::Scheduled => ("Scheduled", "Binding", "Normal"),
        What::FailedScheduling => ("FailedScheduling", "Scheduling", "Warning"),
        What::Waits(reason) => (reason, "Scheduling", "Normal"),
        What::BelowMinimum => ("BelowMinimum", "Scheduling", "Warning"),
        What::InvalidGpuTopology => ("InvalidGpuTopology", "Reading", "Warning"),
        What::InvalidTopology => ("InvalidTopology", "Reading", "Warning"),
        What::BoundByAnother => ("BoundByAnother", "Binding", "Warning"),
    };
    let subject = &happening.subject;
    let scheduler = happening.scheduler_name.as_str();
    Event {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        metadata: Metadata { name: name.to_owned(), namespace: namespace(subject) },
        event_time: micros(happening.at),
        r#type: kind,
        reason,
        action,
        note: note(&happening.note),
        regarding: Regarding {
            api_version: subject.api_version,
            kind: subject.kind,
            namespace: subject.namespace.clone(),
            name: subject.name.clone(),
            uid: subject.uid.clone(),
        },
        reporting_controller: happening.scheduler_name.clone(),
        reporting_instance: cut(&format!("{scheduler}-{hostname}"), INSTANCE_MAX).to_owned(),
        series: None,
    }
}

/// Returns where the event is: of what has no namespace, in the default one. Source: validation of
/// events.k8s.io/v1.
pub(super) fn namespace(subject: &Subject) -> Text {
    match subject.namespace.is_empty() {
        true => Text::from("default"),
        false => subject.namespace.clone(),
    }
}

/// `last` is when it was seen last.
pub(super) fn series(count: u32, last: jiff::Timestamp) -> Series {
    Series { count, last_observed_time: micros(last) }
}

/// Returns `<object>.<16 hex digits>`; the digits are the time in nanoseconds, never the same twice.
pub(super) fn name(happening: &Happening) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let nanos = u64::try_from(happening.at.as_nanosecond()).unwrap_or_default();
    let bump = |last: u64| Some(nanos.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, bump).unwrap_or_default();
    let object = cut(&happening.subject.name, NAME_MAX - 17).trim_end_matches(['-', '.']);
    format!("{object}.{:016x}", nanos.max(last + 1))
}

fn note(text: &str) -> String {
    match text.len() <= NOTE_MAX {
        true => text.to_owned(),
        false => format!("{}{NOTE_TAIL}", cut(text, NOTE_MAX - NOTE_TAIL.len())),
    }
}

/// Returns the longest beginning of at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// As Kubernetes writes a MicroTime.
fn micros(time: jiff::Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::{PodRef, PodUid};
    use serde_json::{Value, json};
    use std::time::Instant;

    fn happening(name: &str, what: What, note: &str) -> Happening {
        let pod = PodRef { namespace: "ns".into(), name: name.into(), uid: PodUid("u".into()) };
        Happening {
            subject: pod.into(),
            scheduler_name: "default-scheduler".into(),
            what,
            note: note.into(),
            at: jiff::Timestamp::from_second(1).unwrap(),
            noted: Instant::now(),
        }
    }

    fn written(event: &Event) -> Value {
        serde_json::to_value(event).unwrap()
    }

    #[test]
    fn an_event_is_what_kube_scheduler_writes() {
        let event = written(&event(&happening("a", What::Scheduled, "note"), "a.1", "host"));
        assert!(event.get("series").is_none());
        assert_eq!(event["eventTime"], "1970-01-01T00:00:01.000000Z");
        assert_eq!(event["reportingInstance"], "default-scheduler-host");
        assert_eq!((&event["action"], &event["type"]), (&json!("Binding"), &json!("Normal")));
        assert_eq!(event["regarding"]["uid"], "u");
    }

    #[test]
    fn an_event_of_a_node_is_in_the_default_namespace() {
        let node = Subject::node("n1".into(), "u1".into());
        let told = Happening::invalid_gpu_topology(node, "s".into(), "what to change".into());
        let event = written(&event(&told, "n1.1", "host"));
        assert_eq!(event["metadata"]["namespace"], "default");
        let regarding = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"});
        assert_eq!(event["regarding"], regarding);
        assert_eq!(
            (&event["reason"], &event["type"]),
            (&json!("InvalidGpuTopology"), &json!("Warning"))
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = happening("a", What::FailedScheduling, &"é".repeat(600));
        let event = written(&event(&long, "a.1", "h"));
        let note = event["note"].as_str().unwrap();
        assert!(note.len() <= 1024 && note.ends_with("é ..."));
    }

    #[test]
    fn names_are_unique_and_within_bounds() {
        let long = format!("{}-{}", "a".repeat(235), "b".repeat(10));
        let (first, second) = (
            name(&happening(&long, What::Scheduled, "")),
            name(&happening(&long, What::Scheduled, "")),
        );
        assert_ne!(first, second);
        assert!(first.len() <= 253 && first.starts_with(&format!("{}.", "a".repeat(235))));
    }
}
