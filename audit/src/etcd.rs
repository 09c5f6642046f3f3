//! Follows etcd through its HTTP gateway, revision by revision.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

/// A watch that was silent for so long is asked anew: what stopped may have lost it.
const SILENCE: Duration = Duration::from_secs(10);

/// How long etcd may take to say which revision is its newest.
const ANSWER: Duration = Duration::from_secs(2);

/// All keys: from the zero byte on, without end. In base64.
const ALL: &str = "AA==";

#[derive(Debug, thiserror::Error)]
pub(crate) enum EtcdError {
    #[error("{0} is no address of an etcd over plain HTTP")]
    Address(String),
    #[error("etcd does not answer: {0}")]
    NoAnswer(String),
    #[error("etcd's answer is not understood: {0}")]
    Odd(String),
    /// Revisions before this one are gone.
    #[error("etcd was compacted to revision {0}")]
    Compacted(i64),
}

/// One event; `value` is nothing for a deletion.
pub(crate) struct Event {
    pub(crate) revision: i64,
    pub(crate) key: String,
    pub(crate) value: Option<Vec<u8>>,
}

/// A client of one etcd.
#[derive(Clone)]
pub(crate) struct Etcd {
    http: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Etcd {
    /// # Errors
    /// [`EtcdError::Address`] if the address is not `http://…`.
    pub(crate) fn new(url: &str) -> Result<Self, EtcdError> {
        let uri: Option<hyper::Uri> = url.parse().ok();
        if uri.is_none_or(|uri| uri.scheme_str() != Some("http") || uri.host().is_none()) {
            return Err(EtcdError::Address(url.to_owned()));
        }
        // A connection that is kept may be one to an etcd that was killed.
        let http = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Ok(Self { http, url: url.trim_end_matches('/').to_owned() })
    }

    /// Returns the newest revision, as the whole cluster sees it.
    ///
    /// # Errors
    /// [`EtcdError::NoAnswer`], [`EtcdError::Odd`].
    pub(crate) async fn revision(&self) -> Result<i64, EtcdError> {
        let ask = async {
            let body = format!(r#"{{"key":"{ALL}","range_end":"{ALL}","count_only":true}}"#);
            let answer = self.post("/v3/kv/range", body).await?;
            let bytes = answer.into_body().collect().await.map_err(no_answer)?.to_bytes();
            read_revision(&bytes)
        };
        tokio::time::timeout(ANSWER, ask).await.map_err(no_answer)?
    }

    /// Hands all events from revision `from` on to `take`, in order, until the watch ends. `take`
    /// gets the events of whole revisions.
    ///
    /// # Errors
    /// Why it ended. [`EtcdError::Compacted`] if `from` is gone.
    pub(crate) async fn watch(
        &self,
        from: i64,
        mut take: impl FnMut(Vec<Event>),
    ) -> Result<(), EtcdError> {
        let body = format!(
            r#"{{"create_request":{{"key":"{ALL}","range_end":"{ALL}","start_revision":"{from}"}}}}"#
        );
        let asked = tokio::time::timeout(SILENCE, self.post("/v3/watch", body)).await;
        let mut body = asked.map_err(no_answer)??.into_body();
        let mut unread = Vec::new();
        loop {
            let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
                Err(_) => return Ok(()),
                Ok(None) => return Err(EtcdError::NoAnswer("the watch has ended".to_owned())),
                Ok(Some(frame)) => frame.map_err(no_answer)?,
            };
            let Ok(data) = frame.into_data() else { continue };
            let known = unread.len();
            unread.extend_from_slice(&data);
            if let Some(end) = unread[known..].iter().rposition(|byte| *byte == b'\n') {
                let after = unread.split_off(known + end + 1);
                let lines = std::mem::replace(&mut unread, after);
                for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    take(read_line(line)?);
                }
            }
        }
    }

    async fn post(&self, path: &str, body: String) -> Result<Response<Incoming>, EtcdError> {
        let request = Request::post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(no_answer)?;
        self.http.request(request).await.map_err(no_answer)
    }
}

fn no_answer(error: impl std::error::Error) -> EtcdError {
    EtcdError::NoAnswer(error.to_string())
}

