//! Berth's own families, and those about the process.

use super::families::{Family, Kind, Stability};

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, help, kind: Kind::Counter, labels, stability: Stability::Own }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, help, kind: Kind::Gauge, labels, stability: Stability::Own }
}

pub const OWN: &[Family] = &[
    gauge("berth_build_info", &["version"], "Always 1; the labels say what runs."),
    counter(
        "berth_class_table_evictions_total",
        &[],
        "Tables of pod classes that were forgotten to stay within the limit of bytes.",
    ),
    counter("berth_class_table_hits_total", &[], "Attempts that found the table of their class."),
    counter("berth_class_table_misses_total", &[], "Attempts that found none, and looked at all."),
    gauge("berth_class_table_bytes", &[], "Bytes of all tables, about."),
    gauge("berth_class_tables", &[], "Classes that have a table."),
    gauge("berth_classes", &[], "Kinds of pods that scheduling can tell apart."),
    counter(
        "berth_decisions_total",
        &["outcome"],
        "Decisions and what became of them: planned, unschedulable and error are attempts' ends; \
         bound, plan_rejected and plan_failed are plans'.",
    ),
    counter("berth_engine_busy_seconds_total", &[], "Time that the engine's thread worked."),
    gauge(
        "berth_engine_busy_ratio",
        &[],
        "Part of the time that the engine's thread worked, over the last ten seconds or more.",
    ),
    counter("berth_engine_polls_total", &[], "Polls of the engine."),
    counter(
        "berth_engine_steps_total",
        &[],
        "Plugin calls and their like that attempts were charged for.",
    ),
    gauge("berth_event_queue_length", &[], "Kubernetes events that wait or are being sent."),
    counter(
        "berth_events_dropped_total",
        &[],
        "Kubernetes events that were dropped, since too many waited.",
    ),
    counter(
        "berth_foreign_binds_total",
        &["pods"],
        "Binds by somebody else: of pods of ours, or of others on a node where pods of ours are.",
    ),
    gauge(
        "berth_ledger_differences",
        &[],
        "Objects in which ledger and API server differed when they were compared last.",
    ),
    gauge("berth_ledger_objects", &["kind"], "Objects that the ledger knows, by kind."),
    gauge("berth_outbox_length", &["urgency"], "Writes that wait to be sent."),
    gauge("berth_plans", &[], "Plans under way."),
    gauge("berth_unconfirmed_writes", &[], "Binds whose fate is not known yet."),
    counter(
        "berth_unscored_preferred_terms_total",
        &["profile"],
        "Preferred inter-pod affinity terms of pods that came; they are left out of the score.",
    ),
    gauge(
        "berth_watch_lag_seconds",
        &["resource"],
        "Time since the server last said something on the watch, be it a bookmark (one a minute): \
         what is known may be so old, not older.",
    ),
    gauge(
        "berth_watch_overdue",
        &["resource"],
        "Whether the server has said nothing for so long that nothing is decided on what is known.",
    ),
    gauge("berth_watch_synced", &["resource"], "Whether the watch is up to date (1) or lists (0)."),
    counter("berth_watch_lists_total", &["resource"], "Lists that were read to their end."),
    counter(
        "berth_writes_total",
        &["op", "result"],
        "Writes carried out: done, stale (409), refused, not_sent, unknown (no answer).",
    ),
];

/// As Prometheus' client libraries name them. Source: "Process metrics" of their guidelines.
pub const PROCESS: &[Family] = &[
    counter("process_cpu_seconds_total", &[], "Time that the process used, user and system."),
    gauge("process_max_fds", &[], "File descriptors that may be open."),
    gauge("process_open_fds", &[], "File descriptors that are open."),
    gauge("process_resident_memory_bytes", &[], "Memory in use, without what is swapped out."),
    gauge("process_start_time_seconds", &[], "When the process began, in seconds since 1970."),
    gauge("process_threads", &[], "Threads of the process."),
    gauge("process_virtual_memory_bytes", &[], "Address space in use."),
];
