//! One case for each rule: the body of a file, then the lines that are told.

use super::{API_VERSION, HEAD, OWN_API_VERSION, check_file};

/// Asserts what a check tells about a file with this body; no line means it is valid.
fn told(body: &str, want: &[&str]) {
    let (code, lines) = check_file(&format!("{HEAD}{body}\n"));
    if want.is_empty() {
        assert_eq!((code, lines), (0, vec!["valid".to_owned()]), "{body}");
    } else {
        assert_eq!(
            (code, lines.iter().map(String::as_str).collect::<Vec<_>>()),
            (1, want.to_vec()),
            "{body}"
        );
    }
}

/// Asserts what is told about the fields of a single profile, with paths below `profiles[0]`.
fn told_of_profile(body: &str, want: &[&str]) {
    let want: Vec<String> = want.iter().map(|line| format!("profiles[0].{line}")).collect();
    let want: Vec<&str> = want.iter().map(String::as_str).collect();
    told(&format!("profiles: [{{{body}}}]"), &want);
}

#[test]
fn kind_and_version() {
    let check = |text: &str, want: &str| {
        assert_eq!(check_file(text), (1, vec![want.to_owned()]), "{text}");
    };
    check("", "kind: Object 'Kind' is missing, write KubeSchedulerConfiguration");
    let pod = "kind: Invalid value: \"Pod\": must be KubeSchedulerConfiguration";
    check("{apiVersion: v1, kind: Pod, spec: {}}", pod);
    let kind = "kind: KubeSchedulerConfiguration";
    check(kind, &format!("apiVersion: Object 'apiVersion' is missing, write {API_VERSION}"));
    let beta = "kubescheduler.config.k8s.io/v1beta3";
    let gone = format!("no longer supported by kube-scheduler either; write {API_VERSION}");
    let want = format!("apiVersion: Invalid value: {beta:?}: {gone}");
    check(&format!("{kind}\napiVersion: {beta}"), &want);
    let want = format!("apiVersion: Invalid value: \"apps/v1\": must be {API_VERSION}");
    check(&format!("{kind}\napiVersion: apps/v1\nx: 1"), &want);
}

#[test]
fn unknown_and_repeated_fields_anywhere() {
    told("Parallelism: 1", &["Parallelism: unknown field"]);
    told("clientConnection: {x: 1}", &["clientConnection.x: unknown field"]);
    told("leaderElection: {x: 1}", &["leaderElection.x: unknown field"]);
    told("algorithmSource: {}\nx: 1", &["algorithmSource: unknown field", "x: unknown field"]);
    told_of_profile("x: 1", &["x: unknown field"]);
    told_of_profile(
        "plugins: {placementFeasible: {}}",
        &["plugins.placementFeasible: unknown field"],
    );
    told_of_profile("plugins: {score: {x: 1}}", &["plugins.score.x: unknown field"]);
    told_of_profile(
        "plugins: {score: {enabled: [{name: A, x: 1}], disabled: [{name: B, x: 1}]}}",
        &[
            "plugins.score.enabled[0].x: unknown field",
            "plugins.score.disabled[0].x: unknown field",
        ],
    );
    told_of_profile("pluginConfig: [{name: A, x: 1}]", &["pluginConfig[0].x: unknown field"]);
    told(
        "parallelism: 1\nparallelism: 2",
        &["parallelism: key \"parallelism\" already set in map"],
    );
    told_of_profile(
        "pluginConfig: [{name: A, args: {x: {y: 1, y: 1}}}]",
        &["pluginConfig[0].args.x.y: key \"y\" already set in map"],
    );
}

#[test]
fn wrong_types() {
    told("parallelism: '1'", &["parallelism: must be an integer, not a string"]);
    told("parallelism: 1.5", &["parallelism: must be an integer, not a number"]);
    let wide = "parallelism: Invalid value: 3000000000: must fit into 32 bits";
    told("parallelism: 3000000000", &[wide]);
    told("clientConnection: {qps: x}", &["clientConnection.qps: must be a number, not a string"]);
    told("leaderElection: [x]", &["leaderElection: must be an object, not a list"]);
    told("profiles: {}", &["profiles: must be a list, not an object"]);
    told("profiles: [x]", &["profiles[0]: must be an object, not a string"]);
    told("enableProfiling: 'yes'", &["enableProfiling: must be a boolean, not a string"]);
    let duration = "leaderElection.leaseDuration";
    told(
        "leaderElection: {leaseDuration: 15}",
        &[&format!("{duration}: must be a string, not an integer")],
    );
    told(
        "leaderElection: {leaseDuration: 15x}",
        &[&format!("{duration}: invalid duration \"15x\"")],
    );
    told_of_profile("schedulerName: 1", &["schedulerName: must be a string, not an integer"]);
}

