//! Which path a kind has, as the server itself tells.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::client::{ApiClient, ApiError};

/// The kinds of each apiVersion that was asked for. Asked again when a kind is missing, so new
/// custom resources are found.
#[derive(Default)]
pub(crate) struct Discovery {
    known: Mutex<BTreeMap<String, Vec<Kind>>>,
}

/// Where objects of one kind live.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    kind: String,
    plural: String,
    /// Such as `/api/v1` or `/apis/apps/v1`.
    base: String,
    namespaced: bool,
    pub(crate) has_status: bool,
}

impl Kind {
    /// Returns the path under which the object's like are listed, without a slash at the end.
    pub(crate) fn collection(&self, object: &Value) -> String {
        let (base, plural) = (&self.base, &self.plural);
        if !self.namespaced {
            return format!("{base}/{plural}");
        }
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or("default");
        format!("{base}/namespaces/{namespace}/{plural}")
    }
}

impl Discovery {
    /// Returns the kind of an object. Cost: one GET the first time an apiVersion is seen.
    ///
    /// # Errors
    /// [`ApiError::UnknownKind`] if the server does not serve it.
    pub(crate) fn find(&self, client: &ApiClient, object: &Value) -> Result<Kind, ApiError> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let name = object["kind"].as_str().unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = known.get(api_version).and_then(|kinds| named(kinds, name)) {
            return Ok(kind);
        }
        let kinds = kinds_of(client, api_version)?;
        let kind = named(&kinds, name);
        known.insert(api_version.to_owned(), kinds);
        kind.ok_or_else(|| ApiError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: name.to_owned(),
        })
    }
}

fn named(kinds: &[Kind], name: &str) -> Option<Kind> {
    kinds.iter().find(|kind| kind.kind == name).cloned()
}

fn kinds_of(client: &ApiClient, api_version: &str) -> Result<Vec<Kind>, ApiError> {
    let base = match api_version.contains('/') {
        true => format!("/apis/{api_version}"),
        false => format!("/api/{api_version}"),
    };
    let Some(list) = client.find(&base)? else {
        return Ok(Vec::new());
    };
    let resources = list["resources"].as_array();
    Ok(kinds_in(&base, resources.map_or(&[][..], Vec::as_slice)))
}

/// Reads an APIResourceList, in which subresources stand as `pods/status` beside `pods`.
fn kinds_in(base: &str, resources: &[Value]) -> Vec<Kind> {
    let name = |resource: &Value| resource["name"].as_str().unwrap_or_default().to_owned();
    let mut kinds = Vec::new();
    for resource in resources {
        let plural = name(resource);
        if plural.contains('/') {
            continue;
        }
        let status = format!("{plural}/status");
        kinds.push(Kind {
            kind: resource["kind"].as_str().unwrap_or_default().to_owned(),
            base: base.to_owned(),
            namespaced: resource["namespaced"].as_bool().unwrap_or_default(),
            has_status: resources.iter().any(|other| name(other) == status),
            plural,
        });
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_follow_scope_group_and_status() {
        let resources = [
            json!({"name": "nodes", "kind": "Node", "namespaced": false}),
            json!({"name": "pods", "kind": "Pod", "namespaced": true}),
            json!({"name": "pods/status", "kind": "Pod", "namespaced": true}),
        ];
        let kinds = kinds_in("/api/v1", &resources);
        let node = named(&kinds, "Node").expect("nodes are served");
        let pod = named(&kinds, "Pod").expect("pods are served");
        assert!(pod.has_status && !node.has_status);
        assert_eq!(node.collection(&json!({})), "/api/v1/nodes");
        assert_eq!(pod.collection(&json!({})), "/api/v1/namespaces/default/pods");
        let in_team = json!({"metadata": {"namespace": "team"}});
        assert_eq!(pod.collection(&in_team), "/api/v1/namespaces/team/pods");
    }
}
