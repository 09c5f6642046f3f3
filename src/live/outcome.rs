//! From an answer, or none, to what became of a write.

use std::sync::Mutex;
use std::time::Duration;

use berth_core::engine::{PodRead, WriteResult, Written};
use berth_core::framework::{ClaimWrite, Op};
use berth_core::snapshot::ClusterEvent;
use berth_core::types::{PodRef, Text};
use serde::Deserialize;

use super::client::{Answer, SendError};
use super::kinds;
use crate::wire::{Kind, Tables, k8s};

/// A server that is full names no time: one second, as client-go assumes.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is to be done about an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Report(WriteResult),
    /// Nothing has happened; send it again after so long.
    Again(Duration, String),
}

/// Judges the answer to an operation's request. A claim in it is read with `tables`.
pub fn judge(op: &Op, answer: Result<Answer, SendError>, tables: &Mutex<Tables>) -> Next {
    let answer = match answer {
        Ok(answer) => answer,
        Err(SendError::NotSent(message)) => {
            return Next::Report(WriteResult::NotSent { message: message.into() });
        }
        Err(SendError::Lost(message)) => {
            return Next::Report(WriteResult::Unknown { message: message.into() });
        }
    };
    let code = answer.status.as_u16();
    if answer.status.is_success() {
        return Next::Report(success(op, &answer.body, tables));
    }
    let message = answer.failure().message;
    match code {
        // The server was full and didn't look at it.
        429 => Next::Again(answer.retry_after().unwrap_or(RETRY_AFTER), message),
        404 if matches!(op, Op::ReadPod { .. }) => Next::Report(found(PodRead::Gone)),
        409 => Next::Report(WriteResult::Stale { message: message.into() }),
        // Nothing has happened, and a renewed token will do.
        401 => Next::Report(WriteResult::NotSent { message: message.into() }),
        400..=499 => Next::Report(WriteResult::Refused { code, message: message.into() }),
        // Whatever a server or proxy in trouble says, the write may have been carried out.
        _ => {
            let message = Text::from(format!("{message} ({code})"));
            Next::Report(WriteResult::Unknown { message })
        }
    }
}

fn found(pod: PodRead) -> WriteResult {
    WriteResult::Done(Written { pod: Some(pod), ..Written::default() })
}