#[test]
fn numbers_out_of_range() {
    let positive = "should be an integer value greater than zero";
    told("parallelism: -1", &[&format!("parallelism: Invalid value: -1: {positive}")]);
    let range = "not in valid range [0-100]";
    let percentage = "percentageOfNodesToScore";
    told(&format!("{percentage}: 101"), &[&format!("{percentage}: Invalid value: 101: {range}")]);
    told(&format!("{percentage}: -1"), &[&format!("{percentage}: Invalid value: -1: {range}")]);
    told(&format!("{percentage}: 100"), &[]);
    told_of_profile(
        &format!("{percentage}: 101"),
        &[&format!("{percentage}: Invalid value: 101: {range}")],
    );
    told(
        "podInitialBackoffSeconds: 0",
        &["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
    );
    let least = "must be greater than or equal to PodInitialBackoffSeconds";
    told(
        "podInitialBackoffSeconds: 11",
        &[&format!("podMaxBackoffSeconds: Invalid value: 10: {least}")],
    );
    told(
        "clientConnection: {burst: -1}",
        &["clientConnection.burst: Invalid value: -1: must be non-negative"],
    );
}

#[test]
fn leader_election() {
    let check = |body: &str, want: &[&str]| {
        let want: Vec<String> = want.iter().map(|w| format!("leaderElection.{w}")).collect();
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        told(&format!("leaderElection: {{{body}}}"), &want);
    };
    let renew = "leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline` (10s)";
    check("leaseDuration: 10s", &[renew]);
    let retry = "must be greater than retryPeriod*JitterFactor (1.2)";
    let retry = format!("renewDeadline: Invalid value: \"6s\": {retry}");
    check("renewDeadline: 6s, retryPeriod: 5s", &[&retry]);
    check("renewDeadline: 6001ms, retryPeriod: 5s", &[]);
    for key in ["leaseDuration", "renewDeadline", "retryPeriod"] {
        let want = format!("{key}: Invalid value: \"-1s\": must be greater than zero");
        check(&format!("{key}: -1s"), &[&want]);
    }
    let lock = "resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\"";
    check("resourceLock: endpoints", &[lock]);
    check("leaderElect: false, resourceLock: endpoints, leaseDuration: 1s, retryPeriod: -1s", &[]);
}

#[test]
fn scheduler_names() {
    told_of_profile("schedulerName: ''", &["schedulerName: Required value"]);
    told_of_profile("schedulerName: null", &[]);
    let twice =
        "profiles[1].schedulerName: Duplicate value: \"a\": profiles[0].schedulerName has it too";
    told("profiles: [{schedulerName: a}, {schedulerName: a}]", &[twice]);
    told("profiles: [{schedulerName: a}, {}]", &["profiles[1].schedulerName: Required value"]);
}

#[test]
fn plugin_sets() {
    told_of_profile(
        "plugins: {score: {enabled: [{}]}}",
        &["plugins.score.enabled[0].name: Required value"],
    );
    let ours = format!("KubeSchedulerConfiguration is version {API_VERSION:?}");
    let removed = format!("was invalid in version \"v1\" ({ours})");
    for name in ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"] {
        for key in ["filter", "multiPoint"] {
            let want = format!("plugins.{key}.enabled[0]: Invalid value: {name:?}: {removed}");
            told_of_profile(
                &format!("plugins: {{{key}: {{enabled: [{{name: {name}}}]}}}}"),
                &[&want],
            );
        }
        let want = format!("pluginConfig[0]: Invalid value: {name:?}: {removed}");
        told_of_profile(&format!("pluginConfig: [{{name: {name}}}]"), &[&want]);
        told_of_profile(&format!("plugins: {{filter: {{disabled: [{{name: {name}}}]}}}}"), &[]);
    }
}

#[test]
fn plugin_arguments() {
    told_of_profile(
        "pluginConfig: [{name: A}, {name: A}]",
        &["pluginConfig[1]: Duplicate value: \"A\""],
    );
    let kinds = "kubescheduler.config.k8s.io, got NodeAffinityArgs.kubescheduler.config.k8s.io";
    let want = "pluginConfig[0].args.kind: args for plugin VolumeBinding were not of type";
    told_of_profile(
        "pluginConfig: [{name: VolumeBinding, args: {kind: NodeAffinityArgs}}]",
        &[&format!("{want} VolumeBindingArgs.{kinds}")],
    );
    told_of_profile(
        "pluginConfig: [{name: VolumeBinding, args: {apiVersion: v2, kind: 1}}]",
        &[
            &format!(
                "pluginConfig[0].args.apiVersion: Invalid value: \"v2\": must be {API_VERSION}"
            ),
            "pluginConfig[0].args.kind: must be a string, not an integer",
        ],
    );
    told_of_profile(
        "pluginConfig: [{name: VolumeBinding, args: x}]",
        &["pluginConfig[0].args: must be an object, not a string"],
    );
    told_of_profile("pluginConfig: [{name: VolumeBinding}, {name: Mine, args: {kind: 1}}]", &[]);
}

