//! What a profile asks for: plugin sets per extension point, merged with the default set, and
//! arguments. [`expand()`] turns it into the plugins that run at each point.
//!
//! Everything here follows kube-scheduler 1.37 (`apis/config/v1/default_plugins.go`,
//! `framework/runtime/framework.go`); messages are its own where it has one.

mod expand;

use std::collections::BTreeMap;

use crate::types::{Text, Value};

pub use expand::{Expanded, check_queue_sorts, expand};

/// An extension point that a configuration can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
    PodGroupPostFilter,
}

impl Point {
    pub const ALL: [Point; 15] = [
        Point::PreEnqueue,
        Point::QueueSort,
        Point::PreFilter,
        Point::Filter,
        Point::PostFilter,
        Point::PreScore,
        Point::Score,
        Point::Reserve,
        Point::Permit,
        Point::PreBind,
        Point::Bind,
        Point::PostBind,
        Point::PlacementGenerate,
        Point::PlacementScore,
        Point::PodGroupPostFilter,
    ];

    /// Returns the point's key under `plugins`.
    pub const fn key(self) -> &'static str {
        match self {
            Point::PreEnqueue => "preEnqueue",
            Point::QueueSort => "queueSort",
            Point::PreFilter => "preFilter",
            Point::Filter => "filter",
            Point::PostFilter => "postFilter",
            Point::PreScore => "preScore",
            Point::Score => "score",
            Point::Reserve => "reserve",
            Point::Permit => "permit",
            Point::PreBind => "preBind",
            Point::Bind => "bind",
            Point::PostBind => "postBind",
            Point::PlacementGenerate => "placementGenerate",
            Point::PlacementScore => "placementScore",
            Point::PodGroupPostFilter => "podGroupPostFilter",
        }
    }

    /// Tells whether a plugin's weight means something at this point.
    pub const fn weighs(self) -> bool {
        matches!(self, Point::Score | Point::PlacementScore)
    }
}

/// A plugin that a set enables.
#[derive(Clone, Debug, PartialEq)]
pub struct Enabled {
    pub name: Text,
    /// 0 where none was given; a scorer then weighs 1.
    pub weight: i32,
    /// Index in the user's own `enabled` list; `None` for an entry of the default set. Errors
    /// point at what the user wrote, which merging has moved.
    pub written_at: Option<usize>,
}

impl Enabled {
    /// Makes an entry that no configuration file wrote.
    pub fn new(name: &str, weight: i32) -> Enabled {
        Enabled { name: name.into(), weight, written_at: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginSet {
    pub enabled: Vec<Enabled>,
    /// Plugin names, or `*` for all.
    pub disabled: Vec<Text>,
}

impl PluginSet {
    /// Tells whether `name` is disabled by name (`*` is a name of its own).
    pub fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|d| d == name)
    }

    /// Merges this set, as a user wrote it, into `defaults`.
    ///
    /// A default that is listed again keeps its place and takes the user's weight; other names
    /// follow in the user's order. A name listed twice stays twice, for [`expand()`] to refuse.
    pub fn merged_into(&self, defaults: &PluginSet) -> PluginSet {
        let mut taken = Vec::new();
        let mut enabled = Vec::new();
        let kept = |d: &&Enabled| !self.disables("*") && !self.disables(&d.name);
        for default in defaults.enabled.iter().filter(kept) {
            match self.enabled.iter().rposition(|e| e.name == default.name) {
                Some(at) => {
                    taken.push(at);
                    enabled.push(self.enabled[at].clone());
                }
                None => enabled.push(default.clone()),
            }
        }
        let rest = self.enabled.iter().enumerate().filter(|(at, _)| !taken.contains(at));
        enabled.extend(rest.map(|(_, e)| e.clone()));
        PluginSet { enabled, disabled: self.disabled.clone() }
    }
}

/// The plugin sets of a profile: one for each point, and the one that means all points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginSets {
    points: [PluginSet; Point::ALL.len()],
    pub multi_point: PluginSet,
}

impl PluginSets {
    pub fn defaults() -> PluginSets {
        PluginSets { multi_point: default_multi_point(), ..PluginSets::default() }
    }

