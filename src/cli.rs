//! The command line: what is asked for, and the exit code.
//!
//! 0 done; 1 failed, or `config check` found errors; 2 not even begun: a wrong command line or
//! configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::config::{self, CheckReport, Configuration};
use crate::live::client::Target;
use crate::{assemble, live, simulate};

const NOT_BEGUN: u8 = 2;

#[derive(Parser)]
#[command(
    name = "berth",
    version,
    about = "A standalone replacement for kube-scheduler on GPU clusters",
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Schedule pods on a cluster (also without a subcommand)
    Run(RunArgs),
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

/// Flags of `berth run`; names and meaning are kube-scheduler's.
#[derive(Args)]
struct RunArgs {
    /// A KubeSchedulerConfiguration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How to reach the cluster, unless the configuration file says it; without either, this
    /// pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The API server's address; overrides the kubeconfig's
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// Overrides leaderElection.leaderElect of the configuration file
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = ArgAction::Set
    )]
    leader_elect: Option<bool>,
    /// Only 0 (off) is supported yet
    #[arg(long, value_name = "PORT", default_value_t = 0, hide = true)]
    secure_port: u16,
    /// How much is logged: 0 what an operator needs, 2 each pod, 5 each request
    #[arg(short, long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => run(cli.run),
        Some(Command::Run(args)) => run(args),
        Some(Command::Simulate(args)) => simulate::command(&args),
        Some(Command::Config(ConfigCommand::Check { file })) => check(&file),
        Some(Command::Version) => {
            println!("berth {}", env!("CARGO_PKG_VERSION"));
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

fn run(args: RunArgs) -> ExitCode {
    log_to_stderr(args.verbosity);
    let run = match prepare(&args) {
        Ok(run) => run,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(NOT_BEGUN);
        }
    };
    match live::run(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the configuration and builds what is run.
///
/// # Errors
/// One line that says what is wrong.
fn prepare(args: &RunArgs) -> Result<live::Run, String> {
    let configuration = load(args.config.as_deref())?;
    let elect = args.leader_elect.unwrap_or(configuration.leader_election.leader_elect);
    if elect {
        return Err("leader election is not supported yet: run one instance only, with \
                    --leader-elect=false or leaderElection.leaderElect: false"
            .to_owned());
    }
    if args.secure_port != 0 {
        return Err("--secure-port is not supported yet: nothing is served".to_owned());
    }
    let label = args.config.as_deref().map(|path| path.display().to_string());
    let (profiles, setup) = assemble::assemble(&configuration, seed()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("{}: {}", label.unwrap_or_default(), lines.join("; "))
    })?;
    let target = target(args, &configuration);
    let connection = configuration.client_connection;
    Ok(live::Run { profiles, setup, connection, target })
}

fn load(file: Option<&Path>) -> Result<Configuration, String> {
    let Some(file) = file else { return Ok(Configuration::defaults(false)) };
    let label = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{label}: {error}"))?;
    config::load(&text, false).map_err(|error| format!("{label}: {error}"))
}

/// The configuration file's kubeconfig counts before the flag, as with kube-scheduler, which
/// ignores the flag where there is a file.
fn target(args: &RunArgs, configuration: &Configuration) -> Target {
    let in_file = &configuration.client_connection.kubeconfig;
    let kubeconfig = if in_file.is_empty() {
        args.kubeconfig.clone()
    } else {
        if args.kubeconfig.is_some() {
            tracing::warn!("--kubeconfig is ignored: clientConnection.kubeconfig is set");
        }
        Some(PathBuf::from(in_file))
    };
    let named = |master: &String| !master.is_empty();
    Target {
        kubeconfig: kubeconfig.filter(|path| !path.as_os_str().is_empty()),
        master: args.master.clone().filter(named),
    }
}

/// Ties between equal nodes are broken differently in each process.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn log_to_stderr(verbosity: u8) {
    let level = match verbosity {
        0 | 1 => "info",
        2..=4 => "debug",
        5.. => "trace",
    };
    let filter = EnvFilter::new(format!("warn,berth={level}"));
    // Fails only if a logger was set before, which then serves as well.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}
