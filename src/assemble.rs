//! A configuration becomes what an engine is made of: profiles with the compiled-in plugins, and
//! the setup around them. `berth run` and `berth simulate` share it, so both decide alike.

mod groups;

use std::sync::Arc;

use berth_core::engine::{AlwaysGate, Setup};
use berth_core::framework::{ArgError, Profile, ProfileSpec};
use berth_core::queue::BackoffPolicy;
use berth_plugins::UnbuiltGate;

use crate::config::Configuration;

/// Stack of a thread that runs an engine: selectors are parsed there, and those at the limit of nesting
/// take more than is usual. What isn't used is never touched.
pub const STACK_BYTES: usize = 64 << 20;

/// Builds the profiles and the setup of `configuration`.
///
/// # Errors
/// Everything that the compiled-in plugins refuse, with paths into the configuration file.
pub fn assemble(
    configuration: &Configuration,
    seed: u64,
) -> Result<(Vec<Profile>, Setup), Vec<ArgError>> {
    let (mut profiles, mut errors) = (Vec::new(), Vec::new());
    for spec in &configuration.profiles {
        match Profile::build(spec, berth_plugins::registry()) {
            Ok(profile) => profiles.push(profile),
            Err(error) => errors.extend(error.errors),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut errors = differing_queue_sorts(&configuration.profiles, &profiles);
    errors.extend(groups::refusals(&configuration.profiles, &profiles));
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok((profiles, setup(configuration, seed)))
}

/// Returns what the compiled-in plugins refuse, for `berth config check`.
pub fn refusals(configuration: &Configuration) -> Vec<ArgError> {
    assemble(configuration, 0).err().unwrap_or_default()
}

fn setup(configuration: &Configuration, seed: u64) -> Setup {
    Setup {
        seed,
        backoff: BackoffPolicy {
            initial: configuration.pod_initial_backoff,
            max: configuration.pod_max_backoff,
        },
        gates: vec![unbuilt_gate()],
        percentage_of_nodes_to_score: configuration.percentage_of_nodes_to_score,
        selectors: Some(berth_plugins::selectors()),
        ..Setup::default()
    }
}

/// Holds pods that need what isn't built yet, whatever the profile says.
fn unbuilt_gate() -> AlwaysGate {
    let gate = Arc::new(UnbuiltGate);
    AlwaysGate { name: "Unbuilt", gate: gate.clone(), interest: gate }
}

/// All profiles share one queue, so they must sort it alike.
fn differing_queue_sorts(specs: &[ProfileSpec], profiles: &[Profile]) -> Vec<ArgError> {
    let sorter = |profile: &Profile| profile.queue_sort.first().map(|entry| entry.name);
    let Some(first) = profiles.first() else { return Vec::new() };
    let pairs = specs.iter().zip(profiles).skip(1);
    let differing = pairs.filter(|(_, profile)| sorter(profile) != sorter(first));
    let error = |(spec, profile): (&ProfileSpec, &Profile)| ArgError {
        path: format!("{}.plugins.queueSort", spec.path),
        message: format!(
            "must be the same for all profiles: {:?} sorts, {:?} in the first profile",
            sorter(profile).unwrap_or_default(),
            sorter(first).unwrap_or_default()
        ),
    };
    differing.map(error).collect()
}