    pub fn at(&self, point: Point) -> &PluginSet {
        &self.points[point as usize]
    }

    pub fn at_mut(&mut self, point: Point) -> &mut PluginSet {
        &mut self.points[point as usize]
    }

    /// Merges these sets, as a user wrote them, into `defaults`, set by set.
    pub fn merged_into(&self, defaults: &PluginSets) -> PluginSets {
        let mut merged = PluginSets {
            multi_point: self.multi_point.merged_into(&defaults.multi_point),
            ..PluginSets::default()
        };
        for point in Point::ALL {
            *merged.at_mut(point) = self.at(point).merged_into(defaults.at(point));
        }
        merged
    }

    /// Returns the sets with their keys under `plugins`, `multiPoint` last.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &PluginSet)> {
        let points = Point::ALL.into_iter().map(|point| (point.key(), self.at(point)));
        points.chain([(MULTI_POINT, &self.multi_point)])
    }
}

const MULTI_POINT: &str = "multiPoint";

/// The default plugins in the order in which they run at every point, with their weights.
///
/// Source: `/configz` of kube-scheduler 1.37.2.
pub const DEFAULT_MULTI_POINT: [(&str, i32); 20] = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeName", 0),
    ("NodeUnschedulable", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
];

/// The plugins of pod groups, which follow the default ones upstream where their gates are on. In Berth
/// they are always on: no group is to start in part, or where it must not be.
pub const GROUP_MULTI_POINT: [(&str, i32); 3] =
    [("GangScheduling", 0), ("TopologyPlacementGenerator", 0), ("PodGroupPodsCount", 1)];

/// Returns the default `multiPoint` set.
pub fn default_multi_point() -> PluginSet {
    let all = DEFAULT_MULTI_POINT.iter().chain(&GROUP_MULTI_POINT);
    PluginSet {
        enabled: all.map(|&(name, weight)| Enabled::new(name, weight)).collect(),
        disabled: Vec::new(),
    }
}

/// A profile as configured: its plugin sets are already merged with the default ones, its
/// arguments are not decoded yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileSpec {
    pub scheduler_name: Text,
    /// `None`: the configuration's own percentage counts.
    pub percentage_of_nodes_to_score: Option<i32>,
    pub plugins: PluginSets,
    /// By plugin name, without `apiVersion` and `kind`.
    pub args: BTreeMap<Text, Value>,
    /// Where the profile stands in its file, such as `profiles[0]`.
    pub path: String,
    /// Where the arguments stand in the file, by plugin name.
    pub args_paths: BTreeMap<Text, String>,
}

impl ProfileSpec {
    /// Returns the profile of a configuration that says nothing.
    pub fn default_named(scheduler_name: &str) -> ProfileSpec {
        ProfileSpec {
            scheduler_name: scheduler_name.into(),
            plugins: PluginSets::defaults(),
            path: "profiles[0]".into(),
            ..ProfileSpec::default()
        }
    }

    /// Returns the path to name in errors about a plugin's arguments.
    pub fn args_path(&self, plugin: &str) -> String {
        match self.args_paths.get(plugin) {
            Some(path) => path.clone(),
            None => format!("{}.pluginConfig[{plugin}].args", self.path),
        }
    }

    /// Returns the names that the user enabled, with the path of each entry in the file. Defaults
    /// that were not listed again are not among them, so a registry can refuse only what
    /// somebody asked for.
    pub fn explicitly_enabled(&self) -> Vec<(String, Text)> {
        let named = explicitly_enabled(&self.plugins);
        named.into_iter().map(|(path, name)| (format!("{}.{path}", self.path), name)).collect()
    }
}

/// Returns the names that a user enabled, with paths that start at `plugins`.
pub fn explicitly_enabled(sets: &PluginSets) -> Vec<(String, Text)> {
    let mut named = Vec::new();
    for (key, set) in sets.iter() {
        for entry in &set.enabled {
            if let Some(at) = entry.written_at {
                named.push((format!("plugins.{key}.enabled[{at}]"), entry.name.clone()));
            }
        }
    }
    named
}

#[cfg(test)]
mod tests;
