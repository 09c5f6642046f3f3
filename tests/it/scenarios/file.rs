//! Reads a scenario file: the header in its leading comment lines, and the documents below it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

const HEADER_KEYS: [&str; 14] = [
    "scenario",
    "source",
    "tags",
    "severity",
    "confidence",
    "set",
    "needs",
    "wrong_in",
    "story",
    "wrong",
    "right",
    "note",
    "expect",
    "expect_after",
];

pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) text: String,
    header: Map<String, Value>,
    /// The documents of each phase.
    pub(super) phases: Vec<Vec<Value>>,
}

impl Scenario {
    /// # Panics
    /// If the file or its header is malformed: that is an error of the test.
    pub(super) fn read(path: &Path) -> Scenario {
        let text = std::fs::read_to_string(path).expect("a scenario file");
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        let header = header(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(header.get("scenario").and_then(Value::as_str), Some(name.as_str()));
        for key in header.keys() {
            assert!(HEADER_KEYS.contains(&key.as_str()), "{name}: unknown header key {key}");
        }
        let phases = phases(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(phases.len() == 2, header.contains_key("expect_after"), "{name}");
        Scenario { name, text, header, phases }
    }

    pub(super) fn expect(&self, phase: usize) -> &Map<String, Value> {
        let key = if phase == 0 { "expect" } else { "expect_after" };
        self.header.get(key).and_then(Value::as_object).expect("expectations")
    }

    /// Returns the objects of a kind by name, as they are in force in a phase.
    pub(super) fn of_kind(&self, kind: &str, phase: usize) -> BTreeMap<String, &Value> {
        let documents = self.phases[..=phase].iter().flatten();
        documents.filter(|d| d["kind"] == kind).map(|d| (key(d), d)).collect()
    }
}

/// `namespace/name`, or the bare name of an object of the whole cluster.
fn key(document: &Value) -> String {
    let text = |field: &str| document["metadata"][field].as_str();
    let name = text("name").expect("a name");
    text("namespace").map_or(name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

fn header(text: &str) -> Result<Map<String, Value>, serde_saphyr::Error> {
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    let bare = comment.map(|line| line[1..].strip_prefix(' ').unwrap_or(&line[1..]));
    serde_saphyr::from_str(&bare.collect::<Vec<_>>().join("\n"))
}

fn phases(text: &str) -> Result<Vec<Vec<Value>>, serde_saphyr::Error> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    let objects = documents.into_iter().filter(|d| d["kind"] != "KubeSchedulerConfiguration");
    let second = |d: &Value| d["metadata"]["annotations"]["scenario.test/phase"] == "2";
    let (second, first): (Vec<Value>, Vec<Value>) = objects.partition(second);
    Ok(if second.is_empty() { vec![first] } else { vec![first, second] })
}
