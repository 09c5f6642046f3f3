//! What a Job's controller does: a member that is gone, or goes, is made anew under another name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use berth_stand::{ApiClient, ApiError};
use serde_json::{Value, json};

/// Pause between two looks at the pods.
const PERIOD: Duration = Duration::from_millis(100);

/// A thread that keeps as many pods as it was given, until it is dropped. A pod's name gets a
/// number that counts how often it was made: `g-3-0` of `g-3`, then `g-3-1`.
pub struct JobController {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Kept {
    pod: Value,
    made: u32,
}

impl JobController {
    /// Makes the pods, and starts to look after them.
    ///
    /// # Errors
    /// [`ApiError`] if one can't be made.
    pub fn start(api: ApiClient, pods: Vec<Value>) -> Result<JobController, ApiError> {
        let mut kept = Vec::new();
        for pod in pods {
            let pod = Kept { pod, made: 0 };
            api.create_object(&pod.object())?;
            kept.push(pod);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(SeqCst) {
                // What fails is tried again at the next look.
                let _ = look(&api, &mut kept);
                std::thread::park_timeout(PERIOD);
            }
        });
        Ok(JobController { stop, thread: Some(thread) })
    }
}

impl Drop for JobController {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, its message is on stderr already.
            let _ = thread.join();
        }
    }
}

impl Kept {
    fn name(&self) -> String {
        format!("{}-{}", self.pod["metadata"]["name"].as_str().unwrap_or_default(), self.made)
    }

    fn object(&self) -> Value {
        let mut pod = self.pod.clone();
        pod["metadata"]["name"] = json!(self.name());
        pod
    }
}

fn look(api: &ApiClient, kept: &mut [Kept]) -> Result<(), ApiError> {
    let pods = api.list("/api/v1/namespaces/default/pods")?;
    let stays = |name: &str| {
        let named = |pod: &&Value| pod["metadata"]["name"] == name;
        pods.iter().find(named).is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    };
    for lost in kept.iter_mut().filter(|pod| !stays(&pod.name())) {
        lost.made += 1;
        if let Err(error) = api.create_object(&lost.object()) {
            lost.made -= 1;
            return Err(error);
        }
    }
    Ok(())
}
