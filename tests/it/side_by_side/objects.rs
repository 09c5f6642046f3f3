//! What pods, events and Leases say of each scheduler.

use berth_stand::{ApiClient, Stand, try_wait_for, wait_for};
use serde_json::{Value, json};

use super::Rows;
use super::sides::{NAMES, neutral};
use crate::support::SOON;
use crate::support::objects::{bound, create, event, gpu_node, gpu_pod, told};

fn pod(at: usize, what: &str, gpus: u32) -> Value {
    let mut pod = gpu_pod(&format!("{}-{what}", NAMES[at]), gpus);
    pod["spec"]["schedulerName"] = json!(NAMES[at]);
    pod
}

pub(super) fn compare(stand: &Stand, rows: &mut Rows) {
    let api = stand.client();
    create(&api, &gpu_node("n-1", 8));
    for (at, name) in NAMES.iter().enumerate() {
        create(&api, &pod(at, "fits", 1));
        create(&api, &pod(at, "whale", 64));
        bound(&api, &format!("{name}-fits"));
    }
    for (what, reason) in [("fits", "Scheduled"), ("whale", "FailedScheduling")] {
        let events = [0, 1].map(|at| event(&api, &format!("{}-{what}", NAMES[at]), reason));
        for field in ["reason", "type", "action", "note", "reportingController", "series"] {
            let said = [0, 1].map(|at| neutral(at, &events[at][field].to_string()));
            rows.add(format!("event {reason} {field}"), said);
        }
        // What comes after the reasons is each one's own.
        let reasons = [0, 1].map(|at| reasons(&neutral(at, &events[at]["note"].to_string())));
        rows.add(format!("event {reason} note up to its reasons"), reasons);
        let regarding = [0, 1].map(|at| neutral(at, &keys(&events[at]["regarding"])));
        rows.add(format!("event {reason} regarding"), regarding);
    }
    let whale = |at: usize| told(&api, &format!("{}-whale", NAMES[at]), "Unschedulable");
    let conditions = [0, 1].map(whale);
    for field in ["type", "status", "reason", "message", "observedGeneration"] {
        let said = [0, 1].map(|at| neutral(at, &conditions[at][field].to_string()));
        rows.add(format!("PodScheduled {field}"), said);
    }
    let reasons = [0, 1].map(|at| reasons(&conditions[at]["message"].to_string()));
    rows.add("PodScheduled message up to its reasons", reasons);
    leases(&api, rows);
}

fn reasons(message: &str) -> String {
    message.split_once(". ").map_or(message, |(reasons, _)| reasons).to_owned()
}

/// Returns the names of an object's fields.
fn keys(object: &Value) -> String {
    let keys: Vec<&String> = object.as_object().into_iter().flatten().map(|(key, _)| key).collect();
    format!("{keys:?}")
}

fn leases(api: &ApiClient, rows: &mut Rows) {
    let path = |at: usize| {
        format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{}", NAMES[at])
    };
    let leases = [0, 1].map(|at| {
        wait_for(SOON, "a Lease", || api.get(&path(at)).ok().filter(|l| !l["spec"].is_null()))
    });
    rows.add("Lease spec fields", [0, 1].map(|at| keys(&leases[at]["spec"])));
    let seconds = [0, 1].map(|at| leases[at]["spec"]["leaseDurationSeconds"].to_string());
    rows.add("Lease duration", seconds);
    let identity = [0, 1].map(|at| {
        let holder = leases[at]["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let (host, id) = holder.rsplit_once('_').unwrap_or((holder, ""));
        format!("{host}, {} letters", id.len())
    });
    rows.add("Lease holder", identity);
    // It comes with the events' own client, in its time.
    let path = "/apis/events.k8s.io/v1/namespaces/kube-system/events";
    let events = [0, 1].map(|at| {
        let about = |e: &&Value| e["regarding"]["name"] == NAMES[at];
        let found = || api.list(path).ok()?.iter().find(about).cloned();
        try_wait_for(SOON, "an event about the Lease", found).unwrap_or_default()
    });
    for field in ["reason", "type", "action", "reportingController"] {
        let said = [0, 1].map(|at| neutral(at, &events[at][field].to_string()));
        rows.add(format!("event LeaderElection {field}"), said);
    }
    let note = |at: usize| {
        let note = events[at]["note"].as_str().unwrap_or_default();
        note.split_once(' ').map_or(String::new(), |(_, rest)| rest.to_owned())
    };
    rows.add("event LeaderElection note", [0, 1].map(note));
}
