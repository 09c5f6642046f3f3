//! A completed configuration as kube-scheduler writes it: `--write-config-to` and `/configz`.
//!
//! Source: `/configz` of kube-scheduler 1.37.2; `apis/config/v1/defaults.go` of the same version.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::collections::BTreeSet;

use berth_core::framework::args::parse_duration_ms;
use berth_core::framework::profile_spec::{PluginSet, PluginSets, ProfileSpec};
use berth_core::types::group::NATIVE;
use berth_core::types::{Span, Value as Tree};
use serde_json::{Map, Value, json};

use super::message::go_duration;
use super::profile::{WITH_ARGS, args_version};
use super::{API_VERSION, ClientConnection, Configuration, KIND, LeaderElection};

/// Returns the configuration with every default filled in: plugin sets merged with the default
/// ones, and the arguments of each plugin that takes some. Read back, it gives the same.
pub fn completed(configuration: &Configuration) -> Value {
    let c = configuration;
    let seconds = |span: Span| span.as_millis() / 1000;
    let mut value = json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "parallelism": c.parallelism,
        "leaderElection": leader_election(&c.leader_election),
        "clientConnection": client_connection(&c.client_connection),
        "enableProfiling": c.enable_profiling,
        "enableContentionProfiling": c.enable_contention_profiling,
        "percentageOfNodesToScore": c.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": seconds(c.pod_initial_backoff),
        "podMaxBackoffSeconds": seconds(c.pod_max_backoff),
        "profiles": c.profiles.iter().map(profile).collect::<Vec<Value>>(),
    });
    if c.delay_cache_until_active {
        value["delayCacheUntilActive"] = true.into();
    }
    value
}

fn leader_election(election: &LeaderElection) -> Value {
    json!({
        "leaderElect": election.leader_elect,
        "leaseDuration": go_duration(election.lease_duration),
        "renewDeadline": go_duration(election.renew_deadline),
        "retryPeriod": go_duration(election.retry_period),
        "resourceLock": election.resource_lock,
        "resourceName": election.resource_name,
        "resourceNamespace": election.resource_namespace,
    })
}

fn client_connection(client: &ClientConnection) -> Value {
    json!({
        "kubeconfig": client.kubeconfig,
        "acceptContentTypes": client.accept_content_types,
        "contentType": client.content_type,
        "qps": number(client.qps),
        "burst": client.burst,
    })
}

/// Go writes a float that is whole without a point.
fn number(x: f64) -> Value {
    // 2^53: up to here a float names one integer.
    let whole = x.fract() == 0.0 && x.abs() <= 9_007_199_254_740_992.0;
    if whole { json!(x as i64) } else { json!(x) }
}

fn profile(spec: &ProfileSpec) -> Value {
    let mut value = json!({
        "schedulerName": spec.scheduler_name.as_str(),
        "plugins": plugins(&spec.plugins),
        "pluginConfig": plugin_config(spec),
    });
    if let Some(percentage) = spec.percentage_of_nodes_to_score {
        value["percentageOfNodesToScore"] = percentage.into();
    }
    value
}

fn plugins(sets: &PluginSets) -> Value {
    let sets = sets.iter().map(|(key, set)| (key.to_owned(), plugin_set(set)));
    Value::Object(sets.collect())
}

fn plugin_set(set: &PluginSet) -> Value {
    let entry = |name: &str, weight: i32| json!({"name": name, "weight": weight});
    let enabled: Vec<Value> = set.enabled.iter().map(|e| entry(&e.name, e.weight)).collect();
    let disabled: Vec<Value> = set.disabled.iter().map(|name| entry(name, 0)).collect();
    let mut value = Map::new();
    for (key, entries) in [("enabled", enabled), ("disabled", disabled)] {
        if !entries.is_empty() {
            value.insert(key.to_owned(), entries.into());
        }
    }
    value.into()
}

/// Returns the arguments that the user gave, in the order of the file, then the default ones of
/// the other enabled plugins, by name.
fn plugin_config(spec: &ProfileSpec) -> Vec<Value> {
    let mut given: Vec<&str> = spec.args.keys().map(|name| name.as_str()).collect();
    given.sort_by_key(|name| index_in(&spec.args_path(name)));
    let sets = spec.plugins.iter().flat_map(|(_, set)| &set.enabled);
    let enabled: BTreeSet<&str> = sets.map(|entry| entry.name.as_str()).collect();
    // Upstream's by name, then Berth's own.
    let defaults = WITH_ARGS.iter().map(|(name, _)| name);
    let defaults = defaults.filter(|name| enabled.contains(*name) && !given.contains(name));
    let names = given.iter().chain(defaults);
    let entry = |name: &&str| {
        let args = spec.args.get(*name).map_or(Value::Null, from_tree);
        json!({"name": name, "args": complete_args(name, args)})
    };
    names.map(entry).collect()
}

/// Returns the index in a path such as `profiles[0].pluginConfig[2].args`.
fn index_in(path: &str) -> usize {
    let index = path.rsplit_once('[').and_then(|(_, rest)| rest.split_once(']'));
    index.and_then(|(index, _)| index.parse().ok()).unwrap_or(usize::MAX)
}

