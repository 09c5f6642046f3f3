//! The command line: what is asked for, and the exit code.
//!
//! 0 done; 1 failed, or `config check` found errors; 2 not even begun: a wrong command line or
//! configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::info;

use crate::config::{self, CheckReport};
use crate::flags::{self, ConfigFile, Flags, Options, misc};
use crate::live::client::Target;
use crate::live::lease::Election;
use crate::observe::metrics::Metrics;
use crate::observe::serve::Serving;
use crate::{assemble, live, logging, simulate};

const NOT_BEGUN: u8 = 2;

#[derive(Parser)]
#[command(
    name = "berth",
    about = "A standalone replacement for kube-scheduler on GPU clusters",
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Box<Flags>,
}

#[derive(Subcommand)]
enum Command {
    /// Schedule pods on a cluster (also without a subcommand)
    #[command(args_override_self = true)]
    Run(Box<Flags>),
    /// Show what would be scheduled where, from files and without a cluster
    Simulate(simulate::Args),
    /// Look at configuration files
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the version
    Version,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Tell everything that is wrong with a configuration file, without a cluster
    Check { file: PathBuf },
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(flags::with_dashes(std::env::args_os()));
    match cli.command {
        None => run(&cli.run),
        Some(Command::Run(flags)) => run(&flags),
        Some(Command::Simulate(args)) => simulate::command(&args),
        Some(Command::Config(ConfigCommand::Check { file })) => check(&file),
        Some(Command::Version) => {
            println!("{}", misc::version());
            ExitCode::SUCCESS
        }
    }
}

fn check(file: &Path) -> ExitCode {
    let label = file.display().to_string();
    let report = match fs::read_to_string(file) {
        Ok(text) => config::check(&label, &text, &assemble::refusals),
        Err(error) => CheckReport::unreadable(&label, &error),
    };
    print!("{report}");
    ExitCode::from(report.exit_code)
}

fn run(flags: &Flags) -> ExitCode {
    match flags.misc.version_text() {
        Ok(Some(text)) => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(None) => {}
        Err(problem) => return failed(&problem, ExitCode::from(NOT_BEGUN)),
    }
    let prepared = options(flags).and_then(|options| prepare(&options));
    match prepared {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(run)) => match live::run(run) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => failed(&problem.to_string(), ExitCode::FAILURE),
        },
        Err(problem) => failed(&problem, ExitCode::from(NOT_BEGUN)),
    }
}

fn failed(problem: &str, code: ExitCode) -> ExitCode {
    eprintln!("error: {problem}");
    code
}

/// Reads flags and configuration file, begins to log, and tells which flags do nothing.
fn options(flags: &Flags) -> Result<Options, String> {
    let path = flags.misc.config.as_deref().filter(|path| !path.as_os_str().is_empty());
    let file = path.map(read_config).transpose()?;
    let options = Options::resolve(flags, file.as_ref())?;
    logging::start(&options.logs);
    for note in &options.notes {
        tracing::warn!("{note}");
    }
    // From level 2 on, as upstream.
    if options.logs.verbosity >= 2 {
        let config = config::completed(&options.configuration);
        info!(%config, "using this configuration");
    }
    Ok(options)
}

fn read_config(path: &Path) -> Result<ConfigFile, String> {
    let label = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| format!("{label}: {error}"))?;
    Ok(ConfigFile { label, text })
}

/// Builds what is run; `None` if the configuration was only to be written.
///
/// # Errors
/// One line that says what is wrong.
fn prepare(options: &Options) -> Result<Option<live::Run>, String> {
    let configuration = &options.configuration;
    let (profiles, mut setup) = assemble::assemble(configuration, seed()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("configuration: {}", lines.join("; "))
    })?;
    if let Some(path) = &options.write_config_to {
        write_config(options, path)?;
        return Ok(None);
    }
    setup.limits.leftover = options.leftover;
    Ok(Some(live::Run {
        profiles,
        setup,
        connection: configuration.client_connection.clone(),
        target: target(options),
        election: election(options)?,
        comparison_tolerations: options.gates.enabled("TaintTolerationComparisonOperators"),
        metrics: metrics(options),
        serve: Serving::of_flags(options),
    }))
}

fn write_config(options: &Options, path: &Path) -> Result<(), String> {
    let label = path.display();
    let completed = config::completed(&options.configuration);
    let text = serde_saphyr::to_string(&completed).map_err(|error| format!("{label}: {error}"))?;
    fs::write(path, text).map_err(|error| format!("{label}: {error}"))?;
    info!(file = %label, "wrote the configuration");
    Ok(())
}

fn metrics(options: &Options) -> Metrics {
    let metrics = Metrics::default();
    metrics.disable(options.metrics.disabled.iter().cloned());
    let gates = options.gates.iter();
    metrics.set_features(gates.map(|(gate, on)| (gate.name, gate.stage.label(), on)));
    metrics
}

/// Returns what is run for, if anything.
fn election(options: &Options) -> Result<Option<Election>, String> {
    let configuration = &options.configuration;
    if !configuration.leader_election.leader_elect {
        return Ok(None);
    }
    let delay = configuration.delay_cache_until_active;
    let election = Election::new(&configuration.leader_election, delay);
    election.map(Some).map_err(|problem| format!("no identity for leader election: {problem}"))
}

fn target(options: &Options) -> Target {
    let kubeconfig = PathBuf::from(&options.configuration.client_connection.kubeconfig);
    Target {
        kubeconfig: Some(kubeconfig).filter(|path| !path.as_os_str().is_empty()),
        master: options.master.clone(),
    }
}

/// Ties between equal nodes are broken differently in each process.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
