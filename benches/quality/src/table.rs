//! The finished runs of one commit as tables: mean and standard deviation over the seeds.

use std::collections::BTreeMap;

use crate::record::Row;
use crate::trace::Traces;

type Figures = BTreeMap<String, Vec<f64>>;

/// Prints a line for each kind, workload and policy.
pub(crate) fn print(rows: Vec<Row>, commit: &str, traces: &Traces) {
    let mut groups: BTreeMap<(String, String, String), Figures> = BTreeMap::new();
    for (key, figures) in rows.into_iter().filter(|(key, _)| key.commit == commit) {
        let of = groups.entry((key.kind, key.workload, key.policy)).or_default();
        for (name, value) in figures {
            of.entry(name).or_default().push(value);
        }
    }
    for ((kind, workload, policy), figures) in &groups {
        let published = match policy.as_str() {
            "fgd" if kind == "fill" => traces.published(workload, "FGD").ok(),
            "bestfit" if kind == "fill" => traces.published(workload, "BestFit").ok(),
            "random" if kind == "fill" => traces.published(workload, "Random").ok(),
            _ => None,
        };
        let published = published.map_or(String::new(), |p| format!(" (published {p:.2})"));
        let seeds = figures.values().map(Vec::len).max().unwrap_or(0);
        let text: Vec<String> = figures.iter().map(|(name, all)| shown(name, all)).collect();
        println!("{kind} {workload} {policy} ({seeds} seeds){published}: {}", text.join(", "));
    }
}

fn shown(name: &str, all: &[f64]) -> String {
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let squares = all.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    let deviation = (squares / (n - 1.0).max(1.0)).sqrt();
    format!("{name} {mean:.2} ± {deviation:.2}")
}
