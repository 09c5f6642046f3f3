//! A service account with exactly the rights of some manifests, and what it did with them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::StandError;
use crate::stand::Stand;

/// What decides about rights, in an order in which it can be created.
const KINDS: [&str; 6] =
    ["Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"];
/// A token outlives the test.
const TOKEN_SECONDS: u32 = 7200;

/// A request that the audit log has seen answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditedRequest {
    /// Such as `list` or `watch`.
    pub verb: String,
    /// Empty for the core group and for paths.
    pub group: String,
    /// Such as `pods/binding`; for what is no resource, the path.
    pub resource: String,
    /// Empty where there is none, as is `name`.
    pub namespace: String,
    pub name: String,
    pub status: u16,
}

impl fmt::Display for AuditedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        for (label, value) in [(".", &self.group), (" in ", &self.namespace), (" ", &self.name)] {
            if !value.is_empty() {
                write!(f, "{label}{value}")?;
            }
        }
        write!(f, ": {}", self.status)
    }
}

impl Stand {
    /// Creates the namespaces, service accounts, roles and bindings of the YAML files in `folder`,
    /// and nothing else of them. The server refuses unknown fields.
    ///
    /// # Errors
    /// [`StandError::File`], [`StandError::Manifest`], [`StandError::Api`].
    pub fn grant_rights(&self, folder: &Path) -> Result<(), StandError> {
        let mut objects = manifests(folder)?;
        let rank = |object: &Value| KINDS.iter().position(|kind| object["kind"] == *kind);
        objects.retain(|object| rank(object).is_some());
        objects.sort_by_key(|object| rank(object));
        for object in &objects {
            self.client().create_strictly(object)?;
        }
        Ok(())
    }

    /// Writes a kubeconfig of a service account, which must exist, and returns its path. Its token
    /// comes from the server, as a pod's does.
    ///
    /// # Errors
    /// [`StandError::NoServiceAccount`] if `user` isn't `system:serviceaccount:NAMESPACE:NAME`;
    /// [`StandError::Api`], [`StandError::File`].
    pub fn service_account_kubeconfig(&self, user: &str) -> Result<PathBuf, StandError> {
        let names = user.strip_prefix("system:serviceaccount:").and_then(|names| {
            names
                .split_once(':')
                .filter(|(namespace, name)| !(namespace.is_empty() || name.is_empty()))
        });
        let Some((namespace, name)) = names else {
            return Err(StandError::NoServiceAccount { user: user.to_owned() });
        };
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        });
        let answer = self.client().create(&path, &request)?;
        let token = answer["status"]["token"].as_str().unwrap_or_default();
        self.write_kubeconfig(user, token)
    }

    /// Returns what `user` has asked the server so far, in the order of the answers; a watch counts
    /// when it begins and when it ends. Needs [`crate::Options::audit_log`].
    ///
    /// # Errors
    /// [`StandError::File`].
    pub fn requests_of(&self, user: &str) -> Result<Vec<AuditedRequest>, StandError> {
        let path = self.audit_log();
        let text = fs::read_to_string(&path).map_err(StandError::at(&path))?;
        // The last line may be half written.
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let stages = ["ResponseStarted", "ResponseComplete"];
        let answered = |entry: &Value| stages.iter().any(|stage| entry["stage"] == *stage);
        let of_user = |entry: &Value| entry["user"]["username"] == user;
        Ok(entries.filter(|e| answered(e) && of_user(e)).map(|entry| audited(&entry)).collect())
    }
}

fn audited(entry: &Value) -> AuditedRequest {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &entry["objectRef"];
    let resource = match (object["resource"].as_str(), object["subresource"].as_str()) {
        (Some(resource), Some(subresource)) => format!("{resource}/{subresource}"),
        (Some(resource), None) => resource.to_owned(),
        (None, _) => text(&entry["requestURI"]),
    };
    AuditedRequest {
        verb: text(&entry["verb"]),
        group: text(&object["apiGroup"]),
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        status: entry["responseStatus"]["code"].as_u64().unwrap_or(0) as u16,
    }
}

/// Reads the documents of all YAML files in a folder, in the order of the files' names.
///
/// # Errors
/// [`StandError::File`], [`StandError::Manifest`].
pub fn manifests(folder: &Path) -> Result<Vec<Value>, StandError> {
    let entries = fs::read_dir(folder).map_err(StandError::at(folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let mut documents = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(StandError::at(&path))?;
        let read: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
        let read = read.map_err(|source| StandError::Manifest { path, source: Box::new(source) });
        documents.extend(read?);
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_by_verb_and_resource() {
        let entry = json!({
            "verb": "create", "requestURI": "/api/v1/namespaces/a/pods/p/binding?timeout=5s",
            "objectRef": {
                "resource": "pods", "subresource": "binding", "namespace": "a", "name": "p",
            },
            "responseStatus": {"code": 403},
        });
        assert_eq!(audited(&entry).to_string(), "create pods/binding in a p: 403");
        let entry = json!({
            "verb": "list", "responseStatus": {"code": 200},
            "objectRef": {"resource": "leases", "apiGroup": "coordination.k8s.io"},
        });
        assert_eq!(audited(&entry).to_string(), "list leases.coordination.k8s.io: 200");
    }
}
