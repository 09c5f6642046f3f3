//! What a file says → what is written back; and the default against the real `/configz`.

use std::path::Path;

use berth_core::framework::profile_spec::{DEFAULT_MULTI_POINT, GROUP_MULTI_POINT};

use super::super::load;
use super::*;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Completes `body`, and checks that what is written loads and is written the same.
#[track_caller]
fn written(body: &str) -> Value {
    let loaded = load(&format!("{HEAD}{body}")).unwrap();
    let first = completed(&loaded);
    let yaml = serde_saphyr::to_string(&first).unwrap();
    for text in [first.to_string(), yaml] {
        let again = load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(completed(&again), first);
        assert_eq!(again.leader_election, loaded.leader_election);
        assert_eq!(again.client_connection, loaded.client_connection);
    }
    first
}

/// The arguments of one plugin of the first profile.
fn args<'v>(written: &'v Value, plugin: &str) -> &'v Value {
    let configs = written["profiles"][0]["pluginConfig"].as_array().unwrap();
    &configs.iter().find(|config| config["name"] == plugin).unwrap()["args"]
}

#[test]
fn the_default_is_what_the_real_configz_serves() {
    let facts =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/facts/observed-1.37/configz.json");
    let Ok(text) = std::fs::read_to_string(&facts) else {
        println!("skipped: {} is not there", facts.display());
        return;
    };
    let observed: Value = serde_json::from_str(&text).unwrap();
    // Observed with the gates of pod groups on.
    let mut ours = Configuration::defaults();
    ours.client_connection.kubeconfig = "KUBECONFIG".to_owned();
    let mut ours = completed(&ours);
    let configs = ours["profiles"][0]["pluginConfig"].as_array_mut().unwrap();
    for name in ["TopologyPlacementGenerator", "GangScheduling"] {
        assert_eq!(configs.pop().unwrap()["name"], name, "its arguments are our own");
    }
    assert_eq!(ours, observed["componentconfig"]);
}

#[test]
fn arguments_for_groups_are_completed() {
    let gangs = |body: &str| {
        let written = written(&format!(
            "profiles: [{{pluginConfig: [{{name: GangScheduling, args: {{{body}}}}}]}}]"
        ));
        args(&written, "GangScheduling").clone()
    };
    let default = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "GangSchedulingArgs",
        "dialects": ["native"], "deadline": "5m0s", "preflight": "WhereNeeded",
        "takeBack": {"after": "30s", "withoutController": false, "disabled": false},
        "holdSlots": "5m0s",
    });
    assert_eq!(gangs(""), default);
    assert_eq!(gangs("dialects: [], schedulerNames: [], takeBack: {after: null}"), default);
    let given = gangs(
        "dialects: [kueue, volcano], schedulerNames: [volcano], deadline: 90s, \
         preflight: Always, takeBack: {after: 100s, disabled: true}, holdSlots: '0'",
    );
    let want = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "GangSchedulingArgs",
        "dialects": ["native", "kueue", "volcano"], "schedulerNames": ["volcano"],
        "deadline": "1m30s", "preflight": "Always",
        "takeBack": {"after": "1m40s", "withoutController": false, "disabled": true},
        "holdSlots": "0s",
    });
    assert_eq!(given, want);
}

#[test]
fn arguments_for_packing_are_completed_with_what_holds_without_them() {
    let file = "profiles: [{plugins: {multiPoint: {enabled: [{name: GpuPacking, weight: 1}]}}, \
                pluginConfig: [{name: GpuPacking, args: {drivers: [d.example.com]}}]}]";
    let written = written(file);
    let packing = args(&written, "GpuPacking");
    let want = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "GpuPackingArgs",
        "resources": ["nvidia.com/gpu", "nvidia.com/gpu.shared"], "drivers": ["d.example.com"],
        "deviceClasses": ["gpu.nvidia.com", "mig.nvidia.com"], "expectedPodsCountAs": 500,
        "halfLifePods": 5000, "solveEveryPods": 100, "roomForNamedModels": false,
    });
    assert_eq!(*packing, want);
    let rules = |text: &str| {
        let loaded = load(text).unwrap();
        crate::assemble::assemble(&loaded, 0).unwrap().0[0].packing.clone().unwrap()
    };
    let given = rules(&format!("{HEAD}{file}"));
    assert_eq!(rules(&written.to_string()), given, "written out they mean the same");
}

