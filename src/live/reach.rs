//! The first word with the API server: connections, and whether anybody answers.

use std::time::{Duration, Instant};

use tracing::info;

use super::client::{Api, Call, ConnectError, SendError, Target};
use crate::observe::metrics::Metrics;

/// A server that is not there yet is waited for so long at the start.
const REACH: Duration = Duration::from_secs(5);
const REACH_AGAIN: Duration = Duration::from_millis(500);

/// Connections of their own, so that none waits behind another's burst.
pub(super) struct Clients {
    pub(super) main: Api,
    pub(super) events: Api,
    pub(super) lease: Api,
}

/// Connects as kube-scheduler does: events and the Lease have clients of their own.
pub(super) async fn connect(target: &Target, metrics: &Metrics) -> Result<Clients, ConnectError> {
    let api = Api::new(target).await?.measured(metrics);
    let events = api.another("scheduler")?;
    let lease = api.another("leader-election")?;
    let begun = Instant::now();
    let version = loop {
        match reach(&api).await {
            Err(ConnectError::Unreachable { .. }) if begun.elapsed() < REACH => {
                tokio::time::sleep(REACH_AGAIN).await;
            }
            other => break other?,
        }
    };
    info!(server = api.server(), version, "connected");
    Ok(Clients { main: api, events, lease })
}

/// Asks the server for its version.
async fn reach(api: &Api) -> Result<String, ConnectError> {
    let server = api.server().to_owned();
    let answer = match api.call(&Call::get("/version".to_owned()), REACH).await {
        Ok(answer) => answer,
        Err(SendError::NotSent(problem) | SendError::Lost(problem)) => {
            return Err(ConnectError::Unreachable { server, problem });
        }
    };
    let failure = answer.failure();
    match answer.status.as_u16() {
        200..=299 => {
            let version: serde_json::Value =
                serde_json::from_slice(&answer.body).unwrap_or_default();
            Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
        }
        401 => Err(ConnectError::Refused { server, problem: failure.message }),
        // Whoever may not see the version may still schedule.
        403 => Ok("hidden".to_owned()),
        _ => Err(ConnectError::Unreachable { server, problem: failure.message }),
    }
}
