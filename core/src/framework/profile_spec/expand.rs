//! MultiPoint expansion: from plugin sets to the ordered plugins of each extension point.

use std::collections::BTreeMap;

use super::{Enabled, MULTI_POINT, PluginSet, PluginSets, Point, ProfileSpec};
use crate::framework::args::ArgError;
use crate::types::Text;

/// The highest score of one plugin; totals are sums of weight × this.
const MAX_NODE_SCORE: i64 = 100;

/// The plugins of a profile, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expanded {
    points: [Vec<(Text, i32)>; Point::ALL.len()],
}

impl Expanded {
    /// Returns name and weight of the plugins at `point`. The weight is 0 where it means nothing
    /// and at least 1 for a scorer that was given none.
    pub fn at(&self, point: Point) -> &[(Text, i32)] {
        &self.points[point as usize]
    }

    /// Returns every plugin that runs somewhere, each once, ascending.
    pub fn names(&self) -> Vec<Text> {
        let mut names: Vec<Text> = self.points.iter().flatten().map(|(n, _)| n.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Expands merged `sets`; `implements` tells which plugin has which point.
///
/// Order at a point: plugins of the point that `multiPoint` names too, in the point's order; the
/// rest of `multiPoint`; plugins named at the point only. `*` in the point's `disabled` leaves
/// just the point's own. The point's weight counts before that of `multiPoint`.
///
/// # Errors
/// Paths start at `plugins`. A plugin at a point that it does not implement; one that is listed
/// twice; weights whose sum overflows.
pub fn expand(
    sets: &PluginSets,
    implements: &dyn Fn(&str, Point) -> bool,
) -> Result<Expanded, Vec<ArgError>> {
    let mut errors = Vec::new();
    let mut expanded = Expanded::default();
    for point in Point::ALL {
        refuse_wrong_entries(point, sets.at(point), implements, &mut errors);
        let here: Vec<&Enabled> =
            sets.multi_point.enabled.iter().filter(|e| implements(&e.name, point)).collect();
        let order = order_at(sets.at(point), &here, point, &mut errors);
        let weights = weights_at(point, sets.at(point), &here, &mut errors);
        let weighed = order.into_iter().map(|name| {
            let weight = weights.get(&name).copied().unwrap_or(0);
            (name, weight)
        });
        expanded.points[point as usize] = weighed.collect();
    }
    // Listed twice in multiPoint is one mistake, though it shows at each point of the plugin.
    errors.dedup_by(|a, b| a.path == b.path);
    if errors.is_empty() { Ok(expanded) } else { Err(errors) }
}

/// Notes entries of a point's own set that lack the point or stand there twice.
fn refuse_wrong_entries(
    point: Point,
    set: &PluginSet,
    implements: &dyn Fn(&str, Point) -> bool,
    errors: &mut Vec<ArgError>,
) {
    for (at, entry) in set.enabled.iter().enumerate() {
        let name = entry.name.as_str();
        if !implements(name, point) {
            let message = format!("plugin {name:?} does not extend {point:?}Plugin plugin");
            errors.push(ArgError { path: path_of(point.key(), entry), message });
        } else if set.enabled[..at].iter().any(|e| e.name == entry.name) {
            errors.push(listed_twice(point, point.key(), entry));
        }
    }
}

/// Returns the names that run at a point, given the `multiPoint` entries that implement it.
fn order_at(
    set: &PluginSet,
    multi_point: &[&Enabled],
    point: Point,
    errors: &mut Vec<ArgError>,
) -> Vec<Text> {
    let own = set.enabled.iter().map(|e| &e.name);
    if set.disables("*") {
        return own.cloned().collect();
    }
    let wanted = multi_point.iter().filter(|e| !set.disables(&e.name));
    let (overridden, spread): (Vec<&Enabled>, Vec<&Enabled>) =
        wanted.copied().partition(|e| set.enabled.iter().any(|own| own.name == e.name));
    for (at, entry) in spread.iter().enumerate() {
        if spread[..at].iter().any(|e| e.name == entry.name) {
            errors.push(listed_twice(point, MULTI_POINT, entry));
        }
    }
    let (first, last): (Vec<&Text>, Vec<&Text>) =
        own.partition(|name| overridden.iter().any(|e| e.name == **name));
    let middle = spread.iter().map(|e| &e.name);
    first.into_iter().chain(middle).chain(last).cloned().collect()
}

/// Returns the weights at a point; the point's own entries come first and win.
fn weights_at(
    point: Point,
    set: &PluginSet,
    multi_point: &[&Enabled],
    errors: &mut Vec<ArgError>,
) -> BTreeMap<Text, i32> {
    let mut weights = BTreeMap::new();
    if !point.weighs() {
        return weights;
    }
    let mut total: i64 = 0;
    for entry in set.enabled.iter().chain(multi_point.iter().copied()) {
        if weights.contains_key(&entry.name) {
            continue;
        }
        // Zero can't mean "off": a plugin is disabled by name.
        let weight = if entry.weight == 0 { 1 } else { entry.weight };
        match total.checked_add(i64::from(weight) * MAX_NODE_SCORE) {
            Some(sum) => total = sum,
            None => {
                let message = "total score of Score plugins could overflow".to_owned();
                errors.push(ArgError { path: path_of(point.key(), entry), message });
            }
        }
        weights.insert(entry.name.clone(), weight);
    }
    weights
}

fn listed_twice(point: Point, key: &str, entry: &Enabled) -> ArgError {
    let message = format!("plugin {:?} already registered as \"{point:?}Plugin\"", &*entry.name);
    ArgError { path: path_of(key, entry), message }
}

fn path_of(key: &str, entry: &Enabled) -> String {
    match entry.written_at {
        Some(at) => format!("plugins.{key}.enabled[{at}]"),
        None => format!("plugins.{key}"),
    }
}

impl ProfileSpec {
    /// Expands the profile's sets ([`expand()`]) and counts what must be there: exactly one queue
    /// sort plugin, at least one bind plugin, at most one placement generator.
    ///
    /// # Errors
    /// Those of [`expand()`] and the counts, with paths that start at the file's root.
    pub fn expand(
        &self,
        implements: &dyn Fn(&str, Point) -> bool,
    ) -> Result<Expanded, Vec<ArgError>> {
        let expanded = expand(&self.plugins, implements).map_err(|errors| {
            let absolute =
                |e: ArgError| ArgError { path: format!("{}.{}", self.path, e.path), ..e };
            errors.into_iter().map(absolute).collect::<Vec<ArgError>>()
        })?;
        let errors = self.wrong_counts(&expanded);
        if errors.is_empty() { Ok(expanded) } else { Err(errors) }
    }

    fn wrong_counts(&self, expanded: &Expanded) -> Vec<ArgError> {
        let whose = format!("for profile with scheduler name {:?}", &*self.scheduler_name);
        let mut errors = Vec::new();
        let mut wrong = |point: Point, message: String| {
            let path = format!("{}.plugins.{}", self.path, point.key());
            errors.push(ArgError { path, message });
        };
        let sorters = expanded.at(Point::QueueSort).len();
        if sorters != 1 {
            let message = format!("only one queue sort plugin required {whose}, but got {sorters}");
            wrong(Point::QueueSort, message);
        }
        if expanded.at(Point::Bind).is_empty() {
            wrong(Point::Bind, format!("at least one bind plugin is needed {whose}"));
        }
        if expanded.at(Point::PlacementGenerate).len() > 1 {
            let message = format!("at most one placement generate plugin is allowed {whose}");
            wrong(Point::PlacementGenerate, message);
        }
        errors
    }
}

/// Notes profiles whose queue sort plugin, or its arguments, differ from the first profile's: all
/// profiles share one queue.
pub fn check_queue_sorts(profiles: &[(&ProfileSpec, &Expanded)]) -> Vec<ArgError> {
    let sorter =
        |expanded: &Expanded| expanded.at(Point::QueueSort).first().map(|(n, _)| n.clone());
    let mut errors = Vec::new();
    let Some(((first, first_expanded), rest)) = profiles.split_first() else { return errors };
    let Some(first_sorter) = sorter(first_expanded) else { return errors };
    for (spec, expanded) in rest {
        let Some(own) = sorter(expanded) else { continue };
        let name = spec.scheduler_name.as_str();
        let message = if own != first_sorter {
            let (own, first) = (own.as_str(), first_sorter.as_str());
            format!("different queue sort plugins for profile {name:?}: {own:?}, first: {first:?}")
        } else if spec.args.get(&own) != first.args.get(&own) {
            format!("different queue sort plugin args for profile {name:?}")
        } else {
            continue;
        };
        errors.push(ArgError { path: format!("{}.plugins.queueSort", spec.path), message });
    }
    errors
}

#[cfg(test)]
mod tests;
