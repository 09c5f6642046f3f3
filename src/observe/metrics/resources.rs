//! `/metrics/resources`: what each pod asks for.
//!
//! There is a line for every pod and resource, so nothing of it is kept here: the pods are fetched
//! from the engine's thread in parts, between its polls, and each part is written before the next
//! is asked for. A thread that is too busy to answer ends the answer with an error; what would be
//! served instead is a second copy of all pods, held at all times.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

use berth_core::snapshot::Cluster;
use berth_core::types::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use berth_core::types::{PodRequests, PodUid, Text};

use super::{Metrics, lock};

/// Pods a part: about a tenth of a millisecond of the engine's thread.
const PART: usize = 1000;
/// A part takes at most so long; a poll takes milliseconds.
const ANSWER: Duration = Duration::from_secs(2);

const HEAD: &str = "# HELP kube_pod_resource_request [STABLE] What a pod requests of a resource, as \
                    the scheduler counts it.\n# TYPE kube_pod_resource_request gauge\n";

/// Has the engine's thread look up from its sleep.
pub(super) type Waker = Box<dyn Fn() + Send + Sync>;

/// Where questions are handed in.
pub(super) struct Desk {
    asks: Sender<Ask>,
    wake: Waker,
}

/// Asks for the pods after this one.
pub(super) struct Ask {
    after: Option<PodUid>,
    answer: SyncSender<Vec<PodUsage>>,
}

/// A pod and what it takes.
struct PodUsage {
    uid: PodUid,
    namespace: Text,
    name: Text,
    node: Option<Text>,
    scheduler_name: Text,
    priority: i32,
    usage: Arc<PodRequests>,
    ended: bool,
}

/// Answers a question; whoever has given up meanwhile gets nothing.
pub(super) fn answer(ask: &Ask, cluster: &Cluster) {
    let pods = cluster.pods_after(ask.after.as_ref(), PART);
    let part = pods.into_iter().map(|pod| PodUsage {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: pod.node_name.clone(),
        scheduler_name: pod.spec.scheduler_name.clone(),
        priority: pod.priority,
        usage: Arc::clone(&pod.usage),
        ended: pod.finished(),
    });
    let _ = ask.answer.try_send(part.collect());
}

impl Metrics {
    pub(super) fn open_desk(&self, wake: Waker) -> Receiver<Ask> {
        let (asks, receiver) = mpsc::channel();
        *lock(&self.shared.desk) = Some(Desk { asks, wake });
        receiver
    }

    /// Writes what each pod requests, in Prometheus' text format. It blocks, so it is no work for an
    /// async task.
    ///
    /// # Errors
    /// `NotConnected`: no engine runs. `TimedOut`: it did not answer in time; what is written by
    /// then is incomplete. Or what `out` says.
    pub fn resources(&self, out: &mut impl Write) -> io::Result<()> {
        // The first part comes first: an engine that does not answer is to leave no half answer.
        let mut part = self.part(None)?;
        out.write_all(HEAD.as_bytes())?;
        loop {
            for pod in part.iter().filter(|pod| !pod.ended) {
                write_pod(out, pod)?;
            }
            let Some(last) = part.pop().filter(|_| part.len() + 1 >= PART) else { return Ok(()) };
            part = self.part(Some(last.uid))?;
        }
    }

    fn part(&self, after: Option<PodUid>) -> io::Result<Vec<PodUsage>> {
        let (answer, answered) = mpsc::sync_channel(1);
        let nobody = || io::Error::new(io::ErrorKind::NotConnected, "no engine runs");
        {
            let desk = lock(&self.shared.desk);
            let desk = desk.as_ref().ok_or_else(nobody)?;
            desk.asks.send(Ask { after, answer }).map_err(|_| nobody())?;
            (desk.wake)();
        }
        let busy = |_| io::Error::new(io::ErrorKind::TimedOut, "the engine is busy");
        answered.recv_timeout(ANSWER).map_err(busy)
    }
}

/// Writes one line for each resource.
fn write_pod(out: &mut impl Write, pod: &PodUsage) -> io::Result<()> {
    for (resource, amount) in pod.usage.real.iter() {
        let (unit, value) = match resource {
            CPU => ("cores", amount as f64 / 1000.0),
            MEMORY | EPHEMERAL_STORAGE => ("bytes", amount as f64),
            _ if resource.starts_with("hugepages-") => ("bytes", amount as f64),
            _ if resource.starts_with("attachable-volumes-") => ("integer", amount as f64),
            _ => ("", amount as f64),
        };
        writeln!(
            out,
            "kube_pod_resource_request{{namespace=\"{}\",node=\"{}\",pod=\"{}\",priority=\"{}\",\
             resource=\"{resource}\",scheduler=\"{}\",unit=\"{unit}\"}} {value}",
            pod.namespace,
            pod.node.as_deref().unwrap_or_default(),
            pod.name,
            pod.priority,
            Escaped(&pod.scheduler_name),
        )?;
    }
    Ok(())
}

/// A label value that may hold anything. Names of objects and resources need no escapes.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write as _;
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}
