//! How well pods are placed: the engine itself on the openb trace, beside other policies.
//!
//! Every run is one line of a table; runs that the table has of this commit are not played again.
#![forbid(unsafe_code)]

mod fill;
mod policy;
mod stage;
mod trace;

use std::path::PathBuf;

use clap::Parser;

use fill::{Run, fill};
use policy::{Options, Policy};
use trace::Traces;

#[derive(Parser)]
struct Cli {
    #[arg(long, default_value = "../shared/traces")]
    traces: PathBuf,
    #[arg(long, value_delimiter = ',', default_value = "default")]
    workloads: Vec<String>,
    #[arg(long, value_delimiter = ',', default_value = "most,fgd,berth")]
    policies: Vec<String>,
    #[arg(long, default_value = "42-51")]
    seeds: String,
    /// Berth is told the true mix.
    #[arg(long)]
    prior: bool,
    #[arg(long)]
    room_for_named: bool,
    #[arg(long)]
    half_life: Option<i64>,
}

fn main() -> Result<(), String> {
    let cli = Cli::parse();
    let traces = Traces::at(&cli.traces);
    let nodes = traces.nodes()?;
    let (from, to) = cli.seeds.split_once('-').unwrap_or((&cli.seeds, &cli.seeds));
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("--seeds: {e}"));
    let options = Options { room_for_named: cli.room_for_named, half_life: cli.half_life };
    for workload in &cli.workloads {
        let pods = traces.pods(workload)?;
        for policy in &cli.policies {
            let policy: Policy = policy.parse()?;
            for seed in number(from)?..=number(to)? {
                let run =
                    Run { nodes: &nodes, pods: &pods, policy, prior: cli.prior, options: &options, seed };
                let f = fill(&run);
                println!("{workload}\t{}\t{seed}\t{f:?}", policy.name());
            }
        }
    }
    Ok(())
}
