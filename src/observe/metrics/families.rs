//! Every family that Berth serves: name, help, type, labels and buckets in one table.
//!
//! Names that begin with `scheduler_`, `rest_client_`, `leader_election_` and `kubernetes_` are
//! kube-scheduler's, with its types, labels and buckets, so that dashboards go on working;
//! `tests/it/metrics.rs` compares them with what kube-scheduler 1.37.2 serves, and lists what is
//! left out. Those that begin with `berth_` are ours.
//!
//! Cardinality is bounded: every label takes its values from the configuration (`profile`,
//! `plugin`), from the kinds that are watched (`resource`), or from words in the program.

use Buckets::{ByHalf, Doubling, List};
use Stability::{Alpha, Beta, Own, Stable};

/// One family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub stability: Stability,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram(Buckets),
}

/// Upper bounds of a histogram's buckets; `+Inf` comes last by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buckets {
    /// `count` bounds, each twice the one before.
    Doubling {
        start: f64,
        count: i32,
    },
    List(&'static [f64]),
    /// `count` bounds, each half as large again as the one before.
    ByHalf {
        start: f64,
        count: usize,
    },
}

/// What kube-scheduler promises of the family; it stands before the help text, as there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Stable,
    Beta,
    Alpha,
    /// Not of upstream.
    Own,
}

impl Kind {
    /// The type's name in the text format.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}

impl Buckets {
    /// Returns the bounds, ascending, without `+Inf`.
    pub fn bounds(self) -> Vec<f64> {
        match self {
            Doubling { start, count } => (0..count).map(|n| start * 2f64.powi(n)).collect(),
            List(bounds) => bounds.to_vec(),
            // Multiplied one after the other, as upstream's are: rounding is part of the bound.
            ByHalf { start, count } => {
                std::iter::successors(Some(start), |bound| Some(bound * 1.5)).take(count).collect()
            }
        }
    }
}

impl Family {
    /// Returns the help text as it is served.
    pub fn full_help(&self) -> String {
        match self.stability {
            Stable => format!("[STABLE] {}", self.help),
            Beta => format!("[BETA] {}", self.help),
            Alpha => format!("[ALPHA] {}", self.help),
            Own => self.help.to_owned(),
        }
    }
}

const fn counter(
    name: &'static str,
    stability: Stability,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, help, kind: Kind::Counter, labels, stability }
}

const fn gauge(
    name: &'static str,
    stability: Stability,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, help, kind: Kind::Gauge, labels, stability }
}

const fn histogram(
    name: &'static str,
    stability: Stability,
    labels: &'static [&'static str],
    buckets: Buckets,
    help: &'static str,
) -> Family {
    Family { name, help, kind: Kind::Histogram(buckets), labels, stability }
}

/// 1 ms to 16 s. Unit: seconds.
const ATTEMPT: Buckets = Doubling { start: 0.001, count: 15 };
/// 0.1 ms to 0.2 s. Unit: seconds.
const HANDLING: Buckets = Doubling { start: 0.0001, count: 12 };
/// 1 ms to 33 s. Unit: seconds.
const PREEMPTION: Buckets = Doubling { start: 0.001, count: 16 };
/// 10 µs to 22 ms. Unit: seconds.
const CALL: Buckets = ByHalf { start: 0.00001, count: 20 };
const REQUEST: Buckets =
    List(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);
/// Unit: bytes.
const BODY: Buckets = List(&[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
]);

