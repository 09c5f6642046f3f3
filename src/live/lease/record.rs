//! The Lease object: reading it, and the requests that change it.

use std::time::Duration;

use http::Method;
use k8s_openapi::jiff;
use serde_json::{Value, json};

use super::Rules;
use crate::live::client::Call;

/// Source: client-go's `tryRelease`.
const RELEASED: Duration = Duration::from_secs(1);

/// A Lease as the server has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Empty: nobody holds it.
    pub holder: String,
    /// How long it counts after each change.
    pub duration: Duration,
    pub transitions: i64,
    /// Its resourceVersion.
    pub version: String,
    /// The whole object: what is not ours in it, such as labels, is written back as it was.
    object: Value,
}

impl Record {
    /// Reads a Lease; what is missing in it is zero, as client-go has it. None if it is no object.
    pub fn read(object: Value) -> Option<Record> {
        let (spec, metadata) = (&object["spec"], object["metadata"].as_object()?);
        let version = metadata.get("resourceVersion").and_then(Value::as_str);
        Some(Record {
            holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
            duration: Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or(0)),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
            version: version.unwrap_or_default().to_owned(),
            object,
        })
    }

    /// Tells whether its holder has given it up, and not somebody else taken it from him: who gives it
    /// up leaves one second, as [`Draft::release`] does.
    pub fn is_released(&self) -> bool {
        self.holder.is_empty() && self.duration <= RELEASED
    }

    /// Returns its UID; empty if it has none.
    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Returns what counts as a change when it differs. A label does not.
    pub fn spec(&self) -> &Value {
        &self.object["spec"]
    }
}

/// A change of the Lease that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The Lease that is changed, and only if it is still the same; none to create it.
    pub base: Option<Record>,
    pub holder: String,
    pub seconds: u64,
    pub transitions: i64,
    /// None: now.
    acquired: Option<Value>,
}

impl Draft {
    pub fn create(identity: &str, duration: Duration) -> Draft {
        Draft {
            base: None,
            holder: identity.to_owned(),
            seconds: seconds(duration),
            transitions: 0,
            acquired: None,
        }
    }

    /// Acquires, which counts as a transition, or renews.
    pub fn hold(base: Record, identity: &str, duration: Duration) -> Draft {
        let ours = base.holder == identity;
        let acquired = ours.then(|| base.spec()["acquireTime"].clone());
        Draft {
            holder: identity.to_owned(),
            seconds: seconds(duration),
            transitions: if ours { base.transitions } else { base.transitions.saturating_add(1) },
            acquired: acquired.filter(Value::is_string),
            base: Some(base),
        }
    }

    /// Source: client-go's `tryRelease`: no holder, and one second.
    pub fn release(base: Record) -> Draft {
        let transitions = base.transitions;
        Draft { base: Some(base), holder: String::new(), seconds: 1, transitions, acquired: None }
    }

    /// Returns the request; `now` is wall time, for people and for other clients' logs only.
    pub fn call(&self, rules: &Rules, now: jiff::Timestamp, timeout: Duration) -> Call {
        let now = json!(format!("{now:.6}"));
        let spec = json!({
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": self.acquired.as_ref().unwrap_or(&now),
            "renewTime": now,
            "leaseTransitions": self.transitions,
        });
        let query = format!("timeout={}ms", timeout.as_millis());
        let (method, path, mut object) = match &self.base {
            Some(base) => (Method::PUT, one(rules), base.object.clone()),
            None => (Method::POST, collection(rules), new_object(rules)),
        };
        object["spec"] = spec;
        let body = Some(("application/json", object.to_string().into_bytes()));
        Call { method, path: format!("{path}?{query}"), body }
    }
}

/// A read without resourceVersion: what is true now.
pub fn read_call(rules: &Rules, timeout: Duration) -> Call {
    Call::get(format!("{}?timeout={}ms", one(rules), timeout.as_millis()))
}

/// Watches this one Lease, beginning with what it is.
pub fn watch_call(rules: &Rules, seconds: u64) -> Call {
    let (path, name) = (collection(rules), &rules.name);
    let query = format!("watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={seconds}");
    Call::get(format!("{path}?{query}"))
}

fn new_object(rules: &Rules) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": rules.namespace, "name": rules.name},
    })
}

fn collection(rules: &Rules) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", rules.namespace)
}

fn one(rules: &Rules) -> String {
    format!("{}/{}", collection(rules), rules.name)
}

/// The server knows whole seconds only, and not zero.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs().max(1)
}