fn success(op: &Op, body: &[u8], tables: &Mutex<Tables>) -> WriteResult {
    match op {
        Op::ReadPod { pod } => match read_pod(pod, body) {
            Some(read) => found(read),
            None => WriteResult::Unknown { message: "the pod can't be read".into() },
        },
        Op::Fence { resource_version, .. } => match written(body) {
            // A patch that changed nothing was not written: what it should fence off may still come.
            written if written.resource_version == *resource_version => {
                WriteResult::Unknown { message: "the pod is the same as before".into() }
            }
            written => WriteResult::Done(written),
        },
        Op::Claim { write, .. } => match (claim(body, tables), write) {
            (None, ClaimWrite::Read) => {
                WriteResult::Unknown { message: "the claim can't be read".into() }
            }
            (event, _) => WriteResult::Done(Written { event, ..written(body) }),
        },
        Op::Create { kind, .. } if **kind == *kinds::resource(Kind::ResourceClaim) => {
            WriteResult::Done(Written { event: claim(body, tables), ..written(body) })
        }
        Op::Patch { kind, .. } if **kind == *kinds::resource(Kind::Pod) => {
            pod_as_it_is(body, tables)
        }
        Op::Nominate { .. } => pod_as_it_is(body, tables),
        Op::TellGroup { .. } => {
            WriteResult::Done(Written { event: group(body, tables), ..written(body) })
        }
        Op::Bind { .. }
        | Op::TryBind { .. }
        | Op::SetDisruption { .. }
        | Op::SetCondition { .. }
        | Op::DeletePod { .. }
        | Op::Create { .. }
        | Op::Patch { .. }
        | Op::Delete { .. } => WriteResult::Done(written(body)),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    resource_version: Option<String>,
}

/// A Binding is answered with a Status, which has neither name nor version.
fn written(body: &[u8]) -> Written {
    let object: Object = serde_json::from_slice(body).unwrap_or_default();
    let version = object.metadata.resource_version.and_then(|version| version.parse().ok());
    Written {
        name: object.metadata.name.map(Text::from),
        resource_version: version.unwrap_or_default(),
        ..Written::default()
    }
}

fn pod_as_it_is(body: &[u8], tables: &Mutex<Tables>) -> WriteResult {
    WriteResult::Done(Written { event: object(Kind::Pod, body, tables), ..written(body) })
}

/// Returns the claim as the server has it now, so that the ledger needn't wait for the watch.
fn claim(body: &[u8], tables: &Mutex<Tables>) -> Option<Box<ClusterEvent>> {
    object(Kind::ResourceClaim, body, tables)
}

/// As [`claim`], of a group: which kind it is stands in the answer.
fn group(body: &[u8], tables: &Mutex<Tables>) -> Option<Box<ClusterEvent>> {
    let named: Named = serde_json::from_slice(body).ok()?;
    object(Kind::named(&named.api_version, &named.kind)?, body, tables)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    api_version: String,
    kind: String,
}

fn object(kind: Kind, body: &[u8], tables: &Mutex<Tables>) -> Option<Box<ClusterEvent>> {
    let json = std::str::from_utf8(body).ok()?;
    let seen = kinds::read(kind, json, tables).ok()?;
    Some(Box::new(seen.event))
}

/// None if it can't be said whether the pod is bound.
fn read_pod(pod: &PodRef, body: &[u8]) -> Option<PodRead> {
    let read: k8s::Pod = serde_json::from_slice(body).ok()?;
    let meta = &read.metadata;
    if meta.object.uid.as_deref()? != pod.uid.0.as_str() {
        return Some(PodRead::Gone);
    }
    let node = read.spec.value()?.node_name.value().filter(|node| !node.is_empty());
    match node {
        Some(node) => Some(PodRead::BoundTo { node: Text::from(node.as_str()) }),
        None if meta.resource_version() == 0 => None,
        None => Some(PodRead::Unbound { resource_version: meta.resource_version() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::snapshot::DeviceEvent;
    use berth_core::types::{ClaimRef, PodUid};
    use http::{HeaderMap, HeaderValue, StatusCode, header};

    fn pod() -> PodRef {
        PodRef { namespace: "ns".into(), name: "a".into(), uid: PodUid("u-1".into()) }
    }

    fn bind() -> Op {
        Op::Bind { pod: pod(), node: "n1".into(), resource_version: 5, plan: None, gpus: None }
    }

    fn answer(code: u16, body: &str) -> Result<Answer, SendError> {
        let status = StatusCode::from_u16(code).unwrap();
        Ok(Answer { status, headers: HeaderMap::new(), body: body.to_owned().into() })
    }

    fn result(op: &Op, code: u16, body: &str) -> WriteResult {
        match judge(op, answer(code, body), &Mutex::default()) {
            Next::Report(result) => result,
            Next::Again(..) => panic!("to be sent again"),
        }
    }

    #[test]
    fn only_answers_that_say_so_are_a_yes_or_a_no() {
        let said = r#"{"kind":"Status","message":"m"}"#;
        assert_eq!(result(&bind(), 201, said), WriteResult::Done(Written::default()));
        assert_eq!(result(&bind(), 409, said), WriteResult::Stale { message: "m".into() });
        for code in [400, 403, 404, 422] {
            assert_eq!(
                result(&bind(), code, said),
                WriteResult::Refused { code, message: "m".into() }
            );
        }
        for code in [500, 502, 503, 504, 301] {
            assert!(matches!(result(&bind(), code, said), WriteResult::Unknown { .. }), "{code}");
        }
        let lost = judge(&bind(), Err(SendError::Lost("EOF".into())), &Mutex::default());
        assert_eq!(lost, Next::Report(WriteResult::Unknown { message: "EOF".into() }));
        let unsent = judge(&bind(), Err(SendError::NotSent("refused".into())), &Mutex::default());
        assert_eq!(unsent, Next::Report(WriteResult::NotSent { message: "refused".into() }));
    }

    #[test]
    fn a_full_server_is_asked_again_when_it_says() {
        let mut full = answer(429, "").unwrap();
        full.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
        let message = "429 Too Many Requests".to_owned();
        let next = judge(&bind(), Ok(full), &Mutex::default());
        assert_eq!(next, Next::Again(Duration::from_secs(7), message));
    }

    #[test]
    fn a_read_tells_whose_the_pod_is() {
        let op = Op::ReadPod { pod: pod() };
        let read = |body: &str| match result(&op, 200, body) {
            WriteResult::Done(written) => written.pod,
            WriteResult::Unknown { .. } => None,
            other => panic!("{other:?}"),
        };
        let bound = r#"{"metadata":{"name":"a","uid":"u-1","resourceVersion":"5"},"spec":{"nodeName":"n1"}}"#;
        assert_eq!(read(bound), Some(PodRead::BoundTo { node: "n1".into() }));
        let unbound = r#"{"metadata":{"name":"a","uid":"u-1","resourceVersion":"5"},"spec":{}}"#;
        assert_eq!(read(unbound), Some(PodRead::Unbound { resource_version: 5 }));
        assert_eq!(read(&bound.replace("u-1", "u-2")), Some(PodRead::Gone));
        assert_eq!(read(r#"{"metadata":{"name":"a","uid":"u-1"}}"#), None);
        assert_eq!(read("{"), None);
        let gone = result(&op, 404, "");
        assert_eq!(gone, found(PodRead::Gone));
    }

    #[test]
    fn an_answer_with_a_claim_is_told_like_any_other_event() {
        let op = |write| Op::Claim { claim: ClaimRef::default(), resource_version: 5, write };
        let body = r#"{"metadata":{"namespace":"ns","name":"c","uid":"u","resourceVersion":"6"},
            "spec":{},"status":{"reservedFor":[{"resource":"pods","name":"a","uid":"u-1"}]}}"#;
        let write = ClaimWrite::Protect { finalizers: Vec::new() };
        let WriteResult::Done(written) = result(&op(write.clone()), 200, body) else { panic!() };
        assert_eq!((written.name, written.resource_version), (Some("c".into()), 6));
        let Some(ClusterEvent::Devices(DeviceEvent::ClaimApplied(claim))) =
            written.event.map(|event| *event)
        else {
            panic!("no claim")
        };
        assert!(claim.reserved_for_pod(&PodUid("u-1".into())));
        assert!(matches!(result(&op(write), 200, "{"), WriteResult::Done(_)));
        assert!(matches!(result(&op(ClaimWrite::Read), 200, "{"), WriteResult::Unknown { .. }));
        let gone = result(&op(ClaimWrite::Read), 404, "");
        assert!(matches!(gone, WriteResult::Refused { code: 404, .. }));
    }

    #[test]
    fn a_fence_that_changed_nothing_is_none() {
        let op = Op::Fence { pod: pod(), resource_version: 5, node: "n1".into() };
        let body = |version: &str| format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#);
        assert!(matches!(result(&op, 200, &body("5")), WriteResult::Unknown { .. }));
        assert!(matches!(result(&op, 200, &body("6")), WriteResult::Done(_)));
    }
}
