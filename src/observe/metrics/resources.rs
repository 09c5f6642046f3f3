//! `/metrics/resources`: what each pod asks for, and its limits.
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
use berth_core::types::{PodSpec, PodUid, Resources, Text};

use super::{Metrics, lock};

/// Pods a part: about a tenth of a millisecond of the engine's thread.
const PART: usize = 1000;
/// A part takes at most so long; a poll takes milliseconds.
const ANSWER: Duration = Duration::from_secs(2);

/// A family of the page: each is written in one piece, so the pods are gone through twice.
struct Family {
    name: &'static str,
    help: &'static str,
    of: fn(&PodAmounts) -> &Resources,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "kube_pod_resource_limit",
        help: "What a pod may use of a resource at most, by its containers' limits.",
        of: |pod| &pod.limits,
    },
    Family {
        name: "kube_pod_resource_request",
        help: "What a pod requests of a resource, as the scheduler counts it.",
        of: |pod| &pod.spec.requests.real,
    },
];

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
    answer: SyncSender<Vec<PodAmounts>>,
}

/// A pod and what it asks for.
struct PodAmounts {
    uid: PodUid,
    namespace: Text,
    name: Text,
    node: Option<Text>,
    priority: i32,
    spec: Arc<PodSpec>,
    limits: Arc<Resources>,
    ended: bool,
}

/// Answers a question; whoever has given up meanwhile gets nothing.
pub(super) fn answer(ask: &Ask, cluster: &Cluster) {
    let pods = cluster.pods_after(ask.after.as_ref(), PART);
    let part = pods.into_iter().map(|pod| PodAmounts {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: pod.node_name.clone(),
        priority: pod.priority,
        spec: Arc::clone(&pod.spec),
        limits: Arc::clone(&pod.limits),
        // One that was never placed and is over counts all the same. Source: upstream's collector.
        ended: pod.finished() && pod.node_name.is_some(),
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
    pub fn resources(&self, out: &mut dyn Write) -> io::Result<()> {
        // The first part comes first: an engine that does not answer is to leave no half answer.
        for family in &FAMILIES {
            let part = self.part(None)?;
            self.family(out, family, part)?;
        }
        Ok(())
    }

    fn family(
        &self,
        out: &mut dyn Write,
        family: &Family,
        mut part: Vec<PodAmounts>,
    ) -> io::Result<()> {
        let Family { name, help, of } = family;
        // As upstream's registry, which leaves out what has no series.
        let mut head = Some(format!("# HELP {name} [STABLE] {help}\n# TYPE {name} gauge\n"));
        loop {
            let pods = part.iter().filter(|pod| !pod.ended);
            for pod in pods.filter(|pod| of(pod).iter().any(|(_, amount)| amount != 0)) {
                if let Some(head) = head.take() {
                    out.write_all(head.as_bytes())?;
                }
                write_pod(out, name, pod, of(pod))?;
            }
            let Some(last) = part.pop().filter(|_| part.len() + 1 >= PART) else { return Ok(()) };
            part = self.part(Some(last.uid))?;
        }
    }

    fn part(&self, after: Option<PodUid>) -> io::Result<Vec<PodAmounts>> {
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
fn write_pod(
    out: &mut dyn Write,
    family: &str,
    pod: &PodAmounts,
    amounts: &Resources,
) -> io::Result<()> {
    for (resource, amount) in amounts.iter().filter(|(_, amount)| *amount != 0) {
        let (unit, value) = match resource {
            CPU => ("cores", amount as f64 / 1000.0),
            MEMORY | EPHEMERAL_STORAGE => ("bytes", amount as f64),
            _ if resource.starts_with("hugepages-") => ("bytes", amount as f64),
            _ if resource.starts_with("attachable-volumes-") => ("integer", amount as f64),
            _ => ("", amount as f64),
        };
        writeln!(
            out,
            "{family}{{namespace=\"{}\",node=\"{}\",pod=\"{}\",priority=\"{}\",\
             resource=\"{resource}\",scheduler=\"{}\",unit=\"{unit}\"}} {value}",
            pod.namespace,
            pod.node.as_deref().unwrap_or_default(),
            pod.name,
            pod.priority,
            Escaped(&pod.spec.scheduler_name),
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
