//! The ceiling: a process that sends binds that were decided on before, with the writes to claims
//! that belong to them, and reads one watch of pods without looking at it.

use std::path::PathBuf;

use http::Method;
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::client::{self, Sending, Server};
use crate::devices;
use crate::load::NAMESPACE;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    server: String,
    #[arg(long)]
    ca: PathBuf,
    #[arg(long)]
    token: String,
    /// Lines of pod, node and device, if the pod has a claim of its own; between them tabs
    #[arg(long)]
    targets: PathBuf,
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Send an event after each bind
    #[arg(long)]
    events: bool,
}

/// Binds all, and then only watches, until it is killed.
pub(crate) fn run(args: &Args) -> Outcome<()> {
    let server = Server::new(&args.server, &std::fs::read_to_string(&args.ca)?, &args.token)?;
    let targets = std::fs::read_to_string(&args.targets)?;
    Runtime::new()?.block_on(async {
        let watching = tokio::spawn(watch(server.clone()));
        client::send_all(&server, args.connections, jobs(&targets, args.events)).await?;
        watching.await?
    })
}

async fn watch(server: Server) -> Outcome<()> {
    loop {
        let mut connection = server.connect().await?;
        let path = "/api/v1/pods?watch=true";
        let (status, mut body) = connection.send(Method::GET, path, None).await?;
        if !status.is_success() {
            return Err(format!("watch: {status}").into());
        }
        // A server short of CPU may end it; then a new one is opened.
        while let Some(Ok(_)) = body.frame().await {}
    }
}

/// Returns what is sent for each pod. Events are jobs of their own.
fn jobs(targets: &str, events: bool) -> Vec<Vec<Sending>> {
    let mut jobs = Vec::new();
    for line in targets.lines() {
        let mut fields = line.split('\t');
        let (Some(pod), Some(node)) = (fields.next(), fields.next()) else { continue };
        let mut job = fields.next().map_or(Vec::new(), |d| devices::grant(pod, node, d));
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding");
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": NAMESPACE},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let body = binding.to_string().into_bytes();
        job.push(Sending { method: Method::POST, path, body });
        jobs.push(job);
        if events {
            let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
            let body = event(pod, node);
            jobs.push(vec![Sending { method: Method::POST, path, body }]);
        }
    }
    jobs
}

/// As large as a scheduler's.
fn event(pod: &str, node: &str) -> Vec<u8> {
    let event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": format!("{pod}.18a3c1d2e3f40516"), "namespace": NAMESPACE},
        "eventTime": format!("{:.6}", Timestamp::now()),
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": format!("Successfully assigned {NAMESPACE}/{pod} to {node}"),
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": pod},
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-bench",
    });
    event.to_string().into_bytes()
}
