//! Profiles: the plugins of one scheduler name, built and in order at each point.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::snapshot::{FabricRules, PackingRules};
use crate::types::{Text, Value};

use super::args::{ArgError, Args};
use super::groups::GroupRules;
use super::hints::Interest;
use super::placement::{PlacementGenerate, PlacementScore, Room};
use super::points::{
    Bind, Classify, Explain, Filter, Permit, PlacementFeasible, PluginDef, PodGroupPostFilter,
    Points, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve,
    Score,
};
use super::profile_spec::{Expanded, Point, ProfileSpec};

/// The compiled-in plugins, in documentation order.
#[derive(Clone, Copy)]
pub struct Registry(pub &'static [&'static PluginDef]);

impl Registry {
    pub fn find(&self, name: &str) -> Option<&'static PluginDef> {
        self.0.iter().find(|def| def.name == name).copied()
    }
}

/// A plugin at one of its points.
pub struct Entry<T: ?Sized> {
    pub name: &'static str,
    /// 0 where weights mean nothing.
    pub weight: i64,
    pub plugin: Arc<T>,
    pub calls: Calls,
}

/// How often a plugin was asked at a point. For metrics only: nothing is decided by it.
#[derive(Debug, Default)]
pub struct Calls(AtomicU64);

impl Calls {
    /// Counts one call. The one thread that decides is the only writer, so no locked add is paid.
    pub(crate) fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything wrong with a profile, with paths into its file.
#[derive(Debug, Error)]
#[error("profile {scheduler_name:?} can't be built: {}", list(errors))]
pub struct ProfileError {
    pub scheduler_name: Text,
    pub errors: Vec<ArgError>,
}

fn list(errors: &[ArgError]) -> String {
    errors.iter().map(ArgError::to_string).collect::<Vec<_>>().join("; ")
}

/// The plugins of one scheduler name.
pub struct Profile {
    pub scheduler_name: Text,
    /// 0: the default of the configuration.
    pub percentage_of_nodes_to_score: i32,
    pub pre_enqueue: Vec<Entry<dyn PreEnqueue>>,
    pub queue_sort: Vec<Entry<dyn QueueSort>>,
    pub pre_filter: Vec<Entry<dyn PreFilter>>,
    pub filter: Vec<Entry<dyn Filter>>,
    pub post_filter: Vec<Entry<dyn PostFilter>>,
    pub pre_score: Vec<Entry<dyn PreScore>>,
    pub score: Vec<Entry<dyn Score>>,
    pub reserve: Vec<Entry<dyn Reserve>>,
    pub permit: Vec<Entry<dyn Permit>>,
    pub pre_bind: Vec<Entry<dyn PreBind>>,
    pub bind: Vec<Entry<dyn Bind>>,
    pub post_bind: Vec<Entry<dyn PostBind>>,
    pub placement_generate: Vec<Entry<dyn PlacementGenerate>>,
    pub placement_feasible: Vec<Entry<dyn PlacementFeasible>>,
    pub placement_score: Vec<Entry<dyn PlacementScore>>,
    pub pod_group_post_filter: Vec<Entry<dyn PodGroupPostFilter>>,
    pub classify: Vec<Entry<dyn Classify>>,
    pub explain: Vec<Entry<dyn Explain>>,
    pub room: Vec<Entry<dyn Room>>,
    /// None: every pod is on its own.
    pub groups: Option<GroupRules>,
    pub packing: Option<PackingRules>,
    pub fabric: Option<FabricRules>,
    pub gpu_shares: bool,
    interests: BTreeMap<&'static str, Arc<dyn Interest + Send + Sync>>,
}

impl Profile {
    /// Builds the plugins that `spec` names.
    ///
    /// # Errors
    /// Every problem at once: names that are unknown or not built yet, arguments, points that a
    /// plugin does not serve, none or several plugins where one is needed.
    pub fn build(spec: &ProfileSpec, registry: Registry) -> Result<Profile, ProfileError> {
        let mut errors = refused_names(spec, registry);
        let built = build_all(spec, registry, &mut errors);
        let implements =
            |name: &str, point| built.get(name).is_some_and(|b| serves(&b.points, point));
        let expanded = match spec.expand(&implements) {
            Ok(expanded) => expanded,
            Err(more) => {
                errors.extend(more);
                Expanded::default()
            }
        };
        if !errors.is_empty() {
            return Err(ProfileError { scheduler_name: spec.scheduler_name.clone(), errors });
        }
        Ok(assemble(spec, &built, &expanded))
    }

