//! Events about the Lease: who has begun to lead, and who has stopped.
//!
//! Source: client-go's `RecordEvent`, as kube-scheduler 1.37.2 writes it: core/v1, in the name of
//! the first profile. What differs: "stopped leading" goes out before the Lease is released (from
//! there on nothing is written), and nothing is said of a Lease that was lost.

use std::time::Duration;

use http::Method;
use k8s_openapi::jiff;
use serde_json::json;
use tracing::debug;

use super::Rules;
use super::record::Record;
use crate::live::client::{Api, Call};

/// An event is no reason to hold anything up.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the request that writes the event; `component` is who tells it.
pub fn call(
    rules: &Rules,
    lease: &Record,
    component: &str,
    message: &str,
    now: jiff::Timestamp,
) -> Call {
    let Rules { namespace, name, .. } = rules;
    let time = format!("{now:.0}");
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": namespace,
            "name": format!("{name}.{:016x}", now.as_nanosecond()),
        },
        "involvedObject": {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "namespace": namespace,
            "name": name,
            "uid": lease.uid(),
            "resourceVersion": lease.version,
        },
        "type": "Normal",
        "reason": "LeaderElection",
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    });
    let timeout = PATIENCE.as_millis();
    Call {
        method: Method::POST,
        path: format!("/api/v1/namespaces/{namespace}/events?timeout={timeout}ms"),
        body: Some(("application/json", event.to_string().into_bytes())),
    }
}

/// Writes it, once.
pub(super) async fn tell(api: Api, call: Call) {
    match api.call(&call, PATIENCE).await {
        Ok(answer) if answer.status.is_success() => {}
        Ok(answer) => debug!("event about the Lease refused: {}", answer.failure().message),
        Err(problem) => debug!("event about the Lease not sent: {}", problem.message()),
    }
}
