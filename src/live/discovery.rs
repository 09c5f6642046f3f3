//! Which kinds the API server has: those of dynamic resource allocation, which came to Kubernetes one
//! after the other, and in which version.
//!
//! A kind that isn't served is off: there can be no such object. Kinds of groups may come later, and
//! are asked for by [`super::dialects`].

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tracing::{info, warn};

use super::client::{Api, Call};
use super::complaint::{Complaint, TELL_AGAIN};
use super::kinds;
use crate::wire::Kind;

const ANSWER: Duration = Duration::from_secs(10);
/// A server that doesn't say is asked again so much later.
const AGAIN: Duration = Duration::from_secs(1);

/// Returns those of the kinds that the server has, taint rules in the newest version it knows.
/// Waits for a server that gives no answer.
pub(super) async fn served(api: &Api, wanted: Vec<Kind>) -> Vec<Kind> {
    let (devices, mut kinds): (Vec<Kind>, Vec<Kind>) = wanted.into_iter().partition(of_devices);
    if devices.is_empty() {
        return kinds;
    }
    let mut off = Vec::new();
    let newest = resources(api, kinds::DEVICES).await;
    for kind in devices {
        if newest.have(kind) {
            kinds.push(kind);
        } else if let Some(older) = older(api, kind).await {
            kinds.push(older);
        } else {
            off.push(kinds::resource(kind));
        }
    }
    if !off.is_empty() {
        let resources = off.join(", ");
        info!(resources, "not served by this API server, and left out; a restart looks again");
    }
    kinds
}

fn of_devices(kind: &Kind) -> bool {
    kind.names().0 == kinds::DEVICES
}

/// Only taint rules may be there in an older version whose content is the same.
async fn older(api: &Api, kind: Kind) -> Option<Kind> {
    if kind != Kind::DeviceTaintRule {
        return None;
    }
    for older in [Kind::DeviceTaintRuleV1beta2, Kind::DeviceTaintRuleV1alpha3] {
        if resources(api, older.names().0).await.have(older) {
            return Some(older);
        }
    }
    None
}

/// What a server has of one group and version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resources {
    Named(BTreeSet<String>),
    /// It won't say: then all, and the watches will tell.
    All,
}

impl Resources {
    pub(super) fn have(&self, kind: Kind) -> bool {
        match self {
            Resources::Named(names) => names.contains(&kinds::plural(kind)),
            Resources::All => true,
        }
    }

    /// Tells whether the status of the kind has a path of its own, `None` if the server won't say.
    pub(super) fn have_status(&self, kind: Kind) -> Option<bool> {
        match self {
            Resources::Named(names) => {
                Some(names.contains(&format!("{}/status", kinds::plural(kind))))
            }
            Resources::All => None,
        }
    }
}

async fn resources(api: &Api, version: &str) -> Resources {
    let mut complaint = Complaint::default();
    loop {
        match ask(api, version).await {
            Ok(resources) => return resources,
            Err(problem) => {
                if complaint.is_due(TELL_AGAIN) {
                    warn!(version, %problem, "the API server doesn't say what it serves; waiting");
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Asks once what there is of a group and version.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn ask(api: &Api, version: &str) -> Result<Resources, String> {
    let answer = api.call(&Call::get(format!("/apis/{version}")), ANSWER).await;
    let answer = answer.map_err(|error| error.message().to_owned())?;
    judge(answer.status.as_u16(), &answer.body).ok_or_else(|| answer.failure().message)
}

/// None if it can't be told yet.
fn judge(code: u16, body: &[u8]) -> Option<Resources> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        name: String,
    }
    match code {
        200..=299 => {
            let list: List = serde_json::from_slice(body).ok()?;
            let names = list.resources.into_iter().map(|resource| resource.name);
            Some(Resources::Named(names.collect()))
        }
        404 => Some(Resources::Named(BTreeSet::new())),
        429 => None,
        400..=499 => Some(Resources::All),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_says_so_lacks_a_kind() {
        let body = br#"{"resources":[{"name":"resourceclaims"},{"name":"resourceclaims/status"}]}"#;
        let said = judge(200, body).unwrap();
        assert!(said.have(Kind::ResourceClaim) && !said.have(Kind::ResourceSlice));
        assert_eq!(said.have_status(Kind::ResourceClaim), Some(true));
        assert_eq!(said.have_status(Kind::ResourceSlice), Some(false));
        assert_eq!(Resources::All.have_status(Kind::ResourceClaim), None);
        assert!(!judge(404, b"").unwrap().have(Kind::ResourceClaim));
        assert_eq!(judge(403, b""), Some(Resources::All));
        for code in [429, 500, 503] {
            assert_eq!(judge(code, b""), None);
        }
        assert_eq!(judge(200, b"{"), None);
    }
}