    /// Returns the scheduler names that the profile answers for, its own first.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        let others = self.groups.iter().flat_map(|rules| &rules.scheduler_names);
        [&self.scheduler_name].into_iter().chain(others)
    }

    /// Returns the hint of the plugin `name`, `None` if it registered for nothing.
    pub fn interest(&self, name: &str) -> Option<&(dyn Interest + Send + Sync)> {
        self.interests.get(name).map(AsRef::as_ref)
    }

    /// Returns how often each plugin was asked at the points that kube-scheduler counts. Shape:
    /// (extension point, plugin, calls).
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        fn of<T: ?Sized>(
            point: &'static str,
            entries: &[Entry<T>],
        ) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
            entries.iter().map(move |entry| (point, entry.name, entry.calls.total()))
        }
        of("PreFilter", &self.pre_filter)
            .chain(of("Filter", &self.filter))
            .chain(of("PreScore", &self.pre_score))
            .chain(of("Score", &self.score))
    }

    /// Returns the names of the plugins that run at a point, in order.
    pub fn names_at(&self, point: Point) -> Vec<&'static str> {
        fn of<T: ?Sized>(entries: &[Entry<T>]) -> Vec<&'static str> {
            entries.iter().map(|entry| entry.name).collect()
        }
        match point {
            Point::PreEnqueue => of(&self.pre_enqueue),
            Point::QueueSort => of(&self.queue_sort),
            Point::PreFilter => of(&self.pre_filter),
            Point::Filter => of(&self.filter),
            Point::PostFilter => of(&self.post_filter),
            Point::PreScore => of(&self.pre_score),
            Point::Score => of(&self.score),
            Point::Reserve => of(&self.reserve),
            Point::Permit => of(&self.permit),
            Point::PreBind => of(&self.pre_bind),
            Point::Bind => of(&self.bind),
            Point::PostBind => of(&self.post_bind),
            Point::PlacementGenerate => of(&self.placement_generate),
            Point::PlacementScore => of(&self.placement_score),
            Point::PodGroupPostFilter => of(&self.pod_group_post_filter),
        }
    }

    pub fn runs(&self, name: &str) -> bool {
        let (filters, gates) = (&self.filter, &self.pre_enqueue);
        filters.iter().any(|e| e.name == name)
            || gates.iter().any(|e| e.name == name)
            || self.score.iter().any(|e| e.name == name)
    }
}

struct Built {
    def: &'static PluginDef,
    points: Points,
}

fn refused_names(spec: &ProfileSpec, registry: Registry) -> Vec<ArgError> {
    let mut errors = Vec::new();
    for (path, name) in spec.explicitly_enabled() {
        match registry.find(&name) {
            None => {
                let message = format!("plugin {:?} is not compiled into Berth", &*name);
                errors.push(ArgError { path, message });
            }
            Some(PluginDef { missing: Some(what), .. }) => {
                let message = format!("plugin {:?} is not supported yet: {what}", &*name);
                errors.push(ArgError { path, message });
            }
            Some(_) => {}
        }
    }
    for name in spec.args.keys().filter(|name| registry.find(name).is_none()) {
        let message = format!("plugin {:?} is not compiled into Berth", &**name);
        errors.push(ArgError { path: spec.args_path(name), message });
    }
    errors
}

fn build_all(
    spec: &ProfileSpec,
    registry: Registry,
    errors: &mut Vec<ArgError>,
) -> BTreeMap<Text, Built> {
    let mut built = BTreeMap::new();
    let enabled = spec.plugins.iter().flat_map(|(_, set)| set.enabled.iter().map(|e| &e.name));
    let names: std::collections::BTreeSet<&Text> = enabled.chain(spec.args.keys()).collect();
    for name in names {
        let Some(def) = registry.find(name) else { continue };
        let args = Args::new(spec.args_path(name), spec.args.get(name).unwrap_or(&Value::Null));
        let mut points = Points::default();
        (def.build)(&args, &mut points);
        args.finish();
        errors.extend(args.take_errors());
        built.insert(name.clone(), Built { def, points });
    }
    built
}

