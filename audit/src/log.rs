//! Reads the API server's audit log while it grows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::history::Request;
use crate::moment::Moment;
use crate::objects::Name;
use crate::wire::{Target, is_dry_run};

/// Each event begins like this.
const BEGINNING: &str = "{\"kind\":\"Event\"";

/// A reader that goes on where it stopped.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    read: u64,
    /// The last line, as far as it was written.
    rest: Vec<u8>,
    requests: BTreeMap<String, Request>,
    /// Lines that are no event.
    pub(crate) skipped: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    request_received_timestamp: String,
    stage_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

impl Log {
    pub(crate) fn new(path: &Path) -> Self {
        let path = path.to_path_buf();
        Self { path, read: 0, rest: Vec::new(), requests: BTreeMap::new(), skipped: 0 }
    }

    /// Reads what was written since the last time. A file that is not there yet is empty.
    ///
    /// # Errors
    /// When the file can't be read, or has become shorter.
    pub(crate) fn read_on(&mut self) -> std::io::Result<()> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.read == 0 => {
                return Ok(());
            }
            other => other?,
        };
        if file.metadata()?.len() < self.read {
            return Err(std::io::Error::other("the file has become shorter: keep it in one piece"));
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        self.read += file.read_to_end(&mut bytes)? as u64;
        self.take(&bytes);
        Ok(())
    }

    /// Returns all requests about objects, in the order in which they were received.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let mut requests: Vec<Request> = self.requests.values().cloned().collect();
        requests.sort_by_key(|request| request.received);
        requests
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return };
        let after = self.rest.split_off(end + 1);
        let lines = std::mem::replace(&mut self.rest, after);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.take_line(&String::from_utf8_lossy(line));
        }
    }

    /// A server that is killed leaves half a line, and the next one writes on behind it.
    fn take_line(&mut self, line: &str) {
        if let Ok(event) = serde_json::from_str(line) {
            return self.take_event(event);
        }
        self.skipped += 1;
        let behind = line.rfind(BEGINNING).filter(|at| *at > 0);
        if let Some(event) = behind.and_then(|at| serde_json::from_str(&line[at..]).ok()) {
            self.take_event(event);
        }
    }

    /// Stages of one request share an id.
    fn take_event(&mut self, event: Event) {
        let (Some(object), Some(received)) =
            (event.object_ref, Moment::parse(&event.request_received_timestamp))
        else {
            return;
        };
        let is_read = matches!(event.verb.as_str(), "get" | "list" | "watch");
        if is_dry_run(&event.request_uri) || (is_read && object.resource != "pods") {
            return;
        }
        let is_end = matches!(event.stage.as_str(), "ResponseComplete" | "Panic");
        let status = event.response_status.and_then(|status| status.code).unwrap_or(500);
        let ended = Moment::parse(&event.stage_timestamp).filter(|_| is_end);
        let request = self.requests.entry(event.audit_id).or_insert_with(|| Request {
            user: event.user.username,
            is_fresh_read: is_fresh_read(&event.verb, &event.request_uri),
            verb: event.verb,
            target: Target::default(),
            received,
            answer: None,
        });
        // The name of what is created is known only once the body was read.
        request.target = Target {
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            name: Name { namespace: object.namespace, name: object.name },
        };
        request.answer = ended.map(|ended| (ended, status)).or(request.answer);
    }
}

/// A read that names a version may be answered from a cache that is older than the last write. A
/// watch that begins with all objects is a read too.
fn is_fresh_read(verb: &str, uri: &str) -> bool {
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    let mut parameters = query.split('&');
    let is_any_version = parameters.clone().any(|parameter| {
        parameter.strip_prefix("resourceVersion=").is_some_and(|version| !version.is_empty())
    });
    match verb {
        "get" | "list" => !is_any_version,
        "watch" => !is_any_version && parameters.any(|p| p == "sendInitialEvents=true"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str, stage: &str, code: Option<u16>) -> String {
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id,
            "stage": stage, "requestURI": "/api/v1/namespaces/d/pods/a/binding?timeout=5s",
            "verb": "create", "user": {"username": "berth-0", "groups": []}, "tide": "high",
            "objectRef": {"resource": "pods", "namespace": "d", "name": "a",
                          "apiVersion": "v1", "subresource": "binding", "berth": 7},
            "requestReceivedTimestamp": "2026-11-29T23:00:00.000001Z",
            "stageTimestamp": "2026-11-29T23:00:00.500000Z",
        });
        if let Some(code) = code {
            event["responseStatus"] = json!({"metadata": {}, "code": code});
        }
        // The server writes the kind first.
        let text = event.to_string();
        let rest = text.replacen("\"kind\":\"Event\",", "", 1);
        format!("{{\"kind\":\"Event\",{}\n", &rest[1..])
    }

    fn log() -> Log {
        Log::new(Path::new("no-such-file"))
    }

    #[test]
    fn stages_become_one_request_and_unknown_fields_are_no_matter() {
        let mut log = log();
        log.take(line("1", "RequestReceived", None).as_bytes());
        let [request] = &log.requests()[..] else { panic!("one request") };
        assert!(request.target.is_binding() && request.answer.is_none());
        log.take(line("1", "ResponseComplete", Some(201)).as_bytes());
        let [request] = &log.requests()[..] else { panic!("one request") };
        assert_eq!(request.answer.map(|(_, code)| code), Some(201));
        assert_eq!((request.user.as_str(), log.skipped), ("berth-0", 0));
        assert!(request.is_write() && request.succeeded());
    }

    #[test]
    fn half_a_line_waits_for_its_other_half() {
        let mut log = log();
        let text = line("1", "RequestReceived", None);
        let (first, second) = text.split_at(text.len() / 2);
        log.take(first.as_bytes());
        assert_eq!((log.requests().len(), log.skipped), (0, 0));
        log.take(second.as_bytes());
        assert_eq!((log.requests().len(), log.skipped), (1, 0));
    }

    #[test]
    fn what_a_killed_server_left_does_not_hide_the_next_event() {
        let mut log = log();
        let text = line("1", "RequestReceived", None);
        log.take(&text.as_bytes()[..text.len() / 2]);
        log.take(line("2", "RequestReceived", None).as_bytes());
        assert_eq!((log.requests().len(), log.skipped), (1, 1));
        log.take(b"no event\n");
        assert_eq!((log.requests().len(), log.skipped), (1, 2));
    }

    #[test]
    fn a_read_from_an_old_cache_is_no_fresh_one() {
        for (verb, query, expected) in [
            ("get", "", true),
            ("list", "?limit=500", true),
            ("list", "?limit=500&resourceVersion=0", false),
            ("watch", "?resourceVersion=7&watch=true", false),
            ("watch", "?sendInitialEvents=true&resourceVersion=", true),
        ] {
            assert_eq!(is_fresh_read(verb, &format!("/api/v1/pods{query}")), expected, "{query}");
        }
    }
}