fn from_tree(tree: &Tree) -> Value {
    match tree {
        Tree::Null => Value::Null,
        Tree::Bool(b) => (*b).into(),
        Tree::Int(i) => (*i).into(),
        Tree::Float(x) => number(*x),
        Tree::Text(text) => text.as_str().into(),
        Tree::List(items) => items.iter().map(from_tree).collect(),
        Tree::Map(entries) => {
            let entry = |(key, value): (_, _)| (str::to_owned(key), from_tree(value));
            Value::Object(entries.iter().map(|(k, v)| entry((k.as_str(), v))).collect())
        }
    }
}

/// Fills in the defaults of the arguments of `plugin`; those that have no kind stay as they are.
fn complete_args(plugin: &str, args: Value) -> Value {
    let Some(version) = args_version(plugin) else { return args };
    let mut map = match args {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.retain(|_, value| !is_absent(value));
    if let Value::Object(defaults) = default_args(plugin) {
        for (key, value) in defaults {
            map.entry(key).or_insert(value);
        }
    }
    for key in ["filterTimeout", "bindingTimeout", "deadline", "holdSlots"] {
        complete_duration(map.get_mut(key));
    }
    complete_resources(map.get_mut("resources"));
    complete_strategy(map.get_mut("scoringStrategy"));
    if plugin == "GangScheduling" {
        complete_gangs(&mut map);
    }
    map.insert("kind".to_owned(), format!("{plugin}Args").into());
    map.insert("apiVersion".to_owned(), version.into());
    map.into()
}

/// Null and an empty list mean the default, or nothing; upstream writes neither.
fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty) || value.as_str() == Some("")
}

fn default_args(plugin: &str) -> Value {
    match plugin {
        "DefaultPreemption" => {
            json!({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100})
        }
        "DynamicResources" => json!({"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
        "GangScheduling" => json!({
            "dialects": [], "deadline": "5m0s", "preflight": "WhereNeeded", "takeBack": {},
            "holdSlots": "5m0s",
        }),
        "NvlinkTopology" => json!({
            "resources": ["nvidia.com/gpu"], "drivers": ["gpu.nvidia.com"],
            "deviceClasses": ["gpu.nvidia.com"], "alignRails": false,
        }),
        "GpuPacking" => json!({
            "resources": ["nvidia.com/gpu", "nvidia.com/gpu.shared"],
            "drivers": ["gpu.nvidia.com"],
            "deviceClasses": ["gpu.nvidia.com", "mig.nvidia.com"], "expectedPodsCountAs": 500,
            "halfLifePods": 5000, "solveEveryPods": 100, "roomForNamedModels": false,
        }),
        "InterPodAffinity" => {
            json!({"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": false})
        }
        "NodeResourcesBalancedAllocation" => json!({"resources": cpu_and_memory()}),
        "NodeResourcesFit" => json!({"scoringStrategy": {"type": "LeastAllocated"}}),
        "PodTopologySpread" => json!({"defaultingType": "System"}),
        "TopologyPlacementGenerator" => json!({
            "levels": [], "computeDomains": "Required", "exclusiveCliques": false,
        }),
        "VolumeBinding" => json!({
            "bindTimeoutSeconds": 600,
            "shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}],
        }),
        _ => json!({}),
    }
}

fn cpu_and_memory() -> Value {
    json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}])
}

/// Gives resources without a weight the weight 1.
fn complete_resources(resources: Option<&mut Value>) {
    for resource in resources.and_then(Value::as_array_mut).into_iter().flatten() {
        if resource["weight"].as_i64().unwrap_or(0) == 0 && resource.is_object() {
            resource["weight"] = 1.into();
        }
    }
}

/// Gives a scoring strategy without resources the default ones.
fn complete_strategy(strategy: Option<&mut Value>) {
    let Some(Value::Object(strategy)) = strategy else { return };
    strategy.retain(|_, value| !is_absent(value));
    let resources = strategy.entry("resources").or_insert_with(cpu_and_memory);
    complete_resources(Some(resources));
}

/// Kubernetes' own groups count always, and are written first where they weren't.
fn complete_gangs(args: &mut Map<String, Value>) {
    if let Some(Value::Array(dialects)) = args.get_mut("dialects")
        && !dialects.contains(&json!(NATIVE.name))
    {
        dialects.insert(0, NATIVE.name.into());
    }
    let Some(Value::Object(take_back)) = args.get_mut("takeBack") else { return };
    take_back.retain(|_, value| !is_absent(value));
    for (key, value) in
        [("after", json!("30s")), ("withoutController", json!(false)), ("disabled", json!(false))]
    {
        take_back.entry(key).or_insert(value);
    }
    complete_duration(take_back.get_mut("after"));
}

/// Writes a duration as Go does.
fn complete_duration(duration: Option<&mut Value>) {
    if let Some(Value::String(text)) = duration
        && let Some(ms) = parse_duration_ms(text).and_then(|ms| u64::try_from(ms).ok())
    {
        *text = go_duration(Span(ms));
    }
}

#[cfg(test)]
mod tests;
