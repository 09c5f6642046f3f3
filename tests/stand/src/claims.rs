//! The claim controller: makes ResourceClaims from templates, and takes them from pods that are
//! gone.

use serde_json::{Value, json};

use crate::client::{ApiClient, ApiError, Patch};
use crate::kubelet::pod_path;

const API_VERSION: &str = "resource.k8s.io/v1";

/// Characters of the pod's uid that end the name of a claim: the same each time, so a claim is
/// never made twice.
const SUFFIX_CHARS: usize = 5;

/// Returns all claims; none from a server that does not know them.
pub(crate) fn list(api: &ApiClient) -> Result<Vec<Value>, ApiError> {
    match api.list(&format!("/apis/{API_VERSION}/resourceclaims")) {
        Err(error) if error.status() == Some(404) => Ok(Vec::new()),
        other => other,
    }
}

/// Makes the claims that the pod's templates ask for and its status does not name yet.
pub(crate) fn make(api: &ApiClient, pod: &Value) -> Result<(), ApiError> {
    let named = |name: &Value| {
        let statuses = pod["status"]["resourceClaimStatuses"].as_array();
        statuses.is_some_and(|statuses| statuses.iter().any(|status| status["name"] == *name))
    };
    for wish in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
        if let (Some(name), Some(template)) =
            (wish["name"].as_str(), wish["resourceClaimTemplateName"].as_str())
            && !named(&wish["name"])
        {
            make_one(api, pod, name, template)?;
        }
    }
    Ok(())
}

fn make_one(api: &ApiClient, pod: &Value, name: &str, template: &str) -> Result<(), ApiError> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let base = format!("/apis/{API_VERSION}/namespaces/{namespace}");
    let template = api.get(&format!("{base}/resourceclaimtemplates/{template}"))?;
    let claim = claim_of(pod, name, &template["spec"]);
    match api.create(&format!("{base}/resourceclaims"), &claim) {
        Err(error) if error.status() != Some(409) => return Err(error),
        _ => {}
    }
    let status = json!({"name": name, "resourceClaimName": claim["metadata"]["name"]});
    let patch = json!({
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {"resourceClaimStatuses": [status]},
    });
    let path = format!("{}/status", pod_path(pod));
    api.patch(&path, Patch::Strategic, &patch).map(drop)
}

fn claim_of(pod: &Value, name: &str, template_spec: &Value) -> Value {
    let pod = &pod["metadata"];
    let (pod_name, uid) = (&pod["name"], &pod["uid"]);
    let suffix: String = uid.as_str().unwrap_or_default().chars().take(SUFFIX_CHARS).collect();
    let mut metadata = json!({
        "name": format!("{}-{name}-{suffix}", pod_name.as_str().unwrap_or_default()),
        "labels": template_spec["metadata"]["labels"],
        "annotations": template_spec["metadata"]["annotations"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    metadata["annotations"]["resource.kubernetes.io/pod-claim-name"] = json!(name);
    json!({
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template_spec["spec"],
    })
}

/// Takes a claim from the pods that are gone or finished. `pods` must be younger than `claim`.
pub(crate) fn release(api: &ApiClient, claim: &Value, pods: &[Value]) -> Result<(), ApiError> {
    let holders = claim["status"]["reservedFor"].as_array();
    let holders = holders.map_or(&[][..], Vec::as_slice);
    let staying: Vec<&Value> = holders.iter().filter(|h| still_holds(h, pods)).collect();
    if staying.len() < holders.len() {
        let mut status = json!({ "reservedFor": staying });
        if staying.is_empty() {
            status["allocation"] = Value::Null;
            status["devices"] = Value::Null;
        }
        let metadata = json!({"resourceVersion": claim["metadata"]["resourceVersion"]});
        let patch = json!({"metadata": metadata, "status": status});
        let path = format!("{}/status", claim_path(claim));
        api.patch(&path, Patch::Merge, &patch)?;
    }
    match is_orphan(claim, pods) {
        true => remove(api, claim),
        false => Ok(()),
    }
}

fn still_holds(holder: &Value, pods: &[Value]) -> bool {
    let finished =
        |pod: &Value| pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed";
    let is_pod =
        holder["resource"] == "pods" && holder["apiGroup"].as_str().unwrap_or_default().is_empty();
    let mut same = pods.iter().filter(|pod| pod["metadata"]["uid"] == holder["uid"]);
    !is_pod || same.any(|pod| !finished(pod))
}

/// Whether the claim was made for a pod that is gone.
fn is_orphan(claim: &Value, pods: &[Value]) -> bool {
    let owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut owners = owners.filter(|owner| owner["kind"] == "Pod" && owner["apiVersion"] == "v1");
    owners.any(|owner| !pods.iter().any(|pod| pod["metadata"]["uid"] == owner["uid"]))
}

fn remove(api: &ApiClient, claim: &Value) -> Result<(), ApiError> {
    let path = claim_path(claim);
    let uid = &claim["metadata"]["uid"];
    if !claim["metadata"]["finalizers"].is_null() {
        let patch = json!({"metadata": {"uid": uid, "finalizers": null}});
        api.patch(&path, Patch::Merge, &patch)?;
    }
    api.delete_with(&path, &json!({"preconditions": {"uid": uid}})).map(drop)
}

fn claim_path(claim: &Value) -> String {
    let text = |key: &str| claim["metadata"][key].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    format!("/apis/{API_VERSION}/namespaces/{namespace}/resourceclaims/{name}")
}
