//! One watch request: its stream of events until it ends, in whatever way.

use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::Watch;
use super::list::escaped;
use crate::live::client::{Answer, Call, Failure, with_sources};
use crate::live::kinds;
use crate::live::planted::{self, Bug};
use crate::wire::Kind;

/// A line longer than this is no event: the server takes objects of 3 MiB at most.
const LINE_MAX: usize = 64 << 20;

/// How a watch request ended.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// In good order: go on from the last version.
    Ended { events: usize },
    /// It said nothing for too long, having said something before or not.
    Silent { heard: bool },
    /// The version is too old (410): list again.
    Expired(String),
    /// The connection failed, or the server doesn't let us ask.
    Broken(String),
    /// The server answered with another error.
    Refused(String),
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Watch {
    /// Hands on what happens after `version`, and moves it along.
    pub(super) async fn follow(&mut self, version: &mut String) -> End {
        let waited = self.source.rate.take().await;
        let call = Call::get(self.watch_path(version));
        self.source.api.rate_limited(&call.method, waited);
        let head = timeout(self.source.pace.answer, self.source.api.stream(&call)).await;
        let response = match head {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return End::Broken(error.message().to_owned()),
            Err(_) => return End::Broken("no answer".to_owned()),
        };
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            let whole = timeout(self.source.pace.answer, body.collect()).await;
            let body = whole.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
            let body = body.unwrap_or_default();
            return failed(Answer { status: head.status, headers: head.headers, body }.failure());
        }
        let (mut lines, mut events, mut heard) = (Lines::default(), 0, false);
        let idle = self.source.pace.silence(self.probing);
        loop {
            let frame = match timeout(idle, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return broken(events, &with_sources(&error)),
                Ok(None) => return End::Ended { events },
                Err(_) => {
                    debug!(resource = %self.resource, "a silent watch is begun anew");
                    return End::Silent { heard };
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            self.note_heard();
            heard = true;
            lines.push(&data);
            while let Some(line) = lines.next() {
                if events == 0 && planted::on(Bug::LosesTheFirstEvent) {
                    events += 1;
                    continue;
                }
                match self.event(line, version) {
                    Ok(()) => events += 1,
                    Err(end) => return end,
                }
            }
            if events > 0 && self.probing {
                self.note_current();
            }
            if lines.rest.len() > LINE_MAX {
                return End::Refused("an event without end".to_owned());
            }
        }
    }

    /// Hands on one event.
    fn event(&mut self, line: &[u8], version: &mut String) -> Result<(), End> {
        let unreadable = |e: serde_json::Error| End::Refused(format!("an unreadable event: {e}"));
        let (happened, json) = match as_servers_write(line) {
            Some(parts) => parts,
            None => {
                let event: Event<'_> = serde_json::from_slice(line).map_err(unreadable)?;
                (event.r#type, event.object.get())
            }
        };
        let seen = match happened {
            "ADDED" | "MODIFIED" => self.apply(json).map(|(_, version)| version),
            "DELETED" => match kinds::identity(json) {
                Ok(identity) => {
                    // A deletion that comes late must not end a namesake.
                    if self.known.get(&identity.key).is_none_or(|uid| *uid == identity.uid) {
                        // Watches of pods end with a pod's work: that it is done counts for its
                        // group.
                        if self.kind == Kind::Pod && kinds::work_is_done(json) {
                            self.apply(json);
                        }
                        self.forget(&identity.key);
                    }
                    Some(identity.version)
                }
                Err(problem) => {
                    warn!(resource = %self.resource, %problem, "deletion left out");
                    None
                }
            },
            "BOOKMARK" => bookmark(json),
            "ERROR" => return Err(failed(serde_json::from_str(json).unwrap_or_default())),
            other => {
                warn!(resource = %self.resource, kind = other, "unknown watch event left out");
                None
            }
        };
        if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
            *version = seen;
        }
        Ok(())
    }

    fn watch_path(&self, version: &str) -> String {
        let mut path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            kinds::list_path(self.kind),
            self.source.pace.timeout_seconds(self.probing),
            escaped(version),
        );
        if let Some(selector) = kinds::selector(self.kind) {
            path += &format!("&{selector}");
        }
        path
    }
}