#[test]
fn arguments_of_our_own_have_a_version_of_their_own() {
    let gangs = |head: &str| format!("pluginConfig: [{{name: GangScheduling, args: {{{head}}}}}]");
    let kind = "kind: GangSchedulingArgs";
    told_of_profile(&gangs(&format!("apiVersion: {OWN_API_VERSION}, {kind}")), &[]);
    told_of_profile(&gangs(kind), &[]);
    let at = "pluginConfig[0].args";
    let version = format!("Invalid value: {API_VERSION:?}: must be {OWN_API_VERSION}");
    told_of_profile(
        &gangs(&format!("apiVersion: {API_VERSION}, {kind}")),
        &[&format!("{at}.apiVersion: {version}")],
    );
    let types = "GangSchedulingArgs.berth.dev, got Gangs.berth.dev";
    told_of_profile(
        &gangs("kind: Gangs"),
        &[&format!("{at}.kind: args for plugin GangScheduling were not of type {types}")],
    );
}

#[test]
fn one_queue_sort_for_all_profiles() {
    let profiles = |sets: &[&str]| {
        let one = |(i, set): (usize, &&str)| format!("{{schedulerName: p{i}, {set}}}");
        let all: Vec<String> = sets.iter().enumerate().map(one).collect();
        format!("profiles: [{}]", all.join(", "))
    };
    let a = "plugins: {queueSort: {enabled: [{name: A}], disabled: [{name: '*'}]}}";
    let b = "plugins: {queueSort: {enabled: [{name: B}], disabled: [{name: '*'}]}}";
    told(&profiles(&[a, a]), &[]);
    let differs = "profiles[1].plugins.queueSort: Invalid value";
    told(&profiles(&[a, b]), &[&format!("{differs}: [\"B\"]: must be the same for all profiles")]);
    told(
        &profiles(&[a, "plugins: {}"]),
        &[&format!("{differs}: []: must be the same for all profiles")],
    );
    let two = "profiles[0].plugins.queueSort.enabled: Invalid value: 2: only one queue sort plugin";
    let ab = "plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}";
    told(&profiles(&[ab]), &[&format!("{two} can be enabled")]);
    let with = |x: i64| format!("{a}, pluginConfig: [{{name: A, args: {{x: {x}}}}}]");
    told(&profiles(&[&with(1), &with(1)]), &[]);
    let args = "profiles[1].pluginConfig[0].args: Invalid value: \"A\": queueSort must be the same";
    told(&profiles(&[&with(1), &with(2)]), &[&format!("{args} for all profiles")]);
}

#[test]
fn extenders_are_checked_and_then_refused_by_name() {
    let check = |bodies: &[&str], want: &[&str]| {
        let objects: Vec<String> =
            bodies.iter().map(|b| format!("{{urlPrefix: u, {b}}}")).collect();
        let (_, lines) = check_file(&format!("{HEAD}extenders: [{}]", objects.join(", ")));
        let refused = |line: &&String| !line.ends_with("extender \"u\" is not supported yet");
        let others: Vec<&str> = lines.iter().filter(refused).map(String::as_str).collect();
        assert_eq!(others, want, "{bodies:?}");
        assert_eq!(lines.len() - others.len(), bodies.len(), "each is refused: {bodies:?}");
    };
    check(
        &["filterVerb: f, preemptVerb: p, enableHTTPS: true, httpTimeout: 5s, nodeCacheCapable: \
          true, ignorable: true, tlsConfig: {insecure: true, caData: YQ==}"],
        &[],
    );
    check(&["prioritizeVerb: p, weight: 2, bindVerb: b", "weight: -1"], &[]);
    let weight = "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it";
    check(&["prioritizeVerb: p"], &[weight]);
    let binders = "extenders: Invalid value: \"found 2 extenders implementing bind\"";
    let binders = format!("{binders}: only one extender can implement bind");
    check(&["bindVerb: b", "bindVerb: b"], &[&binders]);
    check(
        &["x: 1, tlsConfig: {y: 1}"],
        &["extenders[0].x: unknown field", "extenders[0].tlsConfig.y: unknown field"],
    );
    check(&["httpTimeout: 5"], &["extenders[0].httpTimeout: must be a string, not an integer"]);
}

#[test]
fn resources_that_an_extender_manages() {
    let check = |names: &[&str], want: &[&str]| {
        let resources: Vec<String> = names.iter().map(|n| format!("{{name: {n:?}}}")).collect();
        let body = format!("extenders: [{{managedResources: [{}]}}]", resources.join(", "));
        let (_, lines) = check_file(&format!("{HEAD}{body}"));
        let line =
            |line: &String| line.strip_prefix("extenders[0].managedResources").map(str::to_owned);
        let lines: Vec<String> = lines.iter().filter_map(line).collect();
        assert_eq!(lines, want, "{names:?}");
    };
    check(&["example.com/gpu", "example.com/gpu-b"], &[]);
    let twice = "[1].name: Invalid value: \"a.b/c\": duplicate extender managed resource name";
    check(&["a.b/c", "a.b/c"], &[twice]);
    for bad in ["", "/a", "a/", "A.b/c", "a.b/c/d", "a.b/-c", "a..b/c", "a.b/c d"] {
        let detail = "must be a qualified name such as example.com/gpu";
        check(&[bad], &[&format!("[0].name: Invalid value: {bad:?}: {detail}")]);
    }
    for ours in ["cpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.a/gpu"] {
        let detail = "is an invalid extended resource name";
        check(&[ours], &[&format!("[0].name: Invalid value: {ours:?}: {detail}")]);
    }
}
