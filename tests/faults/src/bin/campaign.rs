//! Plays rows of faults on the real control plane, and writes down what came of them.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_faults::campaign::{Campaign, Count, Tally, rows};
use berth_faults::planted::convict;
use berth_faults::report::page;
use berth_faults::scheduler::Program;
use berth_faults::table::Table;
use berth_faults::{Failed, Outcome};
use berth_stand::{StandError, with_sources};
use clap::Parser;

/// Faults on the real control plane: how often they took effect, and what they broke.
#[derive(Parser)]
struct Cli {
    /// Rows, such as F14,F15; all of them if this is not given
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Repeats a row, each with an effective injection, with those that the table has at this commit; 10 of a slow row
    #[arg(long, default_value_t = 30)]
    count: u64,
    #[arg(long, value_enum, default_value = "berth")]
    scheduler: Program,
    /// The table that is read and added to
    #[arg(long)]
    out: Option<PathBuf>,
    /// CI's share: 3 repeats a row, 1 of one that takes long, and nothing written down
    #[arg(long, conflicts_with_all = ["count", "out"])]
    share: bool,
    /// Convict this Berth, which was built with the feature planted-bugs, of the bugs in it; with
    /// --share of those that are found in seconds
    #[arg(long, value_name = "BERTH", conflicts_with_all = ["rows", "scheduler"])]
    planted: Option<PathBuf>,
    /// Print the table --out as the page docs/faults.md, and play nothing
    #[arg(long, requires = "out", conflicts_with_all = ["rows", "scheduler", "count"])]
    page: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let (true, Some(out)) = (cli.page, &cli.out) {
        return match Table::read(out) {
            Ok(table) => {
                print!("{}", page(&table));
                ExitCode::SUCCESS
            }
            Err(failed) => ended(&failed),
        };
    }
    match run(cli) {
        Ok(tally) => {
            println!("{} passed, {} failed", tally.passed, tally.failed);
            match tally.failed {
                0 => ExitCode::SUCCESS,
                _ => ExitCode::FAILURE,
            }
        }
        Err(Failed::Stand(error @ StandError::NoGo)) => {
            println!("skipped: {error}");
            ExitCode::SUCCESS
        }
        Err(failed) => ended(&failed),
    }
}

fn ended(failed: &Failed) -> ExitCode {
    eprintln!("campaign: {}", with_sources(failed));
    ExitCode::FAILURE
}

fn run(cli: Cli) -> Outcome<Tally> {
    // Once, so that a machine without the programs is told so instead of failing row by row.
    berth_stand::Binaries::locate()?;
    if let Some(berth) = &cli.planted {
        return convict(berth, |planted| !cli.share || planted.share);
    }
    let count = if cli.share { Count::Share } else { Count::Injections(cli.count) };
    Campaign { rows: rows(&cli.rows)?, program: cli.scheduler, count, out: cli.out }.run()
}
