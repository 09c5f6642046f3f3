//! Finished runs: lines of a table, found again by what was run, so that a run begins where the last
//! one stopped.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "commit\tkind\tworkload\tpolicy\tseed\tfigures";

/// What a run is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) commit: String,
    /// `fill`, or churn with its load and lifetimes.
    pub(crate) kind: String,
    pub(crate) workload: String,
    /// With what it is told, if anything.
    pub(crate) policy: String,
    pub(crate) seed: u64,
}

pub(crate) struct Record {
    file: PathBuf,
    known: BTreeSet<Key>,
}

/// Named figures of one run, as they are written: `name=value`, separated by blanks.
pub(crate) type Figures = Vec<(&'static str, f64)>;

impl Record {
    pub(crate) fn at(file: &Path) -> Result<Record, String> {
        let known = read(file)?.into_iter().map(|(key, _)| key).collect();
        Ok(Record { file: file.to_owned(), known })
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.known.contains(key)
    }

    pub(crate) fn add(&mut self, key: &Key, figures: &Figures) -> Result<(), String> {
        let fresh = !self.file.exists();
        let of_file = |e| format!("{}: {e}", self.file.display());
        let mut file =
            OpenOptions::new().create(true).append(true).open(&self.file).map_err(of_file)?;
        let text: Vec<String> =
            figures.iter().map(|(name, value)| format!("{name}={value:.3}")).collect();
        let Key { commit, kind, workload, policy, seed } = key;
        let head = if fresh { format!("{HEAD}\n") } else { String::new() };
        let line = format!("{commit}\t{kind}\t{workload}\t{policy}\t{seed}\t{}\n", text.join(" "));
        file.write_all((head + &line).as_bytes()).map_err(of_file)?;
        self.known.insert(key.clone());
        Ok(())
    }
}

/// A finished run with its figures.
pub(crate) type Row = (Key, Vec<(String, f64)>);

/// Reads all finished runs; none if there is no such file.
pub(crate) fn read(file: &Path) -> Result<Vec<Row>, String> {
    let Ok(text) = fs::read_to_string(file) else { return Ok(Vec::new()) };
    let lines = text.lines().enumerate().skip(1);
    let row = |(at, line): (usize, &str)| {
        parse(line).ok_or_else(|| format!("{}: line {} can't be read", file.display(), at + 1))
    };
    lines.map(row).collect()
}

fn parse(line: &str) -> Option<Row> {
    let mut fields = line.split('\t');
    let mut next = || fields.next().map(str::to_owned);
    let (commit, kind, workload, policy) = (next()?, next()?, next()?, next()?);
    let seed = next()?.parse().ok()?;
    let figures = next()?;
    let figure = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let figures = figures.split(' ').map(figure).collect::<Option<_>>()?;
    Some((Key { commit, kind, workload, policy, seed }, figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_written_is_found_again_with_its_figures() {
        let file = std::env::temp_dir().join(format!("berth-quality-{}.tsv", std::process::id()));
        let key = Key {
            commit: "abc".into(),
            kind: "fill".into(),
            workload: "default".into(),
            policy: "berth".into(),
            seed: 42,
        };
        let mut record = Record::at(&file).unwrap();
        assert!(!record.has(&key));
        record.add(&key, &vec![("unallocated", 3.5), ("whole50", 370.0)]).unwrap();
        let found = read(&file);
        let again = Record::at(&file).map(|record| record.has(&key));
        fs::remove_file(&file).unwrap();
        assert_eq!(again, Ok(true));
        let figures = vec![("unallocated".to_owned(), 3.5), ("whole50".to_owned(), 370.0)];
        assert_eq!(found, Ok(vec![(key, figures)]));
    }
}
