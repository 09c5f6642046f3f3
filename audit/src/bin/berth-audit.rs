//! Follows a control plane until it is told to stop, and prints the verdict.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_audit::{AuditError, Auditor, LeaseRule, Replica, Report, Sources};
use clap::Parser;

/// Between two looks at how far the history was read.
const PERIOD: Duration = Duration::from_millis(100);

/// Judges from etcd's history and the API server's audit log what a scheduler did. etcd must hold
/// JSON (--storage-media-type=application/json) and all revisions. Exit code 1: something was
/// broken, or evidence is missing.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Plain HTTP address of etcd
    #[arg(long, value_name = "URL")]
    etcd: String,
    /// The API server's audit log, level Metadata
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// A user that is judged, as the audit log names it; once for each replica
    #[arg(long = "replica", value_name = "USER")]
    replicas: Vec<String>,
    /// A scheduler name whose pods must not be lost
    #[arg(long = "scheduler-name", value_name = "NAME", default_value = "default-scheduler")]
    scheduler_names: Vec<String>,
    /// The Lease that the replicas contend for
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_lease)]
    lease: Option<(String, String)>,
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0)]
    lease_duration: f64,
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    renew_deadline: f64,
    /// Nothing hinders the scheduler from the start on: judge lost pods and partial gangs too
    #[arg(long)]
    without_faults: bool,
    /// Stop when this revision was read, rather than at Ctrl-C
    #[arg(long, value_name = "N")]
    until_revision: Option<i64>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(report) => {
            print!("{report}");
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("berth-audit: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<Report, Box<dyn std::error::Error>> {
    let auditor = Auditor::start(cli.sources()?)?;
    if cli.without_faults {
        auditor.faults_ended(Instant::now());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(wait(cli, &auditor))?;
    match auditor.caught_up(Duration::from_secs(30)) {
        // A server that is gone ends what can be read.
        Err(error @ AuditError::Behind { .. }) => eprintln!("berth-audit: {error}"),
        other => drop(other?),
    }
    Ok(auditor.judge())
}

async fn wait(cli: &Cli, auditor: &Auditor) -> std::io::Result<()> {
    let is_read = async {
        while cli.until_revision.is_none_or(|until| auditor.read_to() < until) {
            tokio::time::sleep(PERIOD).await;
        }
    };
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended,
        () = is_read => Ok(()),
    }
}

impl Cli {
    fn sources(&self) -> Result<Sources, Box<dyn std::error::Error>> {
        let lease = self.lease.as_ref().map(|(namespace, name)| -> Result<_, _> {
            Ok::<_, std::time::TryFromFloatSecsError>(LeaseRule {
                namespace: namespace.clone(),
                name: name.clone(),
                lease_duration: Duration::try_from_secs_f64(self.lease_duration)?,
                renew_deadline: Duration::try_from_secs_f64(self.renew_deadline)?,
            })
        });
        let lease = lease.transpose()?;
        let replica = |user: &String| Replica {
            user: user.clone(),
            scheduler_names: self.scheduler_names.clone(),
            lease: lease.clone(),
        };
        Ok(Sources {
            etcd_url: self.etcd.clone(),
            audit_log: self.audit_log.clone(),
            replicas: self.replicas.iter().map(replica).collect(),
        })
    }
}

fn parse_lease(text: &str) -> Result<(String, String), String> {
    let (namespace, name) = text.split_once('/').ok_or("it needs a namespace and a name")?;
    Ok((namespace.to_owned(), name.to_owned()))
}
