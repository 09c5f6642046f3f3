//! Who is measured: how each is started, and what its process has used.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_stand::{ADMIN, KubeScheduler, Stand};
use serde_json::json;

use crate::Outcome;
use crate::load::Load;

/// High enough to limit nobody.
const QPS: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Binds without events.
    Ceiling,
    /// Binds, and an event after each.
    CeilingEvents,
    /// All nodes scored, leader election and secure port on.
    Berth,
    /// kube-scheduler as it comes: of many nodes only a sample is scored.
    Kube,
    /// kube-scheduler that scores all nodes.
    KubeAll,
}

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Ceiling => "ceiling",
            Contender::CeilingEvents => "ceiling-events",
            Contender::Berth => "berth",
            Contender::Kube => "kube-scheduler",
            Contender::KubeAll => "kube-scheduler-all",
        }
    }

    pub(crate) fn sends_events(self) -> bool {
        self != Contender::Ceiling
    }

    /// How many pods it is given.
    pub(crate) fn pods(self, load: &Load) -> u32 {
        match self {
            Contender::KubeAll => load.pods_when_slow,
            Contender::Ceiling | Contender::CeilingEvents | Contender::Berth | Contender::Kube => {
                load.pods
            }
        }
    }

    /// Starts it. Returns nothing where kube-scheduler's binary is missing.
    pub(crate) fn start(
        self,
        stand: &Stand,
        load: &Load,
        berth: &Path,
    ) -> Outcome<Option<Running>> {
        let log = stand.folder().join("contender.log");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = match self {
            Contender::Ceiling | Contender::CeilingEvents => {
                let own = own(&mut ceiling(stand, load, self.sends_events())?, log)?;
                return Ok(Some(Running { process: Process::Own(own), port: None }));
            }
            Contender::Berth => Process::Own(own(&mut berth_run(stand, load, berth, port)?, log)?),
            Contender::Kube | Contender::KubeAll => {
                let percentage = if self == Contender::KubeAll { 100 } else { 0 };
                let config = config(stand, load, percentage)?;
                match KubeScheduler::start_electing(stand, Some(&config), serving(stand, port)?) {
                    Ok(scheduler) => Process::Kube(scheduler),
                    Err(berth_stand::StandError::MissingBinary { .. }) => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Ok(Some(Running { process, port: Some(port) }))
    }
}

/// Writes the configuration that Berth and kube-scheduler share.
fn config(stand: &Stand, load: &Load, percentage: u32) -> Outcome<PathBuf> {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": stand.kubeconfig_path(ADMIN)?, "qps": QPS, "burst": QPS},
        "leaderElection": {"leaderElect": true},
        "percentageOfNodesToScore": percentage,
        "profiles": [{
            "schedulerName": "default-scheduler",
            "pluginConfig": load.plugin_config(),
        }],
    });
    let path = stand.folder().join("contender.yaml");
    // JSON is YAML.
    fs::write(&path, config.to_string())?;
    Ok(path)
}

fn berth_run(stand: &Stand, load: &Load, berth: &Path, port: u16) -> Outcome<Command> {
    let config = config(stand, load, 100)?;
    let mut command = dying_with_us(berth);
    command.arg("run").arg(format!("--config={}", config.display())).args(serving(stand, port)?);
    Ok(command)
}

/// Flags of Berth and kube-scheduler alike.
fn serving(stand: &Stand, port: u16) -> Outcome<Vec<String>> {
    let kubeconfig = stand.kubeconfig_path(ADMIN)?;
    let (certificate, key) = stand.serving_files();
    Ok(vec![
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--authentication-kubeconfig={}", kubeconfig.display()),
        format!("--authorization-kubeconfig={}", kubeconfig.display()),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
    ])
}

fn ceiling(stand: &Stand, load: &Load, events: bool) -> Outcome<Command> {
    let (ca, targets) = (stand.folder().join("ca.pem"), stand.folder().join("targets.tsv"));
    fs::write(&ca, stand.ca_pem())?;
    let lines = load.targets().map(|target| target.join("\t") + "\n");
    fs::write(&targets, lines.collect::<String>())?;
    let mut command = dying_with_us(&std::env::current_exe()?);
    command.arg("ceiling").arg("--server").arg(stand.url()).arg("--token").arg(stand.admin_token());
    command.arg("--ca").arg(ca).arg("--targets").arg(targets);
    if events {
        command.arg("--events");
    }
    Ok(command)
}

/// With setpriv of util-linux the kernel kills it when we end, in whatever way.
fn dying_with_us(binary: &Path) -> Command {
    let mut probe = Command::new("setpriv");
    let probe = probe.args(["--pdeathsig", "KILL", "true"]).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return Command::new(binary);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary);
    command
}

fn own(command: &mut Command, log: PathBuf) -> Outcome<Own> {
    let output = File::create(&log)?;
    let errors = output.try_clone()?;
    let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()?;
    Ok(Own { child, log })
}

/// A running contender, killed on drop.
pub(crate) struct Running {
    process: Process,
    /// Where a scheduler serves its metrics.
    pub(crate) port: Option<u16>,
}

enum Process {
    Own(Own),
    Kube(KubeScheduler),
}

struct Own {
    child: Child,
    log: PathBuf,
}

impl Drop for Own {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used since it was started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Used {
    pub(crate) cpu_us: f64,
    /// The most that it held at a time.
    pub(crate) rss_mib: f64,
}

impl Running {
    fn pid(&self) -> u32 {
        match &self.process {
            Process::Own(own) => own.child.id(),
            Process::Kube(scheduler) => scheduler.pid(),
        }
    }

    /// # Errors
    /// It has ended; with the end of its log.
    pub(crate) fn alive(&mut self) -> Outcome<()> {
        match &mut self.process {
            Process::Own(own) => {
                let Some(status) = own.child.try_wait()? else { return Ok(()) };
                let log = fs::read_to_string(&own.log).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(15)..].join("\n");
                Err(format!("the contender has ended ({status}):\n{tail}").into())
            }
            Process::Kube(scheduler) => match scheduler.has_ended() {
                true => Err(scheduler.last_words().into()),
                false => Ok(()),
            },
        }
    }

    /// Asks the kernel; all threads count, also those that have ended.
    pub(crate) fn used(&self) -> Outcome<Used> {
        let pid = self.pid();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        parse(&stat, &status).ok_or_else(|| format!("/proc/{pid} can't be read").into())
    }
}

fn parse(stat: &str, status: &str) -> Option<Used> {
    // The program's name stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let ticks = ticks()? + ticks()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = peak.trim().trim_end_matches(" kB").parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Some(Used { cpu_us: ticks / per_second * 1e6, rss_mib: kib / 1024.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_up() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 130 20 0 0 20 0 4 0 55 1 2";
        let used = parse(stat, "Name:\ta\nVmHWM:\t    2048 kB\n").expect("readable");
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(used, Used { cpu_us: 150.0 / second * 1e6, rss_mib: 2.0 });
    }
}
