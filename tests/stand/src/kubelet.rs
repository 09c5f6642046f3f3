//! What kubelets and the claim controller do, as far as a scheduler's test needs it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::claims;
use crate::client::{ApiClient, ApiError, Patch};

/// Pause between two looks at all pods.
const PERIOD: Duration = Duration::from_millis(100);

/// A thread that plays the kubelets of all nodes and the controller of claims, until it is dropped:
///
/// * a bound pod that is Pending becomes Running and Ready at once;
/// * a bound pod that is being deleted is gone at once, unless a finalizer holds it;
/// * a pod gets the ResourceClaims of its templates;
/// * a pod that is gone or finished no longer holds its claims, and what was made for it is
///   deleted.
///
/// Each look lists all pods and claims. What fails is tried again at the next look and told on
/// stderr, once.
pub struct FakeKubelet {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl FakeKubelet {
    pub fn start(api: ApiClient) -> Self {
        let stop = Arc::new(Stop::default());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut complaint = String::new();
            while !stopped.wait(PERIOD) {
                if let Err(error) = look(&api) {
                    complain(&mut complaint, &error);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Ends the thread and waits for it, as dropping does.
    pub fn stop(self) {}
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // If it panicked, its message is on stderr already.
            let _ = thread.join();
        }
    }
}

/// A wish to stop that ends a pause early.
#[derive(Default)]
struct Stop {
    requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn request(&self) {
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Returns whether to stop, after `pause` at the latest.
    fn wait(&self, pause: Duration) -> bool {
        let requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(requested, pause, |requested| !*requested);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One look at everything. Goes on after an error and returns the last one.
fn look(api: &ApiClient) -> Result<(), ApiError> {
    // Claims first: a pod that holds one of these and is not in the later list is gone, not new.
    let claims = claims::list(api)?;
    let pods = api.list("/api/v1/pods")?;
    let mut outcome = Ok(());
    for pod in &pods {
        outcome = or_error(outcome, play_pod(api, pod));
    }
    for claim in &claims {
        outcome = or_error(outcome, claims::release(api, claim, &pods));
    }
    outcome
}

fn play_pod(api: &ApiClient, pod: &Value) -> Result<(), ApiError> {
    let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
    if !deleted {
        claims::make(api, pod)?;
    }
    if pod["spec"]["nodeName"].is_null() {
        return Ok(());
    }
    match deleted {
        true if pod["metadata"]["finalizers"].is_null() => remove(api, pod),
        false if pod["status"]["phase"] == "Pending" => run(api, pod),
        _ => Ok(()),
    }
}

/// Deletes this pod, and not one that has taken its name.
fn remove(api: &ApiClient, pod: &Value) -> Result<(), ApiError> {
    let options = json!({
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": pod["metadata"]["uid"]},
    });
    api.delete_with(&pod_path(pod), &options).map(drop)
}

fn run(api: &ApiClient, pod: &Value) -> Result<(), ApiError> {
    let conditions = ["Initialized", "ContainersReady", "Ready"];
    let status = json!({
        "phase": "Running",
        "startTime": bound_at(pod),
        "conditions": conditions.map(|name| json!({"type": name, "status": "True"})),
    });
    let patch = json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status});
    let path = format!("{}/status", pod_path(pod));
    api.patch(&path, Patch::Strategic, &patch).map(drop)
}

/// Returns when the server noted that the pod is bound; for a pod born on a node, when it was born.
fn bound_at(pod: &Value) -> &Value {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let bound = conditions.filter(|c| c["type"] == "PodScheduled" && c["status"] == "True");
    let mut times = bound.map(|c| &c["lastTransitionTime"]);
    times.next().unwrap_or(&pod["metadata"]["creationTimestamp"])
}

pub(crate) fn pod_path(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}

/// Keeps the last error that is one: objects that vanish or change under our hands are seen again
/// at the next look.
fn or_error(so_far: Result<(), ApiError>, next: Result<(), ApiError>) -> Result<(), ApiError> {
    match next {
        Err(error) if !matches!(error.status(), Some(404 | 409)) => Err(error),
        _ => so_far,
    }
}

fn complain(last: &mut String, error: &ApiError) {
    let text = error.to_string();
    // A server that is down is down because the test wants it.
    if text != *last && error.status().is_some() {
        eprintln!("fake kubelet: {text}");
        *last = text;
    }
}