fn serves(points: &Points, point: Point) -> bool {
    match point {
        Point::PreEnqueue => points.pre_enqueue.is_some() || points.groups.is_some(),
        Point::QueueSort => points.queue_sort.is_some(),
        Point::PreFilter => points.pre_filter.is_some(),
        Point::Filter => points.filter.is_some(),
        Point::PostFilter => points.post_filter.is_some(),
        Point::PreScore => points.pre_score.is_some(),
        Point::Score => points.score.is_some(),
        Point::Reserve => points.reserve.is_some(),
        Point::Permit => points.permit.is_some(),
        Point::PreBind => points.pre_bind.is_some(),
        Point::Bind => points.bind.is_some(),
        Point::PostBind => points.post_bind.is_some(),
        Point::PlacementGenerate => points.placement_generate.is_some(),
        Point::PlacementScore => points.placement_score.is_some(),
        Point::PodGroupPostFilter => points.pod_group_post_filter.is_some(),
    }
}

fn assemble(spec: &ProfileSpec, built: &BTreeMap<Text, Built>, expanded: &Expanded) -> Profile {
    macro_rules! at {
        ($point:ident, $field:ident) => {
            entries(built, expanded.at(Point::$point), |points| points.$field.clone())
        };
    }
    let everywhere: Vec<(Text, i32)> = expanded.names().into_iter().map(|name| (name, 0)).collect();
    let interests = everywhere.iter().filter_map(|(name, _)| {
        let built = built.get(name)?;
        Some((built.def.name, built.points.interest.clone()?))
    });
    let held = expanded.at(Point::PreEnqueue).iter();
    let groups = held.filter_map(|(name, _)| built.get(name)?.points.groups.clone()).next();
    let scored = || expanded.at(Point::Score).iter().filter_map(|(name, _)| built.get(name));
    let packing = scored().find_map(|built| built.points.packing.clone());
    let fabric = scored().find_map(|built| built.points.fabric.clone());
    let filters = expanded.at(Point::Filter).iter().filter_map(|(name, _)| built.get(name));
    let gpu_shares = filters.into_iter().any(|built| built.points.gpu_shares);
    Profile {
        scheduler_name: spec.scheduler_name.clone(),
        percentage_of_nodes_to_score: spec.percentage_of_nodes_to_score.unwrap_or(0),
        pre_enqueue: at!(PreEnqueue, pre_enqueue),
        queue_sort: at!(QueueSort, queue_sort),
        pre_filter: at!(PreFilter, pre_filter),
        filter: at!(Filter, filter),
        post_filter: at!(PostFilter, post_filter),
        pre_score: at!(PreScore, pre_score),
        score: at!(Score, score),
        reserve: at!(Reserve, reserve),
        permit: at!(Permit, permit),
        pre_bind: at!(PreBind, pre_bind),
        bind: at!(Bind, bind),
        post_bind: at!(PostBind, post_bind),
        placement_generate: at!(PlacementGenerate, placement_generate),
        placement_feasible: entries(built, &everywhere, |points| points.placement_feasible.clone()),
        placement_score: at!(PlacementScore, placement_score),
        pod_group_post_filter: at!(PodGroupPostFilter, pod_group_post_filter),
        classify: entries(built, &everywhere, |points| points.classify.clone()),
        explain: entries(built, &everywhere, |points| points.explain.clone()),
        room: entries(built, expanded.at(Point::Filter), |points| points.room.clone()),
        groups,
        packing,
        fabric,
        gpu_shares,
        interests: interests.collect(),
    }
}

fn entries<T: ?Sized>(
    built: &BTreeMap<Text, Built>,
    names: &[(Text, i32)],
    pick: impl Fn(&Points) -> Option<Arc<T>>,
) -> Vec<Entry<T>> {
    let entry = |(name, weight): &(Text, i32)| {
        let built = built.get(name)?;
        let plugin = pick(&built.points)?;
        Some(Entry {
            name: built.def.name,
            weight: i64::from(*weight),
            plugin,
            calls: Calls::default(),
        })
    };
    names.iter().filter_map(entry).collect()
}
