//! What is installed: the manifests, the rights in them, and Berth with just these rights.

mod accepted;
mod image;
pub(crate) mod rights;
pub(crate) mod runs;
mod static_pod;

use std::fs;
use std::path::{Path, PathBuf};

use berth_stand::{ApiClient, Authorization, Options, Stand, User};
use serde_json::{Value, json};

/// Who Berth is as a second scheduler.
pub(crate) const USER: &str = "system:serviceaccount:berth-system:berth";

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn second() -> PathBuf {
    root().join("manifests/second")
}

/// The objects of a folder of manifests; what only kustomize or Berth itself reads is left out.
fn objects(folder: &Path) -> Vec<Value> {
    let documents = berth_stand::manifests(folder).expect("manifests");
    let files = ["Kustomization", "KubeSchedulerConfiguration"];
    documents.into_iter().filter(|d| files.iter().all(|kind| d["kind"] != *kind)).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A server on which roles count and requests are noted, with these users beside the admin.
pub(crate) fn guarded(users: &[&str]) -> Option<Stand> {
    guarded_on(&Options::default(), users)
}

/// As [`guarded`], on a server that is otherwise started so.
pub(crate) fn guarded_on(options: &Options, users: &[&str]) -> Option<Stand> {
    let user = |name: &&str| User { name: (*name).to_owned(), groups: Vec::new() };
    let options = Options {
        authorization: Authorization::Rbac,
        audit_log: true,
        users: users.iter().map(user).collect(),
        ..options.clone()
    };
    Stand::start_or_skip(&options)
}

/// Lets a user get /metrics, and nothing else.
fn allow_metrics(api: &ApiClient, user: &str) {
    let group = "rbac.authorization.k8s.io";
    let (version, name) = (format!("{group}/v1"), json!({"name": "scraper"}));
    let role = json!({
        "apiVersion": version, "kind": "ClusterRole", "metadata": name,
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": name,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    for object in [role, binding] {
        api.create_object(&object).expect("an RBAC object");
    }
}
