//! The table of families turned into counters, gauges and histograms.

use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry};

use super::families::{Family, Kind, UPSTREAM};
use super::own::{OWN, PROCESS};

/// The label values of a family without labels.
pub(super) const NO_LABELS: &[&str] = &[];

/// Makes and registers one family after the other.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn family(name: &str) -> &'static Family {
        let mut all = UPSTREAM.iter().chain(OWN).chain(PROCESS);
        all.find(|family| family.name == name).expect("a family of the table")
    }

    fn counter(&self, name: &str) -> CounterVec {
        let family = Maker::family(name);
        assert!(matches!(family.kind, Kind::Counter), "{name} is no counter");
        let made = CounterVec::new(Opts::new(name, family.full_help()), family.labels);
        let made = made.expect("names of the table are sound");
        self.0.register(Box::new(made.clone())).expect("each family is made once");
        if family.labels.is_empty() {
            made.with_label_values(NO_LABELS);
        }
        made
    }

    fn gauge(&self, name: &str) -> GaugeVec {
        let family = Maker::family(name);
        assert!(matches!(family.kind, Kind::Gauge), "{name} is no gauge");
        let made = GaugeVec::new(Opts::new(name, family.full_help()), family.labels);
        let made = made.expect("names of the table are sound");
        self.0.register(Box::new(made.clone())).expect("each family is made once");
        made
    }

    fn histogram(&self, name: &str) -> HistogramVec {
        let family = Maker::family(name);
        let Kind::Histogram(buckets) = family.kind else { panic!("{name} is no histogram") };
        let opts = HistogramOpts::new(name, family.full_help()).buckets(buckets.bounds());
        let made = HistogramVec::new(opts, family.labels).expect("names of the table are sound");
        self.0.register(Box::new(made.clone())).expect("each family is made once");
        if family.labels.is_empty() {
            made.with_label_values(NO_LABELS);
        }
        made
    }
}

macro_rules! families {
    ($($kind:ident $made:ident { $($field:ident: $name:literal,)* })*) => {
        /// Every family by what it counts.
        pub(super) struct Families { $($(pub(super) $field: $made,)*)* }

        impl Families {
            /// Makes all families of the table in a registry of their own.
            pub(super) fn new(registry: &Registry) -> Families {
                let maker = Maker(registry);
                Families { $($($field: maker.$kind($name),)*)* }
            }

            #[cfg(test)]
            const NAMES: &[&str] = &[$($($name,)*)*];
        }
    };
}

families! {
    counter CounterVec {
        requests: "rest_client_requests_total",
        placements: "scheduler_generated_placements_total",
        placement_evaluations: "scheduler_placement_evaluations_total",
        plugin_calls: "scheduler_plugin_evaluation_total",
        after_flush: "scheduler_pod_scheduled_after_flush_total",
        executions: "scheduler_preemption_goroutines_execution_total",
        group_attempts: "scheduler_podgroup_schedule_attempts_total",
        preemption_attempts: "scheduler_preemption_attempts_total",
        incoming_entities: "scheduler_queue_incoming_entities_total",
        incoming_pods: "scheduler_queue_incoming_pods_total",
        attempts: "scheduler_schedule_attempts_total",
        class_evictions: "berth_class_table_evictions_total",
        class_hits: "berth_class_table_hits_total",
        class_misses: "berth_class_table_misses_total",
        decisions: "berth_decisions_total",
        busy_seconds: "berth_engine_busy_seconds_total",
        polls: "berth_engine_polls_total",
        steps: "berth_engine_steps_total",
        events_dropped: "berth_events_dropped_total",
        foreign_binds: "berth_foreign_binds_total",
        unscored_terms: "berth_unscored_preferred_terms_total",
        watch_lists: "berth_watch_lists_total",
        writes: "berth_writes_total",
        process_cpu: "process_cpu_seconds_total",
    }
    gauge GaugeVec {
        features: "kubernetes_feature_enabled",
        leader: "leader_election_master_status",
        cache_size: "scheduler_cache_size",
        inflight_events: "scheduler_inflight_events",
        pending_pods: "scheduler_pending_pods",
        queued_entities: "scheduler_queued_entities",
        unschedulable_pods: "scheduler_unschedulable_pods",
        build_info: "berth_build_info",
        class_bytes: "berth_class_table_bytes",
        class_tables: "berth_class_tables",
        classes: "berth_classes",
        busy_ratio: "berth_engine_busy_ratio",
        event_queue: "berth_event_queue_length",
        ledger_differences: "berth_ledger_differences",
        ledger: "berth_ledger_objects",
        outbox: "berth_outbox_length",
        plans: "berth_plans",
        unconfirmed: "berth_unconfirmed_writes",
        watch_lag: "berth_watch_lag_seconds",
        watch_overdue: "berth_watch_overdue",
        watch_synced: "berth_watch_synced",
        process_max_fds: "process_max_fds",
        process_open_fds: "process_open_fds",
        process_resident: "process_resident_memory_bytes",
        process_start: "process_start_time_seconds",
        process_threads: "process_threads",
        process_virtual: "process_virtual_memory_bytes",
    }
    histogram HistogramVec {
        rate_limiter: "rest_client_rate_limiter_duration_seconds",
        request_duration: "rest_client_request_duration_seconds",
        request_size: "rest_client_request_size_bytes",
        response_size: "rest_client_response_size_bytes",
        handling: "scheduler_event_handling_duration_seconds",
        points: "scheduler_framework_extension_point_duration_seconds",
        permit_wait: "scheduler_permit_wait_duration_seconds",
        placement_evaluation: "scheduler_placement_evaluation_duration_seconds",
        plugins: "scheduler_plugin_execution_duration_seconds",
        pod_attempts: "scheduler_pod_scheduling_attempts",
        sli: "scheduler_pod_scheduling_sli_duration_seconds",
        group_algorithm: "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        group_attempt_duration: "scheduler_podgroup_scheduling_attempt_duration_seconds",
        evaluation: "scheduler_preemption_evaluation_duration_seconds",
        execution: "scheduler_preemption_execution_duration_seconds",
        victims: "scheduler_preemption_victims",
        hints: "scheduler_queueing_hint_execution_duration_seconds",
        algorithm: "scheduler_scheduling_algorithm_duration_seconds",
        attempt_duration: "scheduler_scheduling_attempt_duration_seconds",
    }
}

/// Raises a counter to a total that somebody else counts; totals only grow.
pub(super) fn raise(counters: &CounterVec, labels: &[&str], total: f64) {
    let counter = counters.with_label_values(labels);
    let more = total - counter.get();
    if more > 0.0 {
        counter.inc_by(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_of_the_table_is_made_and_no_other() {
        Families::new(&Registry::new());
        let mut made = Families::NAMES.to_vec();
        let all = UPSTREAM.iter().chain(OWN).chain(PROCESS);
        let mut table: Vec<&str> = all.map(|family| family.name).collect();
        made.sort_unstable();
        table.sort_unstable();
        assert_eq!(made, table);
    }
}
