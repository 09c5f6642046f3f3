//! Builds the control plane, or runs one until it is told to stop.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Sender, channel};

use berth_stand::{ADMIN, Authorization, Binaries, Options, Stand, with_sources};
use clap::{Args, Parser};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The real etcd, kube-apiserver and kube-scheduler on loopback.
#[derive(Parser)]
enum Cli {
    /// Build the programs and print where they are.
    Build,
    /// Run etcd and kube-apiserver until SIGINT or SIGTERM.
    Run(Run),
    /// Run a command with KUBECONFIG set to a control plane of its own; its exit code is ours.
    Exec(Exec),
}

#[derive(Args)]
struct Exec {
    #[command(flatten)]
    server: Server,
    /// Create the roles in this folder's YAML files, and fail if the server refuses --as anything
    #[arg(long, value_name = "DIR", requires = "user")]
    rbac_manifests: Option<PathBuf>,
    /// The service account whose kubeconfig the command finds in KUBECONFIG_AS, such as
    /// system:serviceaccount:NAMESPACE:NAME
    #[arg(long = "as", value_name = "USER", requires = "rbac_manifests")]
    user: Option<String>,
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct Server {
    /// Feature gates of the server, such as A=true,B=false
    #[arg(long, default_value = "")]
    feature_gates: String,
    /// API groups of the server, such as api/all=true
    #[arg(long, default_value = "")]
    runtime_config: String,
    /// Serve all API groups, with the gates that the scenario files need
    #[arg(long, conflicts_with_all = ["feature_gates", "runtime_config"])]
    all_groups: bool,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    server: Server,
    /// Also stop when stdin is closed
    #[arg(long)]
    until_stdin_closes: bool,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse() {
        Cli::Build => build().map(|()| ExitCode::SUCCESS),
        Cli::Run(args) => run(&args).map(|()| ExitCode::SUCCESS),
        Cli::Exec(args) => exec(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stand: {}", with_sources(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let binaries = Binaries::locate()?;
    let Binaries { etcd, kube_apiserver, kube_scheduler, kubectl } = binaries;
    let paths = [etcd, kube_apiserver, kube_scheduler, kubectl];
    for path in paths.iter().filter(|path| path.is_file()) {
        println!("{}", path.display());
    }
    Ok(())
}

fn run(args: &Run) -> Result<(), Box<dyn Error>> {
    let (stop, stopped) = channel();
    // Before the start: a signal in the middle of it is then heard at its end, and nothing is left
    // behind.
    stop_on_signal(stop.clone())?;
    let stand = Stand::start(&options(&args.server))?;
    if args.until_stdin_closes {
        stop_on_closed_stdin(stop);
    }
    println!("# {} is ready; etcd is at {}", stand.url(), stand.etcd_url());
    println!("export KUBECONFIG={}", stand.kubeconfig_path(ADMIN)?.display());
    println!(
        "# kubectl and berth find the server with this; logs are beside the file. Ctrl-C ends it."
    );
    stopped.recv()?;
    stand.stop();
    Ok(())
}

fn exec(args: &Exec) -> Result<ExitCode, Box<dyn Error>> {
    let mut options = options(&args.server);
    let restricted = args.rbac_manifests.as_ref().zip(args.user.as_deref());
    if restricted.is_some() {
        (options.authorization, options.audit_log) = (Authorization::Rbac, true);
    }
    let stand = Stand::start(&options)?;
    let Some((program, rest)) = args.command.split_first() else { return Ok(ExitCode::FAILURE) };
    let mut command = Command::new(program);
    command.args(rest).env("KUBECONFIG", stand.kubeconfig_path(ADMIN)?);
    if let Some((folder, user)) = restricted {
        stand.grant_rights(folder)?;
        command.env("KUBECONFIG_AS", stand.service_account_kubeconfig(user)?);
    }
    let status = command.status().map_err(|error| format!("{program} can't be run: {error}"))?;
    if let Some((_, user)) = restricted {
        tell_refusals(&stand, user)?;
    }
    stand.stop();
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Fails if the user was refused anything, or has never asked.
fn tell_refusals(stand: &Stand, user: &str) -> Result<(), Box<dyn Error>> {
    let requests = stand.requests_of(user)?;
    let refused = requests.iter().filter(|request| request.status == 403);
    let refused: BTreeSet<String> = refused.map(ToString::to_string).collect();
    match (requests.len(), refused.len()) {
        (0, _) => Err(format!("{user} has asked the server for nothing").into()),
        (asked, 0) => {
            eprintln!("stand: {asked} requests of {user}, none refused");
            Ok(())
        }
        _ => {
            let lines: Vec<String> = refused.into_iter().collect();
            Err(format!("{user} was refused:\n  {}", lines.join("\n  ")).into())
        }
    }
}

fn options(args: &Server) -> Options {
    match args.all_groups {
        true => Options::all_groups(),
        false => Options {
            feature_gates: args.feature_gates.clone(),
            runtime_config: args.runtime_config.clone(),
            ..Options::default()
        },
    }
}

fn stop_on_signal(stop: Sender<()>) -> Result<(), std::io::Error> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        signals.forever().next();
        // Nobody listens only if we are ending already.
        let _ = stop.send(());
    });
    Ok(())
}

fn stop_on_closed_stdin(stop: Sender<()>) {
    std::thread::spawn(move || {
        // An unreadable stdin is as good as a closed one.
        let _ = stdin().read_to_end(&mut Vec::new());
        let _ = stop.send(());
    });
}
