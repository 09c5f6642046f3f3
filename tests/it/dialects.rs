//! Runs the case files of dialects in `tests/dialects`: each shows what is read of pods and objects,
//! and what is written. `UPDATE_EXPECT=1` rewrites them.

mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use berth::simulate::input::{Document, read};
use berth::wire::dialect::{self, DialectDef};
use berth::wire::{Kind, Object, Tables, decode};
use berth_core::types::group::{GroupPhase, GroupTold, PodGroup};
use serde_json::{Value, json};

const NOW: &str = "2026-01-02T03:04:05Z";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects")
}

/// What is read, and what is to be shown of it.
#[derive(Default)]
struct Case {
    yaml: String,
    /// Lines of phase, number of members that have a node, and message.
    told: String,
}

/// Rewrites the blocks that say what is expected; everything else stays.
fn rewritten(text: &str, dialect: &DialectDef) -> String {
    let (mut out, mut case, mut block) = (String::new(), Case::default(), None);
    for line in text.lines() {
        match (&block, line.trim_end()) {
            (None, line) if line.starts_with("```") => {
                let name = line.trim_start_matches('`').to_owned();
                if name == "yaml" {
                    case = Case::default();
                }
                out += &format!("{line}\n");
                if name == "expect" {
                    out += &answer(&case, dialect);
                }
                block = Some(name);
            }
            (Some(_), "```") => {
                out += "```\n";
                block = None;
            }
            (Some(name), line) => {
                match name.as_str() {
                    "yaml" => case.yaml += &format!("{line}\n"),
                    "told" => case.told += &format!("{line}\n"),
                    "expect" => continue,
                    other => panic!("unknown block {other:?}"),
                }
                out += &format!("{line}\n");
            }
            (None, line) => out += &format!("{line}\n"),
        }
    }
    out
}

fn answer(case: &Case, dialect: &DialectDef) -> String {
    let documents = read("case", &case.yaml).expect("YAML");
    documents.iter().map(|document| answer_to(document, case, dialect)).collect()
}

fn answer_to(document: &Document, case: &Case, dialect: &DialectDef) -> String {
    let kind = Kind::of(&document.value).unwrap_or_else(|| panic!("{:?}", document.value));
    let decoded = decode(kind, document.value.clone(), &mut Tables::default()).expect("an object");
    match decoded.object {
        Object::Pod(pod) => {
            assert_eq!(pod.problem, None);
            shown::pod(&pod, dialect.dialect)
        }
        Object::PodGroup(group) => {
            assert_eq!(group.key.dialect, dialect.dialect);
            let told = case.told.lines().map(|line| status(kind, &told(line)));
            shown::group(&group) + &told.collect::<String>()
        }
        Object::Topology(object) => {
            assert_eq!(object.key.dialect, dialect.dialect.name);
            shown::tree(&object, &decoded.problems)
        }
        other => panic!("no pod, group or topology: {other:?}"),
    }
}

fn told(line: &str) -> GroupTold {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("three words: {line:?}"));
    let phase = match word() {
        "waiting" => GroupPhase::Waiting,
        "unschedulable" => GroupPhase::Unschedulable,
        "error" => GroupPhase::Error,
        "scheduled" => GroupPhase::Scheduled,
        other => panic!("unknown phase {other:?}"),
    };
    let scheduled = word().parse().expect("a number");
    GroupTold { phase, message: word().into(), scheduled }
}

fn status(kind: Kind, told: &GroupTold) -> String {
    let Kind::Group(object) = kind else { panic!("{kind:?}") };
    let status = object.status(told, None, NOW);
    format!("told {:?}: {} {status}\n", told.phase, object.api_version())
}

#[test]
fn dialects_read_and_write_as_their_cases_say() {
    let update = std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1");
    for def in dialect::ALL {
        let path = folder().join(format!("{}.md", def.dialect.name));
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        let actual = rewritten(&text, def);
        if update {
            fs::write(&path, &actual).expect("the case file is written");
        }
        assert!(update || actual == text, "{} differs:\n{actual}", path.display());
        assert!(actual.contains("problem: "), "{}: nothing odd", path.display());
    }
    let n_files = fs::read_dir(folder()).expect("the folder of cases").count();
    assert_eq!(n_files, dialect::ALL.len(), "one file a dialect");
}

/// A successor reads from the object what was told, and tells nothing again.
#[test]
fn what_is_told_is_read_back_from_every_kind_of_object() {
    let phases = ["waiting", "unschedulable", "error", "scheduled"];
    for object in dialect::objects().filter(|object| object.is_told()) {
        let read_back = |status: Value| -> PodGroup {
            let json = json!({
                "apiVersion": object.api_version(), "kind": object.kind(),
                "metadata": {"name": "g"}, "status": status,
            });
            let read = object.read(&json.to_string(), &mut Tables::default());
            read.expect("an object").group
        };
        assert_eq!(read_back(json!({})).told, None, "{object:?}");
        for (said, other) in phases.into_iter().zip(phases.into_iter().cycle().skip(1)) {
            let line = |phase| told(&format!("{phase} 3 because"));
            let group = read_back(object.status(&line(said), None, NOW));
            assert!(group.is_told(&line(said)), "{object:?}: {said}: {group:?}");
            let told_before = group.told.clone();
            let differs = group.words.of(&line(other)) != group.words.of(&line(said));
            let is_told = group.is_told(&line(other));
            assert_eq!(is_told, group.settled || !differs, "{object:?}: {said}, {other}");
            assert!(told_before.is_some(), "{object:?}: {said}");
        }
    }
}
