//! Cases of MultiPoint expansion, written as `plugin:weight` lists.

use super::*;
use crate::types::Value;

/// Which made-up plugin has which points: F filters, S scores, FS does both.
fn implements(name: &str, point: Point) -> bool {
    match point {
        Point::Filter => name.starts_with('F'),
        Point::Score => name.contains('S'),
        Point::QueueSort => name.starts_with('Q'),
        Point::Bind => name.starts_with('B'),
        Point::PlacementGenerate => name.starts_with('G'),
        _ => false,
    }
}

/// Reads `A:2 B -C` as enabled A with weight 2 and B, disabled C.
fn set(text: &str) -> PluginSet {
    let mut set = PluginSet::default();
    for word in text.split_whitespace() {
        if let Some(name) = word.strip_prefix('-') {
            set.disabled.push(name.into());
            continue;
        }
        let (name, weight) = word.split_once(':').unwrap_or((word, "0"));
        let written_at = Some(set.enabled.len());
        let weight = weight.parse().expect("a number");
        set.enabled.push(Enabled { name: name.into(), weight, written_at });
    }
    set
}

fn sets(multi_point: &str, specific: &[(Point, &str)]) -> PluginSets {
    let mut sets = PluginSets { multi_point: set(multi_point), ..Default::default() };
    for (point, text) in specific {
        *sets.at_mut(*point) = set(text);
    }
    sets
}

fn at(expanded: &Expanded, point: Point) -> String {
    let words = expanded.at(point).iter().map(|(name, weight)| format!("{name}:{weight}"));
    words.collect::<Vec<_>>().join(" ")
}

fn lines(errors: &[ArgError]) -> Vec<String> {
    errors.iter().map(ArgError::to_string).collect()
}

#[test]
fn overrides_come_first_then_multi_point_then_what_only_the_point_names() {
    let check = |multi_point: &str, score: &str, want: &str| {
        let sets = sets(multi_point, &[(Point::Score, score)]);
        let expanded = expand(&sets, &implements).expect("valid sets");
        assert_eq!(at(&expanded, Point::Score), want, "multiPoint {multi_point}, score {score}");
    };
    check("F1 S1:3 FS:2", "", "S1:3 FS:2");
    check("S1 S2 S3", "S3 S2", "S3:1 S2:1 S1:1");
    check("S1:3 S2:2", "S9:4 S2:8", "S2:8 S1:3 S9:4");
    check("S1:3", "S1", "S1:1");
    check("S1 S2", "-S1", "S2:1");
    check("S1 S2", "S9 -*", "S9:1");
    check("S1 S2", "S1 -S1", "S2:1 S1:1");
    check("S1:-4", "", "S1:-4");
}

#[test]
fn a_point_disabled_leaves_the_plugin_at_its_other_points() {
    let expanded = expand(&sets("FS:2 F1", &[(Point::Score, "-FS")]), &implements).expect("valid");
    assert_eq!(at(&expanded, Point::Filter), "FS:0 F1:0");
    assert_eq!(at(&expanded, Point::Score), "");
    assert_eq!(expanded.names(), ["F1", "FS"]);
}

#[test]
fn wrong_and_repeated_entries_are_errors_at_their_paths() {
    let check = |multi_point: &str, score: &str, want: &[&str]| {
        let sets = sets(multi_point, &[(Point::Score, score)]);
        let errors = expand(&sets, &implements).expect_err("invalid sets");
        assert_eq!(lines(&errors), want, "multiPoint {multi_point}, score {score}");
    };
    let extends = "plugins.score.enabled[1]: plugin \"F1\" does not extend ScorePlugin plugin";
    check("", "S1 F1", &[extends]);
    let twice = "plugins.score.enabled[1]: plugin \"S1\" already registered as \"ScorePlugin\"";
    check("", "S1 S1", &[twice]);
    let twice = "plugins.multiPoint.enabled[2]: plugin \"FS\" already registered as";
    check("FS S1 FS", "", &[&format!("{twice} \"FilterPlugin\"")]);
    check("FS S1 FS", "-FS", &[&format!("{twice} \"FilterPlugin\"")]);
}

#[test]
fn a_profile_sorts_its_queue_once_and_binds() {
    let check = |multi_point: &str, want: &[&str]| {
        let spec =
            ProfileSpec { plugins: sets(multi_point, &[]), ..ProfileSpec::default_named("x") };
        let errors = spec.expand(&implements).err().unwrap_or_default();
        assert_eq!(lines(&errors), want, "{multi_point}");
    };
    let whose = "for profile with scheduler name \"x\"";
    let sorters = "profiles[0].plugins.queueSort: only one queue sort plugin required";
    let binds = format!("profiles[0].plugins.bind: at least one bind plugin is needed {whose}");
    let places = "profiles[0].plugins.placementGenerate: at most one placement generate plugin";
    check("Q1 B1", &[]);
    check("", &[&format!("{sorters} {whose}, but got 0"), &binds]);
    check("Q1 Q2 B1", &[&format!("{sorters} {whose}, but got 2")]);
    check("Q1 B1 G1 G2", &[&format!("{places} is allowed {whose}")]);
}

#[test]
fn all_profiles_sort_the_queue_alike() {
    let spec = |name: &str, sorter: &str, args: i64| {
        let mut spec = ProfileSpec {
            plugins: sets(&format!("{sorter} B"), &[]),
            ..ProfileSpec::default_named(name)
        };
        spec.args.insert(sorter.into(), Value::Int(args));
        let expanded = spec.expand(&implements).expect("valid");
        (spec, expanded)
    };
    let (a, b, c) = (spec("a", "Q1", 1), spec("b", "Q2", 1), spec("c", "Q1", 2));
    let pairs = [&a, &b, &c, &a].map(|(spec, expanded)| (spec, expanded));
    assert_eq!(
        lines(&check_queue_sorts(&pairs)),
        [
            "profiles[0].plugins.queueSort: different queue sort plugins for profile \"b\": \
             \"Q2\", first: \"Q1\"",
            "profiles[0].plugins.queueSort: different queue sort plugin args for profile \"c\"",
        ]
    );
}
