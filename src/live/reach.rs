//! The first word with the API server: connections, and somebody who answers.
//!
//! As kube-scheduler does, whoever starts before the API server, or with credentials that it doesn't
//! know yet, waits for it. What no waiting can heal (the kubeconfig, the address) is an error at once.

use std::time::Duration;

use tracing::{info, warn};

use super::client::{Api, Call, ConnectError, SendError, Target};
use super::complaint::{Complaint, TELL_AGAIN};
use super::watch::Pace;
use crate::observe::metrics::Metrics;

const ANSWER: Duration = Duration::from_secs(5);

/// Connections of their own, so that none waits behind another's burst.
pub(super) struct Clients {
    pub(super) main: Api,
    pub(super) events: Api,
    pub(super) lease: Api,
    /// Its name tells lists that compare from those that watches begin with.
    pub(super) comparison: Api,
}

/// Makes the connections as kube-scheduler does: events and the Lease have clients of their own, and
/// so have comparisons.
/// Nothing is sent yet.
///
/// # Errors
/// What is wrong with the kubeconfig, the address or the credentials.
pub(super) async fn clients(target: &Target, metrics: &Metrics) -> Result<Clients, ConnectError> {
    let main = Api::new(target).await?.measured(metrics);
    let events = main.another("scheduler")?;
    let lease = main.another("leader-election")?;
    let comparison = main.another("comparison")?;
    Ok(Clients { main, events, lease, comparison })
}

/// Waits until the server answers, for ever if need be.
pub(super) async fn answered(api: &Api) {
    let (mut complaint, pace, mut failures) = (Complaint::default(), Pace::default(), 0);
    let version = loop {
        match ask(api).await {
            Ok(version) => break version,
            Err(problem) => {
                if complaint.is_due(TELL_AGAIN) {
                    warn!(server = api.server(), "the API server {problem}; waiting for it");
                }
                pace.wait(failures).await;
                failures += 1;
            }
        }
    };
    info!(server = api.server(), version, "connected");
}

/// Asks the server for its version.
///
/// # Errors
/// What it does instead of answering.
async fn ask(api: &Api) -> Result<String, String> {
    let answer = match api.call(&Call::get("/version".to_owned()), ANSWER).await {
        Ok(answer) => answer,
        Err(SendError::NotSent(problem) | SendError::Lost(problem)) => {
            return Err(format!("can't be reached: {problem}"));
        }
    };
    let failure = answer.failure();
    match answer.status.as_u16() {
        200..=299 => {
            let version: serde_json::Value =
                serde_json::from_slice(&answer.body).unwrap_or_default();
            Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
        }
        401 => Err(format!("refuses us: {}", failure.message)),
        // Whoever may not see the version may still schedule.
        403 => Ok("hidden".to_owned()),
        _ => Err(format!("is not ready: {}", failure.message)),
    }
}
