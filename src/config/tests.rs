//! What a file says → what is told about it. Each rule of validation has its case.

mod rules;

use std::path::Path;

use berth_core::framework::profile_spec::{Enabled, Point, ProfileSpec};
use berth_core::types::{Span, Text, Value};
use proptest::prelude::*;

use super::*;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Checks a whole file and returns exit code and lines, without its label.
fn check_file(text: &str) -> (u8, Vec<String>) {
    let report = check("f", text, &|_| Vec::new());
    let line = |line: &String| line.strip_prefix("f: ").expect("lines name the file").to_owned();
    (report.exit_code, report.lines.iter().map(line).collect())
}

fn loaded(body: &str) -> Configuration {
    load(&format!("{HEAD}{body}")).expect("valid")
}

fn example(name: &str) -> Configuration {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name);
    let text = std::fs::read_to_string(&path).expect("the example is there");
    load(&text).expect("the example is valid")
}

fn enabled(profile: &ProfileSpec) -> String {
    let entry = |e: &Enabled| match e.weight {
        0 => e.name.to_string(),
        weight => format!("{}:{weight}", e.name),
    };
    let entries: Vec<String> = profile.plugins.multi_point.enabled.iter().map(entry).collect();
    entries.join(" ")
}

#[test]
fn an_empty_configuration_is_completed_as_kube_scheduler_completes_it() {
    let c = loaded("");
    assert_eq!(c, Configuration::defaults());
    assert_eq!(c.parallelism, 16);
    let e = &c.leader_election;
    assert!(e.leader_elect);
    let spans = (e.lease_duration, e.renew_deadline, e.retry_period);
    assert_eq!(spans, (Span::from_secs(15), Span::from_secs(10), Span::from_secs(2)));
    let lock = [&e.resource_lock, &e.resource_name, &e.resource_namespace];
    assert_eq!(lock, ["leases", "kube-scheduler", "kube-system"]);
    let client = &c.client_connection;
    assert_eq!((client.qps, client.burst), (50.0, 100));
    assert_eq!(client.content_type, "application/vnd.kubernetes.protobuf");
    assert!(c.enable_profiling && c.enable_contention_profiling && !c.delay_cache_until_active);
    let backoffs = (c.pod_initial_backoff, c.pod_max_backoff);
    assert_eq!(backoffs, (Span::from_secs(1), Span::from_secs(10)));
    assert_eq!(c.percentage_of_nodes_to_score, 0);
    assert_eq!(c.profiles[0].scheduler_name, "default-scheduler");
    assert_eq!(
        enabled(&c.profiles[0]),
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 \
         NodePorts NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone \
         PodTopologySpread:2 InterPodAffinity:2 DynamicResources:2 DefaultPreemption \
         NodeResourcesBalancedAllocation:1 ImageLocality:1 DefaultBinder NodeDeclaredFeatures \
         GangScheduling TopologyPlacementGenerator PodGroupPodsCount:1"
    );
}

#[test]
fn empty_and_zero_mean_the_default_where_upstream_says_so() {
    let defaults = Configuration::defaults();
    for body in [
        "profiles: []",
        "leaderElection: {leaseDuration: 0s, resourceLock: ''}",
        "clientConnection: {qps: 0, burst: 0, contentType: ''}",
        "profiles: [{}]",
        "profiles: null\nextenders: []",
        "parallelism: 16.0",
        "enableProfiling: yes",
    ] {
        assert_eq!(loaded(body), defaults, "{body}");
    }
    let quiet = loaded("enableProfiling: false");
    assert!(!quiet.enable_contention_profiling);
    assert_eq!(loaded("parallelism: 010").parallelism, 8);
}

#[test]
fn durations_are_written_as_go_writes_them() {
    for (ms, want) in [
        (0, "0s"),
        (7, "7ms"),
        (1_500, "1.5s"),
        (15_000, "15s"),
        (59_999, "59.999s"),
        (90_000, "1m30s"),
        (600_000, "10m0s"),
        (3_600_000, "1h0m0s"),
    ] {
        assert_eq!(go_duration(Span(ms)), want);
    }
}

