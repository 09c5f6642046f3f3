//! The engine of the simulations: the real plugins, without faults of its own.

use berth_core::engine::{Engine, Setup};
use berth_core::framework::{Profile, ProfileSpec};
use berth_core::types::Value;
use berth_sim::HOLD_SLOTS;

/// An engine as `berth` makes it without a configuration.
pub(crate) fn engine(setup: Setup) -> Engine {
    let mut spec = ProfileSpec::default_named("default-scheduler");
    // Drivers of the simulation take seconds.
    let waits = Value::map([("bindingTimeout", Value::text("20s"))]);
    spec.args.insert("DynamicResources".into(), waits);
    let dialects = ["coscheduling", "kueue"].map(Value::text);
    let groups = Value::map([
        ("dialects", Value::List(dialects.into())),
        ("holdSlots", Value::text(format!("{}s", HOLD_SLOTS.0 / 1000))),
    ]);
    spec.args.insert("GangScheduling".into(), groups);
    let profile = Profile::build(&spec, berth_plugins::registry());
    let profile = profile.unwrap_or_else(|error| panic!("{error}"));
    let selectors = Some(berth_plugins::selectors());
    Engine::new(vec![profile], Setup { selectors, ..setup })
}
