//! The JSON of an event, within the bounds of the API server's validation.

use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::jiff;
use serde_json::{Value, json};

use super::{Happening, What};

/// Bytes of a note. Source: validation of events.k8s.io/v1.
const NOTE_MAX: usize = 1024;
const NOTE_TAIL: &str = " ...";
/// Bytes of `reportingInstance`. Source: as above.
const INSTANCE_MAX: usize = 128;
/// Bytes of a name, of which 17 are `.` and the digits.
const NAME_MAX: usize = 253;

/// Returns the event as it is created.
pub(super) fn event(happening: &Happening, name: &str, hostname: &str) -> Value {
    let (reason, action, kind) = match happening.what {
        What::Scheduled => ("Scheduled", "Binding", "Normal"),
        What::FailedScheduling => ("FailedScheduling", "Scheduling", "Warning"),
    };
    let pod = &happening.pod;
    let scheduler = happening.scheduler_name.as_str();
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.namespace.as_str()},
        "eventTime": micros(happening.at),
        "type": kind,
        "reason": reason,
        "action": action,
        "note": note(&happening.note),
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace.as_str(),
            "name": pod.name.as_str(),
            "uid": pod.uid.0.as_str(),
        },
        "reportingController": scheduler,
        "reportingInstance": cut(&format!("{scheduler}-{hostname}"), INSTANCE_MAX),
    })
}

/// Returns what a series adds to its event.
pub(super) fn series(count: u32, last: jiff::Timestamp) -> Value {
    json!({"series": {"count": count, "lastObservedTime": micros(last)}})
}

/// Returns `<pod>.<16 hex digits>`; the digits are the time in nanoseconds, never the same twice.
pub(super) fn name(happening: &Happening) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let nanos = u64::try_from(happening.at.as_nanosecond()).unwrap_or_default();
    let bump = |last: u64| Some(nanos.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, bump).unwrap_or_default();
    let pod = cut(&happening.pod.name, NAME_MAX - 17).trim_end_matches(['-', '.']);
    format!("{pod}.{:016x}", nanos.max(last + 1))
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
    use std::time::Instant;

    fn happening(name: &str, what: What, note: &str) -> Happening {
        let pod = PodRef { namespace: "ns".into(), name: name.into(), uid: PodUid("u".into()) };
        Happening {
            pod,
            scheduler_name: "default-scheduler".into(),
            what,
            note: note.into(),
            at: jiff::Timestamp::from_second(1).unwrap(),
            noted: Instant::now(),
        }
    }

    #[test]
    fn an_event_is_what_kube_scheduler_writes() {
        let event = event(&happening("a", What::Scheduled, "note"), "a.1", "host");
        assert_eq!(event["eventTime"], "1970-01-01T00:00:01.000000Z");
        assert_eq!(event["reportingInstance"], "default-scheduler-host");
        assert_eq!((&event["action"], &event["type"]), (&json!("Binding"), &json!("Normal")));
        assert_eq!(event["regarding"]["uid"], "u");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let event = event(&happening("a", What::FailedScheduling, &"é".repeat(600)), "a.1", "h");
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