#[test]
fn json_is_read_as_well() {
    let text =
        format!("{{\"apiVersion\": {API_VERSION:?}, \"kind\": {KIND:?}, \"parallelism\": 4}}");
    assert_eq!(load(&text).expect("valid").parallelism, 4);
}

#[test]
fn arguments_are_kept_without_their_kind_and_know_their_place() {
    let kind = format!("kind: NodeAffinityArgs, apiVersion: {API_VERSION}");
    let typed = format!("{{name: NodeAffinity, args: {{{kind}, addedAffinity: {{}}}}}}");
    let c = loaded(&format!(
        "profiles: [{{pluginConfig: [{{name: Mine, args: {{kind: Other}}}}, {typed}]}}]"
    ));
    let profile = &c.profiles[0];
    let empty = Value::map([]);
    assert_eq!(profile.args.get("NodeAffinity"), Some(&Value::map([("addedAffinity", empty)])));
    assert_eq!(profile.args_path("NodeAffinity"), "profiles[0].pluginConfig[1].args");
    assert_eq!(profile.args.get("Mine"), Some(&Value::map([("kind", Value::text("Other"))])));
}

#[test]
fn the_drop_in_example_is_the_default() {
    let mut c = example("default.yaml");
    assert_eq!(c.client_connection.kubeconfig, "/etc/kubernetes/scheduler.conf");
    c.client_connection.kubeconfig.clear();
    assert_eq!(c, Configuration::defaults());
}

#[test]
fn the_gpu_example_weighs_gpus_ten_times() {
    let profile = &example("gpu-bin-packing.yaml").profiles[0];
    let score = profile.plugins.at(Point::Score);
    assert_eq!(score.enabled[0].weight, 5);
    assert!(score.disables("NodeResourcesBalancedAllocation"));
    let weighed =
        |(name, weight)| Value::map([("name", Value::text(name)), ("weight", Value::Int(weight))]);
    let resources = [("nvidia.com/gpu", 10), ("cpu", 1), ("memory", 1)].map(weighed).to_vec();
    let strategy =
        Value::map([("type", Value::text("MostAllocated")), ("resources", Value::List(resources))]);
    let args = Value::map([("scoringStrategy", strategy)]);
    assert_eq!(profile.args.get("NodeResourcesFit"), Some(&args));
}

#[test]
fn the_example_for_gpu_clusters_packs_pods_and_devices_and_starts_groups_whole() {
    let (built, _) = crate::assemble::assemble(&example("gpu.yaml"), 0).expect("it is accepted");
    let rules = built[0].groups.as_ref().expect("GangScheduling is on");
    let all = crate::wire::dialect::ALL.iter().map(|def| Text::from(def.dialect.name));
    assert_eq!(rules.dialects, all.collect());
    assert!(built[0].packing.is_some(), "GpuPacking is on");
    let weights = built[0].score.iter().map(|entry| (entry.name, entry.weight));
    assert!(built[0].fabric.is_some(), "NvlinkTopology is on");
    let own = ["NvlinkTopology", "GpuPacking"];
    let (own, others): (Vec<_>, Vec<_>) = weights.partition(|(name, _)| own.contains(name));
    // A point of the links of GPUs outweighs all that packing can say.
    assert_eq!(own, [("NvlinkTopology", 150), ("GpuPacking", 1)]);
    // And one of any of these all that both can.
    assert!(others.iter().all(|(_, weight)| *weight > 151 * 100), "{others:?}");
    let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    let wishes = ["TaintToleration", "NodeAffinity", "PodTopologySpread", "DynamicResources"];
    assert_eq!(names, wishes);
}

#[test]
fn the_example_of_two_profiles_packs_only_the_second() {
    let c = example("two-profiles.yaml");
    let names: Vec<&str> = c.profiles.iter().map(|p| &*p.scheduler_name).collect();
    assert_eq!(names, ["default-scheduler", "gpu-packing"]);
    assert_eq!(c.profiles[0].plugins, Configuration::defaults().profiles[0].plugins);
    assert!(!enabled(&c.profiles[1]).contains("PodTopologySpread"));
    assert_eq!(c.profiles[1].percentage_of_nodes_to_score, Some(100));
    assert_eq!(c.profiles[1].path, "profiles[1]");
}

