//! Metrics: kube-scheduler's families as they are there, and what a burst of pods leaves in them.

mod burst;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use berth::observe::metrics::families::{Family, Kind, UPSTREAM};
use berth::observe::metrics::own::{OWN, PROCESS};
use berth::observe::metrics::{Metrics, Requested};

use crate::support::SOON;

use burst::Burst;
use text::Exposition;

/// What kube-scheduler 1.37.2 served.
const OBSERVED: &str = "../shared/facts/observed-1.37/metrics.tsv";

const BATCHING: &str = "pods are not batched: what is alike shares a class (berth_class_table_*)";
const GO: &str = "tells of client-go's transports, which are not there";

/// Families of kube-scheduler that Berth does not serve, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("kubernetes_build_info", "this is no build of Kubernetes; berth_build_info says what it is"),
    ("rest_client_exec_plugin_certificate_rotation_age", GO),
    ("rest_client_exec_plugin_ttl_seconds", GO),
    ("rest_client_transport_cache_entries", GO),
    ("rest_client_transport_cert_rotation_gc_calls_total", GO),
    ("rest_client_transport_create_calls_total", GO),
    ("scheduler_batch_attempts_total", BATCHING),
    ("scheduler_batch_cache_flushed_total", BATCHING),
    ("scheduler_get_node_hint_duration_seconds", BATCHING),
    ("scheduler_goroutines", "there are none; berth_plans counts bindings under way"),
    ("scheduler_store_schedule_results_duration_seconds", BATCHING),
    ("scheduler_workload_preemption_victims", "groups evict nobody yet"),
];

/// Name, type, labels, stability, buckets.
type Row = (String, String, Vec<String>, String, Vec<f64>);

fn observed() -> Option<Vec<Row>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(OBSERVED);
    let text = std::fs::read_to_string(path).ok()?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    Some(rows.map(row).collect())
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.split('\t').collect();
    let list = |at: usize| cells[at].split(',').filter(|part| !part.is_empty());
    let bounds = list(4).filter(|bound| *bound != "+Inf");
    let bounds = bounds.map(|bound| bound.parse().expect("a number")).collect();
    let labels = list(2).map(str::to_owned).collect();
    (cells[0].to_owned(), cells[1].to_owned(), labels, cells[3].to_owned(), bounds)
}

fn row_of(family: &Family) -> Row {
    let mut labels: Vec<String> = family.labels.iter().map(|label| (*label).to_owned()).collect();
    labels.sort();
    let bounds = match family.kind {
        Kind::Histogram(buckets) => buckets.bounds(),
        Kind::Counter | Kind::Gauge => Vec::new(),
    };
    let stability = format!("{:?}", family.stability).to_uppercase();
    (family.name.to_owned(), family.kind.name().to_owned(), labels, stability, bounds)
}

#[test]
fn families_are_kube_schedulers_but_for_those_left_out_by_name() {
    let Some(observed) = observed() else {
        eprintln!("skipped: {OBSERVED} is not there");
        return;
    };
    let left_out: BTreeMap<&str, &str> = LEFT_OUT.iter().copied().collect();
    for (name, why) in LEFT_OUT {
        println!("left out: {name}: {why}");
    }
    let served: Vec<Row> = UPSTREAM.iter().map(row_of).collect();
    let kept = observed.iter().filter(|row| !left_out.contains_key(row.0.as_str()));
    assert_eq!(served, kept.cloned().collect::<Vec<_>>(), "in the order of the names");
    let names: BTreeSet<&str> = observed.iter().map(|row| row.0.as_str()).collect();
    let unknown: Vec<_> = left_out.keys().filter(|name| !names.contains(*name)).collect();
    assert!(unknown.is_empty(), "left out, but never served upstream: {unknown:?}");
}

/// Nobody waits for a Permit, is asked to leave, or is woken.
const NEVER_IN_A_BURST: &[&str] = &[
    "scheduler_permit_wait_duration_seconds",
    "scheduler_preemption_evaluation_duration_seconds",
    "scheduler_preemption_execution_duration_seconds",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_queueing_hint_execution_duration_seconds",
];

