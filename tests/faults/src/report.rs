//! The campaign's table as a page for people: docs/faults.md.

use std::fmt::Write;

use crate::planted::PLANTED;
use crate::rows::{ROWS, Row};
use crate::scheduler::Program;
use crate::table::{Batch, Table};

const HEAD: &str = "\
# Faults on the real control plane

Each row is a fault that a proxy, a signal or a write from the side makes on a real etcd and kube-apiserver 1.37.2, again and again, while Berth schedules.
`make campaign` plays them all; `make campaign ROWS=F14,F15 COUNT=30` some. A repeat counts only if the fault took effect: for F14 the server has committed *and* the
client got no answer. After each repeat everything must be bound or have a reason, the ledger must equal the server (SIGUSR2), nothing may have been listed without a
410, and the auditor (`audit/`), which reads etcd's history and the server's audit log and shares no code with Berth, must find no violation at any revision.

*Repeats* and *effective* sum up docs/faults.tsv over all commits there; *violated* are repeats in which something was broken. What the campaign found broken in Berth is told below the table; once it
was mended the row is counted anew. Where n repeats show no violation, the
chance of one is below 3/n with 95 % confidence. The numbers of the rows are those of Berth's fault matrix; numbers that are missing belong to parts that Berth does
not have yet, or are played in the simulator (`make seeds`).

";

/// What else the campaign is for.
fn foot() -> String {
    let (bugs, by_auditor) = (PLANTED.len(), PLANTED.iter().filter(|bug| bug.by_auditor).count());
    format!(
        "
The same campaign convicts the real kube-scheduler 1.37.2 (`SCHEDULER=kube-scheduler`), and {bugs} bugs that were planted in Berth, each in a row of this
table (`make planted-live SHARE=`; their list is `tests/faults/src/planted.rs`). {by_auditor} of them must be convicted by the auditor, which knows nothing but etcd's history,
the server's audit log and what the proxy saw; of the others it is enough that what the row expects does not happen.
"
    )
}

/// Returns the page.
pub fn page(table: &Table) -> String {
    let mut page = HEAD.to_owned();
    let programs = [Program::Berth, Program::KubeScheduler];
    page += "| row | fault | must | Berth: repeats, effective, violated | kube-scheduler |\n";
    page += "|---|---|---|---|---|\n";
    for row in ROWS {
        let [ours, theirs] = programs.map(|program| tried(table, row, program));
        // Writing to a string does not fail.
        let _ = writeln!(page, "| {} | {} | {} | {ours} | {theirs} |", row.id, row.title, row.must);
    }
    page + &found(table) + &foot()
}

/// Tells what the campaign has found broken in Berth.
fn found(table: &Table) -> String {
    let line = |batch: &Batch| {
        let Batch { row, commit, repeats, violations, note, .. } = batch;
        format!("* {row} at {commit}: {violations} of {repeats}. {note}\n")
    };
    let lines: String = table.violated(Program::Berth.name()).map(line).collect();
    if lines.is_empty() { lines } else { format!("\nFound in Berth, and mended since:\n\n{lines}") }
}

fn tried(table: &Table, row: &Row, program: Program) -> String {
    let sum = match program {
        Program::Berth => table.since_mended(row.id, program.name()),
        Program::KubeScheduler => table.at_any_commit(row.id, program.name()),
    };
    match sum.repeats {
        0 => "–".to_owned(),
        repeats => format!("{repeats}, {}, **{}**", sum.effective, sum.violations),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_in_docs_is_that_of_the_table() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let table = Table::read(&docs.join("faults.tsv")).expect("the table");
        let written = fs::read_to_string(docs.join("faults.md")).expect("docs/faults.md");
        assert!(written == page(&table), "docs/faults.md is old: make faults-page");
    }
}
