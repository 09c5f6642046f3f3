//! What the API server says of our rights: all rules of a namespace at once, or one right.

use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::needs::Need;
use crate::live::client::{Api, Call};

const ANSWER: Duration = Duration::from_secs(10);
const GROUP: &str = "/apis/authorization.k8s.io/v1";

/// The status of a SelfSubjectRulesReview, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rules {
    resource_rules: Vec<Rule>,
    /// There may be more: an authorizer can't list its rules.
    pub incomplete: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

impl Rules {
    pub fn allow(&self, need: &Need) -> bool {
        self.resource_rules.iter().any(|rule| rule.allows(need))
    }
}

impl Rule {
    /// Source: kubernetes, plugin/pkg/auth/authorizer/rbac.
    fn allows(&self, need: &Need) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|it| it == "*" || it == wanted);
        let of_all = need.resource.split_once('/').map(|(_, part)| format!("*/{part}"));
        let resource = has(&self.resources, &need.resource)
            || of_all.is_some_and(|of_all| self.resources.contains(&of_all));
        let named = self.resource_names.is_empty()
            || need.name.as_ref().is_some_and(|name| self.resource_names.contains(name));
        has(&self.verbs, need.verb) && has(&self.api_groups, &need.group) && resource && named
    }
}

/// Returns the rules that we have in a namespace, those for all namespaces included.
///
/// # Errors
/// Why it can't be told.
pub(super) async fn rules(api: &Api, namespace: &str) -> Result<Rules, String> {
    let review = review("SelfSubjectRulesReview", json!({"namespace": namespace}));
    let status = ask(api, "selfsubjectrulesreviews", &review).await?;
    serde_json::from_value(status).map_err(|error| error.to_string())
}

/// Tells whether we have this one right.
///
/// # Errors
/// Why it can't be told.
pub(super) async fn has(api: &Api, need: &Need) -> Result<bool, String> {
    let (resource, subresource) = need.resource.split_once('/').unwrap_or((&need.resource, ""));
    let attributes = json!({
        "group": need.group,
        "resource": resource,
        "subresource": subresource,
        "verb": need.verb,
        "namespace": need.namespace.as_deref().unwrap_or_default(),
        "name": need.name.as_deref().unwrap_or_default(),
    });
    let review = review("SelfSubjectAccessReview", json!({"resourceAttributes": attributes}));
    let status = ask(api, "selfsubjectaccessreviews", &review).await?;
    match (status["allowed"].as_bool(), status["evaluationError"].as_str().unwrap_or_default()) {
        (Some(true), _) => Ok(true),
        (_, "") => Ok(false),
        (_, error) => Err(error.to_owned()),
    }
}

fn review(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
}

async fn ask(api: &Api, resource: &str, review: &Value) -> Result<Value, String> {
    let body = Some(("application/json", review.to_string().into_bytes()));
    let call = Call { method: Method::POST, path: format!("{GROUP}/{resource}"), body };
    let answer = api.call(&call, ANSWER).await.map_err(|error| error.message().to_owned())?;
    if !answer.status.is_success() {
        let failure = answer.failure();
        return Err(format!("{} ({})", failure.message, failure.code));
    }
    let mut review: Value = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
    Ok(review["status"].take())
}
