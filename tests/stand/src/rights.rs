//! A service account with exactly the rights of some manifests, and what it did with them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::ApiError;
use crate::error::StandError;
use crate::stand::Stand;
use crate::wait::try_wait_for;

/// What decides about rights, in an order in which it can be created.
const KINDS: [&str; 6] =
    ["Namespace", "ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"];
/// A token outlives the test.
const TOKEN_SECONDS: u32 = 7200;
/// By then an authorizer knows what was created.
const SOON: Duration = Duration::from_secs(10);

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
    /// and nothing else of them, and returns when the server's authorizer, which watches them, has
    /// seen them all. The server refuses unknown fields.
    ///
    /// # Errors
    /// [`StandError::File`], [`StandError::Manifest`], [`StandError::Api`]; [`StandError::NotYet`]
    /// if a right is not granted after some seconds.
    pub fn grant_rights(&self, folder: &Path) -> Result<(), StandError> {
        let mut objects = manifests(folder)?;
        let rank = |object: &Value| KINDS.iter().position(|kind| object["kind"] == *kind);
        objects.retain(|object| rank(object).is_some());
        objects.sort_by_key(|object| rank(object));
        for object in &objects {
            self.client().create_strictly(object)?;
        }
        for review in reviews(&objects) {
            let what = format!("granted: {}", review["spec"]);
            try_wait_for(SOON, &what, || self.allows(&review).transpose())??;
        }
        Ok(())
    }

    /// Asks whether a SubjectAccessReview is answered with yes; nothing if it isn't.
    fn allows(&self, review: &Value) -> Result<Option<()>, ApiError> {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.client().create(path, review)?;
        Ok((answer["status"]["allowed"] == true).then_some(()))
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

/// Returns a SubjectAccessReview for each rule about resources of each role that one of the bindings
/// gives to a service account.
fn reviews(objects: &[Value]) -> Vec<Value> {
    let role_of = |binding: &Value| {
        objects.iter().find(|role| {
            role["kind"] == binding["roleRef"]["kind"]
                && role["metadata"]["name"] == binding["roleRef"]["name"]
                && (role["kind"] == "ClusterRole"
                    || role["metadata"]["namespace"] == binding["metadata"]["namespace"])
        })
    };
    let mut reviews = Vec::new();
    for binding in objects {
        let Some(rules) = role_of(binding).and_then(|role| role["rules"].as_array()) else {
            continue;
        };
        let accounts = binding["subjects"].as_array().into_iter().flatten();
        for account in accounts.filter(|subject| subject["kind"] == "ServiceAccount") {
            let asked = rules.iter().filter(|rule| rule["resources"].is_array());
            reviews.extend(asked.map(|rule| review(account, &binding["metadata"], rule)));
        }
    }
    reviews
}

/// Asks for the first verb on the first object of a rule.
fn review(account: &Value, place: &Value, rule: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = text(&rule["resources"][0]);
    let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
    let user =
        format!("system:serviceaccount:{}:{}", text(&account["namespace"]), text(&account["name"]));
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "name": text(&rule["resourceNames"][0]),
            "namespace": text(&place["namespace"]),
        }},
    })
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
    fn each_rule_of_a_bound_role_is_asked_for() {
        let rules = json!([
            {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"],
             "resourceNames": ["berth"]},
        ]);
        let role = |kind: &str, namespace: &str| {
            json!({"kind": kind, "rules": rules,
                   "metadata": {"name": "r", "namespace": namespace}})
        };
        let binding = json!({
            "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "here"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"},
                         {"kind": "ServiceAccount", "name": "a", "namespace": "there"}],
        });
        assert!(reviews(&[role("Role", "elsewhere"), binding.clone()]).is_empty());
        let asked = reviews(&[role("Role", "here"), binding]);
        let asked: Vec<&Value> = asked.iter().map(|review| &review["spec"]).collect();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0]["user"], "system:serviceaccount:there:a");
        assert_eq!(asked[0]["resourceAttributes"]["subresource"], "binding");
        let lease = &asked[1]["resourceAttributes"];
        assert_eq!((&lease["name"], &lease["verb"]), (&json!("berth"), &json!("get")));
        assert_eq!(lease["namespace"], "here");
    }

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
