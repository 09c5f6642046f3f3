//! The watch of one Lease: it tells versions only, so that whoever hears one reads for himself.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::watch::Sender;
use tokio::time::timeout;
use tracing::debug;

use crate::live::client::Api;
use crate::live::lease::Rules;
use crate::live::lease::record;

/// A watch that was refused or ended at once is tried again after so long: polling goes on.
const PAUSE: Duration = Duration::from_secs(5);
const LIFETIME: Duration = Duration::from_secs(300);
const ANSWER: Duration = Duration::from_secs(10);
/// A Lease is smaller, but for a hostile one.
const LINE_MAX: usize = 4 << 20;

/// Watches for ever.
pub(in crate::live) async fn look(api: Api, rules: Rules, tell: Sender<String>) -> Infallible {
    loop {
        let begun = Instant::now();
        if let Err(problem) = follow(&api, &rules, &tell).await {
            debug!("the Lease is not watched, only polled: {problem}");
        }
        if begun.elapsed() < PAUSE {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn follow(api: &Api, rules: &Rules, tell: &Sender<String>) -> Result<(), String> {
    let call = record::watch_call(rules, LIFETIME.mul_f64(1.0 + unit()).as_secs());
    let response = timeout(ANSWER, api.stream(&call)).await.map_err(|_| "no answer")?;
    let (head, mut body) = response.map_err(|error| error.message().to_owned())?.into_parts();
    if !head.status.is_success() {
        return Err(head.status.to_string());
    }
    // A holder renews more often; where nobody does, a new watch costs little.
    let silence = rules.lease_duration * 2;
    let mut rest: Vec<u8> = Vec::new();
    while let Ok(Some(frame)) = timeout(silence, body.frame()).await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
            if event["type"] == "ERROR" {
                return Err(event["object"]["message"].to_string());
            }
            let version = event["object"]["metadata"]["resourceVersion"].as_str();
            tell.send_replace(version.unwrap_or_default().to_owned());
        }
        if rest.len() > LINE_MAX {
            return Err("an event without end".to_owned());
        }
    }
    Ok(())
}

/// Returns a number in [0, 1), so that many processes don't come at the same moment.
pub(super) fn unit() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}