/// The gateway writes 64-bit numbers as strings.
#[derive(Deserialize)]
struct Header {
    revision: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    result: Option<WatchAnswer>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct WatchAnswer {
    #[serde(default)]
    canceled: bool,
    compact_revision: Option<String>,
    #[serde(default)]
    cancel_reason: String,
    #[serde(default)]
    events: Vec<WireEvent>,
}

#[derive(Deserialize)]
struct WireEvent {
    /// `PUT` is left out.
    #[serde(default)]
    r#type: String,
    kv: KeyValue,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    value: Option<String>,
    mod_revision: String,
}

fn read_revision(answer: &[u8]) -> Result<i64, EtcdError> {
    #[derive(Deserialize)]
    struct Answer {
        header: Header,
    }
    let answer: Answer = serde_json::from_slice(answer).map_err(|error| odd(&error, answer))?;
    number(answer.header.revision.as_deref().unwrap_or("0"))
}

fn read_line(line: &[u8]) -> Result<Vec<Event>, EtcdError> {
    let parsed: Line = serde_json::from_slice(line).map_err(|error| odd(&error, line))?;
    if let Some(error) = parsed.error {
        return Err(EtcdError::NoAnswer(error.to_string()));
    }
    let Some(answer) = parsed.result else { return Ok(Vec::new()) };
    match answer.compact_revision.as_deref().map(number).transpose()? {
        Some(revision) if revision > 0 => return Err(EtcdError::Compacted(revision)),
        _ if answer.canceled => return Err(EtcdError::NoAnswer(answer.cancel_reason)),
        _ => {}
    }
    answer.events.into_iter().map(read_event).collect()
}

fn read_event(event: WireEvent) -> Result<Event, EtcdError> {
    let bytes = |text: &str| STANDARD.decode(text).map_err(|error| odd(&error, text.as_bytes()));
    let key = bytes(&event.kv.key)?;
    let value = bytes(event.kv.value.as_deref().unwrap_or_default())?;
    Ok(Event {
        revision: number(&event.kv.mod_revision)?,
        key: String::from_utf8_lossy(&key).into_owned(),
        value: (event.r#type != "DELETE").then_some(value),
    })
}

fn number(text: &str) -> Result<i64, EtcdError> {
    text.parse().map_err(|error| odd(&error, text.as_bytes()))
}

fn odd(error: &dyn std::error::Error, answer: &[u8]) -> EtcdError {
    let beginning = String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned();
    EtcdError::Odd(format!("{error} in {beginning}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_and_deletions_are_read_and_new_fields_are_no_matter() {
        let line = br#"{"result":{"header":{"revision":"4","raft_term":"2"},"tide":1,"events":[
            {"kv":{"key":"Zm9v","create_revision":"2","mod_revision":"2","value":"YmFy"}},
            {"kv":{"key":"Zm9v","mod_revision":"3"}},
            {"type":"DELETE","kv":{"key":"Zm9v","mod_revision":"4","depth":"9"}}]}}"#;
        let events = read_line(line).expect("events");
        let seen: Vec<_> = events.iter().map(|e| (e.revision, e.value.as_deref())).collect();
        assert_eq!(seen, [(2, Some(&b"bar"[..])), (3, Some(&b""[..])), (4, None)]);
        assert!(events.iter().all(|event| event.key == "foo"));
    }

    #[test]
    fn a_compacted_revision_is_told_apart_from_a_watch_that_ends() {
        let gone = br#"{"result":{"header":{},"canceled":true,"compact_revision":"3"}}"#;
        assert!(matches!(read_line(gone), Err(EtcdError::Compacted(3))));
        let ended = br#"{"error":{"grpc_code":14,"message":"error reading from server: EOF"}}"#;
        assert!(matches!(read_line(ended), Err(EtcdError::NoAnswer(_))));
        assert!(matches!(read_line(b"<html>"), Err(EtcdError::Odd(_))));
        let created = br#"{"result":{"header":{"revision":"4"},"created":true}}"#;
        assert!(read_line(created).is_ok_and(|events| events.is_empty()));
    }

    #[test]
    fn only_plain_http_is_followed() {
        assert!(Etcd::new("https://127.0.0.1:2379").is_err());
        assert!(Etcd::new("127.0.0.1:2379").is_err());
        assert!(Etcd::new("http://127.0.0.1:2379/").is_ok());
    }
}
