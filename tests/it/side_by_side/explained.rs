//! Why Berth differs where it does.

/// A difference and its reason.
#[derive(Debug)]
pub(super) struct Explained {
    /// What was asked; with a `*` at its end, all that begins so.
    asked: &'static str,
    pub(super) why: &'static str,
}

const fn because(asked: &'static str, why: &'static str) -> Explained {
    Explained { asked, why }
}

const NOT_OURS: &str = "counted by the API server's libraries that kube-scheduler links";
const GO: &str = "about Go's runtime and queues";
const CLIENT_GO: &str = "about client-go's transports and plugins, which are not there";
const NUMBERS: &str =
    "preemption is not built yet, and Berth's numbers come after upstream's words";
const VERSION: &str = "the version that was decided on does not go with the event";
const BAD_FLAG: &str = "what is wrong with the command line ends with 2, what fails later with 1";

const BATCHING: &str = "pods are not batched: what is alike shares a class (berth_class_table_*)";
const ONE_NODE: &str = "a class's scores are worked out ahead, also where one node is left";
const GROUPS: &str = "groups that gather are among the gated; they have no queue of their own";

/// An extension point among the values of metrics' labels.
macro_rules! point {
    ($name:literal) => {
        concat!(
            "metrics words scheduler_framework_extension_point_duration_seconds extension_point=",
            $name
        )
    };
}

const GANGS: &str = "plugins of groups are on by default and have arguments of their own";

pub(super) const TABLE: &[Explained] = &[
    because("--write-config-to .profiles[0].pluginConfig[8].*", GANGS),
    because("--write-config-to .profiles[0].pluginConfig[9].*", GANGS),
    because("--write-config-to .profiles[0].plugins.multiPoint.enabled[20].*", GANGS),
    because("--write-config-to .profiles[0].plugins.multiPoint.enabled[21].*", GANGS),
    because("--write-config-to .profiles[0].plugins.multiPoint.enabled[22].*", GANGS),
    because("configz .componentconfig.profiles[0].pluginConfig[8].*", GANGS),
    because("configz .componentconfig.profiles[0].pluginConfig[9].*", GANGS),
    because("configz .componentconfig.profiles[0].plugins.multiPoint.enabled[20].*", GANGS),
    because("configz .componentconfig.profiles[0].plugins.multiPoint.enabled[21].*", GANGS),
    because("configz .componentconfig.profiles[0].plugins.multiPoint.enabled[22].*", GANGS),
    because("metrics family aggregator_discovery_*", NOT_OURS),
    because("metrics family apiserver_*", NOT_OURS),
    because("metrics family authenticat*", NOT_OURS),
    because("metrics family authorization_*", NOT_OURS),
    because("metrics words authentication_*", NOT_OURS),
    because("metrics words authorization_*", NOT_OURS),
    because("metrics family cardinality_enforcement_*", NOT_OURS),
    because("metrics family disabled_metrics_total", NOT_OURS),
    because("metrics family hidden_metrics_total", NOT_OURS),
    because("metrics family registered_metrics_total", NOT_OURS),
    because("metrics family go_*", GO),
    because("metrics family workqueue_*", GO),
    because("metrics family rest_client_exec_plugin_*", CLIENT_GO),
    because("metrics family rest_client_transport_*", CLIENT_GO),
    because(
        "metrics family kubernetes_build_info",
        "this is no build of Kubernetes; berth_build_info says what it is",
    ),
    because(
        "metrics family process_network_*",
        "Prometheus' guidelines for process metrics don't name them",
    ),
    because(
        "metrics family process_virtual_memory_max_bytes",
        "the limit is not set in containers",
    ),
    because(
        "metrics family process_threads",
        "Prometheus' guidelines name it; Go's library leaves it out",
    ),
    because("PodScheduled message", NUMBERS),
    because("event FailedScheduling note", NUMBERS),
    because("event FailedScheduling regarding", VERSION),
    because("event Scheduled regarding", VERSION),
    because("exit code of *", BAD_FLAG),
    because(
        "DELETE /metrics as admin",
        "counters that start over by request mislead whoever scrapes; refused",
    ),
    because("GET /debug/pprof/cmdline as admin", "profiles are Go's"),
    because("statusz Binary version", "it is Berth's own"),
    because("metrics family informer_*", CLIENT_GO),
    because("metrics family version_info", "Kubernetes' component versions; see berth_build_info"),
    because("metrics family scheduler_batch_*", BATCHING),
    because("metrics words scheduler_batch_*", BATCHING),
    because("metrics family scheduler_get_node_hint_duration_seconds", BATCHING),
    because("metrics family scheduler_store_schedule_results_duration_seconds", BATCHING),
    because("metrics family scheduler_goroutines", "there are none; see berth_plans"),
    because(point!("PreBindPreFlight"), "nothing is asked ahead of PreBind"),
    because(point!("PreScore"), ONE_NODE),
    because(point!("Score"), ONE_NODE),
    because(
        "metrics family scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "groups are placed whatever the gates say, and kube-scheduler has it with its gate only",
    ),
    because("metrics words scheduler_pending_pods queue=incomplete", GROUPS),
    because("metrics words scheduler_pending_pods queue=pending", GROUPS),
    because(
        "metrics words scheduler_queue_incoming_entities_total queue=unschedulable",
        "kube-scheduler counts the pods that it puts aside, but not their entities",
    ),
    because("metrics words scheduler_queued_entities *", "a queue in which nobody is shows 0"),
    because("statusz Go version", "it is not written in Go"),
];

/// Returns the index of the first explanation that fits.
pub(super) fn explanation(asked: &str) -> Option<usize> {
    TABLE.iter().position(|explained| match explained.asked.strip_suffix('*') {
        Some(start) => asked.starts_with(start),
        None => asked == explained.asked,
    })
}
