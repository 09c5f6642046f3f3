//! What isn't built is refused where a profile names it, and stays in the default set.

use berth_core::framework::Profile;
use berth_core::framework::profile_spec::{Enabled, PluginSets, Point, ProfileSpec};

fn missing() -> impl Iterator<Item = &'static str> {
    berth_plugins::ALL.iter().filter(|def| def.missing.is_some()).map(|def| def.name)
}

fn errors(point: Option<Point>, name: &str) -> Vec<String> {
    let mut user = PluginSets::default();
    let set = match point {
        Some(point) => user.at_mut(point),
        None => &mut user.multi_point,
    };
    set.enabled = vec![Enabled { written_at: Some(0), ..Enabled::new(name, 0) }];
    let spec = ProfileSpec {
        plugins: user.merged_into(&PluginSets::defaults()),
        ..ProfileSpec::default_named("s")
    };
    match Profile::build(&spec, berth_plugins::registry()) {
        Ok(_) => Vec::new(),
        Err(error) => error.errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_plugin_that_is_not_built_is_refused_by_name_wherever_it_is_enabled() {
    let names: Vec<&str> = missing().collect();
    for name in &names {
        for point in [None, Some(Point::Score), Some(Point::PreEnqueue)] {
            let said = format!("plugin {name:?} is not supported yet: ");
            let errors = errors(point, name);
            assert!(errors.iter().any(|e| e.contains(&said)), "{name} {point:?}: {errors:?}");
        }
    }
    let unbuilt = ["InterPodAffinity", "DefaultPreemption"];
    assert_eq!(names, unbuilt);
}

#[test]
fn the_default_profile_is_not_refused_for_what_it_has_not_named() {
    let spec = ProfileSpec::default_named("s");
    let built = Profile::build(&spec, berth_plugins::registry());
    let errors = built.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(!errors.contains("not supported yet"), "{errors}");
}

#[test]
fn volume_binding_may_be_named_at_each_of_its_points() {
    for point in [Point::PreFilter, Point::Filter, Point::Score, Point::Reserve, Point::PreBind] {
        let errors = errors(Some(point), "VolumeBinding");
        assert!(!errors.iter().any(|e| e.contains("VolumeBinding")), "{point:?}: {errors:?}");
    }
}
