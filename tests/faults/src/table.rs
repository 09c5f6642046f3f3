//! The table of what was tried: one line a batch, only ever added to.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failed::{Failed, Outcome};

const HEADER: &str =
    "row\tscheduler\tcommit\trepeats\teffective injections\tviolations\tseconds\tnote\n";

/// One batch of repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub row: String,
    pub scheduler: String,
    pub commit: String,
    pub repeats: u32,
    pub effective: u64,
    /// Repeats in which something was broken.
    pub violations: u32,
    pub seconds: u64,
    pub note: String,
}

/// A file of batches.
pub struct Table {
    path: PathBuf,
    batches: Vec<Batch>,
}

impl Table {
    /// Reads a table; one that isn't there is empty.
    ///
    /// # Errors
    /// [`Failed::Wrong`] with the line that is none of a table's, [`Failed::Io`].
    pub fn read(path: &Path) -> Outcome<Table> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            other => other.map_err(Failed::io(format!("reading {}", path.display())))?,
        };
        let wrong = |line: &str| {
            Failed::Wrong(format!("{}: this is no line of the table: {line:?}", path.display()))
        };
        let lines = text.lines().skip(1);
        let batches = lines.map(|line| Batch::parse(line).ok_or_else(|| wrong(line)));
        Ok(Table { path: path.to_path_buf(), batches: batches.collect::<Outcome<_>>()? })
    }

    /// Sums up what was tried of this row, with this scheduler, at this commit.
    pub fn known(&self, row: &str, scheduler: &str, commit: &str) -> Batch {
        self.sum(|b| b.row == row && b.scheduler == scheduler && b.commit == commit)
    }

    /// Sums up what was tried of this row with this scheduler.
    pub fn at_any_commit(&self, row: &str, scheduler: &str) -> Batch {
        self.sum(|b| b.row == row && b.scheduler == scheduler)
    }

    /// Sums up what was tried of this row with this scheduler since it was mended: after the last
    /// batch with a violation, unless that is the last of all.
    pub fn since_mended(&self, row: &str, scheduler: &str) -> Batch {
        let of_row = |b: &&Batch| b.row == row && b.scheduler == scheduler;
        let batches: Vec<&Batch> = self.batches.iter().filter(of_row).collect();
        let begun = batches.iter().rposition(|b| b.violations > 0).map_or(0, |last| last + 1);
        match &batches[begun..] {
            [] => self.at_any_commit(row, scheduler),
            since => sum(since.iter().copied()),
        }
    }

    /// Returns the batches with this scheduler in which something was broken.
    pub fn violated<'a>(&'a self, scheduler: &'a str) -> impl Iterator<Item = &'a Batch> {
        self.batches.iter().filter(move |b| b.scheduler == scheduler && b.violations > 0)
    }

    fn sum(&self, counts: impl Fn(&Batch) -> bool) -> Batch {
        sum(self.batches.iter().filter(|batch| counts(batch)))
    }

    /// Adds a batch, on disk too.
    ///
    /// # Errors
    /// [`Failed::Io`].
    pub fn append(&mut self, batch: Batch) -> Outcome {
        let failed = || Failed::io(format!("writing {}", self.path.display()));
        let mut file = File::options().create(true).append(true).open(&self.path);
        let file = file.as_mut().map_err(|error| failed()(std::io::Error::from(error.kind())))?;
        let is_new = file.metadata().map_err(failed())?.len() == 0;
        let header = if is_new { HEADER } else { "" };
        file.write_all(format!("{header}{}\n", batch.line()).as_bytes()).map_err(failed())?;
        self.batches.push(batch);
        Ok(())
    }
}

fn sum<'a>(batches: impl Iterator<Item = &'a Batch>) -> Batch {
    let mut sum = Batch::default();
    for batch in batches {
        sum.repeats += batch.repeats;
        sum.effective += batch.effective;
        sum.violations += batch.violations;
    }
    sum
}

impl Batch {
    fn parse(line: &str) -> Option<Batch> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [row, scheduler, commit, repeats, effective, violations, seconds, note] = fields[..]
        else {
            return None;
        };
        Some(Batch {
            row: row.to_owned(),
            scheduler: scheduler.to_owned(),
            commit: commit.to_owned(),
            repeats: repeats.parse().ok()?,
            effective: effective.parse().ok()?,
            violations: violations.parse().ok()?,
            seconds: seconds.parse().ok()?,
            note: note.to_owned(),
        })
    }

    fn line(&self) -> String {
        let Batch { row, scheduler, commit, repeats, effective, violations, seconds, note } = self;
        let note = note.replace(['\t', '\n'], " ");
        format!(
            "{row}\t{scheduler}\t{commit}\t{repeats}\t{effective}\t{violations}\t{seconds}\t{note}"
        )
    }
}

/// Returns the commit of the working tree, with `-dirty` if a tracked file differs from it.
///
/// # Errors
/// [`Failed::Io`] without git, [`Failed::Wrong`] outside of a repository.
pub fn commit() -> Outcome<String> {
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    // The table itself grows while a campaign runs.
    let tree = ["status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs/faults.tsv"];
    let dirty = if git(&tree)?.is_empty() { "" } else { "-dirty" };
    Ok(format!("{head}{dirty}"))
}

fn git(args: &[&str]) -> Outcome<String> {
    let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output();
    let output = output.map_err(Failed::io("running git"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(Failed::Wrong(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(commit: &str, effective: u64) -> Batch {
        let (row, scheduler) = ("F14".to_owned(), "berth".to_owned());
        let note = "one\nnote".to_owned();
        Batch { row, scheduler, commit: commit.to_owned(), effective, note, ..Batch::default() }
    }

    #[test]
    fn what_is_appended_is_read_and_summed_by_commit() {
        let path = std::env::temp_dir().join(format!("berth-table-{}.tsv", std::process::id()));
        let _ = fs::remove_file(&path);
        let mut table = Table::read(&path).expect("an empty table");
        for (commit, effective) in [("c", 3), ("d", 4), ("c", 5)] {
            table.append(batch(commit, effective)).expect("a line");
        }
        let read = Table::read(&path).expect("the table");
        assert_eq!((read.batches.len(), read.known("F14", "berth", "c").effective), (3, 8));
        assert_eq!(read.known("F14", "kube-scheduler", "c"), Batch::default());
        assert_eq!(read.batches[0].note, "one note");
        fs::write(&path, format!("{HEADER}F14\tberth\n")).expect("a file");
        assert!(Table::read(&path).is_err());
        fs::remove_file(&path).expect("cleaned up");
    }

    #[test]
    fn a_row_that_was_mended_is_counted_anew() {
        let with =
            |commit: &str, violations| Batch { repeats: 10, violations, ..batch(commit, 10) };
        let path = PathBuf::new();
        let mut table = Table { path, batches: vec![with("a", 0), with("b", 1)] };
        let since = |table: &Table| {
            let sum = table.since_mended("F14", "berth");
            (sum.repeats, sum.violations)
        };
        assert_eq!(since(&table), (20, 1), "not mended, for all that is known");
        table.batches.extend([with("c", 0), with("d", 0)]);
        assert_eq!(since(&table), (20, 0));
        assert_eq!(table.violated("berth").map(|b| &*b.commit).collect::<Vec<_>>(), ["b"]);
    }
}
