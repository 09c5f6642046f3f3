//! Runs the case files: each shows what one plugin answers. `UPDATE_EXPECT=1` rewrites them.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_core::framework::{PluginDef, Registry};
use berth_core::testkit::case::CaseFile;
use berth_core::testkit::run;

/// The gate that is asked for every pod, as if it were a plugin: `unbuilt_gate.md` shows it.
const GATE: PluginDef = PluginDef {
    name: "UnbuiltGate",
    summary: "holds pods that need what isn't built yet",
    missing: None,
    build: |_args, points| {
        points.pre_enqueue(Arc::new(berth_plugins::UnbuiltGate));
        points.interest(Arc::new(berth_plugins::UnbuiltGate));
    },
};

fn registry(plugin: &str) -> Registry {
    if plugin == GATE.name { Registry(&[&GATE]) } else { berth_plugins::registry() }
}

fn case_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = fs::read_dir(&folder).expect("the folder of cases can be read");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.sort();
    paths
}

/// Returns what differs, empty if nothing does. With `update` the file is rewritten instead.
fn check(path: &Path, update: bool) -> String {
    let text = fs::read_to_string(path).expect("a case file can be read");
    let shown = path.file_name().unwrap_or_default().to_string_lossy();
    let file = match CaseFile::read(&text) {
        Ok(file) => file,
        Err(error) => return format!("{shown}: {error}\n"),
    };
    let mut wrong = String::new();
    let mut answers = Vec::new();
    for case in &file.cases {
        let answer = match run::run(registry(&file.plugin), berth_plugins::selectors(), &file, case)
        {
            Ok(answer) => answer,
            Err(error) => return format!("{shown}: {}: {error}\n", case.title),
        };
        if answer.contains("MISSED") || (answer != case.expect && !update) {
            let expect = &case.expect;
            wrong += &format!("{shown}: {}\nexpected\n{expect}got\n{answer}\n", case.title);
        }
        answers.push(answer);
    }
    if update {
        fs::write(path, file.rewritten(&answers)).expect("a case file can be written");
    }
    wrong
}

#[test]
fn plugins_answer_as_their_cases_say() {
    let update = std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1");
    let wrong: String = case_files().iter().map(|path| check(path, update)).collect();
    assert!(wrong.is_empty(), "UPDATE_EXPECT=1 rewrites what is expected\n{wrong}");
}

#[test]
fn every_plugin_has_a_case_file() {
    let titles: Vec<String> = case_files()
        .iter()
        .filter_map(|path| CaseFile::read(&fs::read_to_string(path).ok()?).ok())
        .map(|file| file.plugin)
        .collect();
    let table = berth_plugins::ALL.iter().filter(|def| def.missing.is_none());
    let bare: Vec<&str> =
        table.map(|def| def.name).filter(|name| !titles.iter().any(|t| t == name)).collect();
    assert_eq!(bare, Vec::<&str>::new(), "no tests/cases/<plugin>.md");
}
