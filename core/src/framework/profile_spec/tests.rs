//! Cases of merging a user's sets into the default ones.

use super::*;

fn shown(set: &PluginSet) -> String {
    let entries = set.enabled.iter().map(|e| format!("{}:{}", e.name, e.weight));
    entries.collect::<Vec<_>>().join(" ")
}

fn set(enabled: &[(&str, i32)], disabled: &[&str]) -> PluginSet {
    let written =
        |(at, &(name, weight))| Enabled { written_at: Some(at), ..Enabled::new(name, weight) };
    PluginSet {
        enabled: enabled.iter().enumerate().map(written).collect(),
        disabled: disabled.iter().map(|&d| d.into()).collect(),
    }
}

#[test]
fn a_listed_default_keeps_its_place_and_other_names_follow() {
    let defaults = set(&[("A", 1), ("B", 2), ("C", 3)], &[]);
    let check = |enabled: &[(&str, i32)], disabled: &[&str], want: &str| {
        assert_eq!(shown(&set(enabled, disabled).merged_into(&defaults)), want);
    };
    check(&[], &[], "A:1 B:2 C:3");
    check(&[("X", 7), ("B", 9)], &[], "A:1 B:9 C:3 X:7");
    check(&[("B", 9)], &["A"], "B:9 C:3");
    check(&[("B", 9)], &["*"], "B:9");
    check(&[("B", 9)], &["B"], "A:1 C:3 B:9");
    check(&[("B", 8), ("B", 9)], &[], "A:1 B:9 C:3 B:8");
}

#[test]
fn groups_come_last() {
    let all = shown(&default_multi_point());
    let end = "NodeDeclaredFeatures:0 GangScheduling:0 TopologyPlacementGenerator:0 \
               PodGroupPodsCount:1";
    assert!(all.ends_with(end), "{all}");
}

#[test]
fn only_what_the_user_wrote_counts_as_explicit() {
    let user =
        PluginSets { multi_point: set(&[("Mine", 1)], &["ImageLocality"]), ..Default::default() };
    let spec = ProfileSpec {
        plugins: user.merged_into(&PluginSets::defaults()),
        ..ProfileSpec::default_named("s")
    };
    assert_eq!(
        spec.explicitly_enabled(),
        [("profiles[0].plugins.multiPoint.enabled[0]".to_owned(), Text::from("Mine"))]
    );
}
