//! `profiles`: names, plugin sets, plugin arguments, and what all profiles must share.

use std::collections::BTreeMap;

use berth_core::framework::args::Args;
use berth_core::framework::profile_spec::{
    DEFAULT_MULTI_POINT, Enabled, PluginSet, PluginSets, Point, ProfileSpec,
};
use berth_core::types::{Text, Value};

use super::message::{REQUIRED, int32, invalid, invalid_text, percentage, string};
use super::{API_VERSION, OWN_API_VERSION};

/// Plugins that kube-scheduler had once; a configuration that still names one is out of date.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Plugins whose arguments have a kind of their own, `<name>Args`, with its version; upstream's
/// come first.
pub(super) const WITH_ARGS: [(&str, &str); 12] = [
    ("DefaultPreemption", API_VERSION),
    ("DynamicResources", API_VERSION),
    ("InterPodAffinity", API_VERSION),
    ("NodeAffinity", API_VERSION),
    ("NodeResourcesBalancedAllocation", API_VERSION),
    ("NodeResourcesFit", API_VERSION),
    ("PodTopologySpread", API_VERSION),
    ("VolumeBinding", API_VERSION),
    ("GangScheduling", OWN_API_VERSION),
    ("GpuPacking", OWN_API_VERSION),
    ("NvlinkTopology", OWN_API_VERSION),
    ("TopologyPlacementGenerator", OWN_API_VERSION),
];

/// Returns the version of a plugin's arguments, `None` where they have no kind.
pub(super) fn args_version(plugin: &str) -> Option<&'static str> {
    WITH_ARGS.iter().find(|(name, _)| *name == plugin).map(|(_, version)| *version)
}

/// Reads `profiles`; none means the default one.
pub(super) fn profiles(root: &Args) -> Vec<ProfileSpec> {
    let objects = root.objects("profiles");
    if objects.is_empty() {
        return vec![ProfileSpec::default_named("default-scheduler")];
    }
    let only = objects.len() == 1;
    let mut profiles: Vec<ProfileSpec> = Vec::new();
    for (at, args) in objects.iter().enumerate() {
        let profile = read_profile(args, format!("profiles[{at}]"), only);
        if let Some(twin) = profiles.iter().find(|p| p.scheduler_name == profile.scheduler_name) {
            let message = format!(
                "Duplicate value: {:?}: {}.schedulerName has it too",
                &*profile.scheduler_name, twin.path
            );
            args.error("schedulerName", message);
        }
        profiles.push(profile);
    }
    check_queue_sort(root, &profiles);
    profiles
}

fn read_profile(args: &Args, path: String, only: bool) -> ProfileSpec {
    let scheduler_name = match args.text("schedulerName") {
        // A name is filled in only where nobody could mean another profile.
        None if only => "default-scheduler".into(),
        given => given.unwrap_or_default(),
    };
    if scheduler_name.is_empty() {
        args.error("schedulerName", REQUIRED);
    }
    let mut profile = ProfileSpec {
        scheduler_name,
        percentage_of_nodes_to_score: percentage(args, "percentageOfNodesToScore"),
        plugins: merged(&read_plugins(args), &PluginSets::defaults()),
        path,
        ..ProfileSpec::default()
    };
    read_plugin_config(args, &mut profile);
    args.finish();
    profile
}

/// Merges what the user wrote into the default sets.
///
/// A `multiPoint` that repeats every default plugin of upstream's that it does not disable, as in a
/// file that `--write-config-to` wrote, asks for none of them in particular: they stay defaults, so
/// that those which aren't built yet aren't refused.
fn merged(written: &PluginSets, defaults: &PluginSets) -> PluginSets {
    let mut merged = written.merged_into(defaults);
    let own = &written.multi_point;
    let same = |a: &Enabled, b: &Enabled| a.name == b.name && a.weight == b.weight;
    let default = |entry: &Enabled| {
        !own.disables(&entry.name) && defaults.multi_point.enabled.iter().any(|d| same(d, entry))
    };
    let upstreams = |d: &&Enabled| DEFAULT_MULTI_POINT.iter().any(|(name, _)| d.name == *name);
    let repeated = |d: &Enabled| own.disables(&d.name) || own.enabled.iter().any(|e| same(e, d));
    if own.disables("*") || !defaults.multi_point.enabled.iter().filter(upstreams).all(repeated) {
        return merged;
    }
    for entry in merged.multi_point.enabled.iter_mut().filter(|e| default(e)) {
        entry.written_at = None;
    }
    merged
}

fn read_plugins(profile: &Args) -> PluginSets {
    let mut sets = PluginSets::default();
    let Some(args) = profile.object("plugins") else { return sets };
    for point in Point::ALL {
        *sets.at_mut(point) = read_set(&args, point.key());
    }
    sets.multi_point = read_set(&args, "multiPoint");
    args.finish();
    sets
}

