//! What the pages say: metrics by family, configuration and flags by name.

use std::collections::{BTreeMap, BTreeSet};

use berth_stand::{Stand, wait_for};
use serde_json::Value;

use super::Rows;
use super::sides::{Sides, neutral};
use crate::support::SOON;
use crate::support::https::Ask;

type Said = BTreeMap<String, String>;

/// Families that kube-scheduler shows by chance or for a moment; their types and labels are compared
/// with what it served once (`tests/it/metrics.rs`).
const CHANCE: &[&str] =
    &["scheduler_plugin_execution_duration_seconds", "scheduler_inflight_events"];

/// Labels whose values are words of the program, so they are to be the same.
const WORDS: &[&str] = &["result", "queue", "extension_point", "hint", "verb", "method", "type"];

pub(super) fn compare(stand: &Stand, sides: &Sides, rows: &mut Rows) {
    let admin = Ask::token(&stand.admin_token());
    let text = |path: &str| {
        let said = sides.ask(&admin, path);
        [0, 1].map(|at| neutral(at, &said[at].text()))
    };
    // What Berth's engine holds is published once a second.
    let published = || {
        let waits = "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\"";
        text("/metrics").iter().all(|page| page.contains(waits)).then_some(())
    };
    wait_for(SOON, "the pod that waits is counted", published);
    let metrics = text("/metrics");
    rows.add_maps("metrics family", &[0, 1].map(|at| families(&metrics[at])));
    rows.add_maps("metrics words", &[0, 1].map(|at| words(&metrics[at])));
    // Names, stages and values of all gates, those of general availability included.
    let gates = [0, 1].map(|at| {
        let mut gates = series(&metrics[at]);
        gates.retain(|name, _| name.starts_with("kubernetes_feature_enabled "));
        assert!(gates.len() > 150, "{} gates are told of", gates.len());
        gates
    });
    rows.add_maps("gate", &gates);
    // Both list the pods of both.
    let resources = sides.ask(&admin, "/metrics/resources");
    rows.add_maps("resources", &[0, 1].map(|at| series(&resources[at].text())));
    let slis = text("/metrics/slis").map(|page| {
        let mut said = series(&page);
        // How often somebody asked, and how often too early, is no property of the program.
        said.retain(|name, _| !name.contains("\"error\""));
        said.values_mut().for_each(|value| *value = "there".to_owned());
        said
    });
    rows.add_maps("slis", &slis);
    let json = |text: &String| serde_json::from_str::<Value>(text).expect("JSON");
    rows.add_maps("configz", &text("/configz").each_ref().map(|page| leaves(&json(page))));
    rows.add_maps("flagz", &text("/flagz").map(|page| flags(&page)));
    rows.add_maps("statusz", &text("/statusz").map(|page| statusz(&page)));
}

/// Type and labels by name; Berth's own are left out.
fn families(page: &str) -> Said {
    let mut said = Said::new();
    let kinds = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let compared = |name: &str| !name.starts_with("berth_") && !CHANCE.contains(&name);
    for (name, kind) in kinds.filter(|(name, _)| compared(name)) {
        let labels: BTreeSet<String> =
            of_family(page, name).into_iter().flat_map(|labels| labels.into_keys()).collect();
        said.insert(name.to_owned(), format!("{kind} {labels:?}"));
    }
    said
}

/// Every value of a label that is a word, by family and label.
fn words(page: &str) -> Said {
    let mut said = Said::new();
    for name in families(page).keys().filter(|name| !name.starts_with("rest_client_")) {
        for series in of_family(page, name) {
            let words = series.iter().filter(|(label, _)| WORDS.contains(&label.as_str()));
            let keys = words.map(|(label, value)| format!("{name} {label}={value}"));
            said.extend(keys.map(|key| (key, "there".to_owned())));
        }
    }
    said
}

fn of_family(page: &str, family: &str) -> Vec<BTreeMap<String, String>> {
    let of = |line: &str| {
        let (name, rest) = line.split_once('{')?;
        let own = matches!(name.strip_prefix(family)?, "" | "_bucket" | "_sum" | "_count");
        own.then(|| labels(rest.rsplit_once('}').map_or("", |(labels, _)| labels)))
    };
    page.lines().filter_map(of).collect()
}

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split("\",").filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect()
}

/// Values by series; numbers are written differently by the two.
fn series(page: &str) -> Said {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| line.rsplit_once(' '));
    let number = |text: &str| text.parse::<f64>().map_or("none".to_owned(), |n| n.to_string());
    series.map(|(name, value)| (sorted(name), number(value))).collect()
}

/// Puts a series' labels in the order of their names.
fn sorted(series: &str) -> String {
    let Some((name, rest)) = series.split_once('{') else { return series.to_owned() };
    format!("{name} {:?}", labels(rest.trim_end_matches('}')))
}

/// The values of a document by path.
pub(super) fn leaves(value: &Value) -> Said {
    fn walk(path: &str, value: &Value, said: &mut Said) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields.iter().for_each(|(key, value)| walk(&format!("{path}.{key}"), value, said));
            }
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    walk(&format!("{path}[{at}]"), item, said);
                }
            }
            leaf => drop(said.insert(path.to_owned(), leaf.to_string())),
        }
    }
    let mut said = Said::new();
    walk("", value, &mut said);
    said
}

/// Ports are each side's own.
fn flags(page: &str) -> Said {
    let of = |(name, value): (&str, &str)| {
        let value = if name == "secure-port" { "a port" } else { value };
        (name.to_owned(), value.to_owned())
    };
    page.lines().filter_map(pair).map(of).collect()
}

/// Times are each side's own.
fn statusz(page: &str) -> Said {
    let names = ["Started", "Up", "Go version", "Binary version", "Emulation version", "Paths"];
    let of = |name: &str| {
        let value = page.lines().find_map(|line| line.strip_prefix(name))?;
        let value = value.trim_start_matches(SEPARATORS);
        let value = if matches!(name, "Started" | "Up") { "a time" } else { value };
        Some((name.to_owned(), value.to_owned()))
    };
    names.into_iter().filter_map(of).collect()
}

/// kube-scheduler takes another of these at each start, so that nobody reads its pages by machine.
const SEPARATORS: &[char] = &[':', '=', ' '];

/// Splits a line into a flag and its value.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_at(line.find(SEPARATORS)?);
    let flag = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let value = value.trim_start_matches(SEPARATORS);
    // The page's title looks like a flag.
    (flag && !name.is_empty() && value != "flagz").then_some((name, value))
}
