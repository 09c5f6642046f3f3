//! Berth, a bare client and kube-scheduler 1.37 side by side on a real control plane.
//!
//! Each contender of each round has a fresh etcd and kube-apiserver, onto which the same objects
//! are put before it starts. Contenders alternate, so that a machine that gets slower or faster
//! does so for all, and what is compared is the median of each round's ratio to that round's
//! ceiling: a client that does nothing but send the binds.
//!
//! Reading order: [`load`], [`devices`], [`partitions`], [`client`], [`ceiling`], [`contender`], [`sight`], [`measure`],
//! [`record`], [`table`].

mod ceiling;
mod client;
mod contender;
mod devices;
mod gangs;
mod load;
mod measure;
mod partitions;
mod record;
mod sight;
mod table;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

use contender::Contender;
use load::Load;
use measure::Bench;
use record::{Records, Row};

/// What goes wrong here ends the run with its text.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T> = Result<T, Error>;

/// Measures the write path on a real control plane.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
    #[command(subcommand)]
    command: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// The bare client, which the harness starts as a process of its own
    #[command(hide = true)]
    Ceiling(ceiling::Args),
}

#[derive(clap::Args)]
struct BenchArgs {
    /// The binary that is measured
    #[arg(long, default_value = "target/release/berth")]
    berth: PathBuf,
    /// Loads, separated by commas; smoke and smoke-paced are only for trying this out
    #[arg(long, value_delimiter = ',', default_value = load::DEFAULT)]
    loads: Vec<String>,
    /// How often everybody has a turn
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Only these contenders, separated by commas; the ceiling is always one of them
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where finished rounds are added, and looked up
    #[arg(long, default_value = "docs/bench-live.tsv")]
    tsv: PathBuf,
    /// What the rounds are filed under [default: the commit, with + if files differ from it]
    #[arg(long)]
    commit: Option<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Some(Part::Ceiling(args)) => ceiling::run(&args),
        None => bench(&cli.bench),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-live: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &BenchArgs) -> Outcome<()> {
    let loads: Vec<Load> =
        args.loads.iter().map(|name| load::named(name)).collect::<Outcome<_>>()?;
    let berth = args.berth.canonicalize().map_err(|e| format!("{}: {e}", args.berth.display()))?;
    let commit = args.commit.clone().unwrap_or_else(commit);
    let mut records = Records::open(&args.tsv, &commit)?;
    let bench = Bench { runtime: Runtime::new()?, berth };
    for load in &loads {
        for round in 1..=args.rounds {
            if records.has(load.name, round) {
                eprintln!("{} round {round}: done before", load.name);
                continue;
            }
            let rows = play(&bench, load, round, &args.only)?;
            records.add(load.name, round, rows)?;
        }
        println!("{}", table::of(load, &records.rows(load.name, args.rounds)));
    }
    Ok(())
}

/// Gives every contender its turn.
fn play(bench: &Bench, load: &Load, round: u32, only: &[String]) -> Outcome<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for contender in load.contenders {
        let wanted = only.is_empty() || only.iter().any(|name| name == contender.name());
        if !wanted && *contender != Contender::Ceiling {
            continue;
        }
        let Some(row) = bench.turn(load, *contender)? else {
            eprintln!("{} left out: its binary is missing", contender.name());
            continue;
        };
        eprintln!("{} round {round}: {}", load.name, row.brief());
        rows.push(row);
    }
    let ceiling = rows.iter().find(|row| row.contender == Contender::Ceiling.name());
    let rate = ceiling.and_then(|row| row.binds_per_s);
    for row in &mut rows {
        row.of_ceiling = row.binds_per_s.zip(rate).map(|(own, ceiling)| own / ceiling);
    }
    Ok(rows)
}

/// Returns the commit's short name. Where files differ from it a `+` follows, and nothing that was
/// measured before is taken for the same.
fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown+".to_owned() };
    // What is measured is added to docs, which must not make it another commit.
    let changed = git(&["status", "--porcelain", "--", ".", ":!docs"]);
    match changed.is_some_and(|files| files.is_empty()) {
        true => commit,
        false => commit + "+",
    }
}
