//! Finished rounds: lines of a TSV file, found again by commit, load and round.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Zoned;

use crate::Outcome;

const HEAD: &str = "commit\tdate\tload\tround\tcontender\tpods\tbinds_per_s\tof_ceiling\
                    \tcpu_us_per_pod\trss_mib\tfirst_bind_s\tevents_after_s\ttold_per_s\tp50_ms\tp99_ms\tgroup_ms";

/// What one turn gave; what doesn't apply is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) contender: String,
    pub(crate) pods: u32,
    /// Between the first and the last bind.
    pub(crate) binds_per_s: Option<f64>,
    /// The same divided by the ceiling's of this round.
    pub(crate) of_ceiling: Option<f64>,
    /// Over the process's whole life, all events included.
    pub(crate) cpu_us_per_pod: Option<f64>,
    pub(crate) rss_mib: Option<f64>,
    /// From the process's start.
    pub(crate) first_bind_s: Option<f64>,
    /// From the last bind to the last event.
    pub(crate) events_after_s: Option<f64>,
    /// Pods bound and told of, a second.
    pub(crate) told_per_s: Option<f64>,
    /// From creation to bind.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    /// Mean time of the search for a group's places, by the scheduler's own metric.
    pub(crate) group_ms: Option<f64>,
}

impl Row {
    pub(crate) fn new(contender: &str, pods: u32) -> Row {
        Row { contender: contender.to_owned(), pods, ..Row::default() }
    }

    /// The figures in the order of the columns.
    pub(crate) fn figures(&self) -> [Option<f64>; 10] {
        [
            self.binds_per_s,
            self.of_ceiling,
            self.cpu_us_per_pod,
            self.rss_mib,
            self.first_bind_s,
            self.events_after_s,
            self.told_per_s,
            self.p50_ms,
            self.p99_ms,
            self.group_ms,
        ]
    }

    /// For whoever looks on.
    pub(crate) fn brief(&self) -> String {
        let names = [
            "binds/s",
            "",
            "us",
            "MiB",
            "s to first",
            "s to events",
            "told/s",
            "p50",
            "p99",
            "ms a group",
        ];
        let figures = names.iter().zip(self.figures());
        let known = figures.filter_map(|(name, figure)| Some(format!("{} {name}", shown(figure?))));
        format!("{}: {}", self.contender, known.collect::<Vec<_>>().join(", "))
    }

    fn line(&self) -> String {
        let figures = self.figures().map(|figure| figure.map_or("-".to_owned(), shown));
        format!("{}\t{}\t{}", self.contender, self.pods, figures.join("\t"))
    }

    fn parse(fields: &[&str]) -> Option<Row> {
        let [contender, pods, figures @ ..] = fields else { return None };
        let figure = |i: usize| figures.get(i).and_then(|text| text.parse().ok());
        Some(Row {
            contender: (*contender).to_owned(),
            pods: pods.parse().ok()?,
            binds_per_s: figure(0),
            of_ceiling: figure(1),
            cpu_us_per_pod: figure(2),
            rss_mib: figure(3),
            first_bind_s: figure(4),
            events_after_s: figure(5),
            told_per_s: figure(6),
            p50_ms: figure(7),
            p99_ms: figure(8),
            group_ms: figure(9),
        })
    }
}

/// Four digits are more than the measure is good for.
pub(crate) fn shown(figure: f64) -> String {
    match figure.abs() {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.3}"),
    }
}

/// The file, and what it holds of this commit.
pub(crate) struct Records {
    path: PathBuf,
    commit: String,
    rounds: BTreeMap<(String, u32), Vec<Row>>,
}

impl Records {
    /// # Errors
    /// The file is there and can't be read.
    pub(crate) fn open(path: &Path, commit: &str) -> Outcome<Records> {
        let mut rounds: BTreeMap<(String, u32), Vec<Row>> = BTreeMap::new();
        let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
        // What a changed tree gave is never the same again.
        for line in text.lines().filter(|_| !commit.ends_with('+')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [its, _, load, round, row @ ..] = fields.as_slice() else { continue };
            if *its != commit {
                continue;
            }
            if let (Ok(round), Some(row)) = (round.parse(), Row::parse(row)) {
                rounds.entry(((*load).to_owned(), round)).or_default().push(row);
            }
        }
        Ok(Records { path: path.to_path_buf(), commit: commit.to_owned(), rounds })
    }

    pub(crate) fn has(&self, load: &str, round: u32) -> bool {
        self.rounds.contains_key(&(load.to_owned(), round))
    }

    /// Returns the rows of the rounds from 1 on.
    pub(crate) fn rows(&self, load: &str, rounds: u32) -> Vec<Row> {
        let rounds = (1..=rounds).filter_map(|round| self.rounds.get(&(load.to_owned(), round)));
        rounds.flatten().cloned().collect()
    }

    /// Adds a whole round, so that what is in the file is complete.
    pub(crate) fn add(&mut self, load: &str, round: u32, rows: Vec<Row>) -> Outcome<()> {
        let mut text = String::new();
        if !self.path.exists() {
            text += HEAD;
            text.push('\n');
        }
        let date = Zoned::now().date();
        for row in &rows {
            text += &format!("{}\t{date}\t{load}\t{round}\t{}\n", self.commit, row.line());
        }
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        self.rounds.insert((load.to_owned(), round), rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = Row { binds_per_s: Some(1450.0), rss_mib: Some(31.5), ..Row::new("berth", 3000) };
        let line = row.line();
        assert_eq!(Row::parse(&line.split('\t').collect::<Vec<_>>()), Some(row));
    }
}
