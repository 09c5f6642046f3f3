//! How well pods are placed: the engine itself on the openb trace, beside other policies.
//!
//! Every run is one line of a table; runs that the table has of this commit are not played again.
#![forbid(unsafe_code)]

mod churn;
mod fill;
mod mig;
#[cfg(test)]
mod order;
mod policy;
mod record;
mod stage;
mod table;
mod trace;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;

use churn::{Churn, Lifetimes, churn};
use fill::{Run, fill};
use policy::{Options, Policy};
use record::{Figures, Key, Record};
use trace::{SIZE_CLASSES, Traces, WORKLOADS};

/// Plays the public traces through the engine with several policies.
#[derive(Parser)]
struct Cli {
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    /// Files of the trace; `name/round` and `name/drop` have whole GPUs only. `mig-1` to `mig-5` are
    /// mixes of partitions on nodes of their own. None: all that have published results.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// None: all.
    #[arg(long, value_delimiter = ',')]
    policies: Vec<String>,
    #[arg(long, default_value = "42-51")]
    seeds: String,
    /// Pods come and go at this load, in percent, instead of filling the cluster once.
    #[arg(long)]
    churn: Option<i64>,
    /// With `--churn`: pods stay as long as the trace says.
    #[arg(long)]
    trace_lifetimes: bool,
    /// With `--churn`: how long, in mean lifetimes; the second half is measured.
    #[arg(long, default_value_t = 24.0)]
    lifetimes: f64,
    /// Berth is told the true mix.
    #[arg(long)]
    prior: bool,
    #[arg(long)]
    room_for_named: bool,
    #[arg(long)]
    half_life: Option<i64>,
    #[arg(long)]
    solve_every: Option<i64>,
    #[arg(long, default_value = "docs/bench-quality.tsv")]
    out: PathBuf,
    /// What the runs are of; none: the commit that is checked out.
    #[arg(long)]
    commit: Option<String>,
    /// Plays nothing, prints what the table has.
    #[arg(long)]
    table: bool,
}

fn main() -> Result<(), String> {
    let cli = Cli::parse();
    let traces = Traces::at(&cli.traces);
    let commit = match &cli.commit {
        Some(commit) => commit.clone(),
        None => checked_out()?,
    };
    if !cli.table {
        play(&cli, &traces, &commit)?;
    }
    table::print(record::read(&cli.out)?, &commit, &traces);
    Ok(())
}

fn play(cli: &Cli, traces: &Traces, commit: &str) -> Result<(), String> {
    let openb = traces.nodes()?;
    let mut record = Record::at(Path::new(&cli.out))?;
    let options = Options {
        room_for_named: cli.room_for_named,
        half_life: cli.half_life,
        solve_every: cli.solve_every,
    };
    let all = WORKLOADS.map(str::to_owned).to_vec();
    let workloads = if cli.workloads.is_empty() { &all } else { &cli.workloads };
    for workload in workloads {
        let (nodes, pods) = match workload.strip_prefix("mig-") {
            Some(mix) => (mig::nodes(), mig::pods(mix)?),
            None => (openb.clone(), traces.pods(workload)?),
        };
        for policy in policies(cli)? {
            for seed in seeds(&cli.seeds)? {
                let key = Key {
                    commit: commit.to_owned(),
                    kind: kind(cli),
                    workload: workload.clone(),
                    policy: policy.name().to_owned() + &told(cli, policy),
                    seed,
                };
                if record.has(&key) {
                    continue;
                }
                let prior = cli.prior && policy == Policy::Berth;
                let (nodes, pods, options) = (&nodes[..], &pods[..], &options);
                let run = Run { nodes, pods, policy, prior, options, seed };
                let figures = figures(cli, &run);
                record.add(&key, &figures)?;
                eprintln!("{} {workload} {} {seed}: {figures:.2?}", key.kind, key.policy);
            }
        }
    }
    Ok(())
}

fn kind(cli: &Cli) -> String {
    match cli.churn {
        None => "fill".to_owned(),
        Some(load) if cli.trace_lifetimes => format!("churn-{load}-trace-{}", cli.lifetimes),
        Some(load) => format!("churn-{load}-exp-{}", cli.lifetimes),
    }
}

/// What Berth was told, as a part of its name.
fn told(cli: &Cli, policy: Policy) -> String {
    let parts = [
        (cli.prior, "+prior".to_owned()),
        (cli.room_for_named, "+room".to_owned()),
        (cli.half_life.is_some(), format!("+half-life-{}", cli.half_life.unwrap_or(0))),
        (cli.solve_every.is_some(), format!("+solve-every-{}", cli.solve_every.unwrap_or(0))),
    ];
    let berth = policy == Policy::Berth;
    parts.into_iter().filter(|(on, _)| *on && berth).map(|(_, name)| name).collect()
}

fn figures(cli: &Cli, run: &Run<'_>) -> Figures {
    let refused = |of: [f64; SIZE_CLASSES.len()]| REFUSED.into_iter().zip(of);
    let Some(load) = cli.churn else {
        let filled = fill(run);
        let [w50, w70, w85] = filled.whole_nodes.map(|n| n as f64);
        let [r50, r70, r85] = filled.roomy_nodes.map(|n| n as f64);
        let mut figures: Figures = vec![
            ("unallocated", filled.unallocated),
            ("whole50", w50),
            ("whole70", w70),
            ("whole85", w85),
            ("roomy50", r50),
            ("roomy70", r70),
            ("roomy85", r85),
            ("first_refusal", filled.first_refusal),
            ("us", filled.micros),
            ("us_placed", filled.micros_placed),
        ];
        figures.extend(refused(filled.refused));
        return figures;
    };
    let lifetimes = if cli.trace_lifetimes { Lifetimes::Trace } else { Lifetimes::Exponential };
    let (length, measured) = (cli.lifetimes, cli.lifetimes / 2.0);
    let churned = churn(run, &Churn { load, lifetimes, length, measured });
    let mut figures: Figures = vec![
        ("allocated", churned.allocated),
        ("whole", churned.whole_nodes),
        ("roomy", churned.roomy_nodes),
        ("n8", churned.n_eight as f64),
        ("us", churned.micros),
    ];
    figures.extend(refused(churned.refused));
    figures
}

/// In the order of the sizes.
const REFUSED: [&str; SIZE_CLASSES.len()] =
    ["refused_cpu", "refused_frac", "refused_1", "refused_2", "refused_4", "refused_8"];

fn policies(cli: &Cli) -> Result<Vec<Policy>, String> {
    match cli.policies.is_empty() {
        true => Ok(Policy::ALL.to_vec()),
        false => cli.policies.iter().map(|name| name.parse()).collect(),
    }
}

fn seeds(text: &str) -> Result<std::ops::RangeInclusive<u64>, String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|e| format!("--seeds {text}: {e}"));
    Ok(number(from)?..=number(to)?)
}

/// Returns the commit that is checked out, with a mark if something differs from it.
fn checked_out() -> Result<String, String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output();
        let output = output.map_err(|e| format!("git can't be run: {e}"))?;
        Ok::<String, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let code = ["core", "plugins", "sim", "benches/quality/src"];
    let differs = !git(&[&["status", "--porcelain", "--"][..], &code].concat())?.is_empty();
    Ok(commit + if differs { "+" } else { "" })
}
