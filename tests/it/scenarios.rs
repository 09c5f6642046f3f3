//! Scenario files, played in process and judged by the expectations in their headers.
//!
//! `tests/scenarios/` holds those that must pass. `../shared/scenarios`, where it is there, holds
//! all: of those that need what isn't built yet, a cautious scheduler places nobody wrongly and
//! says what is missing. `../shared/tools/scenarios.py` is the second, independent judge.

mod expectations;
mod file;

use std::path::{Path, PathBuf};

use berth::gates::Gates;
use berth::simulate::{File, result::SimulationResult, simulate};

use expectations::{View, violations};
use file::Scenario;

/// Pods that only what isn't built yet could hold back: a quota, and the right of an older pod of
/// a group.
const NOT_HELD_YET: [&str; 2] = ["default/stranger", "team-a/a-1"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn scenarios(folder: &Path) -> Vec<Scenario> {
    let entries = std::fs::read_dir(folder).expect("a folder of scenarios");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    paths.iter().map(|path| Scenario::read(path)).collect()
}

fn play(scenario: &Scenario) -> SimulationResult {
    let file = File { name: scenario.name.clone(), text: scenario.text.clone() };
    let simulated = simulate(&[file], None, 0, &Gates::default());
    let simulated = simulated.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    assert_eq!(simulated.result.phases.len(), scenario.phases.len(), "{}", scenario.name);
    simulated.result
}

/// Calls `judge` with what became of each phase, and what it was before.
fn judged(scenario: &Scenario, judge: impl Fn(&View<'_>) -> Vec<String>) -> Vec<String> {
    let result = play(scenario);
    let mut complaints = Vec::new();
    for (phase, state) in result.phases.iter().enumerate() {
        let before = phase.checked_sub(1).and_then(|before| result.phases.get(before));
        let view = View::of(scenario, phase, state, before);
        let tell = |what| format!("{} phase {}: {what}", scenario.name, phase + 1);
        complaints.extend(judge(&view).into_iter().map(tell));
    }
    complaints
}

#[test]
fn scenarios_of_the_project_end_as_their_headers_say() {
    let scenarios = scenarios(&root().join("tests/scenarios"));
    assert!(scenarios.len() >= 40, "only {} files", scenarios.len());
    let complaints: Vec<String> = scenarios.iter().flat_map(|s| judged(s, violations)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn copies_of_shared_scenarios_are_not_altered() {
    let Some(shared) = shared() else { return };
    for scenario in scenarios(&root().join("tests/scenarios")) {
        let original = shared.join(format!("{}.yaml", scenario.name));
        if original.is_file() {
            let text = std::fs::read_to_string(&original).expect("a scenario");
            assert!(text == scenario.text, "{} differs from {}", scenario.name, original.display());
        }
    }
}

/// Of scenarios that need what isn't built yet, too.
#[test]
fn nobody_is_placed_wrongly_or_evicted_and_who_waits_is_told_why() {
    let Some(shared) = shared() else { return };
    let scenarios = scenarios(&shared);
    assert!(scenarios.len() >= 76, "only {} files", scenarios.len());
    let complaints: Vec<String> = scenarios.iter().flat_map(|s| judged(s, wrongs)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn shared() -> Option<PathBuf> {
    let shared = root().join("../shared/scenarios");
    if shared.is_dir() {
        return Some(shared);
    }
    eprintln!("skipped: no {}", shared.display());
    None
}

/// What must not happen even while half of what a scenario needs is missing.
fn wrongs(view: &View<'_>) -> Vec<String> {
    let mut wrongs: Vec<String> = view.allowed_nowhere_else(&NOT_HELD_YET).collect();
    wrongs.extend(view.evicted().iter().map(|pod| format!("{pod} is evicted")));
    for pod in view.unbound() {
        let state = &view.state.pods[pod];
        let (reason, message) = (state.reason.as_deref(), state.message.as_deref());
        match (reason, message) {
            (Some(_), Some(message)) if names_what_is_missing(message) => {}
            _ => wrongs.push(format!("{pod} is told {reason:?} {message:?}")),
        }
    }
    wrongs
}

fn names_what_is_missing(message: &str) -> bool {
    let forms = [
        "not supported yet",
        "nodes are available: ",
        "scheduling gates",
        "not found",
        "CEL runtime error",
        "members of ",
        "has priority ",
    ];
    forms.iter().any(|form| message.contains(form))
}