#[test]
fn every_file_in_config_has_a_test_above() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let tested = ["default.yaml", "gpu-bin-packing.yaml", "gpu.yaml", "two-profiles.yaml"];
    assert_eq!(names, tested);
}

#[test]
fn a_check_ends_with_0_1_or_2_and_tells_what_the_plugins_refuse_too() {
    assert_eq!(check_file(HEAD), (0, vec!["valid".to_owned()]));
    assert_eq!(check_file("{").0, 2);
    let gone = CheckReport::unreadable("f.yaml", &"no such file");
    assert_eq!((gone.exit_code, gone.to_string()), (2, "f.yaml: no such file\n".to_owned()));

    let text = format!("{HEAD}profiles: [{{schedulerName: ''}}]\nparallelism: 0\n");
    let report = check("f.yaml", &text, &|c| {
        let path = format!("{}.plugins", c.profiles[0].path);
        vec![ArgError { path, message: "not\nbuilt".into() }]
    });
    assert_eq!(
        (report.exit_code, report.to_string().as_str()),
        (
            1,
            "f.yaml: profiles[0].schedulerName: Required value\n\
             f.yaml: profiles[0].plugins: not built\n\
             f.yaml: parallelism: Invalid value: 0: should be an integer value greater than zero\n"
        )
    );
}

#[test]
fn of_several_documents_ours_is_loaded_and_a_check_names_the_others() {
    let text = format!("---\nkind: ConfigMap\n---\n{HEAD}parallelism: 3\n---\n");
    assert_eq!(load(&text).expect("valid").parallelism, 3);
    let told =
        "document 1: another document of kind \"ConfigMap\"; a configuration file has just one";
    assert_eq!(check_file(&text), (1, vec![told.to_owned()]));
}

#[test]
fn absurd_files_are_refused_not_followed() {
    for absurd in [
        "[".repeat(100_000),
        format!("{HEAD}profiles: {}", "[".repeat(100_000)),
        format!("a: &a [x,x,x,x,x,x,x,x]\n{}", billion_laughs()),
        format!("[{}]", "x,".repeat(100_000)),
    ] {
        assert_eq!(check_file(&absurd).0, 2, "{}", &absurd[..40]);
    }
}

fn billion_laughs() -> String {
    let level = |i: u8| {
        let (name, inner) = (char::from(b'b' + i), char::from(b'a' + i));
        format!("{name}: &{name} [{}]\n", format!("*{inner},").repeat(9))
    };
    (0..9).map(level).collect()
}

/// Words that lead deep into the schema, so that random trees aren't all unknown fields.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "apiVersion",
        "kind",
        "profiles",
        "plugins",
        "pluginConfig",
        "args",
        "name",
        "weight",
        "score",
        "queueSort",
        "multiPoint",
        "enabled",
        "disabled",
        "schedulerName",
        "extenders",
        "managedResources",
        "leaderElection",
        "leaseDuration",
        "clientConnection",
        "burst",
        "qps",
        "podMaxBackoffSeconds",
        "percentageOfNodesToScore",
        "NodeResourcesFit",
        "*",
        "10s",
        "-1ns",
        API_VERSION,
        KIND,
    ];
    prop_oneof![
        8 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        word().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(word(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_tree_makes_it_panic(profile in tree(), rest in tree()) {
        let mut file = match rest {
            serde_json::Value::Object(map) => map,
            _ => serde_json::Map::new(),
        };
        file.insert("apiVersion".into(), API_VERSION.into());
        file.insert("kind".into(), KIND.into());
        file.insert("profiles".into(), vec![profile.clone(), profile].into());
        let text = serde_json::Value::from(file).to_string();
        let report = check("f", &text, &|c| c.profiles.iter()
            .flat_map(|p| p.expand(&|_, _| true).err().unwrap_or_default()).collect());
        prop_assert_eq!(report.exit_code == 0, report.lines == ["f: valid"]);
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let report = check("f", &format!("{HEAD}{text}"), &|_| Vec::new());
        prop_assert!(report.lines.iter().all(|line| !line.contains('\n')));
    }
}
