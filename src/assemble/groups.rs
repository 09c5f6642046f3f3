//! What profiles say of groups that only those can check who know every dialect and every profile:
//! names of dialects, and scheduler names that a profile takes over.

use std::collections::BTreeMap;

use berth_core::framework::{ArgError, Profile, ProfileSpec};
use berth_core::types::{Text, Value};

use crate::wire::dialect;

/// Returns what is wrong, with paths into the configuration file.
pub(super) fn refusals(specs: &[ProfileSpec], profiles: &[Profile]) -> Vec<ArgError> {
    let mut errors = Vec::new();
    for (spec, profile) in specs.iter().zip(profiles) {
        let Some(rules) = &profile.groups else { continue };
        let written = Written { spec, plugin: rules.plugin };
        errors.extend(written.each("dialects").filter_map(|(path, name)| unknown(path, name)));
        let taken = written.each("schedulerNames");
        errors.extend(taken.filter_map(|(path, name)| has_already(path, name, spec, specs)));
    }
    errors.extend(taken_twice(specs, profiles));
    errors
}

/// The arguments of the plugin that gave a profile's rules, as they stand in the file.
struct Written<'a> {
    spec: &'a ProfileSpec,
    plugin: &'a str,
}

impl<'a> Written<'a> {
    /// Returns the texts of a list with their paths.
    fn each(&self, key: &'static str) -> impl Iterator<Item = (String, &'a Text)> + use<'a> {
        let path = self.spec.args_path(self.plugin);
        let list = match self.spec.args.get(self.plugin) {
            Some(Value::Map(args)) => args.get(key),
            _ => None,
        };
        let items = match list {
            Some(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().enumerate().filter_map(move |(at, item)| match item {
            Value::Text(text) => Some((format!("{path}.{key}[{at}]"), text)),
            _ => None,
        })
    }
}

fn unknown(path: String, name: &Text) -> Option<ArgError> {
    let mut known: Vec<&str> = dialect::ALL.iter().map(|def| def.dialect.name).collect();
    if known.contains(&name.as_str()) {
        return None;
    }
    known.sort_unstable();
    let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    let known = known.join(", ");
    let message = format!("Unsupported value: {:?}: supported values: {known}", name.as_str());
    Some(ArgError { path, message })
}

/// A name that a profile has itself is no name to take over.
fn has_already(
    path: String,
    name: &Text,
    own: &ProfileSpec,
    specs: &[ProfileSpec],
) -> Option<ArgError> {
    let owner = specs.iter().find(|spec| spec.scheduler_name == *name)?;
    let whose = match owner.path == own.path {
        true => "the profile's own schedulerName".to_owned(),
        false => format!("{}.schedulerName has it too", owner.path),
    };
    Some(ArgError { path, message: format!("Duplicate value: {:?}: {whose}", name.as_str()) })
}

/// Two profiles can't both answer for a name.
fn taken_twice(specs: &[ProfileSpec], profiles: &[Profile]) -> Vec<ArgError> {
    let mut first: BTreeMap<&Text, String> = BTreeMap::new();
    let mut errors = Vec::new();
    for (spec, profile) in specs.iter().zip(profiles) {
        let Some(rules) = &profile.groups else { continue };
        for (path, name) in (Written { spec, plugin: rules.plugin }).each("schedulerNames") {
            match first.get(name) {
                None => drop(first.insert(name, path)),
                Some(other) => {
                    let message = format!("Duplicate value: {:?}: {other} takes it too", &**name);
                    errors.push(ArgError { path, message });
                }
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::config::load;

    /// Asserts what is refused of profiles, each given by the arguments for groups.
    #[track_caller]
    fn refused(profiles: &[(&str, &str)], want: &[&str]) {
        let one = |(name, args): &(&str, &str)| {
            let gangs = format!("pluginConfig: [{{name: GangScheduling, args: {{{args}}}}}]");
            format!("{{schedulerName: {name}, {gangs}}}")
        };
        let profiles: Vec<String> = profiles.iter().map(one).collect();
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             profiles: [{}]",
            profiles.join(", ")
        );
        let errors = crate::assemble::refusals(&load(&text).expect("valid by itself"));
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, want);
    }

    #[test]
    fn a_dialect_that_nobody_knows_is_refused_with_those_that_are_known() {
        refused(&[("a", "dialects: [native, coscheduling, volcano, kai, kueue]")], &[]);
        let known = "supported values: \"coscheduling\", \"kai\", \"kueue\", \"native\", \
                     \"volcano\"";
        let path = "profiles[0].pluginConfig[0].args.dialects[1]";
        let want = format!("{path}: Unsupported value: \"Volcano\": {known}");
        refused(&[("a", "dialects: [kueue, Volcano]")], &[&want]);
    }

    #[test]
    fn a_scheduler_name_is_answered_for_by_one_profile() {
        let taken = |names: &str| format!("schedulerNames: [{names}]");
        refused(&[("a", &taken("c, d")), ("b", &taken("e"))], &[]);
        let path = |profile, at| {
            format!(
                "profiles[{profile}].pluginConfig[0].args.schedulerNames[{at}]: Duplicate value"
            )
        };
        let other = format!("{}: \"b\": profiles[1].schedulerName has it too", path(0, 1));
        refused(&[("a", &taken("c, b")), ("b", "")], &[&other]);
        let own = format!("{}: \"a\": the profile's own schedulerName", path(0, 0));
        refused(&[("a", &taken("a"))], &[&own]);
        let first = "profiles[0].pluginConfig[0].args.schedulerNames[1] takes it too";
        let twice = format!("{}: \"d\": {first}", path(1, 0));
        refused(&[("a", &taken("c, d")), ("b", &taken("d"))], &[&twice]);
    }
}