/// Cuts an event into its type and its object's JSON without reading the object: it is read once
/// more anyway. Anything but the form in which API servers write events is left to serde.
fn as_servers_write(line: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(line).ok()?;
    let (happened, rest) = text.strip_prefix("{\"type\":\"")?.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
    (object.starts_with('{') && object.ends_with('}')).then_some((happened, object))
}

/// A bookmark carries a version and nothing else.
fn bookmark(json: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    value.get("metadata")?.get("resourceVersion")?.as_str().map(str::to_owned)
}

/// Tells an expired version from other errors, whether it answers the request or ends the stream.
fn failed(failure: Failure) -> End {
    let Failure { code, reason, message } = failure;
    if code == 410 || reason == "Expired" || reason == "Gone" {
        return End::Expired(message);
    }
    let problem = format!("{message} ({code})");
    match code {
        // It is about us, or about how much there is to do; a new list gets over neither.
        401 | 403 | 429 => End::Broken(problem),
        _ => End::Refused(problem),
    }
}

/// A stream that brought events and then broke off has made progress all the same.
fn broken(events: usize, problem: &str) -> End {
    match events {
        0 => End::Broken(problem.to_owned()),
        _ => End::Ended { events },
    }
}

/// Cuts a stream of bytes into lines. What is after the last one is incomplete, and never used.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    /// Where the next line begins, and how far no line's end was found.
    start: usize,
    searched: usize,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        self.rest.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.rest.extend_from_slice(data);
    }

    fn next(&mut self) -> Option<&[u8]> {
        loop {
            let Some(length) = memchr::memchr(b'\n', self.rest.get(self.searched..)?) else {
                self.searched = self.rest.len();
                return None;
            };
            let line = self.start..self.searched + length;
            self.start = line.end + 1;
            self.searched = self.start;
            if !self.rest[line.clone()].trim_ascii().is_empty() {
                return Some(&self.rest[line]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        let mut lines = Lines::default();
        let mut cut = Vec::new();
        for chunk in ["a", "b\n", "\ncd\nef\ng", "", "h\nrest"] {
            lines.push(chunk.as_bytes());
            while let Some(line) = lines.next() {
                cut.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        assert_eq!(cut, ["ab", "cd", "ef", "gh"]);
    }

    #[test]
    fn events_in_the_usual_form_are_cut_and_others_are_left_to_serde() {
        let usual = br#"{"type":"ADDED","object":{"a":{}}}"#;
        assert_eq!(as_servers_write(usual), Some(("ADDED", r#"{"a":{}}"#)));
        for other in [
            r#"{ "type":"ADDED","object":{}}"#,
            r#"{"object":{},"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":{} }"#,
            r#"{"type":"ADDED","object":{},"more":1}"#,
        ] {
            assert_eq!(as_servers_write(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn both_forms_of_410_are_expired_and_others_are_not() {
        let of = |json: &str| failed(serde_json::from_str(json).unwrap());
        assert_eq!(of(r#"{"code":410,"message":"too old"}"#), End::Expired("too old".into()));
        assert_eq!(of(r#"{"reason":"Expired","message":"x"}"#), End::Expired("x".into()));
        let large = of(r#"{"code":504,"reason":"Timeout","message":"Too large resource version"}"#);
        assert_eq!(large, End::Refused("Too large resource version (504)".into()));
        for code in [401, 403, 429] {
            let refused = of(&format!(r#"{{"code":{code},"message":"no"}}"#));
            assert_eq!(refused, End::Broken(format!("no ({code})")));
        }
    }
}