#[test]
fn arguments_for_links_of_gpus_are_completed_with_what_holds_without_them() {
    let file = "profiles: [{plugins: {multiPoint: {enabled: [{name: NvlinkTopology, weight: 1}]}}, \
                pluginConfig: [{name: NvlinkTopology, args: {drivers: [d.example.com]}}]}]";
    let written = written(file);
    let want = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NvlinkTopologyArgs",
        "resources": ["nvidia.com/gpu"], "drivers": ["d.example.com"],
        "deviceClasses": ["gpu.nvidia.com"], "alignRails": false,
    });
    assert_eq!(*args(&written, "NvlinkTopology"), want);
    let rules = |text: &str| {
        let loaded = load(text).unwrap();
        crate::assemble::assemble(&loaded, 0).unwrap().0[0].fabric.clone().unwrap()
    };
    let given = rules(&format!("{HEAD}{file}"));
    assert_eq!(rules(&written.to_string()), given, "written out they mean the same");
}

/// kube-scheduler writes no plugins of groups unless their gates are on.
#[test]
fn a_file_that_kube_scheduler_wrote_enables_what_it_enables_and_groups() {
    let entry = |(name, weight): &(&str, i32)| json!({"name": name, "weight": weight});
    let all: Vec<Value> = DEFAULT_MULTI_POINT.iter().map(entry).collect();
    let profile = json!({"schedulerName": "s", "plugins": {"multiPoint": {"enabled": all}}});
    let file = json!({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]});
    let loaded = load(&file.to_string()).unwrap();
    assert_eq!(crate::assemble::refusals(&loaded), []);
    let enabled = &loaded.profiles[0].plugins.multi_point.enabled;
    let groups = enabled[DEFAULT_MULTI_POINT.len()..].iter().map(|it| it.name.as_str());
    assert!(groups.eq(GROUP_MULTI_POINT.map(|(name, _)| name)));
}

#[test]
fn what_is_written_loads_unchanged() {
    written("");
    written("delayCacheUntilActive: true\nclientConnection: {qps: 0.5, kubeconfig: /k}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let loaded = load(&text).unwrap();
        let first = completed(&loaded);
        let again = load(&first.to_string()).unwrap();
        assert_eq!(completed(&again), first);
    }
}

#[test]
fn plugins_that_are_off_or_moved_stay_so() {
    let written = written(
        "profiles: [{percentageOfNodesToScore: 30, plugins: {\
         multiPoint: {disabled: [{name: NodeAffinity}, {name: NodePorts}], \
         enabled: [{name: NodePorts, weight: 2}]}, \
         score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 7}]}}}]",
    );
    let profile = &written["profiles"][0];
    assert_eq!(profile["percentageOfNodesToScore"], 30);
    let score = &profile["plugins"]["score"];
    assert_eq!(score["enabled"], json!([{"name": "ImageLocality", "weight": 7}]));
    assert_eq!(score["disabled"], json!([{"name": "*", "weight": 0}]));
    let multi_point = profile["plugins"]["multiPoint"]["enabled"].as_array().unwrap();
    assert_eq!(multi_point.last().unwrap()["name"], "NodePorts");
    let configured = profile["pluginConfig"].as_array().unwrap();
    assert!(configured.iter().all(|config| config["name"] != "NodeAffinity"));
}

#[test]
fn arguments_are_completed_as_upstream_does() {
    let written = written(
        "profiles: [{pluginConfig: [\
         {name: NodeResourcesFit, args: {ignoredResources: [], scoringStrategy: {\
         type: MostAllocated, resources: [{name: nvidia.com/gpu}]}}}, \
         {name: DynamicResources, args: {bindingTimeout: 90s}}, \
         {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 7}}]}]",
    );
    let names: Vec<&str> = written["profiles"][0]["pluginConfig"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|config| config["name"].as_str())
        .collect();
    assert_eq!(
        names[..4],
        ["NodeResourcesFit", "DynamicResources", "DefaultPreemption", "InterPodAffinity"]
    );
    let head = |kind: &str, rest: Value| {
        let mut value = rest;
        value["kind"] = kind.into();
        value["apiVersion"] = API_VERSION.into();
        value
    };
    let fit = json!({"scoringStrategy": {
        "type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 1}]}});
    assert_eq!(args(&written, "NodeResourcesFit"), &head("NodeResourcesFitArgs", fit));
    let devices = json!({"filterTimeout": "10s", "bindingTimeout": "1m30s"});
    assert_eq!(args(&written, "DynamicResources"), &head("DynamicResourcesArgs", devices));
    let preemption = json!({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 7});
    assert_eq!(args(&written, "DefaultPreemption"), &head("DefaultPreemptionArgs", preemption));
}
