//! A small blocking client of the Kubernetes API that shares no code with the scheduler under test.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::discovery::Discovery;
use crate::error::StandError;
use crate::http::{Request, Transport};

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no. `reason` is the word of its Status object, such as `NotFound`.
    #[error("{verb} {path}: {message} (HTTP {status} {reason})")]
    Status { verb: &'static str, path: String, status: u16, reason: String, message: String },
    #[error("{verb} {path}: no answer")]
    NoAnswer {
        verb: &'static str,
        path: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("{verb} {path}: the answer is no JSON")]
    NoJson {
        verb: &'static str,
        path: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the server has no kind {kind:?} in {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}

impl ApiError {
    /// Returns the HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::NoAnswer { .. } | Self::NoJson { .. } | Self::UnknownKind { .. } => None,
        }
    }
}

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Lists are replaced. Works on custom resources too.
    Merge,
    /// Lists with a merge key (conditions, containers) are merged by it. Built-in kinds only.
    Strategic,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// A client of one server as one user. Paths start at the root, such as
/// `/api/v1/namespaces/default/pods/a`.
///
/// Clones share connections and what is known of the server's kinds. Nothing is tried twice.
/// Each method fails with an [`ApiError`]: any status of 400 and above is one.
#[derive(Clone)]
pub struct ApiClient {
    transport: Transport,
    url: String,
    token: String,
    discovery: Arc<Discovery>,
}

impl ApiClient {
    /// Makes a client of the server at `url`, whose certificate must be signed by one in `ca_pem`.
    ///
    /// # Errors
    /// [`StandError::Certificate`] if there is no certificate in `ca_pem`.
    pub fn new(url: &str, ca_pem: &str, token: &str) -> Result<Self, StandError> {
        Ok(Self {
            transport: Transport::new(Some(ca_pem.as_bytes()))?,
            url: url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
            discovery: Arc::default(),
        })
    }

    /// Makes a client of a server without TLS that asks nobody who he is.
    ///
    /// # Errors
    /// [`StandError::Certificate`] never: there is none.
    pub(crate) fn plain(url: &str) -> Result<Self, StandError> {
        Ok(Self {
            transport: Transport::new(None)?,
            url: url.to_owned(),
            token: String::new(),
            discovery: Arc::default(),
        })
    }

    pub fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.call(Request::Get, path)
    }

    /// Returns the object, or nothing if the server has none at this path.
    pub fn find(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.get(path) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all items of a list, in the order of their names; they carry neither `kind` nor
    /// `apiVersion`.
    pub fn list(&self, path: &str) -> Result<Vec<Value>, ApiError> {
        match self.get(path)?["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns what is not JSON, such as `/metrics`.
    pub fn text(&self, path: &str) -> Result<String, ApiError> {
        let body = self.send(Request::Get, path)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Posts `object` to the path of a collection or of a subresource such as `binding`.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.call(Request::Post(object.to_string().as_bytes()), path)
    }

    pub fn put(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.call(Request::Put(object.to_string().as_bytes()), path)
    }

    pub fn patch(&self, path: &str, kind: Patch, patch: &Value) -> Result<Value, ApiError> {
        let body = patch.to_string();
        self.call(Request::Patch(kind.content_type(), body.as_bytes()), path)
    }

    /// Deletes as a user does: a bound pod gets its grace period.
    pub fn delete(&self, path: &str) -> Result<Value, ApiError> {
        self.delete_with(path, &json!({}))
    }

    /// Deletes without a grace period.
    pub fn delete_now(&self, path: &str) -> Result<Value, ApiError> {
        self.delete_with(path, &json!({"gracePeriodSeconds": 0}))
    }

    /// Deletes with the given DeleteOptions.
    pub fn delete_with(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        self.call(Request::Delete(options.to_string().as_bytes()), path)
    }

    /// Creates an object of any kind that the server knows, its namespace if that is missing, and
    /// then its status, if the object has one. Returns the object as it is then.
    ///
    /// An object without a namespace, of a kind that needs one, goes to `default`.
    pub fn create_object(&self, object: &Value) -> Result<Value, ApiError> {
        let kind = self.discovery.find(self, object)?;
        let collection = kind.collection(object);
        let created = match self.create(&collection, object) {
            Err(error) if self.create_missing_namespace(&error, object)? => {
                self.create(&collection, object)?
            }
            other => other?,
        };
        let status = &object["status"];
        if !kind.has_status || status.as_object().is_none_or(|map| map.is_empty()) {
            return Ok(created);
        }
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{collection}/{name}/status");
        self.patch(&path, Patch::Merge, &json!({ "status": status }))
    }

    /// Creates an object as `kubectl apply` would: a field that its kind doesn't have is an error.
    pub fn create_strictly(&self, object: &Value) -> Result<Value, ApiError> {
        let kind = self.discovery.find(self, object)?;
        let path = format!("{}?fieldValidation=Strict", kind.collection(object));
        self.create(&path, object)
    }

    /// Returns the path of an object, from its apiVersion, kind, namespace and name.
    pub fn path_of(&self, object: &Value) -> Result<String, ApiError> {
        let kind = self.discovery.find(self, object)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Ok(format!("{}/{name}", kind.collection(object)))
    }

    /// Creates the object's namespace if it is what the error complains about. Returns whether it
    /// was.
    fn create_missing_namespace(&self, error: &ApiError, object: &Value) -> Result<bool, ApiError> {
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or("default");
        let complaint = format!("namespaces {namespace:?} not found");
        if !matches!(error, ApiError::Status { message, .. } if message.contains(&complaint)) {
            return Ok(false);
        }
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        match self.create("/api/v1/namespaces", &object) {
            Err(error) if error.status() != Some(409) => Err(error),
            _ => Ok(true),
        }
    }

    fn call(&self, request: Request<'_>, path: &str) -> Result<Value, ApiError> {
        let body = self.send(request, path)?;
        serde_json::from_slice(&body).map_err(|source| ApiError::NoJson {
            verb: request.verb(),
            path: path.to_owned(),
            source,
        })
    }

    fn send(&self, request: Request<'_>, path: &str) -> Result<Vec<u8>, ApiError> {
        let url = format!("{}{path}", self.url);
        let answer = self.transport.send(request, &url, Some(&self.token));
        let (status, body) = answer.map_err(|source| ApiError::NoAnswer {
            verb: request.verb(),
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        if status < 400 {
            return Ok(body);
        }
        let object: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        Err(ApiError::Status {
            verb: request.verb(),
            path: path.to_owned(),
            status,
            reason: object["reason"].as_str().unwrap_or_default().to_owned(),
            message: object["message"].as_str().unwrap_or(&text).to_owned(),
        })
    }
}