/// The families of kube-scheduler that Berth serves.
pub const UPSTREAM: &[Family] = &[
    gauge(
        "kubernetes_feature_enabled",
        Beta,
        &["name", "stage"],
        "Whether a feature gate is on (1) or off (0).",
    ),
    gauge(
        "leader_election_master_status",
        Alpha,
        &["name"],
        "Whether this process holds the lease of the name (1) or stands by (0).",
    ),
    histogram(
        "rest_client_rate_limiter_duration_seconds",
        Alpha,
        &["host", "verb"],
        REQUEST,
        "Time that requests waited for the client's own rate limit.",
    ),
    histogram(
        "rest_client_request_duration_seconds",
        Alpha,
        &["host", "verb"],
        REQUEST,
        "Time from sending a request to its whole answer; watches are left out.",
    ),
    histogram(
        "rest_client_request_size_bytes",
        Alpha,
        &["host", "verb"],
        BODY,
        "Size of request bodies.",
    ),
    counter(
        "rest_client_requests_total",
        Alpha,
        &["code", "host", "method"],
        "Requests by the answer's status code; <error> where there was no answer.",
    ),
    histogram(
        "rest_client_response_size_bytes",
        Alpha,
        &["host", "verb"],
        BODY,
        "Size of answers' bodies; watches are left out.",
    ),
    gauge(
        "scheduler_cache_size",
        Alpha,
        &["type"],
        "Nodes, pods that hold a place, and those of them that are assumed.",
    ),
    histogram(
        "scheduler_event_handling_duration_seconds",
        Alpha,
        &["event"],
        HANDLING,
        "Time to fold one event into the ledger and to wake whom it may help.",
    ),
    histogram(
        "scheduler_framework_extension_point_duration_seconds",
        Stable,
        &["extension_point", "profile", "status"],
        HANDLING,
        "Time that an attempt spent at an extension point, all plugins and nodes together.",
    ),
    counter(
        "scheduler_generated_placements_total",
        Alpha,
        &["profile"],
        "Placements, such as racks, that were proposed for groups that must stay together.",
    ),
    gauge(
        "scheduler_inflight_events",
        Alpha,
        &["event"],
        "Changes that are kept for entries in flight, and those entries themselves.",
    ),
    gauge(
        "scheduler_pending_pods",
        Stable,
        &["queue"],
        "Pods that wait, by the queue that they wait in.",
    ),
    histogram(
        "scheduler_permit_wait_duration_seconds",
        Beta,
        &["result"],
        ATTEMPT,
        "Time that placements waited for a Permit plugin.",
    ),
    histogram(
        "scheduler_placement_evaluation_duration_seconds",
        Alpha,
        &["profile", "result"],
        ATTEMPT,
        "Time of an attempt to place a group, in equal parts for the placements that it looked at.",
    ),
    counter(
        "scheduler_placement_evaluations_total",
        Alpha,
        &["profile", "result"],
        "Placements that were looked at: feasible (the group was placed there), infeasible (too \
         little room, as was counted or tried).",
    ),
    counter(
        "scheduler_plugin_evaluation_total",
        Beta,
        &["extension_point", "plugin", "profile"],
        "Calls of a plugin at PreFilter, Filter, PreScore and Score; what a class remembers costs \
         no call.",
    ),
    histogram(
        "scheduler_plugin_execution_duration_seconds",
        Beta,
        &["extension_point", "plugin", "status"],
        CALL,
        "Time of a plugin's call, in one of ten attempts; of the nodes that it looks at, the first.",
    ),
    counter(
        "scheduler_pod_scheduled_after_flush_total",
        Alpha,
        &[],
        "Pods that were bound by an attempt that was due only because they had waited long.",
    ),
    histogram(
        "scheduler_pod_scheduling_attempts",
        Stable,
        &[],
        Doubling { start: 1.0, count: 5 },
        "Attempts that it took to bind a pod.",
    ),
    histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        Beta,
        &["attempts"],
        Doubling { start: 0.01, count: 20 },
        "Time from a pod's first place in the active queue to its confirmed bind.",
    ),
    counter(
        "scheduler_podgroup_schedule_attempts_total",
        Alpha,
        &["profile", "result"],
        "Attempts to place groups of pods: scheduled, unschedulable (no room), error (a fault).",
    ),
    histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        Alpha,
        &[],
        ATTEMPT,
        "Time that the search for places for a whole group took.",
    ),
    histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        Alpha,
        &["profile", "result"],
        ATTEMPT,
        "Time of an attempt to place a group, from the search to the plan if there is one.",
    ),
    counter(
        "scheduler_preemption_attempts_total",
        Stable,
        &[],
        "How often it was looked for victims.",
    ),
    histogram(
        "scheduler_preemption_evaluation_duration_seconds",
        Alpha,
        &["preemptor", "result"],
        PREEMPTION,
        "Time that the search for victims took.",
    ),
    histogram(
        "scheduler_preemption_execution_duration_seconds",
        Alpha,
        &["preemptor", "result"],
        PREEMPTION,
        "Time until the server had answered the deletion of every victim.",
    ),
    counter(
        "scheduler_preemption_goroutines_execution_total",
        Alpha,
        &["result"],
        "Preemptions whose victims were asked to leave.",
    ),
    histogram(
        "scheduler_preemption_victims",
        Stable,
        &[],
        Doubling { start: 1.0, count: 7 },
        "Victims of each preemption that was begun.",
    ),
    counter(
        "scheduler_queue_incoming_entities_total",
        Alpha,
        &["event", "queue", "type"],
        "Pods of their own and groups that came to a queue, by the event that brought them.",
    ),
    counter(
        "scheduler_queue_incoming_pods_total",
        Stable,
        &["event", "queue"],
        "Pods that came to a queue, by the event that brought them.",
    ),
    gauge(
        "scheduler_queued_entities",
        Alpha,
        &["queue", "type"],
        "Pods of their own and groups that wait, by the queue that they wait in.",
    ),
    histogram(
        "scheduler_queueing_hint_execution_duration_seconds",
        Alpha,
        &["event", "hint", "plugin"],
        CALL,
        "Time of a plugin's hint whether a change may help a pod, at one of ten changes.",
    ),
    counter(
        "scheduler_schedule_attempts_total",
        Stable,
        &["profile", "result"],
        "Attempts to place pods: scheduled, unschedulable (no room), error (a fault).",
    ),
    histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        Beta,
        &[],
        ATTEMPT,
        "Time that the search for a place took.",
    ),
    histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        Stable,
        &["profile", "result"],
        ATTEMPT,
        "Time of an attempt, from the search to the confirmed bind if there is one.",
    ),
    gauge(
        "scheduler_unschedulable_pods",
        Beta,
        &["plugin", "profile"],
        "Waiting pods by the plugin that turned them away; a pod counts for each of its plugins.",
    ),
];