/// Metrics as they are after some of everything.
fn busy() -> Metrics {
    let mut burst = Burst::new(20);
    let metrics = burst.metrics.clone();
    burst.gang();
    burst.run(60);
    metrics.set_features([("A", "ALPHA", false), ("G", "", true)]);
    metrics.set_leader("kube-scheduler", true);
    metrics.answered("h:1", "POST", Some(http::StatusCode::CREATED));
    metrics.answered("h:1", "POST", None);
    metrics.rate_limited("h:1", "POST", Duration::ZERO);
    let took = Duration::from_millis(30);
    let received_bytes = Some(300);
    let request = Requested { host: "h:1", method: "POST", took, sent_bytes: 100, received_bytes };
    metrics.requested(request);
    metrics.listed("pods");
    metrics.synced("pods", true);
    metrics.overdue("pods", false);
    metrics.compared(0);
    metrics.bound_by_another("others");
    metrics.sample(|sample| {
        sample.event_queue(3, 4);
        sample.outbox(1, 2);
    });
    metrics.render();
    metrics
}

#[test]
fn what_is_served_is_what_the_table_says() {
    let text = Exposition::read(&busy().render());
    let mut quiet = BTreeSet::new();
    for family in UPSTREAM.iter().chain(OWN).chain(PROCESS) {
        let Some(kind) = text.types.get(family.name) else {
            quiet.insert(family.name);
            continue;
        };
        assert_eq!(kind, family.kind.name(), "{}", family.name);
        let mut labels: Vec<&str> = family.labels.to_vec();
        labels.sort_unstable();
        let (served, bounds) = (text.labels(family.name), text.bounds(family.name));
        assert_eq!(served, labels, "{}", family.name);
        if let Kind::Histogram(buckets) = family.kind {
            assert_eq!(bounds, buckets.bounds(), "{}", family.name);
        }
    }
    // Nothing of the kind happened in the burst.
    let never = ["berth_unscored_preferred_terms_total", "berth_writes_total"];
    let never = [&never[..], NEVER_IN_A_BURST].concat();
    assert_eq!(quiet, never.into_iter().collect());
    let known = UPSTREAM.iter().chain(OWN).chain(PROCESS).map(|family| family.name);
    let known: BTreeSet<&str> = known.collect();
    let unknown: Vec<_> = text.types.keys().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_burst_is_counted() {
    let text = Exposition::read(&busy().render());
    let value = |series: &str| text.values.get(series).copied();
    let profile = "profile=\"default-scheduler\"";
    let attempts = |result: &str| {
        value(&format!("scheduler_schedule_attempts_total{{{profile},result=\"{result}\"}}"))
    };
    assert_eq!((attempts("scheduled"), attempts("unschedulable")), (Some(62.0), Some(1.0)));
    let timed = "scheduler_scheduling_attempt_duration_seconds_count";
    let timed = value(&format!("{timed}{{{profile},result=\"scheduled\"}}"));
    assert_eq!(timed, Some(62.0));
    assert_eq!(value("scheduler_pod_scheduling_attempts_sum"), Some(62.0));
    assert_eq!(value("scheduler_pending_pods{queue=\"unschedulable\"}"), Some(1.0));
    assert_eq!(value("scheduler_cache_size{type=\"nodes\"}"), Some(20.0));
    assert_eq!(value("scheduler_cache_size{type=\"assumed_pods\"}"), Some(62.0));
    let held = format!("scheduler_unschedulable_pods{{plugin=\"NodeResourcesFit\",{profile}}}");
    assert_eq!(value(&held), Some(1.0));
    assert_eq!(value("berth_decisions_total{outcome=\"bound\"}"), Some(62.0));
    assert_eq!(value("berth_events_dropped_total"), Some(4.0));
    let came =
        "scheduler_queue_incoming_pods_total{event=\"UnschedulablePodAdd\",queue=\"active\"}";
    assert_eq!(value(came), Some(63.0));
    let groups =
        format!("scheduler_podgroup_schedule_attempts_total{{{profile},result=\"scheduled\"}}");
    assert_eq!(value(&groups), Some(1.0));
    let searched = "scheduler_podgroup_scheduling_algorithm_duration_seconds_count";
    assert_eq!(value(searched), Some(1.0));
    // Both racks have room, and the first that was tried holds the group.
    let generated = format!("scheduler_generated_placements_total{{{profile}}}");
    assert_eq!(value(&generated), Some(2.0));
    for family in ["placement_evaluations_total", "placement_evaluation_duration_seconds_count"] {
        let of =
            |result: &str| value(&format!("scheduler_{family}{{{profile},result=\"{result}\"}}"));
        assert_eq!((of("feasible"), of("infeasible")), (Some(1.0), Some(0.0)), "{family}");
    }
    assert!(value("berth_class_table_hits_total") > Some(50.0));
    assert!(value("process_resident_memory_bytes") > Some(1e6));
}

#[test]
fn extension_points_and_plugins_are_timed_and_nothing_is_decided_by_it() {
    let burst = Burst::new(20);
    let metrics = burst.metrics.clone();
    let decided = burst.run(60);
    assert_eq!(decided, Burst::of(20, false).run(60), "with and without the stopwatch");

    let text = Exposition::read(&metrics.render());
    let count = |point: &str, status: &str| {
        let labels = format!("extension_point=\"{point}\",profile=\"default-scheduler\",status");
        let family = "scheduler_framework_extension_point_duration_seconds_count";
        text.values.get(&format!("{family}{{{labels}=\"{status}\"}}")).copied()
    };
    // 60 pods and the whale, which fits nowhere.
    for point in ["PreEnqueue", "PreFilter", "Filter"] {
        assert_eq!(count(point, "Success"), Some(61.0), "{point}");
    }
    for point in ["Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"] {
        assert_eq!(count(point, "Success"), Some(60.0), "{point}");
    }
    let calls = |point: &str, plugin: &str| {
        let labels = format!("extension_point=\"{point}\",plugin=\"{plugin}\",status");
        let family = "scheduler_plugin_execution_duration_seconds_count";
        text.values.get(&format!("{family}{{{labels}=\"Success\"}}")).copied()
    };
    // One attempt of ten from the first on: the last, the 61st, is the whale's. Both classes are
    // laid out in one of them.
    assert_eq!(calls("Filter", "NodeResourcesFit"), Some(6.0));
    assert_eq!(calls("PreFilter", "NodeResourcesFit"), Some(2.0));
    assert_eq!(calls("Bind", "DefaultBinder"), Some(6.0));
}

#[test]
fn metrics_are_rendered_while_the_engine_does_nothing_but_think() {
    let burst = Burst::new(20);
    let metrics = burst.metrics.clone();
    let (rendered, hears) = std::sync::mpsc::channel();
    // The engine is ours: nobody lets it answer anything.
    std::thread::spawn(move || rendered.send(metrics.render()));
    let text = hears.recv_timeout(SOON).expect("metrics without the engine");
    assert!(Exposition::read(&text).types.contains_key("berth_build_info"));
    drop(burst);
}

#[test]
fn resources_are_fetched_in_parts_from_the_engine_and_nobody_waits_for_ever() {
    let metrics = Metrics::default();
    let kind = |metrics: &Metrics| metrics.resources(&mut Vec::new()).expect_err("no").kind();
    assert_eq!(kind(&metrics), std::io::ErrorKind::NotConnected);
    let mut burst = Burst::new(40);
    let metrics = burst.metrics.clone();
    burst.pods(2500);
    let mut engine = burst.serving();
    let mut out = Vec::new();
    metrics.resources(&mut out).expect("an answer");
    engine.stop();
    let text = Exposition::read(&out);
    let cores = |family: &str| {
        let of = |s: &str| s.starts_with(family) && s.contains("\"cores\"");
        text.values.iter().filter(|(s, _)| of(s)).map(|(_, v)| v).sum::<f64>()
    };
    assert_eq!(cores("kube_pod_resource_request{"), 1250.0, "half a core each");
    assert_eq!(cores("kube_pod_resource_limit{"), 2500.0, "at most one");
    assert_eq!(text.types.len(), 2);
    let begun = Instant::now();
    assert!(metrics.resources(&mut Vec::new()).is_err(), "the engine has stopped");
    assert!(begun.elapsed() < Duration::from_secs(10));
}
