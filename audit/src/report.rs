//! What an audit found.

use std::fmt;

/// The verdict over a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Revisions of etcd that were read.
    pub revisions: u64,
    /// Binds of the replicas, and those that nobody can be named for.
    pub binds: u64,
    /// Binds by others; they are not judged.
    pub foreign_binds: u64,
    /// Times that a claim was allocated to, by the replicas or by nobody that can be named.
    pub allocations: u64,
    /// The same by others; they are not judged.
    pub foreign_allocations: u64,
    pub violations: Vec<Violation>,
    /// Evidence that is missing: without these a clean report would mean more.
    pub problems: Vec<String>,
    /// Values of etcd and lines of the audit log that could not be read.
    pub skipped: u64,
    /// What was left out for a good reason.
    pub notes: Vec<String>,
}

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    /// The revision at which it shows, if it shows at one.
    pub revision: Option<i64>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// No device is given beyond what there is of it.
    I1,
    /// No bind makes a node overfull.
    I2,
    /// One target a pod, until that is known to have failed.
    I3,
    /// No gang stays half bound.
    I4,
    /// No pod is lost: bound, or told why not.
    I5,
    /// Nothing is sent without the Lease.
    I9,
    /// Nothing is kept for what is gone, and nobody is bound without the claims that he uses.
    I12,
    /// No device is given of which it isn't known for sure that it may be.
    I14,
}

impl Report {
    /// Whether nothing was broken and all evidence was there.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.problems.is_empty()
    }

    /// Returns the violations of one invariant.
    pub fn of(&self, invariant: Invariant) -> Vec<&Violation> {
        self.violations.iter().filter(|violation| violation.invariant == invariant).collect()
    }

    pub(crate) fn convict(
        &mut self,
        invariant: Invariant,
        revision: impl Into<Option<i64>>,
        text: String,
    ) {
        self.violations.push(Violation { invariant, revision: revision.into(), text });
    }
}

/// One line a violation, problem and note, and one for the numbers.
impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(formatter, "{violation}")?;
        }
        for problem in &self.problems {
            writeln!(formatter, "problem: {problem}")?;
        }
        for note in &self.notes {
            writeln!(formatter, "note: {note}")?;
        }
        writeln!(
            formatter,
            "{} violations in {} revisions, {} binds, {} foreign binds; {} allocations, {} foreign \
             allocations; {} values or lines skipped",
            self.violations.len(),
            self.revisions,
            self.binds,
            self.foreign_binds,
            self.allocations,
            self.foreign_allocations,
            self.skipped
        )
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, revision, text } = self;
        match revision {
            Some(revision) => write!(formatter, "{invariant:?} at revision {revision}: {text}"),
            None => write!(formatter, "{invariant:?}: {text}"),
        }
    }
}
