//! Schedulers as processes: ours and the original, each with a token of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use berth_stand::{Process, Stand, try_wait_for};
use serde_json::{Value, json};

use crate::SOON;
use crate::failed::{Failed, Outcome};
use crate::stage::Election;

/// Which program is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    Berth,
    KubeScheduler,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::Berth => "berth",
            Program::KubeScheduler => "kube-scheduler",
        }
    }
}

/// How a scheduler is started.
pub struct Launch<'a> {
    pub program: Program,
    /// The user of `kubeconfig`.
    pub user: &'a str,
    pub kubeconfig: &'a Path,
    /// The Lease that it runs for, if it does.
    pub election: Option<Election>,
    /// Where configuration and log go.
    pub folder: &'a Path,
    /// Merged into the configuration's top level, section by section.
    pub config: Value,
    pub flags: &'a [&'a str],
}

/// A running scheduler. Dropping it kills it; so does the kernel when we end.
pub struct Scheduler {
    pub program: Program,
    pub user: String,
    process: Process,
    /// How often SIGUSR2 was answered when this was last looked at.
    compared: usize,
}

/// What SIGUSR2 found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub objects: u64,
    pub differences: u64,
}

impl Scheduler {
    /// Starts it. Returns before it has watched anything.
    ///
    /// # Errors
    /// [`Failed::Io`], [`Failed::Stand`].
    pub fn start(stand: &Stand, launch: &Launch<'_>) -> Outcome<Scheduler> {
        let name = format!("{}-{}", launch.program.name(), launch.user);
        let config = launch.folder.join(format!("{name}.config"));
        fs::write(&config, format!("{:#}\n", configuration(launch)))
            .map_err(Failed::io(format!("writing {}", config.display())))?;
        let mut args = vec![format!("--config={}", config.display()), "--secure-port=0".to_owned()];
        let binary = match launch.program {
            Program::Berth => {
                args.push("-v=5".to_owned());
                berth()?
            }
            Program::KubeScheduler => {
                if !stand.feature_gates().is_empty() {
                    args.push(format!("--feature-gates={}", stand.feature_gates()));
                }
                stand.binaries().kube_scheduler.clone()
            }
        };
        args.extend(launch.flags.iter().map(|flag| (*flag).to_owned()));
        let log = launch.folder.join(format!("{name}.log"));
        let process = Process::start(launch.program.name(), &binary, &args, &log)?;
        let (program, user) = (launch.program, launch.user.to_owned());
        let compared = answers(&process.log()).count();
        Ok(Scheduler { program, user, process, compared })
    }

    /// Sends it a signal such as `STOP`.
    ///
    /// # Errors
    /// [`Failed::Stand`] if it is gone.
    pub fn signal(&self, signal: &'static str) -> Outcome {
        Ok(self.process.signal(signal)?)
    }

    /// Returns all that it, and those before it under the same user, have written.
    pub fn log(&self) -> String {
        self.process.log()
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// Returns how it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Waits until it ends by itself, and returns its exit code; None if a signal ended it.
    ///
    /// # Errors
    /// [`Failed::TimedOut`].
    pub fn exit_code(mut self) -> Outcome<Option<i32>> {
        let what = format!("{} ends", self.program.name());
        Ok(try_wait_for(SOON, &what, || self.process.ended())?.code())
    }

    /// Ends it as a kubelet would, and returns its exit code.
    ///
    /// # Errors
    /// [`Failed::TimedOut`] if it doesn't end.
    pub fn terminate(self) -> Outcome<Option<i32>> {
        self.signal("TERM")?;
        self.exit_code()
    }

    /// Asks Berth to compare its ledger with the API server.
    ///
    /// # Errors
    /// [`Failed::TimedOut`] if it doesn't answer, [`Failed::Wrong`] if its answer can't be read.
    pub fn compare(&mut self) -> Outcome<Comparison> {
        let unreadable = |line: &str| Failed::Wrong(format!("no comparison in {line:?}"));
        let begun = Instant::now();
        let line = loop {
            let refused = self.process.log().matches(NOT_COMPARED).count();
            self.signal("USR2")?;
            let answer = try_wait_for(SOON, "berth compares its ledger with the server", || {
                let log = self.process.log();
                match answers(&log).nth(self.compared) {
                    Some(line) => Some(Some(line.to_owned())),
                    None => (log.matches(NOT_COMPARED).count() > refused).then_some(None),
                }
            })?;
            match answer {
                Some(line) => break line,
                // It may not have listed everything yet.
                None if begun.elapsed() < SOON => std::thread::sleep(REFUSED),
                None => return Err(Failed::Wrong("berth never compares its ledger".to_owned())),
            }
        };
        self.compared += 1;
        comparison(&line).ok_or_else(|| unreadable(&line))
    }
}

const NOT_COMPARED: &str = "the ledger was not compared with the API server";
/// Before it is asked again.
const REFUSED: Duration = Duration::from_millis(100);
const COMPARED: &str = "compared the ledger with the API server";
/// Berth compares by itself too.
const ASKED: &str = "asked=true";

/// Returns the lines that answer signals.
fn answers(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| line.contains(COMPARED) && line.contains(ASKED))
}

fn comparison(line: &str) -> Option<Comparison> {
    let field = |name: &str| {
        let mut words = line.split([' ', ',', '}']);
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    Some(Comparison { objects: field("objects")?, differences: field("differences")? })
}

/// Rates that nothing waits for, and JSON, which the proxy can read.
fn configuration(launch: &Launch<'_>) -> Value {
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": launch.kubeconfig, "qps": 10_000, "burst": 10_000,
            "contentType": "application/json", "acceptContentTypes": "application/json",
        },
        "leaderElection": {"leaderElect": false},
    });
    if let Some(election) = launch.election {
        config["leaderElection"] = election.configuration();
    }
    for (section, value) in launch.config.as_object().into_iter().flatten() {
        merge(&mut config[section.as_str()], value);
    }
    config
}

fn merge(section: &mut Value, with: &Value) {
    match with.as_object() {
        Some(fields) if section.is_object() => {
            for (field, value) in fields {
                section[field.as_str()] = value.clone();
            }
        }
        _ => *section = with.clone(),
    }
}

/// Returns Berth's program: `BERTH`, or the one that was built beside us.
fn berth() -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os("BERTH") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(Failed::io("finding our own program"))?;
    let beside = own.ancestors().skip(1).map(|folder| folder.join("berth"));
    let mut built = beside.filter(|path| path.is_file());
    let missing = || Failed::Wrong("berth is not built: cargo build, or set BERTH".to_owned());
    built.next().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_comparison_is_read() {
        let line = "INFO berth: compared the ledger with the API server objects=12 differences=3";
        assert_eq!(comparison(line), Some(Comparison { objects: 12, differences: 3 }));
        assert_eq!(comparison("compared the ledger with the API server objects=12"), None);
    }

    #[test]
    fn sections_of_the_configuration_are_merged() {
        let mut section = json!({"qps": 1, "burst": 2});
        merge(&mut section, &json!({"qps": 5}));
        assert_eq!(section, json!({"qps": 5, "burst": 2}));
    }
}