fn read_set(plugins: &Args, key: &str) -> PluginSet {
    let mut set = PluginSet::default();
    let Some(args) = plugins.object(key) else { return set };
    for (at, entry) in args.objects("enabled").iter().enumerate() {
        let (name, weight) = read_entry(entry);
        if name.is_empty() {
            entry.error("name", REQUIRED);
        }
        refuse_removed(entry, &name);
        set.enabled.push(Enabled { name, weight, written_at: Some(at) });
    }
    for entry in args.objects("disabled") {
        let (name, _) = read_entry(&entry);
        set.disabled.push(name);
    }
    args.finish();
    set
}

/// Reads `{name, weight}`.
fn read_entry(entry: &Args) -> (Text, i32) {
    let (name, weight) = (entry.text("name"), int32(entry, "weight"));
    entry.finish();
    (name.unwrap_or_default(), weight.unwrap_or(0))
}

fn refuse_removed(entry: &Args, name: &str) {
    if REMOVED.contains(&name) {
        let detail = format!(
            "was invalid in version \"v1\" (KubeSchedulerConfiguration is version {API_VERSION:?})"
        );
        entry.error("", invalid_text(name, detail));
    }
}

/// Reads `pluginConfig`; of several entries for one plugin, which is an error, the first stays.
fn read_plugin_config(profile: &Args, spec: &mut ProfileSpec) {
    for (at, entry) in profile.objects("pluginConfig").iter().enumerate() {
        let name = string(entry, "name");
        refuse_removed(entry, &name);
        let value = read_args(entry, &name);
        entry.finish();
        let name = Text::from(name);
        if spec.args.contains_key(&name) {
            entry.error("", format!("Duplicate value: {:?}", &*name));
            continue;
        }
        let path = format!("{}.pluginConfig[{at}].args", spec.path);
        spec.args_paths.insert(name.clone(), path);
        spec.args.insert(name, value);
    }
}

/// Returns the arguments of `plugin` without `apiVersion` and `kind`, which are checked if the
/// plugin's arguments have a kind; the rest is the plugin's to decode.
fn read_args(entry: &Args, plugin: &str) -> Value {
    let raw = entry.raw("args").cloned().unwrap_or_default();
    let kind = format!("{plugin}Args");
    let version = args_version(plugin);
    let typed = version.is_some();
    let mut map = match raw {
        Value::Map(map) => map,
        Value::Null => return Value::Null,
        other if typed => {
            entry.error("args", format!("must be an object, not {}", other.shape()));
            return Value::Null;
        }
        other => return other,
    };
    let wanted = version.unwrap_or(API_VERSION);
    let group = wanted.split('/').next().unwrap_or_default();
    let wrong_kind = |found: &str| {
        format!("args for plugin {plugin} were not of type {kind}.{group}, got {found}.{group}")
    };
    strip(entry, &mut map, "kind", &kind, typed, &wrong_kind);
    let wrong_version = |found: &str| invalid_text(found, format!("must be {wanted}"));
    strip(entry, &mut map, "apiVersion", wanted, typed, &wrong_version);
    Value::Map(map)
}

/// Removes `key` if it says what is wanted. What it says otherwise is an error for typed
/// arguments; others may mean anything by it.
fn strip(
    entry: &Args,
    map: &mut BTreeMap<Text, Value>,
    key: &str,
    wanted: &str,
    typed: bool,
    wrong: &dyn Fn(&str) -> String,
) {
    let Some(found) = map.get(key) else { return };
    let fits = match found {
        Value::Text(text) => text == wanted || (typed && text.is_empty()),
        other => typed && *other == Value::Null,
    };
    if !fits && typed {
        let message = match found {
            Value::Text(text) => wrong(text),
            other => format!("must be a string, not {}", other.shape()),
        };
        entry.error(&format!("args.{key}"), message);
    }
    if fits || typed {
        map.remove(key);
    }
}

/// Notes queue sort sets, and arguments of the plugin they name, that differ from the first
/// profile's. What the sets come to is known only when they are expanded
/// ([`berth_core::framework::profile_spec::check_queue_sorts`]).
fn check_queue_sort(root: &Args, profiles: &[ProfileSpec]) {
    let Some((first, rest)) = profiles.split_first() else { return };
    let canon = first.plugins.at(Point::QueueSort);
    let n_enabled = canon.enabled.len();
    if n_enabled > 1 {
        let message = invalid(n_enabled, "only one queue sort plugin can be enabled");
        root.error(&format!("{}.plugins.queueSort.enabled", first.path), message);
    }
    let sorter = canon.enabled.first().map(|e| &e.name);
    for profile in rest {
        let set = profile.plugins.at(Point::QueueSort);
        if set != canon {
            let names: Vec<&str> = set.enabled.iter().map(|e| &*e.name).collect();
            let message = invalid(format!("{names:?}"), "must be the same for all profiles");
            root.error(&format!("{}.plugins.queueSort", profile.path), message);
        }
        let Some(sorter) = sorter else { continue };
        if let (Some(args), Some(path)) = (profile.args.get(sorter), profile.args_paths.get(sorter))
            && first.args.get(sorter) != Some(args)
        {
            root.error(path, invalid_text(sorter, "queueSort must be the same for all profiles"));
        }
    }
}
