//! What a proxy between scheduler and server tells the auditor.

use std::time::Instant;

use serde_json::Value;

use crate::objects::Name;

/// A request as it came by, and what went back. Requests that write nothing may be told too; a GET
/// of a pod is evidence for I3.
#[derive(Clone, Debug)]
pub struct WireWrite {
    /// As in the audit log.
    pub user: String,
    /// When its head was seen; the auditor places it on the wall clock.
    pub sent: Instant,
    /// Such as `POST`.
    pub method: String,
    /// With the query, if there is one.
    pub path: String,
    pub body: WireBody,
    /// What went back to the client, and when. Nothing if the client was never answered.
    pub answer: Option<WireAnswer>,
}

/// An answer that reached the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireAnswer {
    pub status: u16,
    pub at: Instant,
}

/// What counts of a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireBody {
    /// `uid` and `resource_version` are those that the bind insists on.
    Bind { pod: Option<String>, uid: Option<String>, resource_version: Option<i64>, node: String },
    /// `holder` is empty for a release.
    Lease { holder: String },
    /// Anything else, also a bind or a Lease that is no JSON.
    Other,
}

impl WireWrite {
    /// Describes a request that comes by at this moment.
    pub fn seen(user: &str, method: &str, path: &str, body: &[u8]) -> Self {
        Self {
            user: user.to_owned(),
            sent: Instant::now(),
            method: method.to_owned(),
            path: path.to_owned(),
            body: WireBody::read(body),
            answer: None,
        }
    }

    /// The same, answered at this moment.
    #[must_use]
    pub fn answered(self, status: u16) -> Self {
        Self { answer: Some(WireAnswer { status, at: Instant::now() }), ..self }
    }
}

impl WireBody {
    /// Reads a body; one that is no JSON is [`WireBody::Other`].
    pub fn read(body: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(body) else { return Self::Other };
        let meta = |field: &str| value["metadata"][field].as_str().map(str::to_owned);
        match value["kind"].as_str() {
            Some("Binding") => Self::Bind {
                pod: meta("name"),
                uid: meta("uid"),
                resource_version: meta("resourceVersion").and_then(|text| text.parse().ok()),
                node: value["target"]["name"].as_str().unwrap_or_default().to_owned(),
            },
            Some("Lease") => {
                let holder = value["spec"]["holderIdentity"].as_str().unwrap_or_default();
                Self::Lease { holder: holder.to_owned() }
            }
            _ => Self::Other,
        }
    }
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// The name is empty for a collection.
    pub(crate) name: Name,
}

impl Target {
    /// Reads a path such as `/api/v1/namespaces/default/pods/a/binding?timeout=5s`.
    pub(crate) fn of_path(path: &str) -> Self {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return Self::default(),
        };
        let mut rest: Vec<&str> = parts.skip(1).collect();
        let mut namespace = "";
        // A namespace itself is /namespaces/NAME, with at most `status` or `finalize` below.
        let is_namespace = matches!(rest.get(2), None | Some(&("status" | "finalize")));
        if rest.first() == Some(&"namespaces") && !is_namespace {
            namespace = rest[1];
            rest.drain(..2);
        }
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        Self {
            group: group.to_owned(),
            resource: part(0),
            subresource: part(2),
            name: Name { namespace: namespace.to_owned(), name: part(1) },
        }
    }

    pub(crate) fn is_binding(&self) -> bool {
        let by_pod = self.resource == "pods" && self.subresource == "binding";
        self.group.is_empty() && (by_pod || self.resource == "bindings")
    }

    /// Where devices are allocated to a claim, and it is reserved.
    pub(crate) fn is_claim_status(&self) -> bool {
        let is_claim = self.group == "resource.k8s.io" && self.resource == "resourceclaims";
        is_claim && self.subresource == "status"
    }

    pub(crate) fn is_lease(&self) -> bool {
        self.group == "coordination.k8s.io" && self.resource == "leases"
    }

    /// Whether creating it asks a question rather than changing something.
    pub(crate) fn is_review(&self) -> bool {
        matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
    }
}

/// Whether nothing will be stored: `dryRun` has one value, `All`.
pub(crate) fn is_dry_run(path: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|parameter| parameter.starts_with("dryRun="))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(path: &str) -> (String, String, String, String, String) {
        let Target { group, resource, subresource, name } = Target::of_path(path);
        (group, resource, subresource, name.namespace, name.name)
    }

    #[test]
    fn paths_say_what_a_request_is_about() {
        for (path, expected) in [
            ("/api/v1/namespaces/d/pods/a/binding?timeout=5s", ["", "pods", "binding", "d", "a"]),
            ("/api/v1/namespaces/d/pods", ["", "pods", "", "d", ""]),
            ("/api/v1/nodes/n-1/status", ["", "nodes", "status", "", "n-1"]),
            ("/api/v1/namespaces/d", ["", "namespaces", "", "", "d"]),
            ("/api/v1/namespaces/d/finalize", ["", "namespaces", "finalize", "", "d"]),
            (
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l",
                ["coordination.k8s.io", "leases", "", "kube-system", "l"],
            ),
            ("/readyz", ["", "", "", "", ""]),
        ] {
            let [a, b, c, d, e] = expected.map(str::to_owned);
            assert_eq!(target(path), (a, b, c, d, e), "{path}");
        }
        assert!(Target::of_path("/api/v1/namespaces/d/pods/a/binding").is_binding());
        assert!(!Target::of_path("/api/v1/namespaces/d/pods/a/status").is_binding());
        assert!(is_dry_run("/api/v1/pods?timeout=5s&dryRun=All") && !is_dry_run("/api/v1/pods"));
    }

    #[test]
    fn bodies_are_read_as_far_as_they_count() {
        let bind = json!({
            "kind": "Binding", "target": {"kind": "Node", "name": "n-1"},
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "12"},
        });
        let expected = WireBody::Bind {
            pod: Some("a".to_owned()),
            uid: Some("u".to_owned()),
            resource_version: Some(12),
            node: "n-1".to_owned(),
        };
        assert_eq!(WireBody::read(bind.to_string().as_bytes()), expected);
        let release = json!({"kind": "Lease", "spec": {"holderIdentity": ""}});
        let expected = WireBody::Lease { holder: String::new() };
        assert_eq!(WireBody::read(release.to_string().as_bytes()), expected);
        assert_eq!(WireBody::read(b"k8s\0\x0a"), WireBody::Other);
    }
}
